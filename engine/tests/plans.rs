//! Plans of real models' shapes on described devices: goldens, what fits, what is said where a plan does not.
//!
//! `INSTA_UPDATE=always cargo test -p kiln-engine --test plans` accepts the goldens; read what changed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod shapes;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiln_abi::spirv::Capability;
use kiln_engine::graph::{Graph, LayerState, Op, TensorId};
use kiln_engine::models;
use kiln_engine::plan::{AccuracyClass, ContextReason, ContextWish, Plan, PlanError, PlanOptions, Target};
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
    plan_of(shape, target, PlanOptions::new(context))
}

fn plan_of(shape: &Shape, target: &Target, options: PlanOptions) -> Result<Plan, PlanError> {
    let registry = Registry::builtin();
    let model = models::describe(shape).expect(shape.name);
    let graph = &model.graph;
    let type_id = |tensor: kiln_engine::graph::TensorId| shape.type_id(&graph.tensors[tensor.0], &registry);
    Plan::new(graph, &type_id, &registry, target, options)
}

#[test]
fn plans_of_every_model_on_every_device() {
    let files = caps_files();
    assert_eq!(files.len(), 6);
    // One model of each architecture but gemma2, whose words gemma3 has too.
    for shape in SHAPES.iter().filter(|shape| shape.architecture != "gemma2") {
        for file in &files {
            let target = Target::from_json(&std::fs::read_to_string(file).unwrap()).unwrap();
            let text = match plan(shape, &target, ContextWish::AtMost(8192)) {
                Ok(plan) => plan.to_string(),
                Err(why) => format!("no plan: {why}\n"),
            };
            let device = file.file_stem().unwrap().to_str().unwrap();
            let mut settings = insta::Settings::clone_current();
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings.bind(|| insta::assert_snapshot!(format!("{}-on-{device}", shape.name), text));
        }
    }
}

#[test]
fn every_architecture_has_a_shape() {
    for name in models::names() {
        assert!(SHAPES.iter().any(|shape| shape.architecture == name), "{name} is planned nowhere");
    }
}

