//! `#[kernel(local_size = .., grid = .., subgroup = ..)]`, and what a kernel states of its devices.

use proc_macro2::{Span, TokenStream};
use syn::{Expr, Ident, Token, parse::Parser, punctuated::Punctuated};

/// The options of one kernel; a missing one was reported.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) local_size: Option<Expr>,
    pub(crate) subgroup: Option<Expr>,
    pub(crate) grid: Option<Expr>,
    pub(crate) requires: Option<Expr>,
    pub(crate) invocations: Option<Expr>,
    pub(crate) workgroup_bytes: Option<Expr>,
    pub(crate) checked: Option<Expr>,
}

struct Pair {
    name: Ident,
    value: Expr,
}

impl syn::parse::Parse for Pair {
    fn parse(input: syn::parse::ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Pair { name, value: input.parse()? })
    }
}

pub(crate) fn parse(tokens: TokenStream, errors: &mut Vec<syn::Error>) -> Options {
    let mut options = Options::default();
    let pairs = match Punctuated::<Pair, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(pairs) => pairs,
        Err(e) => {
            errors.push(e);
            return options;
        }
    };
    for Pair { name, value } in pairs {
        let slot = match name.to_string().as_str() {
            "local_size" => &mut options.local_size,
            "subgroup" => &mut options.subgroup,
            "grid" => &mut options.grid,
            "requires" => &mut options.requires,
            "invocations" => &mut options.invocations,
            "workgroup_bytes" => &mut options.workgroup_bytes,
            "checked" => &mut options.checked,
            _ => {
                errors.push(syn::Error::new(
                    name.span(),
                    "a kernel's options are local_size, grid, subgroup, requires, invocations, workgroup_bytes and \
                     checked",
                ));
                continue;
            }
        };
        if slot.replace(value).is_some() {
            errors.push(syn::Error::new(name.span(), format!("`{name}` is given twice")));
        }
    }
    for (name, value) in [("local_size", &options.local_size), ("grid", &options.grid)] {
        if value.is_none() {
            errors.push(syn::Error::new(
                Span::call_site(),
                format!("a kernel states its {name}: `{name} = ..`"),
            ));
        }
    }
    options
}
