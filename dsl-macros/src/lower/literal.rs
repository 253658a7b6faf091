//! Literals: an unsuffixed one takes its type from the context, as in Rust.

use proc_macro2::{Literal, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Lit, LitFloat, LitInt};

use super::{Lower, call, trait_call};

impl Lower {
    /// A literal, with the minus sign before it if there is one; it stands where its first token does.
    pub(super) fn literal(&mut self, lit: &Lit, minus: Option<Span>) -> TokenStream {
        match lit {
            Lit::Int(i) if matches!(i.suffix(), "f32" | "f16") => match i.base10_parse::<u64>() {
                #[expect(clippy::cast_precision_loss, reason = "a float literal rounds")]
                Ok(n) => float(
                    at(i.span(), minus),
                    i.suffix(),
                    if minus.is_some() { -(n as f64) } else { n as f64 },
                ),
                Err(e) => self.bad(i.span(), e),
            },
            Lit::Int(i) => self.int(i, minus),
            Lit::Float(f) => self.float(f, minus),
            Lit::Bool(b) if minus.is_none() => {
                trait_call(b.span(), "Read", "read", quote_spanned!(b.span()=> &#b))
            }
            other => self.bad(other.span(), "a kernel's literals are integers, floats, `true` and `false`"),
        }
    }

    fn int(&mut self, i: &LitInt, minus: Option<Span>) -> TokenStream {
        let ty = match i.suffix() {
            "" => "",
            known @ ("i32" | "u32" | "i16" | "u16" | "i8" | "u8") => known,
            other => {
                return self.bad(i.span(), format!("a kernel has no `{other}`; integers have up to 32 bits"));
            }
        };
        match i.base10_parse::<i64>() {
            Ok(n) => int_of(at(i.span(), minus), ty, if minus.is_some() { -n } else { n }),
            Err(_) => self.bad(i.span(), "this does not fit any integer of a kernel"),
        }
    }

    /// A float that is cast is an f32, as a bare integer is an i32.
    pub(super) fn cast_literal(&mut self, lit: &Lit) -> TokenStream {
        match lit {
            Lit::Int(i) if i.suffix().is_empty() => match i.base10_parse::<i64>() {
                Ok(n) => int_of(i.span(), if n > i64::from(i32::MAX) { "u32" } else { "i32" }, n),
                Err(e) => self.bad(i.span(), e),
            },
            Lit::Float(f) if f.suffix().is_empty() => match finite(f) {
                Ok(n) => float(f.span(), "f32", n),
                Err(e) => self.bad(f.span(), e),
            },
            other => self.literal(other, None),
        }
    }

    fn float(&mut self, f: &LitFloat, minus: Option<Span>) -> TokenStream {
        match f.suffix() {
            "" | "f32" | "f16" => {}
            other => return self.bad(f.span(), format!("a kernel has no `{other}`; floats are f32 and f16")),
        }
        match finite(f) {
            Ok(n) => float(at(f.span(), minus), f.suffix(), if minus.is_some() { -n } else { n }),
            Err(e) => self.bad(f.span(), e),
        }
    }
}

/// The number of a literal that an f64 holds: a token of another cannot be made.
fn finite(f: &LitFloat) -> Result<f64, String> {
    match f.base10_parse::<f64>() {
        Ok(n) if n.is_finite() => Ok(n),
        Ok(_) => {
            Err(format!("{} is out of the range of f16 and f32, the floats of a kernel", f.base10_digits()))
        }
        Err(e) => Err(e.to_string()),
    }
}

fn at(literal: Span, minus: Option<Span>) -> Span {
    minus.unwrap_or(literal)
}

/// An integer literal of a type, or of the type the context asks for.
pub(super) fn int_of(span: Span, ty: &str, n: i64) -> TokenStream {
    let mut value = Literal::i64_suffixed(n);
    value.set_span(span);
    of_type(span, "lit_int", ty, &value)
}

fn float(span: Span, ty: &str, n: f64) -> TokenStream {
    let mut value = Literal::f64_suffixed(n);
    value.set_span(span);
    of_type(span, "lit_float", ty, &value)
}

fn of_type(span: Span, function: &str, ty: &str, value: &Literal) -> TokenStream {
    if ty.is_empty() {
        return call(span, function, quote!(#value));
    }
    let (function, ty) = (proc_macro2::Ident::new(function, span), proc_macro2::Ident::new(ty, span));
    quote_spanned!(span=> ::kiln_dsl::private::#function::<::kiln_dsl::private::#ty>(#value))
}
