//! Methods of Rust's numbers that a kernel's values lack: what is written instead.
//!
//! What has the same name and meaning on the device (`sqrt`, `max`, `floor`) is a method there and is not listed.

/// Method and what to write.
const INSTEAD: [(&str, &str); 25] = [
    ("powf", "`pow(x, y)`, for an x that is not negative"),
    ("powi", "a product, or `pow(x, y)` for an x that is not negative"),
    ("ln", "`log(x)`"),
    ("mul_add", "`fma(a, b, c)`"),
    ("recip", "`1.0 / x`"),
    ("round", "`round_ties_even(x)`; halves go to the even neighbor"),
    ("hypot", "`sqrt(x * x + y * y)`"),
    ("is_infinite", "`is_inf(x)`"),
    ("to_bits", "`bitcast::<u32, _>(x)`"),
    ("wrapping_add", "`a + b`; integers wrap"),
    ("wrapping_sub", "`a - b`; integers wrap"),
    ("wrapping_mul", "`a * b`; integers wrap"),
    ("wrapping_neg", "`0 - a`; integers wrap"),
    ("checked_add", "`a + b`, which wraps, and a comparison"),
    ("checked_sub", "a comparison before `a - b`, which wraps"),
    ("checked_mul", "`a * b`, which wraps, and a comparison"),
    ("checked_div", "a comparison before `a / b`"),
    ("saturating_add", "`a + min(b, u32::MAX - a)`"),
    ("saturating_sub", "`a - min(a, b)`"),
    ("abs_diff", "`max(a, b) - min(a, b)`"),
    ("rotate_left", "`x << n | x >> (32 - n)`, for an n from 1 to 31"),
    ("rotate_right", "`x >> n | x << (32 - n)`, for an n from 1 to 31"),
    ("into", "`x as f32`"),
    ("try_into", "`x as u32`"),
    ("clone", "the name alone; values are copied"),
];

/// What an author writes for a method of Rust's numbers.
pub(super) fn instead(method: &str) -> Option<&'static str> {
    INSTEAD.iter().find(|(name, _)| *name == method).map(|(_, write)| *write)
}
