//! `#[local_layer]`: an `impl` block of a struct over plain tensors, and the method that the struct over distributed ones gets.
//!
//! The block stays as it is. Its method becomes a function whose body calls it, which then goes the way of every annotated
//! function: so a layer's method can do what they can.

use crate::ast::Args;
use crate::errors::Errors;
use crate::forward::{self, Target};
use crate::function::{Function, compact};
use crate::model::Region;
use crate::tokens::{is_punct, is_word, located, replaced};
use crate::{check, entry, expand, parse, types};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Attribute, GenericArgument, Generics, ImplItem, Path, PathArguments, Receiver, ReceiverKind, Result, Token, Type,
    Visibility,
};

const ITEM: &str =
    "`#[local_layer]` goes on an `impl` block of a struct over plain tensors, as in `impl Mlp<Tensor> { .. }`";
const TRAIT: &str = "`#[local_layer]` goes on the struct's own `impl`, as it adds a method beside: write the method there, and \
                     call it from the trait's";
const NO_TENSOR: &str = "no type argument is `Tensor`, so nothing says which struct has the distributed ones: write \
                         `impl Mlp<Tensor>` for a `struct Mlp<T = DTensor>` that derives `Distribute`";
const NO_METHOD: &str = "this `impl` has no method: `#[local_layer]` needs one that takes `&self`";
const RECEIVER: &str = "a layer is lent to its method: write `&self`";
const PLACE: &str =
    "`#[place(..)]` is for the parameters of the method that takes `&self`: this function is called as it is";
const CFG: &str =
    "`#[cfg]` on a parameter is not available in a layer: put it on the method, and write the method twice";

/// Expands the attribute: the item, and the `impl` of the distributed struct.
pub(crate) fn expansion(args: TokenStream, item: TokenStream, errors: &mut Errors) -> TokenStream {
    let mut args = parse::args(args, errors);
    let block: Block = match syn::parse2(item.clone()) {
        Ok(block) => block,
        Err(error) => {
            errors.push(refusal(item.clone(), error));
            return item;
        }
    };
    let beside = block.layer(errors).and_then(|layer| layer.beside(&block, &mut args, errors));
    let item = if block.places().next().is_some() { without_places(item) } else { item };
    quote!(#item #beside)
}

/// The item without the `#[place(..)]` of its functions' parameters, which nothing else expands.
fn without_places(item: TokenStream) -> TokenStream {
    within(item, Delimiter::Brace, &|block| within(block, Delimiter::Parenthesis, &stripped))
}

/// The tokens with the inside of every such group at the top changed.
fn within(tokens: TokenStream, delimiter: Delimiter, change: &dyn Fn(TokenStream) -> TokenStream) -> TokenStream {
    let changed = tokens.into_iter().map(|tree| match tree {
        TokenTree::Group(group) if group.delimiter() == delimiter => {
            let mut inner = Group::new(delimiter, change(group.stream()));
            inner.set_span(group.span());
            TokenTree::Group(inner)
        }
        tree => tree,
    });
    changed.collect()
}

fn stripped(parameters: TokenStream) -> TokenStream {
    let mut rest: Vec<TokenTree> = parameters.into_iter().collect();
    while let Some(at) = rest.windows(2).position(|pair| is_punct(&pair[0], '#') && is_place(&pair[1])) {
        rest.drain(at..at + 2);
    }
    rest.into_iter().collect()
}

/// `[place(..)]`
fn is_place(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            group.stream().into_iter().next().is_some_and(|first| is_word(&first, "place"))
        }
        _ => false,
    }
}

/// An `impl` block as its author wrote it.
struct Block {
    attrs: Vec<Attribute>,
    impl_token: Token![impl],
    generics: Generics,
    for_token: Option<Token![for]>,
    /// The struct over plain tensors.
    this: Type,
    functions: Vec<Function>,
}

