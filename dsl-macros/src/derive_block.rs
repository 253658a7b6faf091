//! `derive(Block)`.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Fields, ItemStruct, spanned::Spanned};

pub(crate) fn expand(item: TokenStream) -> TokenStream {
    match syn::parse2::<ItemStruct>(item).and_then(block) {
        Ok(out) => out,
        Err(e) => e.to_compile_error(),
    }
}

/// The named fields of a struct without generics.
pub(crate) fn named_fields<'a>(
    s: &'a ItemStruct,
    what: &str,
) -> syn::Result<Vec<(&'a Ident, &'a syn::Type, &'a syn::Visibility)>> {
    if !s.generics.params.is_empty() {
        return Err(syn::Error::new(s.generics.span(), format!("{what} has no generics")));
    }
    let Fields::Named(fields) = &s.fields else {
        return Err(syn::Error::new(s.ident.span(), format!("{what} has named fields")));
    };
    if let Some(f) = fields.named.iter().find(|f| f.ident.as_ref().is_none_or(|i| i == "_")) {
        return Err(syn::Error::new(f.span(), format!("a field of {what} has a name")));
    }
    if fields.named.is_empty() {
        return Err(syn::Error::new(s.ident.span(), format!("{what} has at least one field")));
    }
    Ok(fields.named.iter().filter_map(|f| f.ident.as_ref().map(|i| (i, &f.ty, &f.vis))).collect())
}

fn block(s: ItemStruct) -> syn::Result<TokenStream> {
    let fields = named_fields(&s, "a block")?;
    let (name, vis) = (&s.ident, &s.vis);
    let refs = format_ident!("{name}Fields", span = name.span());
    let names: Vec<_> = fields.iter().map(|f| f.0).collect();
    let visible: Vec<_> = fields.iter().map(|f| f.2).collect();
    let texts = names.iter().map(|n| n.to_string());
    let text = name.to_string();
    // Spanned to the field's type, where a type that cannot be a field is reported.
    let each =
        |make: &dyn Fn(&syn::Type) -> TokenStream| -> Vec<_> { fields.iter().map(|f| make(f.1)).collect() };
    let refs_of = each(&|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::BlockField>::Ref<AnyRail>));
    let extents = each(&|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::BlockField>::EXTENT));
    let types = each(&|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::BlockField>::ty));
    let refer = each(&|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::BlockField>::refer));
    let copy = each(&|t| quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::BlockField>::copy));
    let indices: Vec<_> = (0..names.len()).map(syn::Index::from).collect();
    let numbers = 0u32..;
    let members: Vec<_> = numbers.take(names.len()).collect();
    Ok(quote! {
        #[doc(hidden)]
        #[allow(dead_code)]
        #vis struct #refs<AnyRail: ::kiln_dsl::private::Rail> {
            #(#visible #names: #refs_of,)*
        }
        impl ::kiln_dsl::private::Elem for #name {
            const BYTES: u32 = ::kiln_dsl::private::offsets([#(#extents),*]).1.bytes;
            fn ty(
                types: &mut ::kiln_dsl::private::Types<'_>,
                memory: ::kiln_dsl::private::Memory,
            ) -> ::kiln_dsl::private::TypeId {
                let (offsets, _) = ::kiln_dsl::private::offsets([#(#extents),*]);
                let members = [#((#texts, #types(types, memory), offsets[#indices])),*];
                types.block(#text, memory, &members)
            }
            fn name() -> ::std::string::String {
                ::std::string::String::from(#text)
            }
        }
        impl ::kiln_dsl::private::Block for #name {
            #[track_caller]
            fn copy<AnyRail: ::kiln_dsl::private::Rail>(
                from: &#refs<AnyRail>,
                to: &#refs<::kiln_dsl::private::Workgroup>,
            ) {
                #(#copy(&from.#names, &to.#names);)*
            }
        }
        impl ::kiln_dsl::private::Slot for #name {
            type Kind = ::kiln_dsl::private::ByReference;
            type Fields<AnyRail: ::kiln_dsl::private::Rail> = #refs<AnyRail>;
            fn fields<AnyRail: ::kiln_dsl::private::Rail>(path: ::kiln_dsl::private::Path) -> #refs<AnyRail> {
                #refs { #(#names: #refer(path.member(#members)),)* }
            }
        }
        // A block's fields are read on the device only.
        #[allow(dead_code)]
        const _: fn(&#name) = |block| {
            let _ = (#(&block.#names,)*);
        };
    })
}
