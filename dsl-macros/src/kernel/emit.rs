//! What a kernel becomes.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::{Attribute, Expr, GenericParam, Generics, ItemFn, WherePredicate, spanned::Spanned};

use super::{Param, options::Options};
use crate::{
    contract,
    device::allow,
    lower::{Body, Lower},
    signature::Generic,
};

pub(super) fn kernel(
    f: &ItemFn,
    options: &Options,
    params: &[Param],
    errors: &mut Vec<syn::Error>,
) -> TokenStream {
    let stage = stage(f, options, params, errors);
    let bind = bind(options, params, errors);
    let (kernel, args) = names(&f.sig.ident);
    let generics = &f.sig.generics;
    let (impls, types, wheres) = generics.split_for_impl();
    let args_generics = used_generics(generics, params);
    let (_, args_types, _) = args_generics.split_for_impl();
    let name = name(f, params);
    let args_struct = args_struct(f, &args, &args_generics, params);
    let kernel_struct = kernel_struct(f, &kernel, params);
    quote! {
        #kernel_struct
        #args_struct
        impl #impls ::kiln_dsl::private::abi::Kernel for #kernel #types #wheres {
            type Args<'a> = #args #args_types;
            fn name(&self) -> ::std::string::String {
                #name
            }
            fn stage(&self) -> ::core::result::Result<
                ::kiln_dsl::private::StagedKernel,
                ::kiln_dsl::private::StageErrors,
            > {
                #stage
            }
            #[allow(unused_variables, clippy::all)]
            fn bind(&self, args: &Self::Args<'_>) -> ::kiln_dsl::private::LaunchArgs {
                #bind
            }
        }
    }
}

/// `gemv_rows` makes `GemvRows` and `GemvRowsArgs`.
fn names(f: &Ident) -> (Ident, Ident) {
    let mut camel = String::new();
    for word in f.to_string().trim_start_matches("r#").split('_') {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        camel.extend(chars);
    }
    // A name of underscores and digits makes no type's name.
    if !camel.starts_with(|c: char| c.is_alphabetic()) {
        camel.insert_str(0, "Kernel");
    }
    (Ident::new(&camel, f.span()), format_ident!("{camel}Args", span = f.span()))
}

