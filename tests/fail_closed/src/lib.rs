//! What must not compile or stage.
