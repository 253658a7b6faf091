//! Parsed Rust files, and one walk over what they say outside tests.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};

use crate::Fault;
use crate::repo::Text;

/// A parsed file.
pub struct Source {
    /// Relative to the root.
    pub path: String,
    /// Its syntax.
    pub syntax: syn::File,
    /// Whether the whole file is test code.
    pub is_test: bool,
}

/// Whether a file is a program that must not compile: a fixture, which no rule of style holds.
pub(crate) fn is_fixture(path: &str) -> bool {
    path.starts_with("tests/") && path.contains("/ui/")
}

/// Parses every Rust file but fixtures; one that does not parse is a fault.
pub fn parse(texts: &[Text]) -> (Vec<Source>, Vec<Fault>) {
    let (mut sources, mut faults) = (Vec::new(), Vec::new());
    for text in texts.iter().filter(|text| text.path.ends_with(".rs") && !is_fixture(&text.path)) {
        match syn::parse_file(&text.text) {
            Ok(syntax) => {
                let is_test =
                    text.path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"));
                sources.push(Source { path: text.path.clone(), syntax, is_test });
            }
            Err(e) => {
                faults.push(Fault::new(&text.path, e.span().start().line, format!("does not parse: {e}")))
            }
        }
    }
    let test_modules: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in &mut sources {
        source.is_test |= test_modules.iter().any(|stem| {
            source.path.strip_prefix(stem.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
    }
    (sources, faults)
}

/// Paths without extension of the modules that a file declares as `#[cfg(test)] mod name;`.
fn test_modules(source: &Source) -> Vec<String> {
    let (dir, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let parent = match file {
        "lib.rs" | "main.rs" | "mod.rs" => dir.to_string(),
        _ => format!("{dir}/{}", file.trim_end_matches(".rs")),
    };
    let declared = source.syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(&module.ident),
        _ => None,
    });
    declared.map(|ident| format!("{parent}/{ident}")).collect()
}

/// Whether an item's attributes make it test code.
fn is_test(attrs: &[syn::Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::NameValue(_) => false,
    })
}

/// What a walk meets, in source order. Every method has an empty default.
pub trait Visitor {
    /// An identifier, anywhere, macros included.
    fn ident(&mut self, _name: &str, _line: usize) {}
    /// A string literal's value, macros included, documentation not.
    fn string(&mut self, _value: &str, _line: usize) {}
    /// A path of two or more segments, a `use` tree flattened, macros included. `depth` counts the inline modules around it.
    fn path(&mut self, _segments: &[String], _depth: usize, _line: usize) {}
    /// A method call with the expressions it is given; within macros, with no arguments.
    fn method(&mut self, _name: &str, _args: Vec<&syn::Expr>, _line: usize) {}
    /// The last segment of an invoked macro's path.
    fn invoked(&mut self, _name: &str, _line: usize) {}
    /// Whether a function with these attributes is left out.
    fn skips(&self, _attrs: &[syn::Attribute]) -> bool {
        false
    }
}

/// Walks a file's code outside tests.
pub fn walk(source: &Source, visitor: &mut dyn Visitor) {
    if !source.is_test {
        Walk { visitor, depth: 0 }.visit_file(&source.syntax);
    }
}

struct Walk<'a> {
    visitor: &'a mut dyn Visitor,
    depth: usize,
}

