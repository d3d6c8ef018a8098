//! `#[derive(Distribute)]`: a struct of distributed tensors that a region takes apart, and puts together over local ones.

mod field;
mod results;

use self::field::{Part, contained, here, is_misfit, param};
use crate::ast::List;
use crate::errors::Errors;
use crate::function::compact;
use crate::tokens::replaced;
use crate::{check, layer};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Data, DeriveInput, GenericParam, Generics, Path, TypeParam, WherePredicate};

const KIND: &str = "`Distribute` is for structs: which variant a value has could differ between ranks; put the tensors \
                    into a struct";
const NO_PARAMETER: &str = "the struct needs a type parameter for its tensors, the last one: it is `DTensor` outside of regions \
                            and `Tensor` within, as in `struct Mlp<T = DTensor> { up: T }`";
const CRATE: &str =
    "on a struct, `#[local_map(..)]` only says where `local_map` is found: `#[local_map(crate = path)]`";

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

/// What the expansion names again and again.
struct Context {
    krate: TokenStream,
    private: TokenStream,
    /// The distributed tensor.
    global: TokenStream,
    /// The plain one.
    local: TokenStream,
}

/// A struct of tensors.
struct Struct<'a> {
    input: &'a DeriveInput,
    /// The parameter that stands for the tensors.
    tensor: &'a TypeParam,
    fields: Vec<Part<'a>>,
    krate: Option<Path>,
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
        let grads: Vec<&List> = self.fields.iter().filter_map(|field| field.grad.as_ref()).collect();
        check::fields(&lists, &grads, errors);
        misfits.is_empty()
    }

    fn krate(&self, span: Span) -> TokenStream {
        layer::krate(self.krate.as_ref(), span)
    }

    /// ```text
    /// const _: () = {
    ///     static FIELDS: [Param; 1] = [Param::placed("up", &[Want::Replicate])];
    ///     impl Distribute for Mlp<DTensor> { .. }
    ///     impl Distributable for Mlp<Tensor> { .. }
    ///     impl Placed for Mlp<Tensor> {}
    /// };
    /// ```
    fn implementation(&self) -> TokenStream {
        let krate = self.krate(Span::mixed_site());
        let context = Context {
            private: quote!(#krate::__private),
            global: quote!(#krate::DTensor),
            local: quote!(#krate::candle_core::Tensor),
            krate,
        };
        let private = &context.private;
        let fields = self.distributed().map(|field| param(field, private));
        let count = self.distributed().count();
        let implementations = [self.argument(&context), self.result(&context), self.placed(&context)];
        quote_spanned! {Span::mixed_site()=>
            const _: () = {
                static __FIELDS: [#private::Param; #count] = [#(#fields),*];
                #(#implementations)*
            };
        }
    }

    /// ```text
    /// impl Distribute for Mlp<DTensor> {
    ///     type Local = Mlp<Tensor>;
    ///     fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
    ///         to.within(declared, |to| {
    ///             Distribute::hand_over(&self.up, to, &FIELDS[0]);
    ///         });
    ///     }
    ///     fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Mlp<Tensor> {
    ///         Mlp { up: Distribute::localize(&self.up, next), act: Clone::clone(&self.act) }
    ///     }
    ///     fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
    ///         Distribute::visit(&self.up, &joined(path, "up"), each);
    ///     }
    /// }
    /// ```
    fn argument(&self, context: &Context) -> TokenStream {
        let Context { krate, private, global, local } = context;
        let (header, local_struct) = (self.header(context, &quote!(#krate::Distribute), global), self.over(local));
        let hand_over = self.distributed().enumerate().map(|(at, field)| self.hand_over(at, field));
        let localize = self.fields.iter().map(|field| self.localize(field));
        let visit = self.distributed().map(|field| self.visit(field));
        let name = &self.input.ident;
        quote_spanned! {Span::mixed_site()=>
            #header {
                type Local = #local_struct;

                fn hand_over<'__a>(
                    &'__a self,
                    __to: &mut #private::HandOver<'_, '__a>,
                    __declared: &'static #private::Param
                ) {
                    __to.within(__declared, |__to| {
                        #(#hand_over)*
                    });
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

    /// ```text
    /// impl Trait for Mlp<DTensor> where ..
    /// ```
    fn header(&self, context: &Context, of: &TokenStream, tensor: &TokenStream) -> TokenStream {
        self.header_where(Vec::new(), context, of, tensor)
    }

    /// The same with more conditions.
    fn header_where(
        &self,
        more: Vec<TokenStream>,
        context: &Context,
        of: &TokenStream,
        tensor: &TokenStream,
    ) -> TokenStream {
        let Context { global, local, .. } = context;
        let (params, mut predicates) = (self.params(global), self.predicates(&[global, local]));
        predicates.extend(more);
        let this = self.over(tensor);
        quote!(#[automatically_derived] impl<#(#params),*> #of for #this where #(#predicates),*)
    }

    /// The struct over this tensor.
    fn over(&self, tensor: &TokenStream) -> TokenStream {
        let (name, arguments) = (&self.input.ident, self.arguments(tensor));
        quote!(#name<#(#arguments),*>)
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
        quote_spanned!(here=> #krate::Distribute::hand_over(&self.#member, __to, &__FIELDS[#at]);)
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
