//! Descriptions of made-up files, and a decline for each way in which a file can disagree.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::llama::Llama;
use super::*;
use crate::graph::{LayerState, Op, RopePairs, RopeScaling};

/// A file as plain maps.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlainFile {
    pub(crate) keys: BTreeMap<String, KeyValue>,
    pub(crate) tensors: Vec<(String, Vec<usize>)>,
}

impl FileFacts for PlainFile {
    fn key(&self, name: &str) -> Option<KeyValue> {
        self.keys.get(name).cloned()
    }
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        self.tensors.clone()
    }
}

impl PlainFile {
    fn set(&mut self, key: &str, value: KeyValue) {
        self.keys.insert(key.to_owned(), value);
    }
    fn add(&mut self, name: &str, shape: &[usize]) {
        self.tensors.push((name.to_owned(), shape.to_vec()));
    }
    fn remove(&mut self, name: &str) {
        self.tensors.retain(|(found, _)| found != name);
    }
}

/// Two layers, n_embd 8, four heads on two, tied output head.
pub(crate) fn tiny_llama() -> PlainFile {
    let mut file = PlainFile::default();
    file.set("general.architecture", KeyValue::Text("llama".into()));
    let sizes = [
        ("context_length", 64),
        ("block_count", 2),
        ("embedding_length", 8),
        ("feed_forward_length", 12),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ];
    for (key, size) in sizes {
        file.set(&format!("llama.{key}"), KeyValue::Int(size));
    }
    file.add("token_embd.weight", &[10, 8]);
    for layer in 0..2 {
        let shapes: [(&str, &[usize]); 9] = [
            ("attn_norm", &[8]),
            ("attn_q", &[8, 8]),
            ("attn_k", &[4, 8]),
            ("attn_v", &[4, 8]),
            ("attn_output", &[8, 8]),
            ("ffn_norm", &[8]),
            ("ffn_gate", &[12, 8]),
            ("ffn_up", &[12, 8]),
            ("ffn_down", &[8, 12]),
        ];
        for (stem, shape) in shapes {
            file.add(&format!("blk.{layer}.{stem}.weight"), shape);
        }
    }
    file.add("output_norm.weight", &[8]);
    file
}

#[test]
fn llama_describes_itself() {
    let model = describe(&tiny_llama()).unwrap();
    let kv = LayerState::Kv { n_head_kv: 2, head_dim: 2, window: None };
    assert_eq!(model.graph.layers, [kv; 2]);
    assert_eq!((model.n_ctx_train, model.graph.n_vocab()), (64, 10));
    assert_eq!(model.graph.tensors.len(), 20);
    let ropes: Vec<_> = model
        .graph
        .nodes
        .iter()
        .filter_map(|node| if let Op::Rope { rope, .. } = node.op { Some(rope) } else { None })
        .collect();
    assert_eq!(ropes.len(), 4);
    assert!(ropes.iter().all(|r| (r.pairs, r.n_rot, r.theta) == (RopePairs::Adjacent, 2, 10_000.0)));
    let defaulted = |key: &str| model.hyper.iter().any(|row| row.key == key && row.default);
    assert!(defaulted("llama.rope.freq_base") && !defaulted("llama.embedding_length"));
}

#[test]
fn llama_head_is_its_own_where_the_file_has_one() {
    let head = |file: &PlainFile| {
        let graph = describe(file).unwrap().graph;
        let last = graph.nodes.last().unwrap().op.weights().next().unwrap();
        graph.tensors[last.0].name.clone()
    };
    let mut file = tiny_llama();
    assert_eq!(head(&file), "token_embd.weight");
    file.add("output.weight", &[10, 8]);
    assert_eq!(head(&file), "output.weight");
}