impl Parse for Block {
    fn parse(input: ParseStream) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let impl_token = input.parse()?;
        let mut generics: Generics = input.parse()?;
        let mut this: Type = input.parse()?;
        let for_token: Option<Token![for]> = input.parse()?;
        if for_token.is_some() {
            this = input.parse()?;
        }
        generics.where_clause = input.parse()?;
        let content;
        syn::braced!(content in input);
        content.call(Attribute::parse_inner)?;
        let mut functions = Vec::new();
        while !content.is_empty() {
            // A function's body stays tokens, so that what is wrong there is the compiler's to say.
            match content.fork().parse::<Function>() {
                Ok(_) => functions.push(content.parse()?),
                Err(_) => drop(content.parse::<ImplItem>()?),
            }
        }
        Ok(Block { attrs, impl_token, generics, for_token, this, functions })
    }
}

/// Says, for what is no `impl` block, what it is and what to do.
fn refusal(item: TokenStream, error: syn::Error) -> syn::Error {
    let after_vis = |input: ParseStream| -> Result<Option<TokenTree>> {
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let trees: TokenStream = input.parse()?;
        Ok(trees.into_iter().next())
    };
    match after_vis.parse2(item) {
        Ok(Some(first)) if is_word(&first, "impl") => error,
        Ok(Some(first)) if is_word(&first, "fn") => {
            syn::Error::new(first.span(), format!("{ITEM}; `#[local_map]` is for functions"))
        }
        Ok(Some(first)) => syn::Error::new(first.span(), ITEM),
        _ => error,
    }
}

/// The method of a block, and its struct on both sides.
struct Layer<'a> {
    method: &'a Function,
    /// The struct over plain tensors.
    local: &'a Type,
    /// The place of the tensor among the last segment's arguments.
    tensor: usize,
}

impl Block {
    /// The `#[place(..)]` of all parameters, with their functions.
    fn places(&self) -> impl Iterator<Item = (&Function, &Attribute)> {
        self.functions.iter().flat_map(|function| {
            let attrs = function.parameters().flat_map(|parameter| &parameter.attrs);
            attrs.filter(|attr| attr.path().is_ident("place")).map(move |attr| (function, attr))
        })
    }

    /// Notes what makes the block unfit.
    fn layer(&self, errors: &mut Errors) -> Option<Layer<'_>> {
        if let Some(token) = &self.for_token {
            errors.at(token.span, TRAIT);
            return None;
        }
        let tensor = tensor_argument(&self.this);
        if tensor.is_none() {
            errors.under(&self.this, NO_TENSOR);
        }
        for (_, attr) in self.places().filter(|(function, _)| function.sig.receiver().is_none()) {
            errors.under(attr.path(), PLACE);
        }
        let method = self.method(errors);
        Some(Layer { method: method?, local: &self.this, tensor: tensor? })
    }

    fn method(&self, errors: &mut Errors) -> Option<&Function> {
        let mut methods = self.functions.iter().filter(|function| function.sig.receiver().is_some());
        let Some(method) = methods.next() else {
            match self.functions.as_slice() {
                [] => errors.at(self.impl_token.span, NO_METHOD),
                [first, ..] => {
                    let name = first.name();
                    let message = format!("`{name}` takes no `&self`, but a layer needs one method that does");
                    errors.at(first.sig.ident.span(), message);
                }
            }
            return None;
        };
        for other in methods {
            let (first, name) = (method.name(), other.name());
            let message = format!(
                "a layer has one method that takes `self`, which is `{first}`: put `{name}` into an `impl` of its own"
            );
            errors.at(other.sig.ident.span(), message);
        }
        let receiver = method.sig.receiver().filter(|receiver| !is_lent(receiver));
        if let Some(receiver) = receiver {
            errors.under(receiver, RECEIVER);
            return None;
        }
        Some(method)
    }
}

/// Whether the receiver is `&self`.
fn is_lent(receiver: &Receiver) -> bool {
    receiver.mutability.is_none() && matches!(receiver.kind, ReceiverKind::Reference(_, _, None))
}

/// The last type argument that is a plain tensor.
fn tensor_argument(this: &Type) -> Option<usize> {
    let arguments = &arguments(this)?.args;
    arguments.iter().rposition(|argument| matches!(argument, GenericArgument::Type(ty) if types::is_tensor(ty)))
}

fn arguments(this: &Type) -> Option<&syn::AngleBracketedGenericArguments> {
    match types::bare(this) {
        Type::Path(path) => match &path.path.segments.last()?.arguments {
            PathArguments::AngleBracketed(arguments) => Some(arguments),
            _ => None,
        },
        _ => None,
    }
}

