//! Grids and `#[len]` contracts: host expressions that are counted in u64.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{BinOp, Expr, spanned::Spanned};

use crate::lower::comptime;

/// A `Count` of a host expression: `+ - * / %`, `div_ceil`, `next_multiple_of`, `min`, `max` over names and literals.
pub(crate) fn count(e: &Expr, errors: &mut Vec<syn::Error>) -> TokenStream {
    let span = e.span();
    if let Some(host) = comptime(e) {
        return quote_spanned!(span=> ::kiln_dsl::private::ToCount::to_count(&(#host)));
    }
    match e {
        Expr::Paren(p) => count(&p.expr, errors),
        Expr::Group(g) => count(&g.expr, errors),
        Expr::Cast(c) => count(&c.expr, errors),
        Expr::Lit(l) => match &l.lit {
            syn::Lit::Int(i) => {
                let digits = match i.base10_parse::<u64>() {
                    Ok(n) => n,
                    Err(e) => {
                        errors.push(e);
                        0
                    }
                };
                quote_spanned!(span=> ::kiln_dsl::private::Count(#digits))
            }
            other => refuse(other.span(), errors),
        },
        Expr::Path(_) | Expr::Field(_) | Expr::Call(_) | Expr::Index(_) => {
            quote_spanned!(span=> ::kiln_dsl::private::ToCount::to_count(&#e))
        }
        Expr::Binary(b) => {
            let function = match b.op {
                BinOp::Add(_) => quote!(plus),
                BinOp::Sub(_) => quote!(minus),
                BinOp::Mul(_) => quote!(times),
                BinOp::Div(_) => quote!(over),
                BinOp::Rem(_) => quote!(modulo),
                _ => return refuse(b.op.span(), errors),
            };
            let (left, right) = (count(&b.left, errors), count(&b.right, errors));
            quote_spanned!(b.op.span()=> ::kiln_dsl::private::Count::#function(#left, #right))
        }
        Expr::MethodCall(m)
            if m.args.len() == 1
                && ["div_ceil", "next_multiple_of", "min", "max"].iter().any(|n| m.method == n) =>
        {
            let method = &m.method;
            let receiver = count(&m.receiver, errors);
            let arguments = m.args.iter().map(|a| count(a, errors));
            quote_spanned!(span=> ::kiln_dsl::private::Count::#method(#receiver, #(#arguments),*))
        }
        Expr::MethodCall(_) => quote_spanned!(span=> ::kiln_dsl::private::ToCount::to_count(&#e)),
        other => refuse(other.span(), errors),
    }
}

/// Three counts: `x`, `[x, y]` or `[x, y, z]`.
pub(crate) fn grid(e: &Expr, errors: &mut Vec<syn::Error>) -> TokenStream {
    let mut axes: Vec<_> = match e {
        Expr::Array(a) => a.elems.iter().map(|e| count(e, errors)).collect(),
        other => vec![count(other, errors)],
    };
    if axes.is_empty() || axes.len() > 3 {
        errors.push(syn::Error::new(e.span(), "a grid is `x`, `[x, y]` or `[x, y, z]`"));
    }
    axes.resize(3, quote!(::kiln_dsl::private::Count(1)));
    quote!(::kiln_dsl::private::grid([#(#axes),*]))
}

fn refuse(span: proc_macro2::Span, errors: &mut Vec<syn::Error>) -> TokenStream {
    let message = "a count is made of names, integers, `+ - * / %`, div_ceil, next_multiple_of, min and max";
    errors.push(syn::Error::new(span, message));
    quote!(::kiln_dsl::private::Count(0))
}
