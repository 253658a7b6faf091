//! Plain data that the compiler, the interpreter and the runtime share.