#[test]
fn llama_rope_scalings_that_we_have_are_taken() {
    let rope = |file: &PlainFile| {
        let graph = describe(file).unwrap().graph;
        graph
            .nodes
            .iter()
            .find_map(|n| if let Op::Rope { rope, .. } = n.op { Some(rope) } else { None })
            .unwrap()
    };
    let mut file = tiny_llama();
    file.set("llama.rope.scaling.type", KeyValue::Text("linear".into()));
    file.set("llama.rope.scaling.factor", KeyValue::Float(4.0));
    file.add("rope_freqs.weight", &[1]);
    let found = rope(&file);
    assert_eq!(found.scaling, RopeScaling::Linear { factor: 4.0 });
    assert!(found.factors.is_some());
    file.set("llama.rope.scaling.type", KeyValue::Text("none".into()));
    assert_eq!(rope(&file).scaling, RopeScaling::Linear { factor: 1.0 });
    file.set("llama.rope.scaling.type", KeyValue::Text("yarn".into()));
    let yarn = RopeScaling::Yarn { factor: 4.0, n_ctx_original: 64, beta_fast: 32.0, beta_slow: 1.0 };
    assert_eq!(rope(&file).scaling, yarn);
    assert_eq!(rope(&file).magnitude, 1.0 + 0.1 * 4f64.ln());
}

/// The same layers as an architecture of the name, with the tensors that it has beside them.
fn tiny_as(name: &str) -> PlainFile {
    let mut file = tiny_llama();
    file.keys = file.keys.iter().map(|(key, value)| (key.replace("llama", name), value.clone())).collect();
    file.set("general.architecture", KeyValue::Text(name.into()));
    for layer in 0..2 {
        let shapes: &[(&str, &[usize])] = match name {
            "qwen2" => &[("attn_q.bias", &[8]), ("attn_k.bias", &[4]), ("attn_v.bias", &[4])],
            "qwen3" => &[("attn_q_norm.weight", &[2]), ("attn_k_norm.weight", &[2])],
            "gemma2" => &[("post_attention_norm.weight", &[8]), ("post_ffw_norm.weight", &[8])],
            _ => &[
                ("attn_q_norm.weight", &[2]),
                ("attn_k_norm.weight", &[2]),
                ("post_attention_norm.weight", &[8]),
                ("post_ffw_norm.weight", &[8]),
            ],
        };
        shapes.iter().for_each(|(stem, shape)| file.add(&format!("blk.{layer}.{stem}"), shape));
    }
    file
}

/// For each layer its window, and the base of its queries' angles.
fn windows(file: &PlainFile) -> Vec<(Option<usize>, f64)> {
    let graph = describe(file).unwrap().graph;
    let window = |state: &LayerState| if let LayerState::Kv { window, .. } = *state { window } else { None };
    let thetas = graph
        .nodes
        .iter()
        .filter_map(|n| if let Op::Rope { rope, .. } = n.op { Some(rope.theta) } else { None });
    graph.layers.iter().map(window).zip(thetas.step_by(2)).collect()
}

#[test]
fn every_architecture_describes_itself_and_misses_its_tensors() {
    for name in names().into_iter().filter(|name| *name != "llama") {
        let file = tiny_as(name);
        describe(&file).unwrap();
        let (own, _) = file.tensors.last().unwrap().clone();
        let mut less = file.clone();
        less.remove(&own);
        assert_eq!(describe(&less).unwrap_err().reasons, [Decline::MissingTensor { name: own }]);
    }
}

#[test]
fn gemma_layers_have_windows_by_pattern() {
    let mut file = tiny_as("gemma3");
    assert_eq!(windows(&file), [(None, 1e4); 2], "no window, no local layer");
    file.set("gemma3.attention.sliding_window", KeyValue::Int(16));
    file.set("gemma3.rope.freq_base", KeyValue::Float(1e6));
    assert_eq!(windows(&file), [(Some(16), 1e4); 2], "the first five of six");
    file.set("gemma3.attention.sliding_window_pattern", KeyValue::Int(2));
    assert_eq!(windows(&file), [(Some(16), 1e4), (None, 1e6)]);
    let flags = |flags: &[bool]| KeyValue::List(flags.iter().map(|flag| KeyValue::Bool(*flag)).collect());
    file.set("gemma3.attention.sliding_window_pattern", flags(&[false, true]));
    file.set("gemma3.rope.freq_base_swa", KeyValue::Float(500.0));
    assert_eq!(windows(&file), [(None, 1e6), (Some(16), 500.0)]);
    for bad in [flags(&[true]), KeyValue::List(vec![KeyValue::Int(1); 2]), KeyValue::Int(0)] {
        file.set("gemma3.attention.sliding_window_pattern", bad);
        let declined = describe(&file).unwrap_err().to_string();
        assert!(declined.starts_with("metadata key `gemma3.attention.sliding_window_pattern`"), "{declined}");
    }
    assert_eq!(windows(&tiny_as("gemma2")), [(Some(4096), 1e4), (None, 1e4)], "when the file is silent");
}

