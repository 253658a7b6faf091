//! From kernel syntax to calls of the language's functions.
//!
//! There are two positions. A *place* is a path, a field or an index, and loads nothing; a *value* is everything else,
//! and a place in value position is read. What has no rule here is an error at its own token.

mod block;
mod branch;
mod choose;
mod expr;
mod literal;
mod methods;
mod print;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Expr, Macro, spanned::Spanned};

use self::expr::read;
use crate::signature::Generic;

/// What a macro that the language does not know is told.
const MACROS: &str = "a kernel's macros are `comptime!`, `dims!` and `kprintln!`";

/// Which function is being lowered: `return` leaves a kernel, and ends a device function only as its last statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Kernel,
    Device,
}

/// The loops around an expression, as far as `break` and `continue` care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopKind {
    Staged,
    Unrolled,
}

/// Lowers one function's body and collects everything wrong with it.
pub(crate) struct Lower {
    body: Body,
    /// Type parameters in scope.
    generics: Generic,
    loops: Vec<LoopKind>,
    errors: Vec<syn::Error>,
}

impl Lower {
    pub(crate) fn new(body: Body, generics: Generic) -> Self {
        Lower { body, generics, loops: Vec::new(), errors: Vec::new() }
    }

    /// What was wrong, in source order.
    pub(crate) fn into_errors(self) -> Vec<syn::Error> {
        self.errors
    }

    /// Notes an error; the placeholder keeps the rest of the expression in shape.
    fn bad(&mut self, span: Span, message: impl std::fmt::Display) -> TokenStream {
        self.errors.push(syn::Error::new(span, message));
        quote_spanned!(span=> ())
    }

    fn no_attributes(&mut self, attributes: &[syn::Attribute]) {
        for a in attributes {
            self.bad(a.span(), "an attribute means nothing here; loops take `#[unroll]` and `#[no_unroll]`");
        }
    }
}

/// `::kiln_dsl::private::name(args)`, all of it at `span`.
fn call(span: Span, name: &str, args: TokenStream) -> TokenStream {
    let name = Ident::new(name, span);
    quote_spanned!(span=> ::kiln_dsl::private::#name(#args))
}

/// `::kiln_dsl::private::Trait::method(args)`, all of it at `span`.
fn trait_call(span: Span, name: &str, method: &str, args: TokenStream) -> TokenStream {
    let (name, method) = (Ident::new(name, span), Ident::new(method, span));
    quote_spanned!(span=> ::kiln_dsl::private::#name::#method(#args))
}

/// A name of ours. It has the user's span, hygiene included: with another, rustc would report an error in what the
/// name holds at the attribute instead of at the user's token.
fn hidden(name: &str, span: Span) -> Ident {
    Ident::new(&format!("__kiln_{name}"), span)
}

/// The host tokens of `comptime!(..)`.
pub(crate) fn comptime(e: &Expr) -> Option<TokenStream> {
    match e {
        Expr::Macro(m) if m.mac.path.is_ident("comptime") => Some(host(&m.mac)),
        Expr::Paren(p) => comptime(&p.expr),
        Expr::Group(g) => comptime(&g.expr),
        _ => None,
    }
}

/// One expression keeps its precedence and its temporaries in parentheses; statements make a block.
fn host(mac: &Macro) -> TokenStream {
    let delimiter = match syn::parse2::<Expr>(mac.tokens.clone()) {
        Ok(_) => proc_macro2::Delimiter::Parenthesis,
        Err(_) => proc_macro2::Delimiter::Brace,
    };
    let mut group = proc_macro2::Group::new(delimiter, mac.tokens.clone());
    group.set_span(mac.path.span());
    TokenStream::from(proc_macro2::TokenTree::Group(group))
}

/// An expression without the parentheses around it.
fn bare(e: &Expr) -> &Expr {
    match e {
        Expr::Paren(p) => bare(&p.expr),
        Expr::Group(g) => bare(&g.expr),
        other => other,
    }
}
