//! Places, values and arguments.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{BinOp, Expr, ExprBinary, ExprCast, ExprMacro, ExprUnary, UnOp, spanned::Spanned};

use super::{Body, LoopKind, Lower, MACROS, bare, call, comptime, hidden, methods, trait_call};

impl Lower {
    /// A place: nothing is loaded.
    pub(super) fn place(&mut self, e: &Expr) -> TokenStream {
        match e {
            Expr::Path(p) => quote!(#p),
            Expr::Paren(p) => self.place(&p.expr),
            Expr::Group(g) => self.place(&g.expr),
            Expr::Field(f) => {
                let (base, dot, member) = (self.place(&f.base), &f.dot_token, &f.member);
                quote!(#base #dot #member)
            }
            Expr::Index(i) => {
                let (base, index) = (self.place(&i.expr), self.value(&i.index));
                let span = i.expr.span();
                trait_call(span, "At", "at", quote_spanned!(span=> &#base, #index))
            }
            other => self.value(other),
        }
    }

    /// An argument: a value, a reference to a place, or a host value.
    pub(super) fn argument(&mut self, e: &Expr) -> TokenStream {
        comptime(e).unwrap_or_else(|| self.value(e))
    }

    /// A value.
    pub(super) fn value(&mut self, e: &Expr) -> TokenStream {
        let span = e.span();
        match e {
            Expr::Lit(l) => self.literal(&l.lit, None),
            Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => {
                let place = self.place(e);
                read(span, &place)
            }
            Expr::Paren(p) => self.value(&p.expr),
            Expr::Group(g) => self.value(&g.expr),
            Expr::Reference(r) => match (&r.mutability, bare(&r.expr)) {
                (Some(m), _) => {
                    self.bad(m.span(), "a kernel has no `&mut`; a `&BufMut` is written through `&`")
                }
                (None, Expr::Path(_) | Expr::Field(_) | Expr::Index(_)) => {
                    let place = self.place(&r.expr);
                    quote_spanned!(span=> &#place)
                }
                (None, _) => self.bad(span, "only a place has a reference: name the value with `let`"),
            },
            Expr::Cast(c) => self.cast(c),
            Expr::Unary(u) => self.unary(u),
            Expr::Binary(b) => self.binary(b),
            Expr::Assign(a) => {
                let value = self.value(&a.right);
                let place = self.place(&a.left);
                let (left, name) = (a.left.span(), hidden("value", a.right.span()));
                let write = call(left, "write", quote_spanned!(left=> &#place, #name));
                quote_spanned!(left=> { let #name = #value; #write })
            }
            Expr::Call(c) => match &*c.func {
                Expr::Path(f) => {
                    let arguments: Vec<_> = c.args.iter().map(|a| self.argument(a)).collect();
                    let span = c.paren_token.span.open();
                    let mut group = proc_macro2::Group::new(
                        proc_macro2::Delimiter::Parenthesis,
                        quote_spanned!(span=> #(#arguments),*),
                    );
                    group.set_span(c.paren_token.span.join());
                    quote!(#f #group)
                }
                other => self.bad(other.span(), "a kernel calls functions by name"),
            },
            Expr::MethodCall(c) => {
                if let Some(write) = methods::instead(&c.method.to_string()) {
                    let message = format!("a kernel's value has no `{}`; write {write}", c.method);
                    return self.bad(c.method.span(), message);
                }
                let receiver = self.place(&c.receiver);
                let arguments: Vec<_> = c.args.iter().map(|a| self.argument(a)).collect();
                let (dot, method, turbofish) = (&c.dot_token, &c.method, &c.turbofish);
                quote_spanned!(c.method.span()=> #receiver #dot #method #turbofish (#(#arguments),*))
            }
            Expr::Tuple(t) => {
                let parts: Vec<_> = t.elems.iter().map(|e| self.value(e)).collect();
                quote_spanned!(span=> (#(#parts,)*))
            }
            Expr::Array(_) | Expr::Repeat(_) => {
                self.bad(span, "an array is a `let` of its own, then indexed")
            }
            Expr::If(i) => self.branch(i),
            Expr::Match(m) => self.choose(m),
            Expr::Struct(s) => self.struct_value(s),
            Expr::ForLoop(f) => self.for_loop(f),
            Expr::While(w) => self.while_loop(w),
            Expr::Loop(l) => self.endless_loop(l),
            Expr::Break(b) if b.label.is_none() && b.expr.is_none() => {
                self.leave(span, "break", "break_loop")
            }
            Expr::Continue(c) if c.label.is_none() => self.leave(span, "continue", "continue_loop"),
            Expr::Return(r) => match (self.body, &r.expr) {
                (Body::Kernel, None) => call(span, "return_kernel", quote!()),
                (Body::Kernel, Some(e)) => self.bad(e.span(), "a kernel returns nothing; store to a buffer"),
                (Body::Device, _) => self.bad(
                    span,
                    "`return` ends a device function only as its last statement; use `if` as a value",
                ),
            },
            Expr::Block(b) if b.label.is_none() => {
                self.no_attributes(&b.attrs);
                self.block(&b.block)
            }
            Expr::Macro(m) => self.macro_value(m),
            other => self.unsupported(other),
        }
    }

    /// `Pair { a: .., b }`: the struct's name gives the type of its parts.
    fn struct_value(&mut self, s: &syn::ExprStruct) -> TokenStream {
        self.no_attributes(&s.attrs);
        if let Some(rest) = &s.rest {
            return self.bad(rest.span(), "a kernel's struct value names each of its fields");
        }
        if let Some(q) = &s.qself {
            return self.bad(q.span(), "a kernel's struct value is built by the struct's name");
        }
        let span = s.path.span();
        let fields: Vec<_> = s
            .fields
            .iter()
            .map(|f| {
                let (member, value) = (&f.member, self.value(&f.expr));
                quote_spanned!(f.span()=> #member: #value)
            })
            .collect();
        let (path, literal) = (&s.path, hidden("Literal", span));
        quote_spanned!(span=> {
            #[allow(non_camel_case_types)]
            type #literal = <#path as ::kiln_dsl::private::Plain>::Staged;
            #literal { #(#fields),* }
        })
    }

    fn macro_value(&mut self, m: &ExprMacro) -> TokenStream {
        match comptime(&Expr::Macro(m.clone())) {
            Some(host) => read(m.span(), &host),
            None if m.mac.path.is_ident("kprintln") => self.print(&m.mac),
            None => self.bad(m.span(), MACROS),
        }
    }

    fn leave(&mut self, span: Span, word: &str, function: &str) -> TokenStream {
        match self.loops.last() {
            Some(LoopKind::Staged) => call(span, function, quote!()),
            Some(LoopKind::Unrolled) => self.bad(
                span,
                format!(
                    "`{word}` has no place in a comptime loop: it is unrolled; choose its rounds on the host"
                ),
            ),
            None => self.bad(span, format!("`{word}` outside a loop")),
        }
    }

    fn cast(&mut self, c: &ExprCast) -> TokenStream {
        let value = match bare(&c.expr) {
            Expr::Lit(l) => self.cast_literal(&l.lit),
            other => self.value(other),
        };
        let (span, ty) = (c.as_token.span, &c.ty);
        match &**ty {
            syn::Type::Path(_) => quote_spanned!(span=> ::kiln_dsl::private::cast::<#ty, _>(#value)),
            other => self.bad(other.span(), "`as` converts to a number or a vector"),
        }
    }

    fn unary(&mut self, u: &ExprUnary) -> TokenStream {
        match (&u.op, bare(&u.expr)) {
            (UnOp::Neg(minus), Expr::Lit(l)) => self.literal(&l.lit, Some(minus.span)),
            (UnOp::Neg(minus), e) => {
                let value = self.value(e);
                call(minus.span, "neg", value)
            }
            (UnOp::Not(bang), e) => {
                let value = self.value(e);
                call(bang.span, "not", value)
            }
            (other, _) => self.bad(other.span(), "a kernel has no pointers; a reference is used as it is"),
        }
    }

    fn binary(&mut self, b: &ExprBinary) -> TokenStream {
        let span = b.op.span();
        let (function, assigns) = match b.op {
            BinOp::Add(_) => ("add", false),
            BinOp::Sub(_) => ("sub", false),
            BinOp::Mul(_) => ("mul", false),
            BinOp::Div(_) => ("div", false),
            BinOp::Rem(_) => ("rem", false),
            BinOp::Shl(_) => ("shl", false),
            BinOp::Shr(_) => ("shr", false),
            BinOp::BitAnd(_) => ("bitand", false),
            BinOp::BitOr(_) => ("bitor", false),
            BinOp::BitXor(_) => ("bitxor", false),
            BinOp::Lt(_) => ("lt", false),
            BinOp::Le(_) => ("le", false),
            BinOp::Gt(_) => ("gt", false),
            BinOp::Ge(_) => ("ge", false),
            BinOp::Eq(_) => ("eq", false),
            BinOp::Ne(_) => ("ne", false),
            BinOp::AddAssign(_) => ("add", true),
            BinOp::SubAssign(_) => ("sub", true),
            BinOp::MulAssign(_) => ("mul", true),
            BinOp::DivAssign(_) => ("div", true),
            BinOp::RemAssign(_) => ("rem", true),
            BinOp::ShlAssign(_) => ("shl", true),
            BinOp::ShrAssign(_) => ("shr", true),
            BinOp::BitAndAssign(_) => ("bitand", true),
            BinOp::BitOrAssign(_) => ("bitor", true),
            BinOp::BitXorAssign(_) => ("bitxor", true),
            BinOp::And(_) | BinOp::Or(_) => {
                let open = if matches!(b.op, BinOp::And(_)) { "lazy_and" } else { "lazy_or" };
                let left = self.value(&b.left);
                let left = call(span, open, left);
                let right = self.value(&b.right);
                return call(span, "lazy_end", quote_spanned!(span=> #left, #right));
            }
            _ => return self.bad(span, "this operator does not exist in a kernel"),
        };
        if assigns {
            return self.assign_op(b, function);
        }
        let (left, right) = (self.value(&b.left), self.value(&b.right));
        call(span, function, quote_spanned!(span=> #left, #right))
    }

    /// `place op= value`: the place is computed once, before the value.
    fn assign_op(&mut self, b: &ExprBinary, function: &str) -> TokenStream {
        let (op, left) = (b.op.span(), b.left.span());
        let place = self.place(&b.left);
        let value = self.value(&b.right);
        let (pinned, operand) = (hidden("pinned", left), hidden("operand", b.right.span()));
        let pin = call(left, "pin", quote_spanned!(left=> &#place));
        let old = read(left, &quote!(#pinned));
        let new = call(op, function, quote_spanned!(op=> #old, #operand));
        let write = call(left, "write", quote_spanned!(left=> &#pinned, #new));
        quote_spanned!(left=> { let #pinned = #pin; let #operand = #value; #write })
    }

    /// The end of the line: every expression without a rule is refused by name.
    fn unsupported(&mut self, e: &Expr) -> TokenStream {
        let (span, what) = match e {
            Expr::Try(t) => (t.question_token.span, "`?` has no place in a kernel: nothing fails there"),
            Expr::Closure(c) => (c.span(), "a closure has no place here; write a `#[device]` function"),
            Expr::Unsafe(u) => (u.unsafe_token.span, "`unsafe` has no place in a kernel"),
            Expr::Async(a) => (a.async_token.span, "`async` has no place in a kernel"),
            Expr::Await(a) => (a.await_token.span, "`await` has no place in a kernel"),
            Expr::Range(r) => (r.span(), "a range is a loop's: `for i in a..b`; there are no slices"),
            Expr::Let(l) => (l.let_token.span, "`if let` has no place in a kernel; compare values"),
            Expr::Const(c) => (c.const_token.span, "a const block has no place here; use `comptime!`"),
            Expr::Break(b) => match (&b.label, &b.expr) {
                (Some(l), _) => (l.span(), "labels have no place in a kernel"),
                (None, Some(e)) => (e.span(), "`break` has no value in a kernel; keep it in a `let mut`"),
                (None, None) => (b.span(), "`break` cannot stand here"),
            },
            Expr::Continue(c) => (c.span(), "labels have no place in a kernel"),
            Expr::Block(b) => (b.span(), "labels have no place in a kernel"),
            Expr::Yield(y) => (y.span(), "`yield` has no place in a kernel"),
            Expr::Infer(i) => (i.span(), "`_` is not a value"),
            other => (other.span(), "this construct has no place in a kernel"),
        };
        self.bad(span, what)
    }
}

/// A place in value position.
pub(super) fn read(span: Span, place: &TokenStream) -> TokenStream {
    trait_call(span, "Read", "read", quote_spanned!(span=> &#place))
}
