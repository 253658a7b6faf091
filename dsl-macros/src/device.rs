//! `#[device]`: functions, traits and impls that kernels call.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Attribute, Block, ImplItem, Item, Signature, TraitItem, spanned::Spanned};

use crate::{
    lower::{Body, Lower},
    signature::{Generic, rewrite},
};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    if !options.is_empty() {
        errors.push(syn::Error::new(options.span(), "`#[device]` takes no options"));
    }
    let original = item.clone();
    let out = match syn::parse2::<Item>(item) {
        Ok(Item::Fn(mut f)) => {
            let body = function(&mut f.sig, &Generic::default(), Some(&f.block), &mut errors);
            let (attributes, vis, sig) = (&f.attrs, &f.vis, &f.sig);
            let allow = allow(errors.is_empty());
            quote!(#(#attributes)* #allow #vis #sig #body)
        }
        Ok(Item::Trait(mut t)) => {
            let outer = Generic::of(&t.generics);
            for item in &mut t.items {
                if let TraitItem::Fn(f) = item {
                    let default = f.default.take();
                    let body = function(&mut f.sig, &outer, default.as_ref(), &mut errors);
                    let (attributes, sig) = (&f.attrs, &f.sig);
                    let allow = default.is_some().then(|| allow(errors.is_empty()));
                    let end = if default.is_some() { body } else { quote!(;) };
                    *item = TraitItem::Verbatim(quote!(#(#attributes)* #allow #sig #end));
                }
            }
            quote!(#t)
        }
        Ok(Item::Impl(mut i)) => {
            let outer = Generic::of(&i.generics);
            for item in &mut i.items {
                if let ImplItem::Fn(f) = item {
                    let body = function(&mut f.sig, &outer, Some(&f.block), &mut errors);
                    let (attributes, vis, sig) = (&f.attrs, &f.vis, &f.sig);
                    let allow = allow(errors.is_empty());
                    *item = ImplItem::Verbatim(quote!(#(#attributes)* #allow #vis #sig #body));
                }
            }
            quote!(#i)
        }
        Ok(other) => {
            errors.push(syn::Error::new(other.span(), "`#[device]` goes on a function, a trait or an impl"));
            original
        }
        Err(e) => {
            errors.push(e);
            original
        }
    };
    let errors = errors.iter().map(syn::Error::to_compile_error);
    quote!(#out #(#errors)*)
}

/// Rewrites the signature and lowers the body. A body with errors is left out, so that the item itself survives.
fn function(
    s: &mut Signature,
    outer: &Generic,
    body: Option<&Block>,
    errors: &mut Vec<syn::Error>,
) -> TokenStream {
    let name = s.ident.clone();
    let before = errors.len();
    let generics = outer.and(&s.generics);
    let prologue = rewrite(s, &generics, errors);
    let Some(body) = body else { return TokenStream::new() };
    let mut lower = Lower::new(Body::Device, generics);
    let staged = lower.function(body);
    errors.extend(lower.into_errors());
    if errors.len() > before {
        return quote!({ loop {} });
    }
    let (span, text) = (name.span(), name.to_string());
    let call = syn::Ident::new("call", proc_macro2::Span::mixed_site());
    let enter = quote_spanned!(span=> ::kiln_dsl::private::enter(#text));
    quote! {{
        let #call = #enter;
        if !#call.ok() {
            return ::kiln_dsl::private::Merge::zero();
        }
        #prologue
        #staged
    }}
}

/// Style lints read the rewritten code as if the user had written it. The parameters of a body that was left out are
/// not unused.
pub(crate) fn allow(body_is_there: bool) -> Attribute {
    match body_is_there {
        true => syn::parse_quote!(#[allow(clippy::all, unused_braces, unused_parens)]),
        false => syn::parse_quote!(#[allow(clippy::all, unused_variables)]),
    }
}
