//! Signatures: what stands in one as a plain Rust type is a value of the kernel.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, Pat, ReturnType, Signature, Type, spanned::Spanned};

/// What an attribute says of a parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// A value or a reference.
    #[default]
    Plain,
    /// A host value.
    Comptime,
    /// The push constants.
    Push,
}

/// Takes the role attributes off a parameter; other attributes are errors.
pub(crate) fn role(attributes: &mut Vec<syn::Attribute>, errors: &mut Vec<syn::Error>) -> Role {
    let mut role = Role::Plain;
    for a in attributes.drain(..) {
        if a.path().is_ident("comptime") {
            role = Role::Comptime;
        } else if a.path().is_ident("push") {
            role = Role::Push;
        } else {
            errors.push(syn::Error::new(a.span(), "a parameter takes `#[comptime]` or `#[push]`"));
        }
    }
    role
}

/// Rewrites a device function's signature; returns what its body starts with (`mut` parameters).
pub(crate) fn rewrite(s: &mut Signature, errors: &mut Vec<syn::Error>) -> TokenStream {
    let mut prologue = TokenStream::new();
    let mut refuse = |span, message: &str| errors.push(syn::Error::new(span, message));
    if let Some(t) = &s.constness {
        refuse(t.span(), "a device function is not `const`; host functions are called in `comptime!`");
    }
    if let Some(t) = &s.asyncness {
        refuse(t.span(), "`async` has no place in a kernel");
    }
    if let Some(t) = &s.abi {
        refuse(t.span(), "a device function has no ABI");
    }
    for input in &mut s.inputs {
        let FnArg::Typed(p) = input else { continue };
        let role = role(&mut p.attrs, errors);
        if let Pat::Ident(name) = &mut *p.pat
            && let Some(m) = name.mutability.take()
        {
            let ident = &name.ident;
            match role {
                Role::Plain => {
                    prologue.extend(
                        quote_spanned!(ident.span()=> let #ident = ::kiln_dsl::private::var(#ident);),
                    );
                }
                Role::Comptime | Role::Push => {
                    errors.push(syn::Error::new(m.span(), "this parameter does not change; drop `mut`"));
                }
            }
        } else if !matches!(&*p.pat, Pat::Ident(_) | Pat::Wild(_)) {
            errors.push(syn::Error::new(p.pat.span(), "a parameter is a plain name"));
        }
        let ty = &*p.ty;
        let staged = match role {
            Role::Comptime => continue,
            Role::Push => quote_spanned!(ty.span()=> <#ty as ::kiln_dsl::private::Push>::Staged),
            Role::Plain => staged_type(ty, errors),
        };
        *p.ty = Type::Verbatim(staged);
    }
    if let ReturnType::Type(_, ty) = &mut s.output {
        let staged = match &**ty {
            Type::Reference(r) => {
                errors.push(syn::Error::new(r.span(), "a device function returns values; pass places in"));
                quote!(())
            }
            other => staged_type(other, errors),
        };
        **ty = Type::Verbatim(staged);
    }
    prologue
}

/// `T` is `Ex<T>`, a tuple goes by its parts, a reference stays.
pub(crate) fn staged_type(t: &Type, errors: &mut Vec<syn::Error>) -> TokenStream {
    match t {
        Type::Path(_) => quote_spanned!(t.span()=> ::kiln_dsl::private::Ex<#t>),
        Type::Reference(r) if r.mutability.is_none() => quote!(#t),
        Type::Paren(p) => staged_type(&p.elem, errors),
        Type::Group(g) => staged_type(&g.elem, errors),
        Type::Tuple(tuple) => {
            let parts: Vec<_> = tuple.elems.iter().map(|e| staged_type(e, errors)).collect();
            quote_spanned!(t.span()=> (#(#parts,)*))
        }
        other => {
            let message = "a kernel's types are numbers, bool, vectors, tuples of them and references";
            errors.push(syn::Error::new(other.span(), message));
            quote!(())
        }
    }
}
