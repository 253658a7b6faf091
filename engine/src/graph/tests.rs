//! Layers of several kinds, and slips of a model file.

use super::*;

fn spec(name: &str, shape: &[usize], role: TensorRole) -> TensorSpec {
    TensorSpec { name: name.to_owned(), shape: shape.to_vec(), role, optional: false }
}

/// Two layers of different kinds: attention with a window, then a feed-forward layer without state.
fn tensors() -> Vec<TensorSpec> {
    vec![
        spec("token_embd.weight", &[10, 4], TensorRole::Embedding),
        spec("blk.0.attn_q.weight", &[4, 4], TensorRole::Matrix),
        spec("blk.0.attn_q.bias", &[4], TensorRole::Bias),
        spec("blk.0.attn_k.weight", &[2, 4], TensorRole::Matrix),
        spec("blk.0.attn_k_norm.weight", &[2], TensorRole::Norm),
        spec("blk.1.ffn_up.weight", &[4, 4], TensorRole::Matrix),
    ]
}

fn build(g: &mut GraphBuilder) -> ValueId {
    let x = g.embed("token_embd");
    let attention =
        Attention { n_head: 2, n_head_kv: 1, head_dim: 2, scale: 1.0, soft_cap: None, window: Some(3) };
    let x = g.layer(x, |g, x| {
        let (q, k) = (g.linear(x, "attn_q"), g.linear(x, "attn_k"));
        let k = g.rms_norm(k, "attn_k_norm", 1e-5);
        let y = g.attention(q, k, k, attention);
        g.add(x, y)
    });
    let x = g.layer(x, |g, x| g.linear(x, "ffn_up"));
    g.output_head(x, "token_embd")
}

#[test]
fn graph_layers_of_two_kinds_fold() {
    let mut g = GraphBuilder::new(tensors());
    let logits = build(&mut g);
    let graph = g.finish(logits).unwrap();
    let kv = LayerState::Kv { n_head_kv: 1, head_dim: 2, window: Some(3) };
    assert_eq!(graph.layers, [kv, LayerState::None]);
    assert_eq!(graph.n_vocab(), 10);
    assert_eq!(graph.n_weight_elems(), 40 + 16 + 4 + 8 + 2 + 16);
    assert_eq!((graph.n_state_values(2), graph.n_state_values(100)), (8, 12), "the window bounds the state");
    assert_eq!(LayerState::Recurrent { n_state: 5, n_history: 2 }.n_values(1000), 7);
    let biased = graph.nodes.iter().filter(|n| matches!(n.op, Op::Linear { bias: Some(_), .. })).count();
    assert_eq!(biased, 1);
    let released: usize = graph.last_uses().iter().map(Vec::len).sum();
    assert_eq!(released, graph.nodes.len() - 1, "every value but the logits is released once");
}

#[test]
fn graph_slips_are_named() {
    let check = |edit: &dyn Fn(&mut Vec<TensorSpec>), expected: GraphError| {
        let mut list = tensors();
        edit(&mut list);
        let mut g = GraphBuilder::new(list);
        let logits = build(&mut g);
        assert_eq!(g.finish(logits), Err(expected));
    };
    check(
        &|list| {
            list.remove(3);
        },
        GraphError::Unlisted { name: "blk.0.attn_k.weight".into() },
    );
    check(
        &|list| list.push(spec("blk.1.attn_sinks.weight", &[2], TensorRole::Bias)),
        GraphError::Unused { name: "blk.1.attn_sinks.weight".into() },
    );
    check(
        &|list| list[5].shape = vec![4, 5],
        GraphError::Width { word: "ffn_up".into(), expected: 5, found: 4 },
    );
}
