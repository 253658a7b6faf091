//! Signatures: what stands in one as a plain Rust type is a value of the kernel.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{FnArg, Generics, Pat, ReturnType, Signature, Type, spanned::Spanned};

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

/// Spelled so, a type is one value; another that has such a name is told by its traits.
const VALUES: [&str; 12] =
    ["f32", "f16", "i32", "u32", "i16", "u16", "i8", "u8", "bool", "Vec2", "Vec3", "Vec4"];

/// Names of the type parameters that are in scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Generic(BTreeSet<String>);

impl Generic {
    /// Those of an item.
    pub(crate) fn of(generics: &Generics) -> Self {
        Generic(generics.type_params().map(|t| t.ident.to_string()).collect())
    }

    /// Those of a function inside it too.
    pub(crate) fn and(&self, inner: &Generics) -> Self {
        let inner = Generic::of(inner).0;
        Generic(self.0.union(&inner).cloned().collect())
    }

    /// Whether the name is one value: the language's own numbers and vectors, and what starts at a type parameter.
    fn is_one_value(&self, path: &syn::TypePath) -> bool {
        let first = path.path.segments.first().map(|s| s.ident.to_string());
        let known = |s: String| s == "Self" || VALUES.contains(&s.as_str()) || self.0.contains(&s);
        path.qself.is_some() || first.is_some_and(known)
    }
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
pub(crate) fn rewrite(s: &mut Signature, generics: &Generic, errors: &mut Vec<syn::Error>) -> TokenStream {
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
            Role::Plain => staged_type(ty, generics, errors),
        };
        *p.ty = Type::Verbatim(staged);
    }
    if let ReturnType::Type(_, ty) = &mut s.output {
        let staged = match &**ty {
            Type::Reference(r) => {
                errors.push(syn::Error::new(r.span(), "a device function returns values; pass places in"));
                quote!(())
            }
            other => staged_type(other, generics, errors),
        };
        **ty = Type::Verbatim(staged);
    }
    prologue
}

/// Numbers that only the host has.
const WIDE: [&str; 7] = ["u64", "i64", "usize", "isize", "u128", "i128", "f64"];

/// What a plain type stands for: a number or a vector is one value, a tuple goes by its parts, a reference stays, and
/// any other name says itself what it is.
pub(crate) fn staged_type(t: &Type, generics: &Generic, errors: &mut Vec<syn::Error>) -> TokenStream {
    match t {
        Type::Path(p) if WIDE.iter().any(|wide| p.path.is_ident(wide)) => {
            let message = "a kernel's numbers are f32, f16, u32, i32, u16, i16, u8 and i8";
            errors.push(syn::Error::new(t.span(), message));
            // The nearest that there is, so that the rest is judged as meant.
            let near = if p.path.is_ident("f64") { quote!(f32) } else { quote!(u32) };
            quote_spanned!(t.span()=> ::kiln_dsl::private::Ex<::core::primitive::#near>)
        }
        Type::Path(p) if generics.is_one_value(p) => quote_spanned!(t.span()=> ::kiln_dsl::private::Ex<#t>),
        Type::Path(_) => quote_spanned!(t.span()=> <#t as ::kiln_dsl::private::Plain>::Staged),
        Type::Reference(r) if r.mutability.is_none() => quote!(#t),
        Type::Paren(p) => staged_type(&p.elem, generics, errors),
        Type::Group(g) => staged_type(&g.elem, generics, errors),
        Type::Tuple(tuple) => {
            let parts: Vec<_> = tuple.elems.iter().map(|e| staged_type(e, generics, errors)).collect();
            quote_spanned!(t.span()=> (#(#parts,)*))
        }
        other => {
            let message =
                "a kernel's types are numbers, bool, vectors, structs, tuples of them and references";
            errors.push(syn::Error::new(other.span(), message));
            quote!(())
        }
    }
}
