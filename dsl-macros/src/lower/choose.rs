//! `match`: on a host value it stays Rust's, on a kernel's integer it is a chain of branches.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::{Arm, Expr, ExprLit, ExprMatch, Lit, Pat, RangeLimits, UnOp, spanned::Spanned};

use super::{Lower, call, comptime, hidden, read};

/// The integers that earlier arms take, as far as the macro can see them.
type Taken = Vec<(i64, i64)>;

const NO_GUARD: &str = "an arm has no guard in a kernel; write an `if` inside it";
const PATTERNS: &str = "an arm is an integer, a constant, a range `a..=b`, several with `|`, or `_`";

impl Lower {
    /// `match`: arms are tried in order, the last one is `_`.
    pub(super) fn choose(&mut self, m: &ExprMatch) -> TokenStream {
        self.no_attributes(&m.attrs);
        for arm in &m.arms {
            self.no_attributes(&arm.attrs);
        }
        match comptime(&m.expr) {
            Some(host) => self.choose_on_host(m, &host),
            None => self.choose_while_running(m),
        }
    }

    /// One arm is staged; patterns are the host's, and so is their being complete.
    fn choose_on_host(&mut self, m: &ExprMatch, host: &TokenStream) -> TokenStream {
        let mut arms = TokenStream::new();
        for arm in &m.arms {
            let (pattern, value) = (&arm.pat, self.value(&arm.body));
            if let Pat::Guard(g) = pattern {
                self.bad(g.if_token.span, NO_GUARD);
            }
            arms.extend(quote_spanned!(arm.pat.span()=> #pattern => { #value },));
        }
        quote_spanned!(m.match_token.span=> match #host { #arms })
    }

    fn choose_while_running(&mut self, m: &ExprMatch) -> TokenStream {
        let span = m.match_token.span;
        let scrutinee = self.value(&m.expr);
        let name = hidden("matched", m.expr.span());
        let mut taken = Taken::new();
        let mut tests = Vec::new();
        for arm in &m.arms {
            let test = match &arm.pat {
                Pat::Wild(_) => None,
                pattern => Some(self.test(pattern, &name, &mut taken)),
            };
            let value = self.value(&arm.body);
            tests.push((arm, test, value));
        }
        let Some((last, None, otherwise)) = tests.pop() else {
            return self.bad(span, "a kernel's `match` on integers ends with an arm `_ => ..`");
        };
        let mut chain = (otherwise, last.body.span());
        for (arm, test, value) in tests.into_iter().rev() {
            let Some(test) = test else {
                return self.bad(arm.pat.span(), "no arm after this one is ever taken");
            };
            let (then, at) = (block(arm, &value), arm.pat.span());
            chain = (self.fork(at, (&test, at), &then, (&chain.0, chain.1)), at);
        }
        let chain = chain.0;
        quote_spanned!(span=> { let #name = #scrutinee; #chain })
    }

    /// Whether the pattern takes the value, as a `bool` of the kernel.
    fn test(&mut self, pattern: &Pat, name: &proc_macro2::Ident, taken: &mut Taken) -> TokenStream {
        let span = pattern.span();
        match pattern {
            Pat::Lit(l) => {
                let expression = Expr::Lit(l.clone());
                self.take(span, number(&expression), number(&expression), taken);
                let value = self.bound(&expression);
                call(span, "eq", quote_spanned!(span=> #name, #value))
            }
            Pat::Range(r) => self.in_range(r, name, taken),
            Pat::Path(p) => {
                let value = read(span, &quote_spanned!(span=> #p));
                call(span, "eq", quote_spanned!(span=> #name, #value))
            }
            Pat::Ident(i) if is_constant(i) => {
                let value = read(span, &quote_spanned!(span=> #i));
                call(span, "eq", quote_spanned!(span=> #name, #value))
            }
            Pat::Ident(_) => {
                self.bad(span, "an arm binds no name in a kernel: name the value with `let`, match `_`")
            }
            Pat::Verbatim(tokens) => match syn::parse2::<Expr>(tokens.clone()) {
                Ok(e) if number(&e).is_some() => {
                    self.take(span, number(&e), number(&e), taken);
                    let value = self.value(&e);
                    call(span, "eq", quote_spanned!(span=> #name, #value))
                }
                _ => self.bad(span, PATTERNS),
            },
            Pat::Guard(g) => self.bad(g.if_token.span, NO_GUARD),
            Pat::Paren(p) => self.test(&p.pat, name, taken),
            Pat::Or(or) => {
                let cases: Vec<_> = or.cases.iter().map(|p| self.test(p, name, taken)).collect();
                let joined =
                    cases.into_iter().reduce(|a, b| call(span, "bitor", quote_spanned!(span=> #a, #b)));
                joined.unwrap_or_default()
            }
            _ => self.bad(span, PATTERNS),
        }
    }

    fn in_range(&mut self, r: &syn::PatRange, name: &proc_macro2::Ident, taken: &mut Taken) -> TokenStream {
        let span = r.span();
        let inclusive = matches!(r.limits, RangeLimits::Closed(_));
        let low = r.start.as_deref().map_or(Some(i64::MIN), number);
        let high = match r.end.as_deref() {
            Some(end) => number(end).map(|n| if inclusive { n } else { n.saturating_sub(1) }),
            None => Some(i64::MAX),
        };
        self.take(span, low, high, taken);
        let low = r.start.as_deref().map(|e| {
            let value = self.bound(e);
            call(span, "ge", quote_spanned!(span=> #name, #value))
        });
        let high = r.end.as_deref().map(|e| {
            let value = self.bound(e);
            call(span, if inclusive { "le" } else { "lt" }, quote_spanned!(span=> #name, #value))
        });
        match (low, high) {
            (Some(low), Some(high)) => call(span, "bitand", quote_spanned!(span=> #low, #high)),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => self.bad(span, "this range has no bound; write `_`"),
        }
    }

    /// A literal or a constant in a pattern.
    fn bound(&mut self, e: &Expr) -> TokenStream {
        match e {
            Expr::Path(_) => self.value(e),
            Expr::Unary(_) | Expr::Lit(_) if number(e).is_some() => self.value(e),
            _ => self.bad(e.span(), "a kernel matches integers; compare others with `if`"),
        }
    }

    /// Notes what a pattern takes; one that is empty or that earlier arms took whole is a mistake.
    fn take(&mut self, span: Span, low: Option<i64>, high: Option<i64>, taken: &mut Taken) {
        let (Some(low), Some(high)) = (low, high) else { return };
        if low > high {
            self.bad(span, "this range is empty");
        } else if taken.iter().any(|t| t.0 <= low && high <= t.1) {
            self.bad(span, "an earlier arm takes all of this");
        }
        taken.push((low, high));
    }
}

/// `N` is a constant, `n` would bind; the macro goes by the capital, as Rust's naming does.
fn is_constant(i: &syn::PatIdent) -> bool {
    i.by_ref.is_none()
        && i.mutability.is_none()
        && i.subpat.is_none()
        && i.ident.to_string().starts_with(|c: char| c.is_uppercase())
}

fn number(e: &Expr) -> Option<i64> {
    match e {
        Expr::Lit(ExprLit { lit: Lit::Int(i), .. }) => i.base10_parse().ok(),
        Expr::Unary(u) if matches!(u.op, UnOp::Neg(_)) => number(&u.expr).map(|n| -n),
        _ => None,
    }
}

fn block(arm: &Arm, value: &TokenStream) -> TokenStream {
    quote_spanned!(arm.body.span()=> { #value })
}
