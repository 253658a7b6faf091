//! Static costs of every registered kernel, largest of each kernel's variants, in the form of `budgets.txt`. With a name,
//! such as `gemv_dot4<Q4_K>`, of the kernels that it means or that begin with it, format by format.

use std::collections::BTreeMap;

use kiln_golden::{
    budget::{is_meant, short_names},
    costs::Costs,
    kernels,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut most: BTreeMap<String, [u32; 8]> = BTreeMap::new();
    let wanted = std::env::args().nth(1);
    for kernel in kernels::stage_all()? {
        let [own, all] = short_names(&kernel.name);
        let name = match &wanted {
            Some(wanted) if is_meant(own, wanted) => own.to_owned(),
            Some(_) => continue,
            None => all.to_owned(),
        };
        let costs = Costs::of(&kernel.words)?.all();
        let row = most.entry(name).or_default();
        row.iter_mut().zip(costs).for_each(|(most, found)| *most = found.max(*most));
    }
    if most.is_empty() {
        return Err("no kernel has this name or begins with it; `kiln kernels list` shows them".into());
    }
    for (name, costs) in most {
        let numbers = costs.map(|n| format!("{n:5}"));
        println!("{} {name}", numbers.join(" "));
    }
    Ok(())
}
