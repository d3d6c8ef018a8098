//! `#[derive(Distribute)]`: a struct of distributed tensors that a region takes apart, and puts together over local ones.

use crate::ast::List;
use crate::errors::Errors;
use crate::function::compact;
use crate::tokens::replaced;
use crate::{check, layer, placement, table, types};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{
    Attribute, Data, DeriveInput, Field, GenericParam, Generics, Member, Meta, Path, Type, TypeParam, WherePredicate,
};

const KIND: &str = "`Distribute` is for structs: which variant a value has could differ between ranks; put the tensors \
                    into a struct";
const NO_PARAMETER: &str = "the struct needs a type parameter for its tensors, the last one: it is `DTensor` outside of regions \
                            and `Tensor` within, as in `struct Mlp<T = DTensor> { up: T }`";
const CRATE: &str =
    "on a struct, `#[local_map(..)]` only says where `local_map` is found: `#[local_map(crate = path)]`";
const PLACE: &str = "`#[place(..)]` takes one placement per mesh axis, as in `#[place(Shard(0))]`";

/// Expands the derive.
pub(crate) fn expansion(item: TokenStream, errors: &mut Errors) -> TokenStream {
    let input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => {
            errors.push(error);
            return TokenStream::new();
        }
    };
    let krate = input.attrs.iter().filter(|attr| attr.path().is_ident("local_map")).filter_map(|attr| {
        let path = attr.parse_args_with(krate);
        path.map_err(|_| errors.under(attr, CRATE)).ok()
    });
    let krate = krate.last();
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            errors.at(data.enum_token.span, KIND);
            return TokenStream::new();
        }
        Data::Union(data) => {
            errors.at(data.union_token.span, KIND);
            return TokenStream::new();
        }
    };
    let Some(tensor) = input.generics.type_params().last() else {
        errors.at(input.ident.span(), NO_PARAMETER);
        return TokenStream::new();
    };
    let members = fields.members().zip(fields);
    let fields = members.map(|(member, field)| Part::new(member, field, &tensor.ident, errors)).collect();
    let layer = Struct { input: &input, tensor, fields, krate };
    let sound = layer.check(errors);
    if sound { layer.implementation() } else { TokenStream::new() }
}

fn krate(input: syn::parse::ParseStream) -> syn::Result<Path> {
    input.parse::<syn::Token![crate]>()?;
    input.parse::<syn::Token![=]>()?;
    input.call(Path::parse_mod_style)
}

/// A struct of tensors.
struct Struct<'a> {
    input: &'a DeriveInput,
    /// The parameter that stands for the tensors.
    tensor: &'a TypeParam,
    fields: Vec<Part<'a>>,
    krate: Option<Path>,
}

/// One field.
struct Part<'a> {
    member: Member,
    ty: &'a Type,
    /// Whether tensors are in it.
    distributed: bool,
    list: Option<List>,
}

impl<'a> Part<'a> {
    fn new(member: Member, field: &'a Field, tensor: &Ident, errors: &mut Errors) -> Self {
        let distributed = mentions(field.ty.to_token_stream(), tensor);
        let mut part = Part { member, ty: &field.ty, distributed, list: None };
        for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("place")) {
            part.place(attr, tensor, errors);
        }
        part
    }

    /// Reads `#[place(..)]`.
    fn place(&mut self, attr: &Attribute, tensor: &Ident, errors: &mut Errors) {
        let Meta::List(list) = &attr.meta else {
            return errors.under(attr, PLACE);
        };
        if let Some(message) = self.misuse(tensor) {
            return errors.under(attr.path(), message);
        }
        let mut group = Group::new(Delimiter::Parenthesis, list.tokens.clone());
        group.set_span(list.delimiter.span().join());
        let list = placement::either(&group, errors);
        if self.list.replace(list).is_some() {
            errors.under(attr.path(), format!("`#[place(..)]` is given twice for `{}`", self.name()));
        }
    }

    /// Why the field has no placements of its own.
    fn misuse(&self, tensor: &Ident) -> Option<String> {
        let (name, ty) = (self.name(), compact(self.ty));
        if !self.distributed {
            return Some(format!(
                "field `{name}` of type `{ty}` does not mention `{tensor}`, so no tensor of it is distributed: remove \
                 `#[place(..)]`"
            ));
        }
        let inner = contained(self.ty);
        match inner {
            Type::Path(path) if !path.path.is_ident(tensor) => Some(format!(
                "field `{name}` of type `{ty}` is no tensor but a struct of them, which says itself how they are placed: \
                 remove `#[place(..)]`"
            )),
            _ => None,
        }
    }

    /// Without `r#`; a number in a tuple struct.
    fn name(&self) -> String {
        match &self.member {
            Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }
}

