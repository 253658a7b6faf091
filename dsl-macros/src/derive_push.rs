//! `derive(Push)`.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{ItemStruct, spanned::Spanned};

use crate::derive_block::named_fields;

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    match syn::parse2::<ItemStruct>(item).and_then(push) {
        Ok(out) => out,
        Err(e) => e.to_compile_error(),
    }
}

fn push(s: ItemStruct) -> syn::Result<TokenStream> {
    let fields = named_fields(&s, "a push-constant struct")?;
    let (name, vis) = (&s.ident, &s.vis);
    let staged = format_ident!("{name}Staged", span = name.span());
    let names: Vec<_> = fields.iter().map(|f| f.0).collect();
    let types: Vec<_> = fields.iter().map(|f| f.1).collect();
    let visible: Vec<_> = fields.iter().map(|f| f.2).collect();
    let texts = names.iter().map(|n| n.to_string());
    let scalar = types.iter().map(|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::Scalar>));
    let next = types.iter().map(|t| quote_spanned!(t.span()=> next_value::<#t>));
    let word = types.iter().map(|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::PushScalar>::word));
    let count = names.len();
    Ok(quote! {
        #[doc(hidden)]
        #[derive(Clone, Copy)]
        #[allow(dead_code)]
        #vis struct #staged {
            #(#visible #names: ::kiln_dsl::private::Ex<#types>,)*
        }
        impl ::kiln_dsl::private::Read for #staged {
            type Out = #staged;
            fn read(&self) -> #staged {
                *self
            }
        }
        impl ::kiln_dsl::private::Push for #name {
            type Staged = #staged;
            const FIELDS: &'static [(&'static str, ::kiln_dsl::private::DType)] =
                &[#((#texts, #scalar::DTYPE)),*];
            fn staged(fields: &mut ::kiln_dsl::private::Fields) -> #staged {
                #staged { #(#names: fields.#next(),)* }
            }
            fn bytes(&self) -> ::std::vec::Vec<u8> {
                let words = [#(#word(self.#names)),*];
                words.concat()
            }
        }
        const _: () = assert!(
            #count * 4 <= ::kiln_dsl::private::MAX_PUSH_BYTES,
            "push constants take at most 128 bytes"
        );
    })
}
