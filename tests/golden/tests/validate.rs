//! Every module that the writer makes of the fixtures is accepted by the outside validator.

use kiln_golden::{fixtures, spirv_val};
use kiln_spirv_emit::compile;

#[test]
fn every_fixture_is_accepted() {
    let mut refused = Vec::new();
    for (name, _) in fixtures::ALL {
        let staged = fixtures::build(name).and_then(compile).unwrap_or_else(|e| panic!("{e}"));
        if let Err(e) = spirv_val(&staged.words) {
            refused.push(format!("{name}: {e}"));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}
