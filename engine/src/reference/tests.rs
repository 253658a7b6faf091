//! The walk over the graph: stepwise equals at once, rewinding forgets, errors leave the sequence alone.

use super::*;
use crate::forward::{PREFILL_WINDOW, feed_windows};
use crate::models;

/// Weights that depend on name and place alone.
fn weights(graph: &Graph) -> Arc<Weights> {
    let read = |spec: &crate::graph::TensorSpec, values: &mut [f32]| -> Result<(), LoadError> {
        let salt = spec.name.bytes().fold(7u64, |h, b| h.wrapping_mul(31) + u64::from(b));
        for (value, at) in values.iter_mut().zip(0..) {
            *value = kiln_kernels::reference::uniform(salt, 0, at) - 0.4;
        }
        Ok(())
    };
    Arc::new(Weights::load(graph, Threads::new(None), read, |_| ()).unwrap())
}

#[test]
fn weights_stop_at_the_first_that_cannot_be_read() {
    let graph = models::describe(&models::tests::tiny_llama()).unwrap().graph;
    let read = |spec: &crate::graph::TensorSpec, _: &mut [f32]| match spec.name.as_str() {
        "blk.1.ffn_up.weight" => Err(LoadError::Gone { name: spec.name.clone() }),
        _ => Ok(()),
    };
    let error = Weights::load(&graph, Threads::new(None), read, |_| ()).unwrap_err();
    assert!(matches!(error, LoadError::Gone { name } if name == "blk.1.ffn_up.weight"));
}

fn reference(n_ctx: usize) -> Reference {
    let graph = Arc::new(models::describe(&models::tests::tiny_llama()).unwrap().graph);
    let weights = weights(&graph);
    Reference::new(graph, weights, Threads::new(None), n_ctx)
}

const IDS: [u32; 7] = [3, 1, 4, 1, 5, 9, 2];

/// Whether two sets of logits agree as f32 sums in another order may differ.
fn agree(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4)
}

#[test]
fn reference_steps_equal_one_prompt() {
    let at_once = reference(64).feed(&IDS, 0..7).unwrap();
    assert_eq!(at_once.len(), 7 * 10);
    let mut stepwise = reference(64);
    let mut rows = stepwise.feed(&IDS[..3], 0..3).unwrap();
    for id in &IDS[3..] {
        rows.extend(stepwise.feed(&[*id], 0..1).unwrap());
    }
    assert!(agree(&at_once, &rows));
    let mut other = IDS;
    other[6] = 3;
    let control = reference(64).feed(&other, 0..7).unwrap();
    assert!(agree(&at_once[..60], &control[..60]), "later ids do not reach earlier rows");
    assert!(!agree(&at_once, &control), "another last id changes its row");
}

#[test]
fn outputs_beyond_the_ids_are_refused_and_feed_nothing() {
    let mut sequence = reference(8);
    for outputs in [0..4, 2..usize::MAX, 5..6] {
        let refused = sequence.feed(&[1, 2, 3], outputs.clone());
        assert_eq!(refused, Err(ForwardError::NoSuchOutputs { outputs, fed: 3 }));
        assert_eq!(sequence.n_past(), 0);
    }
    assert_eq!(sequence.feed(&[1, 2, 3], 7..7), Ok(Vec::new()));
}

#[test]
fn reference_outputs_are_the_rows_asked_for() {
    let all = reference(64).feed(&IDS, 0..7).unwrap();
    assert!(agree(&reference(64).feed(&IDS, 5..7).unwrap(), &all[50..]));
    let mut silent = reference(64);
    assert!(silent.feed(&IDS[..6], 0..0).unwrap().is_empty());
    assert!(agree(&silent.feed(&IDS[6..], 0..1).unwrap(), &all[60..]));
    assert!(silent.feed(&[], 0..0).unwrap().is_empty());
}

#[test]
fn reference_rewind_forgets() {
    let all = reference(64).feed(&IDS, 0..7).unwrap();
    let mut sequence = reference(64);
    sequence.feed(&[3, 1, 8, 8, 8], 0..0).unwrap();
    sequence.rewind(2);
    assert_eq!(sequence.n_past(), 2);
    assert!(agree(&sequence.feed(&IDS[2..], 0..5).unwrap(), &all[20..]));
}

#[test]
fn reference_errors_leave_the_sequence_alone() {
    let mut sequence = reference(8);
    sequence.feed(&IDS, 0..0).unwrap();
    let full = ForwardError::ContextFull { needed: 9, n_ctx: 8 };
    assert_eq!(sequence.feed(&[1, 2], 0..1), Err(full));
    assert_eq!(sequence.feed(&[10], 0..1), Err(ForwardError::UnknownId { id: 10, n_vocab: 10 }));
    assert_eq!(sequence.n_past(), 7);
    assert_eq!(sequence.feed(&[2], 0..1).unwrap().len(), 10);
}

#[test]
fn windows_yield_the_same_rows_as_one_feed() {
    const WINDOW: usize = PREFILL_WINDOW;
    const N: usize = 2 * WINDOW + 44;
    let ids: Vec<u32> = (0..N as u32).map(|i| i * 7 % 10).collect();
    let all = reference(N).feed(&ids, 0..N).unwrap();
    for outputs in [0..N, N - 1..N, WINDOW - 8..2 * WINDOW + 4, 0..0] {
        let mut rows = Vec::new();
        let mut fed = Vec::new();
        feed_windows(&mut reference(N), &ids, outputs.clone(), |n, logits| {
            fed.push(n);
            rows.extend(logits);
            Ok::<_, ForwardError>(())
        })
        .unwrap();
        assert_eq!(fed, [WINDOW, 2 * WINDOW, N]);
        assert!(agree(&rows, &all[outputs.start * 10..outputs.end * 10]), "{outputs:?}");
    }
}