impl Layer<'_> {
    /// The `impl` of the struct over distributed tensors.
    fn beside(&self, block: &Block, args: &mut Args, errors: &mut Errors) -> Option<TokenStream> {
        let mut function = self.forwarding(errors);
        entry::complete(args, &mut function, errors);
        let region = Region::of_layer(args, &function, self.local);
        check::all(&region, errors);
        if !expand::is_possible(&region) {
            return None;
        }
        let wrapper = expand::wrapper(&region);
        let (attrs, impl_token, generics) = (&block.attrs, &block.impl_token, &block.generics);
        let (global, clause) = (self.global(&region), &generics.where_clause);
        Some(quote!(#(#attrs)* #impl_token #generics #global #clause { #wrapper }))
    }

    /// The struct over distributed tensors.
    fn global(&self, region: &Region) -> Type {
        let mut global = types::bare(self.local).clone();
        let krate = region.krate(self.local.span());
        if let Type::Path(path) = &mut global
            && let Some(last) = path.path.segments.last_mut()
            && let PathArguments::AngleBracketed(arguments) = &mut last.arguments
            && let Some(tensor) = arguments.args.get_mut(self.tensor)
        {
            *tensor = GenericArgument::Type(Type::Verbatim(types::dtensor(&krate, tensor.span())));
        }
        global
    }

    /// The method whose body calls the author's on the local struct.
    fn forwarding(&self, errors: &mut Errors) -> Function {
        let (local, name) = (self.local, &self.method.sig.ident);
        for condition in forward::conditions(self.method) {
            errors.under(condition, CFG);
        }
        let span = self.method.body.as_ref().map_or_else(|| name.span(), |body| body.block.span());
        let layer = Ident::new("__layer", Span::mixed_site());
        let path = quote_spanned!(Span::mixed_site().located_at(span)=> <#local>::#name);
        let retyped = |ty: &Type| self.without_self(ty);
        forward::to(&Target { path, this: quote_spanned!(span=> &#layer), retyped: &retyped }, self.method)
    }

    /// `ty` with the struct over plain tensors for `Self`, which is another one in the wrapper.
    fn without_self(&self, ty: &Type) -> Type {
        let local = self.local;
        let trees: Vec<TokenTree> = ty.to_token_stream().into_iter().collect();
        if let [only] = trees.as_slice()
            && is_word(only, "Self")
        {
            return local.clone();
        }
        let replaced = replaced(ty.to_token_stream(), &|ident, next| {
            let leads = next.is_some_and(|next| is_punct(next, ':'));
            (ident == "Self").then(|| if leads { quote!(<#local>) } else { quote!(#local) })
        });
        syn::parse2(replaced).unwrap_or_else(|_| ty.clone())
    }
}

/// The name of the struct, for messages.
pub(crate) fn name(local: &Type) -> String {
    match types::bare(local) {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        ty => compact(ty),
    }
}

/// `let __layer = __call.layer(self);`, whose errors appear on the struct's name.
pub(crate) fn hand_over(region: &Region) -> Option<TokenStream> {
    let (local, this) = (region.layer?, region.function.sig.receiver()?.self_token);
    let here = Span::mixed_site().located_at(local.span());
    let this = Ident::new("self", this.span.located_at(local.span()));
    Some(quote_spanned!(here=> let __layer = __call.layer(#this);))
}

/// `let __layer = __locals.layer(__layer);`
pub(crate) fn take(local: &Type) -> TokenStream {
    let here = Span::mixed_site().located_at(local.span());
    take_from(local, quote_spanned!(here=> __layer))
}

/// The same, of what `held` stands for.
pub(crate) fn take_from(local: &Type, held: TokenStream) -> TokenStream {
    quote_spanned!(Span::mixed_site().located_at(local.span())=> let __layer = __locals.layer(#held);)
}

/// The path of the facade crate: the given one, or `::local_map`.
pub(crate) fn krate(given: Option<&Path>, span: Span) -> TokenStream {
    let path = given.map_or_else(|| quote!(::local_map), |path| quote!(#path));
    located(path, span)
}
