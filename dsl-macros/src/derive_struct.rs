//! `derive(Struct)`: a value of several parts. In a kernel the parts are values of their own; nothing holds them together.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{ItemStruct, spanned::Spanned};

use crate::{
    derive_block::named_fields,
    signature::{Generic, staged_type},
};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    match syn::parse2::<ItemStruct>(item).and_then(structure) {
        Ok(out) => out,
        Err(e) => e.to_compile_error(),
    }
}

fn structure(s: ItemStruct) -> syn::Result<TokenStream> {
    let fields = named_fields(&s, "a struct value")?;
    let (name, vis) = (&s.ident, &s.vis);
    let staged = format_ident!("{name}Staged", span = name.span());
    let variable = format_ident!("{name}Variable", span = name.span());
    let names: Vec<_> = fields.iter().map(|f| f.0).collect();
    let visible: Vec<_> = fields.iter().map(|f| f.2).collect();
    let mut errors = Vec::new();
    let parts: Vec<_> = fields
        .iter()
        .map(|(_, t, _)| match t {
            syn::Type::Path(_) => staged_type(t, &Generic::default(), &mut errors),
            other => {
                errors.push(syn::Error::new(
                    other.span(),
                    "a struct value's field is a number, a bool, a vector or such a struct",
                ));
                quote!(())
            }
        })
        .collect();
    if let Some(e) = errors.into_iter().reduce(|mut a, b| {
        a.combine(b);
        a
    }) {
        return Err(e);
    }
    let variables = fields
        .iter()
        .zip(&parts)
        .map(|((_, t, _), part)| quote_spanned!(t.span()=> <#part as ::kiln_dsl::private::Keep>::Variable));
    let host: Vec<_> = fields.iter().map(|f| f.1).collect();
    Ok(quote! {
        #[doc(hidden)]
        #[derive(Clone, Copy)]
        #[allow(dead_code)]
        #vis struct #staged {
            #(#visible #names: #parts,)*
        }
        #[doc(hidden)]
        #[allow(dead_code)]
        #vis struct #variable {
            #(#visible #names: #variables,)*
        }
        impl ::kiln_dsl::private::Plain for #name {
            type Staged = #staged;
        }
        impl ::kiln_dsl::private::Read for #staged {
            type Out = #staged;
            fn read(&self) -> #staged {
                *self
            }
        }
        impl ::kiln_dsl::private::Read for #variable {
            type Out = #staged;
            #[track_caller]
            fn read(&self) -> #staged {
                #staged { #(#names: ::kiln_dsl::private::Read::read(&self.#names),)* }
            }
        }
        impl ::kiln_dsl::private::Merge for #staged {
            fn push(&self, out: &mut ::std::vec::Vec<::kiln_dsl::private::ValueId>) {
                #(::kiln_dsl::private::Merge::push(&self.#names, out);)*
            }
            fn pull(values: &mut impl Iterator<Item = ::kiln_dsl::private::ValueId>) -> Self {
                #staged { #(#names: ::kiln_dsl::private::Merge::pull(values),)* }
            }
            fn zero() -> Self {
                #staged { #(#names: ::kiln_dsl::private::Merge::zero(),)* }
            }
        }
        impl ::kiln_dsl::private::Keep for #staged {
            type Variable = #variable;
            #[track_caller]
            fn keep(self) -> #variable {
                #variable { #(#names: ::kiln_dsl::private::Keep::keep(self.#names),)* }
            }
        }
        impl ::kiln_dsl::private::Target for #variable {
            type Value = #staged;
            type Rail = ::kiln_dsl::private::Local;
            fn pin(&self, at: ::kiln_dsl::private::abi::Location) -> Self {
                #variable { #(#names: ::kiln_dsl::private::Target::pin(&self.#names, at),)* }
            }
            fn store(&self, value: #staged, at: ::kiln_dsl::private::abi::Location) {
                #(::kiln_dsl::private::Target::store(&self.#names, value.#names, at);)*
            }
        }
        // A struct value may exist in kernels only.
        #[allow(dead_code)]
        const _: fn(#(#host),*) -> #name = |#(#names),*| #name { #(#names),* };
        #[allow(dead_code)]
        const _: fn(&#name) = |host| {
            let _ = (#(&host.#names,)*);
        };
    })
}