#[test]
fn caps_are_numbers_or_absent() {
    let caps = |value: KeyValue| {
        let mut file = tiny_as("gemma2");
        file.set("gemma2.final_logit_softcapping", value);
        let graph = describe(&file).map_err(|declined| declined.to_string())?.graph;
        Ok(graph.nodes.iter().filter(|node| matches!(node.op, Op::SoftCap { .. })).count())
    };
    assert_eq!(caps(KeyValue::Float(30.0)), Ok(1));
    assert_eq!(caps(KeyValue::Float(0.0)), Ok(0));
    let negative: Result<usize, String> = caps(KeyValue::Float(-1.0));
    assert!(negative.unwrap_err().contains("final_logit_softcapping` is -1, expected"));
}

#[test]
fn every_disagreement_is_a_named_decline() {
    let seen = RefCell::new(BTreeSet::new());
    let check = |edit: &dyn Fn(&mut PlainFile), expected: &str| {
        seen.borrow_mut().insert(expected.split(' ').next().unwrap().to_owned());
        // The neighbor that is admitted.
        describe(&tiny_llama()).unwrap();
        let mut file = tiny_llama();
        edit(&mut file);
        let declined = describe(&file).unwrap_err();
        let text = declined.reasons.iter().map(|reason| format!("{reason:?}\n")).collect::<String>();
        assert!(text.starts_with(expected), "expected {expected}, found {text}");
    };
    let int = KeyValue::Int;
    check(&|f| f.keys.clear(), "NoArchitecture");
    check(&|f| f.tensors.clear(), "NoTensors");
    check(
        &|f| f.set("general.architecture", KeyValue::Text("mamba".into())),
        "UnknownArchitecture { found: \"mamba\", known: [\"llama\"",
    );
    check(&|f| drop(f.keys.remove("llama.block_count")), "MissingKey { key: \"llama.block_count\" }");
    check(&|f| f.set("llama.block_count", int(0)), "BadKey { key: \"llama.block_count\", found: \"0\"");
    check(&|f| f.set("llama.block_count", int(4_000_000_000)), "BadKey { key: \"llama.block_count\"");
    check(&|f| f.set("llama.embedding_length", int(-1)), "BadKey { key: \"llama.embedding_length\"");
    check(&|f| f.set("llama.embedding_length", KeyValue::Text("8".into())), "BadKey");
    check(
        &|f| f.set("llama.attention.head_count_kv", int(3)),
        "BadKey { key: \"llama.attention.head_count_kv\"",
    );
    check(
        &|f| f.set("llama.feed_forward_length", KeyValue::List(vec![int(12), int(16)])),
        "VariesByLayer { key: \"llama.feed_forward_length\"",
    );
    check(&|f| f.set("llama.rope.dimension_count", int(3)), "BadKey { key: \"llama.rope.dimension_count\"");
    check(&|f| f.set("llama.rope.freq_base", KeyValue::Float(0.0)), "BadKey { key: \"llama.rope.freq_base\"");
    check(&|f| f.set("llama.rope.freq_base", KeyValue::Float(f64::NAN)), "BadKey");
    check(&|f| f.set("llama.rope.scaling.factor", KeyValue::Float(-2.0)), "BadKey");
    for eps in [-1e-6, 1e300] {
        let eps = KeyValue::Float(eps);
        check(
            &|f| f.set("llama.attention.layer_norm_rms_epsilon", eps.clone()),
            "BadKey { key: \"llama.attention.layer_norm_rms_epsilon\"",
        );
    }
    check(
        &|f| {
            f.set("llama.rope.scaling.type", KeyValue::Text("yarn".into()));
            f.set("llama.rope.freq_base", KeyValue::Float(1.0));
        },
        "BadKey { key: \"llama.rope.freq_base\"",
    );
    for (key, value) in [
        ("rope.scaling.type", KeyValue::Text("longrope".into())),
        ("rope.scaling.yarn_log_multiplier", KeyValue::Float(0.1)),
        ("attention.value_length", int(4)),
        ("expert_count", int(8)),
        ("attention.sliding_window", int(4096)),
        ("attention.causal", KeyValue::Bool(false)),
        ("logit_scale", KeyValue::Float(16.0)),
    ] {
        check(
            &|f| f.set(&format!("llama.{key}"), value.clone()),
            &format!("Unsupported {{ key: \"llama.{key}\""),
        );
    }
    check(&|f| f.remove("token_embd.weight"), "MissingTensor { name: \"token_embd.weight\" }");
    check(&|f| f.remove("blk.1.ffn_up.weight"), "MissingTensor { name: \"blk.1.ffn_up.weight\" }");
    check(
        &|f| f.set("llama.feed_forward_length", int(13)),
        "WrongShape { name: \"blk.0.ffn_gate.weight\", found: [12, 8], expected: [13, 8] }",
    );
    check(
        &|f| f.add("blk.0.attn_q.bias", &[8]),
        "UnexpectedTensor { name: \"blk.0.attn_q.bias\", architecture: \"llama\" }",
    );
    check(&|f| f.add("blk.2.attn_norm.weight", &[8]), "UnexpectedTensor");

    let slip = describe_as::<Slip>(&tiny_llama()).unwrap_err().reasons;
    assert!(matches!(slip[..], [Decline::Description { architecture: "llama", .. }]), "{slip:?}");
    seen.borrow_mut().insert("Description".to_owned());
    // Every reason that there is.
    let all = include_str!("decline.rs").lines().filter_map(|line| line.strip_prefix("    "));
    let names = all.filter(|line| line.starts_with(char::is_uppercase));
    let names: BTreeSet<_> = names.map(|line| line.trim_end_matches([' ', '{', ',']).to_owned()).collect();
    assert_eq!(*seen.borrow(), names);
}

