//! The struct over plain tensors as a result of a body.

use super::field::{Part, contained, here};
use super::{Context, Struct};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};

impl Struct<'_> {
    /// ```text
    /// impl Distributable for Mlp<Tensor> {
    ///     type Distributed = Mlp<DTensor>;
    ///     fn label(self, labels: &mut Labels<'_>, output: usize) -> Result<Mlp<DTensor>> {
    ///         let Mlp { up: field0, act: field1 } = self;
    ///         Ok(Mlp { up: labels.field(&FIELDS[0], |labels| Distributable::label(field0, labels, output))?, act: field1 })
    ///     }
    ///     fn absent(labels: &mut Labels<'_>, output: usize) -> Result<Mlp<DTensor>> {
    ///         Err(labels.no_value_here())      // as `act` cannot be made up
    ///     }
    ///     fn tensors(self, into: &mut Vec<Tensor>) {
    ///         let Mlp { up: field0, act: field1 } = self;
    ///         Distributable::tensors(field0, into);
    ///     }
    /// }
    /// ```
    pub(super) fn result(&self, context: &Context) -> TokenStream {
        let Context { krate, private, global, local } = context;
        let of = quote!(#private::Distributable);
        let (header, distributed) = (self.header(context, &of, local), self.over(global));
        let (name, fields) = (&self.input.ident, self.destructured());
        let label = self.labelled();
        let absent = self.absent(context);
        let tensors = self.numbered().filter(|(_, field)| field.distributed).map(|(local, field)| {
            let here = here(field);
            let krate = self.krate(here);
            quote_spanned!(here=> #krate::__private::Distributable::tensors(#local, __into);)
        });
        quote_spanned! {Span::mixed_site()=>
            #header {
                type Distributed = #distributed;

                fn label(
                    self,
                    __labels: &mut #private::Labels<'_>,
                    __output: ::core::primitive::usize
                ) -> #krate::Result<Self::Distributed> {
                    let #name { #(#fields),* } = self;
                    ::core::result::Result::Ok(#name { #(#label),* })
                }

                fn absent(
                    __labels: &mut #private::Labels<'_>,
                    __output: ::core::primitive::usize
                ) -> #krate::Result<Self::Distributed> {
                    #absent
                }

                #[allow(unused_variables)]
                fn tensors(self, __into: &mut ::std::vec::Vec<#local>) {
                    let #name { #(#fields),* } = self;
                    #(#tensors)*
                }
            }
        }
    }

    /// All fields, by the names of the variables that they are taken into.
    fn numbered(&self) -> impl Iterator<Item = (Ident, &Part<'_>)> {
        let fields = self.fields.iter().enumerate();
        fields.map(|(at, field)| (format_ident!("__field{at}", span = Span::mixed_site()), field))
    }

    /// `up: field0`
    fn destructured(&self) -> Vec<TokenStream> {
        let fields = self.numbered().map(|(local, field)| {
            let member = &field.member;
            quote!(#member: #local)
        });
        fields.collect()
    }

    /// The fields of the distributed struct.
    fn labelled(&self) -> Vec<TokenStream> {
        let mut at = 0usize;
        let fields = self.numbered().map(|(local, field)| {
            let (member, here) = (&field.member, here(field));
            if !field.distributed {
                return quote!(#member: #local);
            }
            let krate = self.krate(here);
            at += 1;
            let index = at - 1;
            quote_spanned! {here=>
                #member: __labels.field(&__FIELDS[#index], |__labels| {
                    #krate::__private::Distributable::label(#local, __labels, __output)
                })?
            }
        });
        fields.collect()
    }

    /// The struct on a rank outside the mesh, where ordinary fields cannot be made up.
    fn absent(&self, context: &Context) -> TokenStream {
        if self.fields.iter().any(|field| !field.distributed) {
            return quote_spanned!(Span::mixed_site()=> ::core::result::Result::Err(__labels.no_value_here()));
        }
        let fields = self.fields.iter().enumerate().map(|(at, field)| {
            let (member, here) = (&field.member, here(field));
            let krate = self.krate(here);
            let ty = self.with(field.ty.to_token_stream(), &context.local);
            quote_spanned! {here=>
                #member: __labels.field(&__FIELDS[#at], |__labels| {
                    <#ty as #krate::__private::Distributable>::absent(__labels, __output)
                })?
            }
        });
        let name = &self.input.ident;
        quote_spanned!(Span::mixed_site()=> ::core::result::Result::Ok(#name { #(#fields),* }))
    }

    /// `impl Placed for Mlp<Tensor> where Inner<Tensor>: Placed {}`, if all tensors that are fields themselves have their own
    /// placements.
    pub(super) fn placed(&self, context: &Context) -> TokenStream {
        let is_struct = |field: &&Part| field.is_struct(&self.tensor.ident);
        if self.distributed().any(|field| field.list.is_none() && !is_struct(&field)) {
            return TokenStream::new();
        }
        let private = &context.private;
        let placed = quote!(#private::Placed);
        let structs = self.distributed().filter(is_struct).map(|field| {
            let ty = self.with(contained(field.ty).to_token_stream(), &context.local);
            // What does not hold would be an error here, if it spoke of no lifetime.
            quote!(for<'__any> #ty: #placed)
        });
        let header = self.header_where(structs.collect(), context, &placed, &context.local);
        quote!(#header {})
    }
}
