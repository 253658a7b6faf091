//! `#[kernel]`: the type that stages the function, the struct of its launch arguments, its grid and its contracts.

mod emit;
mod options;

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{
    Expr, FnArg, GenericArgument, ItemFn, Pat, PatType, PathArguments, ReturnType, Type, spanned::Spanned,
};

use crate::signature::{Role, role};

/// A parameter of a kernel.
pub(crate) enum Param {
    /// `&Buf<T>` or `&BufMut<T>`; `when` says which variants have it.
    Buffer { name: Ident, ty: Type, elem: Box<Type>, len: Option<Box<Expr>>, when: Option<Box<Expr>> },
    /// `#[push] p: P`.
    Push { name: Ident, ty: Type },
    /// `#[comptime] c: C`.
    Comptime { name: Ident, ty: Type },
}

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    let options = options::parse(options, &mut errors);
    let f = match syn::parse2::<ItemFn>(item) {
        Ok(f) => f,
        Err(e) => {
            errors.push(syn::Error::new(e.span(), "`#[kernel]` goes on a function"));
            return report(&errors);
        }
    };
    let params = params(&f, &mut errors);
    let out = emit::kernel(&f, &options, &params, &mut errors);
    let errors = report(&errors);
    quote!(#out #errors)
}

fn report(errors: &[syn::Error]) -> TokenStream {
    errors.iter().map(syn::Error::to_compile_error).collect()
}

fn params(f: &ItemFn, errors: &mut Vec<syn::Error>) -> Vec<Param> {
    let s = &f.sig;
    let mut refuse = |span, message: &str| errors.push(syn::Error::new(span, message));
    if let Some(t) = &s.constness {
        refuse(t.span(), "a kernel is not `const`");
    }
    if let Some(t) = &s.asyncness {
        refuse(t.span(), "`async` has no place in a kernel");
    }
    if let Some(t) = &s.abi {
        refuse(t.span(), "a kernel has no ABI");
    }
    if let ReturnType::Type(_, t) = &s.output {
        refuse(t.span(), "a kernel returns nothing; store to a `&BufMut`");
    }
    for g in &s.generics.params {
        if let syn::GenericParam::Lifetime(l) = g {
            refuse(l.span(), "a kernel has no lifetimes");
        }
    }
    let mut params = Vec::new();
    for input in &s.inputs {
        match input {
            FnArg::Typed(p) => match param(p, errors) {
                Ok(p) => params.push(p),
                Err(e) => errors.push(e),
            },
            FnArg::Receiver(r) => errors.push(syn::Error::new(r.span(), "a kernel is a free function")),
        }
    }
    let mut pushes = params.iter().filter_map(|p| match p {
        Param::Push { name, .. } => Some(name),
        Param::Buffer { .. } | Param::Comptime { .. } => None,
    });
    if let (Some(_), Some(second)) = (pushes.next(), pushes.next()) {
        errors.push(syn::Error::new(second.span(), "a kernel has one struct of push constants"));
    }
    if !params.iter().any(|p| matches!(p, Param::Buffer { .. })) {
        errors.push(syn::Error::new(s.ident.span(), "a kernel has at least one buffer"));
    }
    params
}

fn param(p: &PatType, errors: &mut Vec<syn::Error>) -> syn::Result<Param> {
    let name = match &*p.pat {
        Pat::Ident(i) if i.mutability.is_none() && i.by_ref.is_none() && i.subpat.is_none() => {
            i.ident.clone()
        }
        other => return Err(syn::Error::new(other.span(), "a kernel's parameter is a plain name")),
    };
    let mut attributes = p.attrs.clone();
    let weight = weight(&mut attributes, &p.ty, errors);
    let (mut len, mut when) = (None, None);
    attributes.retain(|a| {
        let said = match a.path() {
            p if p.is_ident("len") => &mut len,
            p if p.is_ident("when") => &mut when,
            _ => return true,
        };
        match a.parse_args::<Expr>() {
            Ok(e) => *said = Some(e),
            Err(e) => errors.push(e),
        }
        false
    });
    let ty = (*p.ty).clone();
    let role = role(&mut attributes, errors);
    if let (Some(len), Role::Push | Role::Comptime) = (&len, role) {
        errors.push(syn::Error::new(len.span(), "`#[len]` is a buffer's contract"));
    }
    if let (Some(weight), Role::Push | Role::Comptime) = (weight, role) {
        errors.push(syn::Error::new(weight, "`#[weight]` is a buffer's role"));
    }
    if let (Some(when), Role::Push | Role::Comptime) = (&when, role) {
        errors.push(syn::Error::new(when.span(), "`#[when]` says which variants have a buffer"));
    }
    match role {
        Role::Push => Ok(Param::Push { name, ty }),
        Role::Comptime => Ok(Param::Comptime { name, ty }),
        Role::Plain => match element(&ty) {
            Some(elem) => {
                let (elem, len, when) = (Box::new(elem), len.map(Box::new), when.map(Box::new));
                Ok(Param::Buffer { name, ty, elem, len, when })
            }
            None => {
                let message =
                    "a kernel's parameter is `&Buf<T>`, `&BufMut<T>`, `#[push] p: P` or `#[comptime] c: C`";
                Err(syn::Error::new(ty.span(), message))
            }
        },
    }
}

/// Takes `#[weight]` off a parameter: a buffer that holds a model's weights, which no kernel writes.
fn weight(
    attributes: &mut Vec<syn::Attribute>,
    ty: &Type,
    errors: &mut Vec<syn::Error>,
) -> Option<proc_macro2::Span> {
    let at = attributes.iter().position(|a| a.path().is_ident("weight"))?;
    let attribute = attributes.remove(at);
    if let Err(e) = attribute.meta.require_path_only() {
        errors.push(e);
    }
    let mutable = |last: &syn::PathSegment| last.ident == "BufMut";
    if let Type::Reference(r) = ty
        && let Type::Path(p) = &*r.elem
        && p.path.segments.last().is_some_and(mutable)
    {
        let message = "a weight is read, never written: expected `&Buf<T>`; drop `#[weight]` for an output";
        errors.push(syn::Error::new(ty.span(), message));
    }
    Some(attribute.span())
}

/// `T` of `&Buf<T>` and `&BufMut<T>`.
fn element(ty: &Type) -> Option<Type> {
    let Type::Reference(r) = ty else { return None };
    let Type::Path(p) = &*r.elem else { return None };
    let last = p.path.segments.last()?;
    if r.mutability.is_some() || !(last.ident == "Buf" || last.ident == "BufMut") {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(t)) if arguments.args.len() == 1 => Some(t.clone()),
        _ => None,
    }
}