/// A llama whose layers leave its tensors out.
struct Slip(Llama);

impl Architecture for Slip {
    const NAME: &'static str = Llama::NAME;

    fn hyper(keys: &mut Keys) -> Result<Self, Decline> {
        Llama::hyper(keys).map(Self)
    }

    fn tensors(&self, t: &mut TensorList) {
        self.0.tensors(t);
    }

    fn layers(&self, g: &mut GraphBuilder) -> ValueId {
        let x = g.embed("token_embd");
        g.output_head(x, "token_embd")
    }
}

#[test]
fn neutral_keys_and_derived_tables_are_no_reason() {
    let mut file = tiny_llama();
    file.set("llama.expert_count", KeyValue::Int(0));
    file.set("llama.attention.causal", KeyValue::Bool(true));
    file.set("llama.logit_scale", KeyValue::Float(1.0));
    file.set("llama.feed_forward_length", KeyValue::List(vec![KeyValue::Int(12); 2]));
    file.add("blk.0.attn_rot_embd.weight", &[1]);
    describe(&file).unwrap();
}

#[test]
fn declines_are_one_line_and_count_the_rest() {
    let mut file = tiny_llama();
    file.remove("output_norm.weight");
    file.remove("blk.0.attn_q.weight");
    let text = describe(&file).unwrap_err().to_string();
    assert!(text.starts_with("tensor `blk.0.attn_q.weight` is missing") && text.contains("1 more"), "{text}");
    assert_eq!(text.lines().count(), 1);
}
