//! Plans of real models' shapes on described devices: what fits, what is said where a plan does not, and what is cut.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod shapes;

use std::path::{Path, PathBuf};

use kiln_abi::spirv::Capability;
use kiln_engine::models;
use kiln_engine::plan::{ContextReason, ContextWish, Plan, PlanError, PlanOptions, Target};
use kiln_kernels::Registry;
use shapes::{SHAPES, Shape};

fn caps_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/caps");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn device(name: &str) -> Target {
    let path = caps_files().into_iter().find(|path| path.file_stem().unwrap() == name).unwrap();
    Target::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn plan(shape: &Shape, target: &Target, context: ContextWish) -> Result<Plan, PlanError> {
    let registry = Registry::builtin();
    let model = models::describe(shape).expect(shape.name);
    let graph = &model.graph;
    let type_id = |tensor: kiln_engine::graph::TensorId| shape.type_id(&graph.tensors[tensor.0], &registry);
    Plan::new(graph, &type_id, &registry, target, PlanOptions::new(context))
}

/// A device with so much room and nothing else changed.
fn with_room(name: &str, bytes: u64) -> Target {
    let mut target = device(name);
    target.room.bytes = bytes;
    target
}

#[test]
fn the_context_shrinks_to_what_fits_and_says_so() {
    let shape = &SHAPES[0];
    let whole = plan(shape, &device("h200"), ContextWish::AtMost(8192)).unwrap();
    assert_eq!((whole.context.n_ctx, whole.context_reason), (8192, ContextReason::Default));
    // Control: with just enough room nothing changes; one byte less costs positions.
    let needed = whole.need().total();
    let just = plan(shape, &with_room("h200", needed), ContextWish::AtMost(8192)).unwrap();
    assert_eq!(just.context.n_ctx, 8192);
    let tight = plan(shape, &with_room("h200", needed - 1), ContextWish::AtMost(8192)).unwrap();
    assert_eq!(tight.context.n_ctx, 8192 - 256);
    let reason = ContextReason::Shortened { wished: 8192, needed: Some(needed), room: needed - 1 };
    assert_eq!(tight.context_reason, reason);
    assert!(tight.to_string().contains("the most that fit: 8192 need"));
    assert!(tight.need().total() < needed);
}

#[test]
fn a_plan_that_does_not_fit_says_what_would() {
    let shape = &SHAPES[0];
    let needed = plan(shape, &device("h200"), ContextWish::Exactly(8192)).unwrap().need();
    let tight = with_room("h200", needed.total() - 1);
    let why = plan(shape, &tight, ContextWish::Exactly(8192)).unwrap_err().to_string();
    assert!(why.contains("`--ctx 7936` would fit"), "{why}");
    plan(shape, &tight, ContextWish::Exactly(7936)).unwrap();
    let small = with_room("h200", needed.weights / 2);
    let why = plan(shape, &small, ContextWish::AtMost(8192)).unwrap_err().to_string();
    assert!(why.contains("a file whose weights take less than"), "{why}");
    let bare = with_room("h200", needed.weights + (1 << 20));
    let why = plan(shape, &bare, ContextWish::AtMost(8192)).unwrap_err().to_string();
    assert!(why.contains("a smaller file would fit"), "{why}");
}

#[test]
fn what_the_device_lacks_is_named_before_anything_is_loaded() {
    let shape = &SHAPES[0];
    let refusal = |edit: &dyn Fn(&mut Target)| {
        let mut target = device("phone-32kib");
        plan(shape, &target, ContextWish::AtMost(512)).unwrap();
        edit(&mut target);
        plan(shape, &target, ContextWish::AtMost(512)).unwrap_err().to_string()
    };
    let why = refusal(&|t| {
        t.caps.capabilities.remove(&Capability::StorageBuffer16BitAccess);
    });
    assert!(why.contains("needs StorageBuffer16BitAccess") && why.contains("phone"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_workgroup_bytes = 1024);
    assert!(why.contains("bytes of workgroup memory"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_invocations = 64);
    assert!(why.contains("invocations per workgroup"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_grid = [1; 3]);
    assert!(why.contains("workgroups along x"), "{why}");
}

#[test]
fn a_tensor_larger_than_a_binding_is_cut_by_rows() {
    let shape = &SHAPES[0];
    let mut target = device("lavapipe");
    target.caps.limits.max_binding_bytes = 8 << 20;
    let plan = plan(shape, &target, ContextWish::AtMost(512)).unwrap();
    let pieces: Vec<_> = plan.buffers.iter().filter(|b| b.name == "token_embd.weight").collect();
    assert!(pieces.len() > 1 && pieces.iter().all(|b| b.bytes <= 8 << 20));
    let model = models::describe(shape).unwrap();
    let rows = pieces.iter().map(|b| match b.holds {
        kiln_engine::plan::Holds::Blocks { m, .. } => m,
        _ => 0,
    });
    assert_eq!(rows.sum::<u32>() as usize, model.graph.n_vocab());
}

#[test]
fn a_caps_file_names_what_is_wrong_with_it() {
    let text = std::fs::read_to_string(&caps_files()[0]).unwrap();
    Target::from_json(&text).unwrap();
    let why = Target::from_json(&text.replace("max_grid", "most_grid")).unwrap_err().to_string();
    assert!(why.contains("most_grid") && why.contains("kiln devices --caps"), "{why}");
    assert!(Target::from_json("{}").unwrap_err().to_string().contains("missing field"));
}
