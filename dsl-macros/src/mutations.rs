//! The macros over random changes of good code: they never panic, and what they emit is always items.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use crate::{derive_block, derive_push, derive_struct, device, kernel};

const KERNEL: &str = "
/// Doc.
pub fn case<F: QuantFormat, const N: u32>(#[len(p.rows * p.k / F::BLK)] w: &Buf<F::Block>, y: &BufMut<f32>,
    #[push] p: Args, #[comptime] t: Tile) where F: Copy {
    dims!(ROWS = t.rows);
    let tile = Shared::<f32>::new(t.rows * 2);
    let (a, b) = (x[0], -1.5f32 as f16);
    let mut acc: f32 = if t.wide && a < b || !c { 0.0 } else { F::decode(&w[1], 4) };
    #[unroll] for i in (lane()..p.k).step_by(4) { acc += y[i] * 2.0; if i == 3 { continue; } break; }
    for r in comptime!(0..t.rows) { let q = [acc, 1.0]; tile[r] = q[r & 1]; }
    while acc > 1.0 { acc -= 0x10 as f32; }
    loop { return; }
    let z = [0u8; 4];
    y[0] = (tile[1] + acc).sqrt() as f32;
}";
const OPTIONS: &str = "local_size = [t.rows, 2], subgroup = 32, grid = [p.rows.div_ceil(4) % (3 - 1), 1]";
const DEVICE: &str = "
impl QuantFormat for Q4 {
    type Block = Block4;
    const BLK: u32 = 32;
    fn decode<R: Rail>(b: &BlockRef<Block4, R>, mut at: u32, #[comptime] n: u32) -> (f32, f32) {
        at <<= 1;
        return (b.q[at] as f32, b.d);
    }
}";
const STRUCT: &str = "/// Doc.\npub struct Pair { pub d: f16, q: [u16; 4], v: Vec4<f32> }";

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (n.max(1) as u64)).unwrap()
    }

    fn token(&mut self) -> TokenTree {
        const WORDS: [&str; 24] = [
            "fn", "match", "unsafe", "async", "mut", "ref", "type", "Self", "static", "x", "_", "let", "if",
            "else", "return", "break", "dyn", "impl", "const", "move", "where", "true", "for", "await",
        ];
        const MARKS: [char; 20] = [
            '+', '-', '*', '/', '&', '|', '<', '>', '=', '!', '?', '.', ',', ';', ':', '#', '@', '$', '%',
            '\'',
        ];
        match self.below(5) {
            0 => TokenTree::Ident(Ident::new(WORDS[self.below(WORDS.len())], Span::call_site())),
            1 => {
                let spacing = if self.below(2) == 0 { Spacing::Alone } else { Spacing::Joint };
                TokenTree::Punct(Punct::new(MARKS[self.below(MARKS.len())], spacing))
            }
            2 => TokenTree::Literal(Literal::u64_unsuffixed(u64::MAX >> self.below(64))),
            3 => TokenTree::Literal(Literal::string("text")),
            _ => {
                let kinds = [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None];
                let inner: TokenStream = (0..self.below(3)).map(|_| self.token()).collect();
                TokenTree::Group(Group::new(kinds[self.below(4)], inner))
            }
        }
    }

    /// One change somewhere in the tree: a token dropped, doubled, swapped, replaced or added.
    fn change(&mut self, tokens: TokenStream) -> TokenStream {
        let mut trees: Vec<TokenTree> = tokens.into_iter().collect();
        if trees.is_empty() {
            return self.token().into();
        }
        let at = self.below(trees.len());
        if let (TokenTree::Group(g), true) = (&trees[at], self.below(6) > 0) {
            let inner = self.change(g.stream());
            trees[at] = TokenTree::Group(Group::new(g.delimiter(), inner));
            return trees.into_iter().collect();
        }
        match self.below(5) {
            0 => drop(trees.remove(at)),
            1 => trees.insert(at, trees[at].clone()),
            2 => {
                let other = self.below(trees.len());
                trees.swap(at, other);
            }
            3 => trees[at] = self.token(),
            _ => {
                let token = self.token();
                trees.insert(at, token);
            }
        }
        trees.into_iter().collect()
    }
}

fn parsed(source: &str) -> TokenStream {
    source.parse().unwrap()
}

#[test]
fn good_code_expands_without_errors() {
    for out in [
        kernel::expand(parsed(OPTIONS), parsed(KERNEL)),
        device::expand(TokenStream::new(), parsed(DEVICE)),
        derive_block::expand(parsed(STRUCT)),
        derive_push::expand(parsed(STRUCT)),
    ] {
        let text = out.to_string();
        assert!(!text.contains("compile_error"), "{text}");
        syn::parse2::<syn::File>(out).unwrap();
    }
}

/// KILN_LONG=1 tries fifty times as many.
fn rounds() -> usize {
    if std::env::var_os("KILN_LONG").is_some() { 500_000 } else { 10_000 }
}

/// One of the macros.
fn expand(round: usize, options: TokenStream, item: TokenStream) -> TokenStream {
    match round % 5 {
        0 => kernel::expand(options, item),
        1 => device::expand(options, item),
        2 => derive_block::expand(item),
        3 => derive_push::expand(item),
        _ => derive_struct::expand(item),
    }
}

/// Tokens that nobody wrote, by themselves and as the body, the parameters and the options of a kernel.
#[test]
fn generated_tokens_never_panic_and_give_items() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut refused = 0;
    for round in 0..rounds() {
        let mut stream = |n: usize| -> TokenStream { (0..random.below(n)).map(|_| random.token()).collect() };
        let (options, tokens, body) = (stream(6), stream(12), stream(20));
        let item = match round / 5 % 4 {
            0 => tokens,
            1 => quote::quote!(pub fn case(y: &BufMut<f32>) { #body }),
            2 => quote::quote!(pub fn case(y: &BufMut<f32>, #tokens) { y[0] = 1.0; }),
            _ => quote::quote!(pub struct Case { #tokens }),
        };
        let source = item.to_string();
        let out = expand(round, options, item);
        match out.to_string().contains("compile_error") {
            true => refused += 1,
            false => assert!(syn::parse2::<syn::File>(out.clone()).is_ok(), "from {source}\nto {out}"),
        }
    }
    assert!(refused > rounds() / 2, "{refused} refused");
}

#[test]
fn changed_code_never_panics_and_gives_items() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut expanded, mut refused) = (0, 0);
    for round in 0..rounds() {
        let (mut options, mut item) = match round % 5 {
            0 => (parsed(OPTIONS), parsed(KERNEL)),
            1 => (TokenStream::new(), parsed(DEVICE)),
            _ => (TokenStream::new(), parsed(STRUCT)),
        };
        for _ in 0..=random.below(3) {
            item = random.change(item);
            if round % 5 == 0 {
                options = random.change(options);
            }
        }
        let source = item.to_string();
        let out = expand(round, options, item);
        if out.to_string().contains("compile_error") {
            refused += 1;
        } else {
            expanded += 1;
            assert!(syn::parse2::<syn::File>(out.clone()).is_ok(), "from {source}\nto {out}");
        }
    }
    assert!(expanded > 50 && refused > 1000, "{expanded} expanded, {refused} refused");
}
