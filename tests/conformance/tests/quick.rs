//! Probe.
use kiln_kernels::{Registry, conformance::check as check_case};
use kiln_spirv_interp::*;
#[test]
fn quick() {
    let interp = Interpreter::new(InterpOptions { subgroup_size: 32, seed: 1, ..Default::default() });
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut bad = 0;
    for v in Registry::builtin().variants() {
        if !(v.role == "gemv" || v.role == "get_rows" || v.role == "repack" || v.role == "quantize_rows") || !v.name.contains(&only) { continue; }
        let t = std::time::Instant::now();
        let staged = match v.stage() { Ok(s) => s, Err(e) => { println!("{}: {e}", v.name); bad += 1; if bad > 6 { panic!() } continue } };
        let ts = t.elapsed();
        let mut worst = 0.0f64;
        for c in v.cases() {
            match check_case(&interp, &staged, &c) { Ok(r) => worst = worst.max(r.worst), Err(e) => { println!("{}: {e}", v.name); bad += 1; if bad > 6 { panic!() } } }
        }
        println!("{} stage {ts:?} words {} worst {worst:.3} {:?}", v.name, staged.words.len(), t.elapsed());
    }
    assert_eq!(bad, 0);
}