fn line(span: Span) -> usize {
    span.start().line
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attrs = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            syn::Item::Const(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if is_test(attrs) || matches!(item, syn::Item::Fn(_)) && self.visitor.skips(attrs) {
            return;
        }
        let inline = matches!(item, syn::Item::Mod(module) if module.content.is_some());
        self.depth += usize::from(inline);
        visit::visit_item(self, item);
        self.depth -= usize::from(inline);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) && !self.visitor.skips(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_attribute(&mut self, attr: &'ast syn::Attribute) {
        if let (false, syn::Meta::List(list)) = (attr.path().is_ident("doc"), &attr.meta) {
            self.tokens(list.tokens.clone());
        }
    }

    fn visit_ident(&mut self, ident: &'ast proc_macro2::Ident) {
        self.visitor.ident(&ident.to_string(), line(ident.span()));
    }

    fn visit_lit_str(&mut self, lit: &'ast syn::LitStr) {
        self.visitor.string(&lit.value(), line(lit.span()));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first().filter(|_| path.segments.len() > 1) {
            let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.visitor.path(&names, self.depth, line(first.ident.span()));
        }
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree(&item.tree, &mut Vec::new());
        visit::visit_item_use(self, item);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.visitor.method(&call.method.to_string(), call.args.iter().collect(), line(call.method.span()));
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        if let Some(last) = mac.path.segments.last() {
            self.visitor.invoked(&last.ident.to_string(), line(last.ident.span()));
        }
        visit::visit_macro(self, mac);
        self.tokens(mac.tokens.clone());
    }
}

impl Walk<'_> {
    fn use_tree(&mut self, tree: &syn::UseTree, above: &mut Vec<(String, usize)>) {
        let mut end = |walk: &mut Self, name: &str, at: usize| {
            above.push((name.to_string(), at));
            let names: Vec<String> = above.iter().map(|(name, _)| name.clone()).collect();
            if names.len() > 1 {
                walk.visitor.path(&names, walk.depth, at);
            }
            above.pop();
        };
        match tree {
            syn::UseTree::Path(path) => {
                above.push((path.ident.to_string(), line(path.ident.span())));
                self.use_tree(&path.tree, above);
                above.pop();
            }
            syn::UseTree::Name(name) => end(self, &name.ident.to_string(), line(name.ident.span())),
            syn::UseTree::Rename(name) => end(self, &name.ident.to_string(), line(name.ident.span())),
            syn::UseTree::Glob(glob) => end(self, "*", line(glob.star_token.spans[0])),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, above);
                }
            }
        }
    }

    /// The tokens of a macro, which syn leaves unparsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let trees: Vec<TokenTree> = tokens.into_iter().collect();
        let is_punct =
            |i: usize, c: char| matches!(trees.get(i), Some(TokenTree::Punct(p)) if p.as_char() == c);
        let mut in_path = 0;
        for (i, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(lit) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.visitor.string(&lit.value(), line(literal.span()));
                    }
                }
                TokenTree::Ident(ident) => {
                    let (name, at) = (ident.to_string(), line(ident.span()));
                    self.visitor.ident(&name, at);
                    let called = matches!(trees.get(i + 1), Some(TokenTree::Group(_)));
                    if called && i > 0 && is_punct(i - 1, '.') {
                        self.visitor.method(&name, Vec::new(), at);
                    }
                    if is_punct(i + 1, '!') && matches!(trees.get(i + 2), Some(TokenTree::Group(_))) {
                        self.visitor.invoked(&name, at);
                    }
                    if i >= in_path {
                        let path = path_at(&trees, i);
                        in_path = i + 3 * path.len() - 2;
                        if path.len() > 1 {
                            self.visitor.path(&path, self.depth, at);
                        }
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

/// The names of `a::b::c` from token `i` on.
fn path_at(trees: &[TokenTree], mut i: usize) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(TokenTree::Ident(ident)) = trees.get(i) {
        names.push(ident.to_string());
        let colons = trees.iter().skip(i + 1).take(2);
        let colons = colons.filter(|tree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ':')).count();
        if colons < 2 {
            break;
        }
        i += 3;
    }
    names
}

/// A single parsed file, for tests of rules.
#[cfg(test)]
pub(crate) fn planted(path: &str, text: &str) -> Vec<Source> {
    let (sources, faults) = parse(&[Text { path: path.to_string(), text: text.to_string() }]);
    assert_eq!(faults, []);
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Visitor for Seen {
        fn string(&mut self, value: &str, line: usize) {
            self.0.push(format!("{line} str {value}"));
        }
        fn path(&mut self, segments: &[String], depth: usize, line: usize) {
            self.0.push(format!("{line} path {} {depth}", segments.join("::")));
        }
        fn method(&mut self, name: &str, args: Vec<&syn::Expr>, line: usize) {
            self.0.push(format!("{line} method {name} {}", args.len()));
        }
        fn invoked(&mut self, name: &str, line: usize) {
            self.0.push(format!("{line} macro {name}"));
        }
    }

    fn check(text: &str, want: &[&str]) {
        let mut seen = Seen::default();
        walk(&planted("x/src/a.rs", text)[0], &mut seen);
        assert_eq!(seen.0, want);
    }

    #[test]
    fn walk_flattens_use_trees() {
        check(
            "use a::{b::c, d as e, f::*};\nuse g;",
            &["1 path a::b::c 0", "1 path a::d 0", "1 path a::f::* 0"],
        );
    }

    #[test]
    fn walk_looks_into_macros_and_inline_modules() {
        check(
            "mod m {\n fn f() { g!(a::b.c(), \"s\", h!(x)); y.z(1) }\n}",
            &["2 macro g", "2 path a::b 1", "2 method c 0", "2 str s", "2 macro h", "2 method z 1"],
        );
    }

    #[test]
    fn walk_leaves_tests_out() {
        check(
            "#[cfg(test)]\nmod tests { fn f() { a::b(); } }\n#[test]\nfn g() { c::d() }\nfn h() { e::f() }",
            &["5 path e::f 0"],
        );
    }

    #[test]
    fn files_of_test_modules_are_tests() {
        let text = |path: &str, text: &str| Text { path: path.into(), text: text.into() };
        let (sources, _) = parse(&[
            text("x/src/lib.rs", "#[cfg(test)] mod fixture; mod real;"),
            text("x/src/fixture.rs", ""),
            text("x/src/real.rs", ""),
            text("x/tests/it.rs", ""),
        ]);
        assert_eq!(sources.iter().map(|s| s.is_test).collect::<Vec<_>>(), [false, true, false, true]);
        assert_eq!(parse(&[text("x/src/bad.rs", "fn (")]).1.len(), 1);
    }
}
