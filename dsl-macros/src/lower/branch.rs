//! Branches and loops.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Attribute, BinOp, Expr, ExprForLoop, ExprIf, ExprLoop, ExprWhile, Pat, RangeLimits, spanned::Spanned,
};

use super::{LoopKind, Lower, bare, call, comptime, hidden, literal::int_of, trait_call};

impl Lower {
    /// `if`: one arm where the condition is the host's, both where it is the kernel's.
    pub(super) fn branch(&mut self, i: &ExprIf) -> TokenStream {
        self.no_attributes(&i.attrs);
        let span = i.if_token.span;
        let at = i.cond.span();
        let condition = match comptime(&i.cond) {
            Some(host) => host,
            None => match bare(&i.cond) {
                place @ (Expr::Path(_) | Expr::Field(_)) => self.place(place),
                other => self.value(other),
            },
        };
        let then = self.block(&i.then_branch);
        let (otherwise, tail) = match &i.else_branch {
            Some((_, e)) => (self.value(e), e.span()),
            None => {
                if gives_value(&i.then_branch) {
                    self.bad(span, "an `if` that gives a value has an `else`");
                }
                (quote_spanned!(span=> ()), span)
            }
        };
        self.fork(span, (&condition, at), &then, (&otherwise, tail))
    }

    /// The branch itself: condition, first arm, second arm.
    pub(super) fn fork(
        &self,
        span: Span,
        (condition, at): (&TokenStream, Span),
        then: &TokenStream,
        (otherwise, tail): (&TokenStream, Span),
    ) -> TokenStream {
        let fork = trait_call(span, "Cond", "fork", quote_spanned!(at=> &#condition));
        let (f, t, e) = (hidden("fork", span), hidden("then", span), hidden("otherwise", tail));
        quote_spanned!(span=> {
            let mut #f = #fork;
            let #t = if #f.then() { ::core::option::Option::Some(#then) } else { ::core::option::Option::None };
            let #e = if #f.otherwise() {
                ::core::option::Option::Some(#otherwise)
            } else {
                ::core::option::Option::None
            };
            #f.join(#t, #e)
        })
    }

    /// `for`: over `a..b` a loop of the kernel, over `comptime!(..)` a loop of the host, which unrolls.
    pub(super) fn for_loop(&mut self, f: &ExprForLoop) -> TokenStream {
        self.no_label(f.label.as_ref());
        let span = f.for_token.span;
        if let Some(iterator) = comptime(&f.expr) {
            self.no_attributes(&f.attrs);
            let pattern = &f.pat;
            let body = self.body(LoopKind::Unrolled, &f.body);
            return quote_spanned!(span=> for #pattern in #iterator #body);
        }
        let hint = self.hint(&f.attrs, span);
        let (range, step) = match bare(&f.expr) {
            Expr::MethodCall(m) if m.method == "step_by" && m.args.len() == 1 => {
                let step = m.args.first().map(|a| self.value(a));
                (bare(&m.receiver), step)
            }
            other => (other, None),
        };
        let bounds = match range {
            Expr::Range(r) => match (&r.start, &r.limits, &r.end) {
                (Some(a), RangeLimits::HalfOpen(_), Some(b)) => Some((a, b)),
                _ => None,
            },
            _ => None,
        };
        let Some((from, to)) = bounds else {
            let message = "a kernel's loop runs over `a..b`, `(a..b).step_by(s)` or `comptime!(iterator)`";
            return self.bad(f.expr.span(), message);
        };
        let index = match &*f.pat {
            Pat::Ident(p) if p.mutability.is_none() && p.by_ref.is_none() && p.subpat.is_none() => quote!(#p),
            Pat::Wild(w) => quote!(#w),
            other => self.bad(other.span(), "a loop's counter is a plain name"),
        };
        let (from, to) = (self.value(from), self.value(to));
        let step = step.unwrap_or_else(|| int_of(span, "", 1));
        let body = self.body(LoopKind::Staged, &f.body);
        let open = call(span, "for_loop", quote_spanned!(span=> #from, #to, #step, #hint));
        let l = hidden("counted", span);
        let close = call(span, "end_loop", quote!(#l));
        quote_spanned!(span=> { let (#l, #index) = #open; #body #close; })
    }

    pub(super) fn while_loop(&mut self, w: &ExprWhile) -> TokenStream {
        self.no_label(w.label.as_ref());
        let span = w.while_token.span;
        let hint = self.hint(&w.attrs, span);
        let condition = match &*w.cond {
            syn::Expr::Let(l) => {
                self.bad(l.let_token.span, "`while let` has no place in a kernel; compare values")
            }
            other => self.value(other),
        };
        let body = self.body(LoopKind::Staged, &w.body);
        let head = call(span, "while_head", quote!());
        let open = call(span, "while_loop", quote_spanned!(span=> #head, #condition, #hint));
        self.staged_loop(span, &open, &body)
    }

    pub(super) fn endless_loop(&mut self, l: &ExprLoop) -> TokenStream {
        self.no_label(l.label.as_ref());
        let span = l.loop_token.span;
        let hint = self.hint(&l.attrs, span);
        let body = self.body(LoopKind::Staged, &l.body);
        let open = call(span, "endless_loop", hint);
        self.staged_loop(span, &open, &body)
    }

    fn staged_loop(&mut self, span: Span, open: &TokenStream, body: &TokenStream) -> TokenStream {
        let l = hidden("staged", span);
        let close = call(span, "end_loop", quote!(#l));
        quote_spanned!(span=> { let #l = #open; #body #close; })
    }

    fn body(&mut self, kind: LoopKind, block: &syn::Block) -> TokenStream {
        self.loops.push(kind);
        let body = self.unit_block(block);
        self.loops.pop();
        body
    }

    fn no_label(&mut self, label: Option<&syn::Label>) {
        if let Some(l) = label {
            self.bad(l.span(), "labels have no place in a kernel");
        }
    }

    fn hint(&mut self, attributes: &[Attribute], span: Span) -> TokenStream {
        let mut hint = Ident::new("None", span);
        for a in attributes {
            if a.path().is_ident("unroll") {
                hint = Ident::new("Unroll", a.span());
            } else if a.path().is_ident("no_unroll") {
                hint = Ident::new("NoUnroll", a.span());
            } else {
                self.no_attributes(std::slice::from_ref(a));
            }
        }
        quote_spanned!(span=> ::kiln_dsl::private::Hint::#hint)
    }
}

/// Whether a block plainly ends with a value.
fn gives_value(block: &syn::Block) -> bool {
    let Some(syn::Stmt::Expr(last, None)) = block.stmts.last() else { return false };
    match bare(last) {
        Expr::Lit(_) | Expr::Path(_) | Expr::Field(_) | Expr::Index(_) | Expr::Cast(_) | Expr::Unary(_) => {
            true
        }
        Expr::Binary(b) => {
            matches!(b.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_))
        }
        _ => false,
    }
}
