//! What a user can reach does not panic.

use crate::Fault;
use crate::source::{Source, Visitor, walk};

/// Folders whose code a user's input reaches.
pub const GUARDED: [&str; 4] = ["runtime/", "engine/", "spirv-emit/", "dsl-macros/"];

/// `unwrap`, `expect("…")`, `panic!`, `todo!`, `unimplemented!` outside tests. A function whose panic would be a bug of
/// ours says so with `#[expect(clippy::…, reason = "…")]`, which the compiler reports once it is idle.
pub fn check(sources: &[Source]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for source in sources.iter().filter(|source| GUARDED.iter().any(|dir| source.path.starts_with(dir))) {
        walk(source, &mut Panics { path: &source.path, faults: &mut faults });
    }
    faults
}

struct Panics<'a> {
    path: &'a str,
    faults: &'a mut Vec<Fault>,
}

const LINTS: [&str; 3] = ["clippy :: unwrap_used", "clippy :: expect_used", "clippy :: panic"];

impl Visitor for Panics<'_> {
    fn skips(&self, attrs: &[syn::Attribute]) -> bool {
        attrs.iter().any(|attr| match &attr.meta {
            syn::Meta::List(list) if list.path.is_ident("expect") => {
                let said = list.tokens.to_string();
                said.contains("reason =") && LINTS.iter().any(|lint| said.contains(lint))
            }
            _ => false,
        })
    }

    fn method(&mut self, name: &str, args: Vec<&syn::Expr>, line: usize) {
        // A parser's own `expect(token)` is no `Option::expect`; that one takes a message.
        let message = matches!(
            args.as_slice(),
            [syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(_), .. })
                | syn::Expr::Reference(_)
                | syn::Expr::Macro(_)]
        );
        if name == "unwrap" && args.is_empty() || name == "expect" && message {
            self.fault(line, format!(".{name}()"));
        }
    }

    fn invoked(&mut self, name: &str, line: usize) {
        if matches!(name, "panic" | "todo" | "unimplemented") {
            self.fault(line, format!("{name}!"));
        }
    }
}

impl Panics<'_> {
    fn fault(&mut self, line: usize, what: String) {
        self.faults.push(Fault::new(
            self.path,
            line,
            format!("{what} outside tests; return an error that carries data"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::planted;

    fn count(path: &str, body: &str) -> usize {
        check(&planted(path, &format!("fn f() {{ {body} }}"))).len()
    }

    #[test]
    fn each_way_to_panic_is_found() {
        let bad = [
            "x.unwrap();",
            "x.expect(\"set\");",
            "x.expect(&m);",
            "panic!();",
            "todo!();",
            "std::unimplemented!();",
            "vec![x.unwrap()];",
            "if a { b(c.unwrap()) }",
        ];
        for bad in bad {
            assert_eq!(count("engine/src/a.rs", bad), 1, "{bad}");
        }
        let waived =
            |attr: &str| check(&planted("engine/src/a.rs", &format!("{attr} fn f() {{ x.unwrap() }}"))).len();
        assert_eq!(waived("#[expect(clippy::unwrap_used, reason = \"the table is total\")]"), 0);
        assert_eq!(waived("#[expect(clippy::unwrap_used)]"), 1, "no reason");
        assert_eq!(waived("#[allow(clippy::unwrap_used, reason = \"never idle\")]"), 1);
        assert_eq!(count("tests/golden/src/lib.rs", "x.unwrap();"), 0);
        assert_eq!(count("engine/src/a.rs", "x.unwrap_or(1); self.expect(Token::Comma)?; expect(\"x\");"), 0);
    }
}