/// What is in the `Option`s and `Vec`s.
fn contained(ty: &Type) -> &Type {
    match types::argument_of(ty, "Option").or_else(|| types::argument_of(ty, "Vec")) {
        Some(inner) => contained(inner),
        None => types::bare(ty),
    }
}

fn mentions(tokens: TokenStream, tensor: &Ident) -> bool {
    let found = std::cell::Cell::new(false);
    replaced(tokens, &|ident, _| {
        found.set(found.get() || ident == tensor);
        None
    });
    found.get()
}

impl Struct<'_> {
    /// Notes mistakes; true where the implementation would not only add errors of the compiler.
    fn check(&self, errors: &mut Errors) -> bool {
        let misfits: Vec<&Part> = self.distributed().filter(|field| is_misfit(contained(field.ty))).collect();
        for field in &misfits {
            let message = format!(
                "field `{}` of type `{}` cannot be distributed: tensors stand in fields of their own, in `Option`, in `Vec`, \
                 or in another struct that derives `Distribute`",
                field.name(),
                compact(field.ty),
            );
            errors.under(field.ty, message);
        }
        let lists: Vec<&List> = self.fields.iter().filter_map(|field| field.list.as_ref()).collect();
        check::fields(&lists, errors);
        misfits.is_empty()
    }

    fn krate(&self, span: Span) -> TokenStream {
        layer::krate(self.krate.as_ref(), span)
    }

    /// ```text
    /// impl Distribute for Mlp<DTensor> {
    ///     type Local = Mlp<Tensor>;
    ///     fn hand_over<'a>(&'a self, call: &mut RegionCall<'a>, _: &'static Param) {
    ///         static FIELDS: [Param; 1] = [Param::placed("up", &[Want::Replicate])];
    ///         Distribute::hand_over(&self.up, call, &FIELDS[0]);
    ///     }
    ///     fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Mlp<Tensor> {
    ///         Mlp { up: Distribute::localize(&self.up, next), act: Clone::clone(&self.act) }
    ///     }
    ///     fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
    ///         Distribute::visit(&self.up, &joined(path, "up"), each);
    ///     }
    /// }
    /// ```
    fn implementation(&self) -> TokenStream {
        let krate = self.krate(Span::mixed_site());
        let private = quote!(#krate::__private);
        let (global, local) = (quote!(#krate::DTensor), quote!(#krate::candle_core::Tensor));
        let (name, params) = (&self.input.ident, self.params(&global));
        let predicates = self.predicates(&[&global, &local]);
        let (global_args, local_args) = (self.arguments(&global), self.arguments(&local));
        let params_of_fields = self.distributed().map(|field| param(field, &private));
        let count = self.distributed().count();
        let hand_over = self.distributed().enumerate().map(|(at, field)| self.hand_over(at, field));
        let localize = self.fields.iter().map(|field| self.localize(field));
        let visit = self.distributed().map(|field| self.visit(field));
        quote_spanned! {Span::mixed_site()=>
            #[automatically_derived]
            impl<#(#params),*> #krate::Distribute for #name<#(#global_args),*> where #(#predicates),* {
                type Local = #name<#(#local_args),*>;

                fn hand_over<'__a>(&'__a self, __call: &mut #private::RegionCall<'__a>, _: &'static #private::Param) {
                    static __FIELDS: [#private::Param; #count] = [#(#params_of_fields),*];
                    #(#hand_over)*
                }

                fn localize(&self, __next: &mut dyn ::core::ops::FnMut() -> #local) -> Self::Local {
                    #name { #(#localize),* }
                }

                fn visit<'__a>(
                    &'__a self,
                    __path: &::core::primitive::str,
                    __each: &mut dyn ::core::ops::FnMut(&::core::primitive::str, &'__a #global)
                ) {
                    #(#visit)*
                }
            }
        }
    }

    fn distributed(&self) -> impl Iterator<Item = &Part<'_>> {
        self.fields.iter().filter(|field| field.distributed)
    }

    /// The parameters without the tensor's, and without what an `impl` cannot repeat.
    fn params(&self, tensor: &TokenStream) -> Vec<TokenStream> {
        let mut generics: Generics = self.input.generics.clone();
        generics.type_params_mut().for_each(|param| param.default = None);
        generics.const_params_mut().for_each(|param| param.default = None);
        let params = generics.params.iter().filter(|param| !self.is_tensor(param));
        params.map(|param| self.with(param.to_token_stream(), tensor)).collect()
    }

    fn is_tensor(&self, param: &GenericParam) -> bool {
        matches!(param, GenericParam::Type(param) if param.ident == self.tensor.ident)
    }

    fn arguments(&self, tensor: &TokenStream) -> Vec<TokenStream> {
        let arguments = self.input.generics.params.iter().map(|param| match param {
            GenericParam::Type(param) if param.ident == self.tensor.ident => tensor.clone(),
            GenericParam::Type(param) => param.ident.to_token_stream(),
            GenericParam::Const(param) => param.ident.to_token_stream(),
            GenericParam::Lifetime(param) => param.lifetime.to_token_stream(),
        });
        arguments.collect()
    }

    /// What must hold of both structs, and that ordinary fields can be cloned.
    fn predicates(&self, tensors: &[&TokenStream; 2]) -> Vec<TokenStream> {
        let generics = &self.input.generics;
        let written = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let mut all: Vec<TokenStream> = written.flat_map(|predicate| self.for_both(predicate, tensors)).collect();
        for param in generics.type_params().filter(|param| param.ident != self.tensor.ident) {
            let (name, bounds) = (&param.ident, &param.bounds);
            all.push(quote!(#name: ::core::clone::Clone));
            if mentions(bounds.to_token_stream(), &self.tensor.ident) {
                all.push(self.with(quote!(#name: #bounds), tensors[1]));
            }
        }
        all
    }

    fn for_both(&self, predicate: &WherePredicate, tensors: &[&TokenStream; 2]) -> Vec<TokenStream> {
        let written = predicate.to_token_stream();
        match mentions(written.clone(), &self.tensor.ident) {
            true => tensors.iter().map(|tensor| self.with(written.clone(), tensor)).collect(),
            false => vec![written],
        }
    }

    /// The tokens with this tensor for the parameter.
    fn with(&self, tokens: TokenStream, tensor: &TokenStream) -> TokenStream {
        replaced(tokens, &|ident, _| (*ident == self.tensor.ident).then(|| tensor.clone()))
    }

    fn hand_over(&self, at: usize, field: &Part) -> TokenStream {
        let (member, here) = (&field.member, here(field));
        let krate = self.krate(here);
        quote_spanned!(here=> #krate::Distribute::hand_over(&self.#member, __call, &__FIELDS[#at]);)
    }

    fn localize(&self, field: &Part) -> TokenStream {
        let (member, here) = (&field.member, here(field));
        let krate = self.krate(here);
        match field.distributed {
            true => quote_spanned!(here=> #member: #krate::Distribute::localize(&self.#member, __next)),
            false => quote_spanned!(here=> #member: ::core::clone::Clone::clone(&self.#member)),
        }
    }

    fn visit(&self, field: &Part) -> TokenStream {
        let (member, here, name) = (&field.member, here(field), field.name());
        let krate = self.krate(here);
        quote_spanned! {here=>
            #krate::Distribute::visit(&self.#member, &#krate::__private::joined(__path, #name), __each);
        }
    }
}

/// Whether values of the type are surely not taken apart.
fn is_misfit(ty: &Type) -> bool {
    !matches!(ty, Type::Path(_) | Type::Macro(_) | Type::Verbatim(_))
}

/// Where errors about the field's type belong.
fn here(field: &Part) -> Span {
    Span::mixed_site().located_at(field.ty.span())
}

fn param(field: &Part, private: &TokenStream) -> TokenStream {
    let name = field.name();
    match &field.list {
        Some(list) => table::placed(&name, list, private),
        None => quote!(#private::Param::any(#name)),
    }
}