#[test]
fn every_architecture_is_planned() {
    for name in models::names() {
        let shape = SHAPES.iter().find(|shape| shape.architecture == name);
        let shape = shape.unwrap_or_else(|| panic!("{name} is planned nowhere"));
        let plan = plan(shape, &device("h200"), ContextWish::AtMost(8192)).unwrap();
        assert_eq!(plan.context_reason, ContextReason::Default, "{name}");
    }
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
fn more_positions_than_can_be_counted_are_as_many_as_fit_and_none_are_refused() {
    let (shape, h200) = (&SHAPES[0], device("h200"));
    let most = plan(shape, &h200, ContextWish::AtMost(1 << 24)).unwrap().context.n_ctx;
    for wish in [u32::MAX as usize, usize::MAX] {
        let found = plan(shape, &h200, ContextWish::AtMost(wish)).unwrap();
        assert_eq!(found.context.n_ctx, most);
        assert!(matches!(found.context_reason, ContextReason::Shortened { wished, .. } if wished == wish));
        let refused = plan(shape, &h200, ContextWish::Exactly(wish)).unwrap_err();
        assert!(matches!(refused, PlanError::TooLarge { .. } | PlanError::Binding { .. }), "{refused}");
    }
    for none in [ContextWish::Exactly(0), ContextWish::AtMost(0)] {
        assert_eq!(plan(shape, &h200, none).unwrap_err(), PlanError::Nothing { what: "positions" });
    }
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
        plan(shape, &target, ContextWish::AtMost(512)).err().unwrap().to_string()
    };
    let why = refusal(&|t| {
        t.caps.capabilities.remove(&Capability::VulkanMemoryModel);
    });
    assert!(why.contains("needs VulkanMemoryModel") && why.contains("phone"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_workgroup_bytes = 1024);
    assert!(why.contains("bytes of workgroup memory"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_invocations = 64);
    assert!(why.contains("invocations per workgroup"), "{why}");
    let why = refusal(&|t| t.caps.limits.max_grid = [1; 3]);
    assert!(why.contains("workgroups along x"), "{why}");
}

/// A plan of the first shape with one thing changed, and why it is refused.
fn changed(
    shape: impl Fn(&mut Shape),
    graph: impl Fn(&mut Graph),
    format: impl Fn(usize, u32) -> Option<u32>,
    context: ContextWish,
) -> Result<Plan, PlanError> {
    let registry = Registry::builtin();
    let mut changed = SHAPES[0];
    shape(&mut changed);
    let mut described = models::describe(&changed).unwrap().graph;
    graph(&mut described);
    let type_id = |t: TensorId| format(t.0, changed.type_id(&described.tensors[t.0], &registry)?);
    Plan::new(&described, &type_id, &registry, &device("h200"), PlanOptions::new(context))
}

#[test]
fn every_refusal_has_a_neighbor_that_is_planned() {
    let known = |_: usize, id: u32| Some(id);
    let short = ContextWish::AtMost(512);
    let shaped = |edit: &dyn Fn(&mut Shape)| changed(edit, |_| (), known, short).err();
    let graphed = |edit: &dyn Fn(&mut Graph)| changed(|_| (), edit, known, short).err();
    assert_eq!(shaped(&|_| ()), None);

    let unknown = changed(|_| (), |_| (), |at, id| (at != 3).then_some(id), short).err();
    assert!(
        matches!(&unknown, Some(PlanError::NoFormat { tensor }) if tensor.starts_with("blk.0.")),
        "{unknown:?}"
    );
    let ragged = shaped(&|s| s.n_ff = 1536 + 16);
    assert!(matches!(ragged, Some(PlanError::RowLength { row: 1552, .. })), "{ragged:?}");
    assert_eq!(shaped(&|s| s.n_ff = 1536 + 32), None);
    let wide = shaped(&|s| (s.head_dim, s.n_head, s.n_head_kv) = (576, 2, 1));
    assert!(matches!(wide, Some(PlanError::HeadDim { found: 576, .. })), "{wide:?}");
    assert_eq!(shaped(&|s| (s.head_dim, s.n_head, s.n_head_kv) = (128, 2, 1)), None);
    let recurrent = graphed(&|g| g.layers[4] = LayerState::Recurrent { n_state: 64, n_history: 3 });
    assert_eq!(recurrent, Some(PlanError::State { layer: 4 }));
    let cap = |g: &mut Graph, at: usize| {
        let x = g.nodes[at].op.inputs().next().unwrap();
        g.nodes[at].op = Op::SoftCap { x, cap: 30.0 };
    };
    let capped = graphed(&|g| cap(g, 5));
    assert!(matches!(capped, Some(PlanError::Word { .. })), "{capped:?}");
    let endless = changed(|_| (), |_| (), known, ContextWish::Exactly(1 << 40)).err();
    assert!(matches!(endless, Some(PlanError::TooLarge { .. })), "{endless:?}");
    let long = changed(|_| (), |_| (), known, ContextWish::Exactly(1 << 31)).err();
    assert!(matches!(long, Some(PlanError::Binding { .. })), "{long:?}");
    for context in [ContextWish::Exactly(512), ContextWish::Exactly(1 << 15)] {
        assert_eq!(changed(|_| (), |_| (), known, context).err(), None, "a shorter context is planned");
    }
    let many = |n_vocab| changed(|s| s.n_vocab = n_vocab, |_| (), known, short).err();
    let babel = many(1 << 20);
    assert!(matches!(babel, Some(PlanError::Vocabulary { found: 0x10_0000 })), "{babel:?}");
    assert_eq!(many((1 << 20) - 2), None);
    // What the device lacks, and room: their neighbors are in the tests above.
    let on = |edit: &dyn Fn(&mut Target)| {
        let mut target = device("h200");
        edit(&mut target);
        plan(&SHAPES[0], &target, ContextWish::Exactly(512)).err()
    };
    assert_eq!(on(&|_| ()), None);
    let lacks = on(&|t| t.caps.limits.max_grid = [1; 3]);
    let tight = on(&|t| t.room.bytes = 1 << 20);
    let slots = |n_slots| {
        let options = PlanOptions { n_slots, ..PlanOptions::new(ContextWish::Exactly(512)) };
        plan_of(&SHAPES[0], &device("h200"), options).err()
    };
    let nobody = slots(0);
    assert_eq!((&nobody, slots(1)), (&Some(PlanError::Nothing { what: "sequences" }), None));
    let refusals = [nobody, unknown, ragged, wide, recurrent, capped, endless, long, babel, lacks, tight];
    let mut seen = BTreeSet::new();
    for refusal in refusals.into_iter().flatten() {
        // Each is a sentence that names what it is about.
        let text = refusal.to_string();
        assert!(text.len() > 20 && text.lines().count() == 1, "{text}");
        let name = format!("{refusal:?}");
        seen.insert(name.split(' ').next().unwrap().to_owned());
    }
    // Every reason that there is.
    let all = include_str!("../src/plan/error.rs").lines().filter_map(|line| line.strip_prefix("    "));
    let names = all.filter(|line| line.starts_with(char::is_uppercase));
    let names: BTreeSet<_> = names.map(|line| line.trim_end_matches([' ', '{', ',']).to_owned()).collect();
    assert_eq!(seen, names);
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

#[test]
fn a_class_that_no_product_can_have_is_declined() {
    let shape = SHAPES.iter().find(|shape| shape.architecture == "qwen3").unwrap();
    let whole = device("h200");
    let mut without = device("h200");
    without.caps.capabilities.retain(|capability| !capability.name().contains("DotProduct"));
    let of = |target: &Target, class| {
        let options = PlanOptions { class, ..PlanOptions::new(ContextWish::AtMost(8192)) };
        plan_of(shape, target, options).unwrap()
    };
    let declined = of(&without, AccuracyClass::Int8);
    let why = declined.unmet.as_deref().unwrap();
    assert!(why.contains("8 bits") && why.contains("without an integer dot product"), "{why}");
    assert!(declined.to_string().contains(&format!("declined {why}\n")), "the plan says so");
    assert_eq!(of(&whole, AccuracyClass::Int8).unmet, None);
    assert_eq!(of(&without, AccuracyClass::F16).unmet, None, "the class asks for nothing that it lacks");
}

#[test]
fn what_is_left_out_is_told_and_no_reason_says_that_the_device_has_it_not() {
    let shape = SHAPES.iter().find(|shape| shape.architecture == "qwen3").unwrap();
    let asked = BTreeSet::from([
        Capability::DotProductInput4x8BitPacked,
        Capability::DotProduct,
        Capability::CooperativeMatrixKHR,
    ]);
    let text = |target: &Target| plan(shape, target, ContextWish::AtMost(8192)).unwrap().to_string();
    let without = text(&device("h200").without(&asked));
    let line =
        "\n         left out as asked: DotProductInput4x8BitPacked, DotProduct, CooperativeMatrixKHR\n";
    assert!(without.contains(line), "{without}");
    for reason in ["without an integer dot product", "without matrices of f16"] {
        assert!(without.contains(reason) && !text(&device("h200")).contains(reason), "{reason}: {without}");
    }
    assert!(!without.contains("the device has no"), "{without}");
    // What a device has not is not left out.
    let (apu, vendor) = (device("apu-96gb"), BTreeSet::from([Capability::TensorAddressingNV]));
    assert!(vendor.is_disjoint(&apu.caps.capabilities));
    assert_eq!(text(&apu.clone().without(&vendor)), text(&apu));
}
