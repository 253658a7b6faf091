//! Scalar types and constants in words.

/// A scalar type of a module.
#[derive(Clone, Copy)]
pub(super) enum Scalar {
    Bool,
    Int { bits: u32, signed: bool },
    Float { bits: u32 },
}

impl Scalar {
    pub(super) fn name(self) -> String {
        match self {
            Scalar::Bool => "bool".to_owned(),
            Scalar::Int { bits, signed: true } => format!("i{bits}"),
            Scalar::Int { bits, signed: false } => format!("u{bits}"),
            Scalar::Float { bits } => format!("f{bits}"),
        }
    }
}

/// A constant with its type: `7u32`, `-1i8`, `0.5f32`.
pub(super) fn scalar_text(scalar: Scalar, word: u32) -> String {
    let value = match scalar {
        Scalar::Bool => return word.to_string(),
        Scalar::Int { signed: true, .. } => word.cast_signed().to_string(),
        Scalar::Int { signed: false, .. } => word.to_string(),
        Scalar::Float { bits: 32 } if f32::from_bits(word).is_finite() => {
            format!("{:?}", f32::from_bits(word))
        }
        Scalar::Float { bits: 16 } if half(word).is_finite() => format!("{:?}", half(word)),
        Scalar::Float { .. } => format!("{word:#x}_"),
    };
    format!("{value}{}", scalar.name())
}

/// The number that the bits of a binary16 stand for.
fn half(bits: u32) -> f32 {
    let (exponent, mantissa) = ((bits >> 10) & 31, bits & 0x3ff);
    let magnitude = match exponent {
        // 2^-24 is the smallest subnormal; both factors are exact.
        0 => f32::from_bits((127 - 24) << 23) * f32::from(u16::try_from(mantissa).unwrap_or(0)),
        31 if mantissa == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => f32::from_bits(((exponent + 112) << 23) | (mantissa << 13)),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_shown_by_value() {
        let check = |scalar, word, text| assert_eq!(scalar_text(scalar, word), text);
        check(Scalar::Int { bits: 32, signed: false }, 7, "7u32");
        check(Scalar::Int { bits: 8, signed: true }, u32::MAX, "-1i8");
        check(Scalar::Float { bits: 32 }, 0.5f32.to_bits(), "0.5f32");
        check(Scalar::Float { bits: 32 }, f32::NAN.to_bits(), "0x7fc00000_f32");
        check(Scalar::Float { bits: 16 }, 0x2e66, "0.099975586f16");
        check(Scalar::Float { bits: 16 }, 0xc000, "-2.0f16");
        check(Scalar::Float { bits: 16 }, 0x0001, "5.9604645e-8f16");
        check(Scalar::Float { bits: 16 }, 0x7c00, "0x7c00_f16");
    }
}