/// The kernel's type: a field per comptime parameter, and a marker of its type parameters.
fn kernel_struct(f: &ItemFn, kernel: &Ident, params: &[Param]) -> TokenStream {
    let (vis, generics) = (&f.vis, &f.sig.generics);
    let (impls, types, wheres) = generics.split_for_impl();
    let docs = f.attrs.iter().filter(|a| !is_kernel_attribute(a));
    let (names, tys): (Vec<_>, Vec<_>) = comptime(params).unzip();
    let field_docs = names.iter().map(|n| format!("The comptime parameter `{n}`."));
    let new_doc = format!("The variant of `{}` with these comptime parameters.", f.sig.ident);
    let marker = marker(generics);
    let (field, value) = match &marker {
        Some(ty) => (quote!(marker: #ty,), quote!(marker: ::core::marker::PhantomData,)),
        None => (quote!(), quote!()),
    };
    let body = if names.is_empty() && marker.is_none() {
        quote!(;)
    } else {
        quote!(#wheres { #(#[doc = #field_docs] pub #names: #tys,)* #field })
    };
    let made =
        if names.is_empty() && marker.is_none() { quote!(Self) } else { quote!(Self { #(#names,)* #value }) };
    let default = names.is_empty().then(|| {
        quote! {
            impl #impls ::core::default::Default for #kernel #types #wheres {
                fn default() -> Self { Self::new() }
            }
        }
    });
    quote! {
        #(#docs)*
        #vis struct #kernel #generics #body
        impl #impls #kernel #types #wheres {
            #[doc = #new_doc]
            pub const fn new(#(#names: #tys),*) -> Self { #made }
        }
        #default
    }
}

/// The launch arguments: a range per buffer, and the push constants.
fn args_struct(f: &ItemFn, args: &Ident, generics: &Generics, params: &[Param]) -> TokenStream {
    let (vis, wheres) = (&f.vis, &generics.where_clause);
    let doc = format!("The arguments of one launch of `{}`.", f.sig.ident);
    let fields = params.iter().filter_map(|p| match p {
        Param::Buffer { name, elem, len, when, .. } => {
            let len = len.as_ref().map(|l| format!(", at least `{}` elements", text(&quote!(#l))));
            let doc = format!("The buffer `{name}`{}.", len.unwrap_or_default());
            let ty = quote!(::kiln_dsl::private::abi::BufferRef<#elem>);
            Some(match when {
                Some(_) => quote!(#[doc = #doc] pub #name: ::core::option::Option<#ty>,),
                None => quote!(#[doc = #doc] pub #name: #ty,),
            })
        }
        Param::Push { name, ty } => Some(quote!(#[doc = "The push constants."] pub #name: #ty,)),
        Param::Comptime { .. } => None,
    });
    quote! {
        #[doc = #doc]
        #vis struct #args #generics #wheres { #(#fields)* }
    }
}

/// Tokens as a person writes them, more or less.
fn text(tokens: &TokenStream) -> String {
    tokens.to_string().replace(" . ", ".").replace(" ,", ",").replace(" :: ", "::")
}

fn name(f: &ItemFn, params: &[Param]) -> TokenStream {
    let kernel = f.sig.ident.to_string();
    let types = f.sig.generics.type_params().map(|t| {
        let t = &t.ident;
        quote!(::kiln_dsl::private::short_name::<#t>())
    });
    let numbers = f.sig.generics.const_params().map(|c| {
        let c = &c.ident;
        quote!(::std::format!("{}", #c))
    });
    let values = comptime(params).map(|(n, _)| {
        let text = n.to_string();
        quote!((#text, &self.#n))
    });
    quote!(::kiln_dsl::private::variant_name(#kernel, &[#(#types,)* #(#numbers,)*], &[#(#values),*]))
}

fn stage(f: &ItemFn, options: &Options, params: &[Param], errors: &mut Vec<syn::Error>) -> TokenStream {
    let s = &f.sig;
    let (ident, generics) = (&s.ident, &s.generics);
    let (impls, types, wheres) = generics.split_for_impl();
    let before = errors.len();
    let mut lower = Lower::new(Body::Kernel, Generic::of(generics));
    let body = lower.function(&f.block);
    errors.extend(lower.into_errors());
    let body = if errors.len() > before { quote!({}) } else { body };
    let turbofish = types.as_turbofish();
    let (mut inputs, mut passed) = (Vec::new(), Vec::new());
    let bindings = hidden("bindings");
    for p in params {
        match p {
            Param::Buffer { name, ty, elem, when, .. } => {
                let (text, declare) = (name.to_string(), declaration(ty, name.span()));
                inputs.push(quote!(#name: #ty));
                let when = when.as_ref().map_or(quote!(true), |w| quote!(#w));
                let number = quote!(::kiln_dsl::private::number(&#bindings, #when));
                passed.push(
                    quote_spanned!(name.span()=> &::kiln_dsl::private::#declare::<#elem>(#text, #number)),
                );
            }
            Param::Push { name, ty } => {
                let text = name.to_string();
                inputs.push(quote_spanned!(ty.span()=> #name: <#ty as ::kiln_dsl::private::Push>::Staged));
                passed.push(quote_spanned!(name.span()=> ::kiln_dsl::private::push::<#ty>(#text)));
            }
            Param::Comptime { name, ty } => {
                inputs.push(quote!(#name: #ty));
                passed.push(quote!(::core::clone::Clone::clone(&self.#name)));
            }
        }
    }
    let host = host_names(params);
    let local_size = options.local_size.as_ref().map_or(quote!(1u32), |e| quote!(#e));
    let subgroup = options.subgroup.as_ref().map_or(
        quote!(::core::option::Option::None),
        |e| quote_spanned!(e.span()=> ::kiln_dsl::private::subgroup_size(#e)),
    );
    let stated = stated(options, params, &host);
    let allow = allow(errors.is_empty());
    // Only the call has the kernel's place; the names are ours, also where a macro of the user's wrote the kernel.
    let begin = quote_spanned!(ident.span()=> ::kiln_dsl::private::Session::begin);
    let name = quote!(&::kiln_dsl::private::abi::Kernel::name(self), local_size, subgroup);
    let mut arguments = proc_macro2::Group::new(proc_macro2::Delimiter::Parenthesis, name);
    arguments.set_span(ident.span());
    // What the attribute alone uses is used.
    let host_only = params.iter().filter_map(|p| match p {
        Param::Push { name, .. } | Param::Comptime { name, .. } => Some(name),
        Param::Buffer { .. } => None,
    });
    quote! {
        #allow
        fn #ident #impls (#(#inputs),*) #wheres {
            #(let _ = &#host_only;)*
            #body
        }
        #[allow(unused_variables, clippy::all)]
        let (local_size, subgroup) = {
            #host
            (::kiln_dsl::private::local_size(#local_size), #subgroup)
        };
        let session = #begin #arguments;
        #stated
        let #bindings = ::core::cell::Cell::new(0u32);
        #host
        #ident #turbofish (#(#passed),*);
        session.finish()
    }
}

/// What the kernel states of its devices, each call at the place of its option.
fn stated(options: &Options, params: &[Param], host: &TokenStream) -> TokenStream {
    let requires = options.requires.as_ref().map(|e| {
        let list = match e {
            Expr::Array(list) => {
                let names = list.elems.iter().map(|e| match e {
                    Expr::Path(p) if p.path.get_ident().is_some() => {
                        quote_spanned!(e.span()=> ::kiln_dsl::private::abi::spirv::Capability::#p)
                    }
                    other => quote!(#other),
                });
                let names: Vec<_> = names.collect();
                quote!(<[::kiln_dsl::private::abi::spirv::Capability; _]>::from([#(#names),*]))
            }
            other => quote!(#other),
        };
        quote_spanned!(e.span()=> ::kiln_dsl::private::requires(#list);)
    });
    let workgroup_bytes = options
        .workgroup_bytes
        .as_ref()
        .map(|e| quote_spanned!(e.span()=> ::kiln_dsl::private::workgroup_bytes(#e);));
    let invocations = options
        .invocations
        .as_ref()
        .map(|e| quote_spanned!(e.span()=> ::kiln_dsl::private::invocations(#e);));
    let checked =
        options.checked.as_ref().map(|e| quote_spanned!(e.span()=> ::kiln_dsl::private::checked(#e);));
    // No launch checks the length of a buffer without a contract, so the driver's checks stay.
    let unknown = params.iter().any(|p| matches!(p, Param::Buffer { len: None, .. }));
    let unknown = unknown.then(|| quote!(::kiln_dsl::private::checked(true);));
    let size = options
        .local_size
        .as_ref()
        .map(|e| quote_spanned!(e.span()=> ::kiln_dsl::private::size_fits(local_size);));
    quote! {
        #[allow(unused_variables, clippy::all)]
        {
            #host
            #requires
            #workgroup_bytes
            #invocations
            #checked
            #unknown
            #size
        }
    }
}

/// A name of ours.
fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// What declares a `&Buf<T>` or a `&BufMut<T>`.
fn declaration(ty: &syn::Type, span: Span) -> Ident {
    let mut names = BTreeSet::new();
    idents(quote!(#ty), &mut names);
    Ident::new(if names.contains("BufMut") { "buffer_mut" } else { "buffer" }, span)
}

fn bind(options: &Options, params: &[Param], errors: &mut Vec<syn::Error>) -> TokenStream {
    let host = host_names(params);
    let grid = match &options.grid {
        Some(e) => contract::grid(e, errors),
        None => quote!(::kiln_dsl::private::abi::Grid([0, 0, 0])),
    };
    let (mut ranges, mut needed) = (Vec::new(), Vec::new());
    let mut push = None;
    for p in params {
        match p {
            Param::Buffer { name, elem, len, when, .. } => {
                ranges.push(match when {
                    Some(w) => quote!(::kiln_dsl::private::range_when(args.#name, #w)),
                    None => quote!(::core::option::Option::Some(args.#name.range)),
                });
                let count = match len {
                    Some(e) => {
                        let count = contract::count(e, errors);
                        quote!(::core::option::Option::Some(::kiln_dsl::private::needed_bytes(
                            #count,
                            <#elem as ::kiln_dsl::private::Elem>::BYTES,
                        )))
                    }
                    None => quote!(::core::option::Option::None),
                };
                let when = when.as_ref().map_or(quote!(true), |w| quote!(#w));
                needed.push(quote!((#when).then(|| #count)));
            }
            Param::Push { name, .. } => push = Some(name),
            Param::Comptime { .. } => {}
        }
    }
    let (count, given, asked) = (ranges.len(), hidden("given"), hidden("asked"));
    let push_name = push.map(|name| quote!(let #name = &args.#name;));
    let push_bytes = match push {
        Some(name) => quote!(::kiln_dsl::private::Push::bytes(&args.#name)),
        None => quote!(::std::vec::Vec::new()),
    };
    quote! {
        #host
        #push_name
        let #given: [::core::option::Option<::kiln_dsl::private::abi::BufferRange>; #count] = [#(#ranges),*];
        let #asked: [::core::option::Option<::core::option::Option<u64>>; #count] = [#(#needed),*];
        ::kiln_dsl::private::LaunchArgs {
            bindings: #given.into_iter().flatten().collect(),
            needed_bytes: #asked.into_iter().flatten().collect(),
            push: #push_bytes,
            grid: #grid,
        }
    }
}

/// The comptime parameters by name, for the host expressions of the attribute.
fn host_names(params: &[Param]) -> TokenStream {
    comptime(params)
        .map(|(n, _)| quote!(#[allow(unused_variables)] let #n = ::core::clone::Clone::clone(&self.#n);))
        .collect()
}

fn comptime(params: &[Param]) -> impl Iterator<Item = (&Ident, &syn::Type)> {
    params.iter().filter_map(|p| match p {
        Param::Comptime { name, ty } => Some((name, ty)),
        Param::Buffer { .. } | Param::Push { .. } => None,
    })
}

fn is_kernel_attribute(a: &Attribute) -> bool {
    a.path().is_ident("kernel")
}

/// A marker that mentions every type parameter.
fn marker(generics: &Generics) -> Option<TokenStream> {
    let types: Vec<_> = generics.type_params().map(|t| &t.ident).collect();
    (!types.is_empty()).then(|| quote!(::core::marker::PhantomData<fn() -> (#(#types,)*)>))
}

/// The generics that the arguments' types mention.
fn used_generics(generics: &Generics, params: &[Param]) -> Generics {
    let mut used = BTreeSet::new();
    for p in params {
        match p {
            Param::Buffer { elem, .. } => idents(quote!(#elem), &mut used),
            Param::Push { ty, .. } => idents(quote!(#ty), &mut used),
            Param::Comptime { .. } => {}
        }
    }
    let name = |g: &GenericParam| match g {
        GenericParam::Type(t) => t.ident.to_string(),
        GenericParam::Const(c) => c.ident.to_string(),
        GenericParam::Lifetime(l) => l.lifetime.ident.to_string(),
    };
    let mut out = generics.clone();
    out.params = generics.params.iter().filter(|g| used.contains(&name(g))).cloned().collect();
    let dropped: BTreeSet<_> = generics.params.iter().map(name).filter(|n| !used.contains(n)).collect();
    if let Some(w) = &mut out.where_clause {
        let mentions_dropped = |p: &WherePredicate| {
            let mut names = BTreeSet::new();
            idents(quote!(#p), &mut names);
            !names.is_disjoint(&dropped)
        };
        w.predicates = w.predicates.iter().filter(|p| !mentions_dropped(p)).cloned().collect();
    }
    out
}

fn idents(tokens: TokenStream, out: &mut BTreeSet<String>) {
    for t in tokens {
        match t {
            TokenTree::Ident(i) => {
                out.insert(i.to_string());
            }
            TokenTree::Group(g) => idents(g.stream(), out),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}
