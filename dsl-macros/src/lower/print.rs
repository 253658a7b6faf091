//! `kprintln!`: a line for whoever debugs the kernel.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Expr, Ident, LitStr, Macro, Token, parse::Parser, punctuated::Punctuated, spanned::Spanned};

use super::Lower;

const PLACES: &str = "a line's places are `{}` and `{name}`; a brace itself is doubled";

impl Lower {
    /// Staged where staging is asked for it; else nothing of it is, arguments included.
    pub(super) fn print(&mut self, m: &Macro) -> TokenStream {
        let span = m.path.span();
        let parser = |input: syn::parse::ParseStream<'_>| {
            let line: LitStr = input.parse()?;
            if input.is_empty() {
                return Ok((line, Punctuated::new()));
            }
            input.parse::<Token![,]>()?;
            Ok((line, Punctuated::<Expr, Token![,]>::parse_terminated(input)?))
        };
        let (line, given) = match parser.parse2(m.tokens.clone()) {
            Ok(parsed) => parsed,
            Err(e) => return self.bad(e.span(), "a line is printed as `kprintln!(\"x = {}\", x)`"),
        };
        let mut given = given.into_iter();
        let Some((texts, holes)) = pieces(&line.value()) else {
            return self.bad(line.span(), PLACES);
        };
        let mut values = Vec::new();
        for hole in holes {
            let expression = match (hole.is_empty(), syn::parse_str::<Ident>(&hole)) {
                (true, _) => given.next(),
                (false, Ok(name)) => {
                    let name = Ident::new(&name.to_string(), line.span());
                    Some(syn::parse_quote!(#name))
                }
                (false, Err(_)) => return self.bad(line.span(), PLACES),
            };
            let Some(expression) = expression else {
                return self.bad(line.span(), "the line has more places than values");
            };
            let (at, value) = (expression.span(), self.value(&expression));
            values.push(quote_spanned!(at=> ::kiln_dsl::private::printed(#value)));
        }
        if let Some(surplus) = given.next() {
            return self.bad(surplus.span(), "the line has no place for this value");
        }
        let print = quote_spanned!(span=> ::kiln_dsl::private::print(&[#(#texts),*], &[#(#values),*]));
        let asked = quote!(::kiln_dsl::private::prints());
        quote_spanned!(span=> if #asked { #print })
    }
}

/// The texts around the holes, and what stands in each hole.
fn pieces(line: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (mut texts, mut holes) = (vec![String::new()], Vec::new());
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '{' | '}' if rest.peek() == Some(&c) => {
                rest.next();
                texts.last_mut()?.push(c);
            }
            '{' => {
                let mut hole = String::new();
                loop {
                    match rest.next()? {
                        '}' => break,
                        c => hole.push(c),
                    }
                }
                holes.push(hole);
                texts.push(String::new());
            }
            '}' => return None,
            c => texts.last_mut()?.push(c),
        }
    }
    Some((texts, holes))
}
