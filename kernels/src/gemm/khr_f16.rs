use crate::Variant;
pub fn variants() -> Vec<Variant> { Vec::new() }
