//! Every architecture and variant on the reference: logits of tiny models against two implementations from outside.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod tiny;

use std::collections::BTreeSet;

use kiln_engine::models;

use tiny::{all, logits, worst};

/// Largest difference to either implementation: that of f32 sums in another order and of a tabled gelu.
const BAR: f32 = 2e-3;

#[test]
fn logits_equal_two_implementations_from_outside() {
    for tiny in all() {
        let found = logits(tiny.reference().as_ref(), &tiny.ids, false);
        let rows = tiny.recorded(&found, 0);
        let (numpy, peer) = (worst(&rows, &tiny.numpy.concat()), worst(&rows, &tiny.peer.concat()));
        println!("{}: {numpy:.1e} from NumPy, {peer:.1e} from the peer", tiny.name);
        assert!(numpy <= BAR && peer <= BAR, "{}: {numpy} and {peer}", tiny.name);

        // One position off, and one logit falsified, must be seen.
        let shifted =
            worst(&tiny.recorded(&found, 1)[rows.len() / 8..], &tiny.numpy.concat()[rows.len() / 8..]);
        assert!(shifted > 100.0 * BAR, "{}: one step off is only {shifted} away", tiny.name);
        let mut falsified = tiny.numpy.concat();
        falsified[rows.len() - 1] += 2.0 * BAR;
        assert!(worst(&rows, &falsified) > BAR, "{}", tiny.name);
    }
}

/// What a key says reaches the logits: with another value under it they are others.
#[test]
fn every_variant_counts() {
    let mut keys = BTreeSet::new();
    for tiny in all() {
        let expected = tiny.numpy.concat();
        for (key, value) in &tiny.controls {
            let other = tiny.with(key, value);
            let found = logits(other.reference().as_ref(), &tiny.ids, false);
            let difference = worst(&tiny.recorded(&found, 0), &expected);
            println!("{} with {key} = {value}: {difference:.1e}", tiny.name);
            assert!(difference > 5.0 * BAR, "{} with {key} = {value}: only {difference}", tiny.name);
            keys.insert(key.split_once('.').unwrap().1.to_owned());
        }
    }
    assert!(keys.len() >= 12, "{keys:?}");
}

#[test]
fn every_architecture_has_a_tiny_model() {
    let made: BTreeSet<&str> = all().iter().map(|tiny| tiny.file().model.architecture).collect();
    assert_eq!(made, models::names().into_iter().collect());
}
