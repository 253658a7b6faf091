//! Blocks and statements.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Block, Expr, Item, Local, Pat, Stmt, StmtMacro, Token, Type, parse::Parser, punctuated::Punctuated,
    spanned::Spanned,
};

use super::{Body, Lower, MACROS, bare, call, comptime};
use crate::signature::staged_type;

impl Lower {
    /// A function's body; a `return` may be its last statement.
    pub(crate) fn function(&mut self, block: &Block) -> TokenStream {
        if self.body == Body::Device
            && let Some(Stmt::Expr(Expr::Return(r), _)) = block.stmts.last()
            && let Some(value) = &r.expr
        {
            let mut block = block.clone();
            block.stmts.pop();
            block.stmts.push(Stmt::Expr((**value).clone(), None));
            return self.block(&block);
        }
        self.block(block)
    }

    /// `{ .. }`: its last expression is its value.
    pub(super) fn block(&mut self, block: &Block) -> TokenStream {
        let last = block.stmts.len().saturating_sub(1);
        let statements: Vec<_> =
            block.stmts.iter().enumerate().map(|(i, s)| self.statement(s, i == last)).collect();
        quote_spanned!(block.brace_token.span.join()=> { #(#statements)* })
    }

    /// A loop's body: it has no value.
    pub(super) fn unit_block(&mut self, block: &Block) -> TokenStream {
        let statements: Vec<_> = block.stmts.iter().map(|s| self.statement(s, false)).collect();
        quote_spanned!(block.brace_token.span.join()=> { #(#statements)* })
    }

    fn statement(&mut self, s: &Stmt, last: bool) -> TokenStream {
        match s {
            Stmt::Local(l) => self.local(l),
            Stmt::Expr(e, semi) => {
                let value = self.value(e);
                match (semi, last) {
                    (None, true) => value,
                    (Some(semi), _) => quote!(#value #semi),
                    (None, false) => quote_spanned!(e.span()=> #value;),
                }
            }
            Stmt::Macro(m) if m.mac.path.is_ident("comptime") => {
                let host = &m.mac.tokens;
                quote_spanned!(m.span()=> #host;)
            }
            Stmt::Macro(m) if m.mac.path.is_ident("dims") => self.dims(m),
            Stmt::Macro(m) if m.mac.path.is_ident("kprintln") => {
                let print = self.print(&m.mac);
                quote_spanned!(m.span()=> #print;)
            }
            Stmt::Macro(m) => self.bad(m.span(), MACROS),
            Stmt::Item(Item::Const(c)) => quote!(#c),
            Stmt::Item(Item::Use(u)) => quote!(#u),
            Stmt::Item(Item::Static(s)) => {
                self.bad(s.static_token.span, "a static is the host's memory; a kernel cannot reach it")
            }
            Stmt::Item(Item::Fn(f)) => {
                self.bad(f.sig.fn_token.span, "a kernel's helper is a `#[device]` function beside it")
            }
            Stmt::Item(other) => {
                self.bad(other.span(), "a kernel's body holds no items but `const` and `use`")
            }
        }
    }

    fn local(&mut self, l: &Local) -> TokenStream {
        self.no_attributes(&l.attrs);
        let span = l.let_token.span;
        let (pattern, ty) = match &l.pat {
            Pat::Type(t) => (&*t.pat, Some(&*t.ty)),
            other => (other, None),
        };
        let Some(init) = &l.init else {
            return self.bad(l.pat.span(), "a kernel's variable has a value from the start: `let x = ..`");
        };
        if let Some((otherwise, _)) = &init.diverge {
            return self.bad(otherwise.span, "`let .. else` has no place in a kernel");
        }
        let (name, mutable) = match pattern {
            Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                let ident = &p.ident;
                (quote!(#ident), p.mutability.is_some())
            }
            Pat::Wild(w) => (quote!(#w), false),
            Pat::Tuple(t) => (self.tuple_pattern(t), false),
            other => return self.bad(other.span(), "a kernel binds a name or a tuple of names"),
        };
        if let Some(host) = comptime(&init.expr).filter(|_| !mutable) {
            let ty = ty.map(|t| quote_spanned!(t.span()=> : #t));
            return quote_spanned!(span=> let #name #ty = #host;);
        }
        let array = match bare(&init.expr) {
            Expr::Array(a) => {
                let parts: Vec<_> = a.elems.iter().map(|e| self.value(e)).collect();
                Some(call(a.span(), "array", quote_spanned!(a.span()=> &[#(#parts),*])))
            }
            Expr::Repeat(r) => {
                let (value, len) = (self.value(&r.expr), self.value(&r.len));
                Some(call(r.span(), "repeat", quote_spanned!(r.span()=> #value, #len)))
            }
            _ => None,
        };
        if let Some(array) = array {
            return match ty {
                Some(t) => self.bad(t.span(), "an array's type follows from its elements; leave it out"),
                None => quote_spanned!(span=> let #name = #array;),
            };
        }
        let value = self.value(&init.expr);
        let at = init.expr.span();
        let value = match (ty, mutable) {
            (Some(t), true) => {
                let ty = self.annotation(t);
                quote_spanned!(at=> ::kiln_dsl::private::var::<#ty>(#value))
            }
            (None, true) => call(at, "var", value),
            (_, false) => value,
        };
        let ty = ty.filter(|_| !mutable).map(|t| {
            let t = staged_type(t, &self.generics, &mut self.errors);
            quote_spanned!(span=> : #t)
        });
        quote_spanned!(span=> let #name #ty = #value;)
    }

    fn annotation(&mut self, t: &Type) -> TokenStream {
        match t {
            Type::Path(_) => staged_type(t, &self.generics, &mut self.errors),
            other => {
                self.bad(other.span(), "a variable holds a number, a bool, a vector or a struct of them")
            }
        }
    }

    fn tuple_pattern(&mut self, t: &syn::PatTuple) -> TokenStream {
        for p in &t.elems {
            match p {
                Pat::Ident(p) if p.mutability.is_none() && p.by_ref.is_none() && p.subpat.is_none() => {}
                Pat::Wild(_) => {}
                other => {
                    self.bad(other.span(), "a tuple binds plain names; copy into a `let mut` after it");
                }
            }
        }
        quote!(#t)
    }

    /// `dims!(NAME = host expression, ..)`.
    fn dims(&mut self, m: &StmtMacro) -> TokenStream {
        let parser = Punctuated::<syn::ExprAssign, Token![,]>::parse_terminated;
        let dims = match parser.parse2(m.mac.tokens.clone()) {
            Ok(dims) => dims,
            Err(e) => return self.bad(e.span(), "dimensions are declared as `dims!(ROWS = .., COLS = ..)`"),
        };
        let mut out = TokenStream::new();
        for d in &dims {
            let Expr::Path(p) = &*d.left else {
                out.extend(self.bad(d.left.span(), "a dimension is a plain name"));
                continue;
            };
            let Some(name) = p.path.get_ident() else {
                out.extend(self.bad(p.span(), "a dimension is a plain name"));
                continue;
            };
            let (number, text) = (&d.right, name.to_string());
            let bind = quote_spanned!(name.span()=> ::kiln_dsl::private::bind_dim::<#name>(#text, #number););
            out.extend(quote! {
                #[derive(Clone, Copy)]
                #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
                struct #name;
                impl ::kiln_dsl::private::Dim for #name {}
                impl ::kiln_dsl::private::Read for #name {
                    type Out = ::kiln_dsl::private::Ex<u32>;
                    #[track_caller]
                    fn read(&self) -> Self::Out {
                        ::kiln_dsl::private::Read::read(&::kiln_dsl::private::dim::<#name>())
                    }
                }
                #bind
            });
        }
        out
    }
}
