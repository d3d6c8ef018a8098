//! The fields of a struct of tensors: what they hold, and how it is placed.

use crate::ast::List;
use crate::errors::Errors;
use crate::function::compact;
use crate::{placement, table, types};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Attribute, Field, Member, Meta, Type};

use super::mentions;

const PLACE: &str = "`#[place(..)]` takes one placement per mesh axis, as in `#[place(Shard(0))]`";
const GRAD: &str = "`#[grad(..)]` takes one placement per mesh axis, as in `#[grad(Partial(Sum))]`";

/// One field.
pub(super) struct Part<'a> {
    pub(super) member: Member,
    pub(super) ty: &'a Type,
    /// Whether tensors are in it.
    pub(super) distributed: bool,
    /// `#[place(..)]`
    pub(super) list: Option<List>,
    /// `#[grad(..)]`
    pub(super) grad: Option<List>,
}

impl<'a> Part<'a> {
    pub(super) fn new(member: Member, field: &'a Field, tensor: &Ident, errors: &mut Errors) -> Self {
        let distributed = mentions(field.ty.to_token_stream(), tensor);
        let mut part = Part { member, ty: &field.ty, distributed, list: None, grad: None };
        for attr in &field.attrs {
            if attr.path().is_ident("place") {
                let list = part.list(attr, ("place", PLACE), tensor, errors);
                part.once(attr, "place", list, |part| &mut part.list, errors);
            } else if attr.path().is_ident("grad") {
                let list = part.list(attr, ("grad", GRAD), tensor, errors);
                part.once(attr, "grad", list, |part| &mut part.grad, errors);
            }
        }
        part
    }

    /// Reads `#[place(..)]` or `#[grad(..)]`.
    fn list(&self, attr: &Attribute, (name, usage): (&str, &str), tensor: &Ident, errors: &mut Errors) -> Option<List> {
        let Meta::List(list) = &attr.meta else {
            errors.under(attr, usage);
            return None;
        };
        if let Some(message) = self.misuse(name, tensor) {
            errors.under(attr.path(), message);
            return None;
        }
        let mut group = Group::new(Delimiter::Parenthesis, list.tokens.clone());
        group.set_span(list.delimiter.span().join());
        Some(placement::either(&group, errors))
    }

    fn once(
        &mut self,
        attr: &Attribute,
        name: &str,
        list: Option<List>,
        slot: impl Fn(&mut Self) -> &mut Option<List>,
        errors: &mut Errors,
    ) {
        if list.is_some_and(|list| slot(self).replace(list).is_some()) {
            errors.under(attr.path(), format!("`#[{name}(..)]` is given twice for `{}`", self.name()));
        }
    }

    /// Why the field has no placements of its own, or none for its gradient.
    fn misuse(&self, attr: &str, tensor: &Ident) -> Option<String> {
        let (name, ty) = (self.name(), compact(self.ty));
        if !self.distributed {
            return Some(format!(
                "field `{name}` of type `{ty}` does not mention `{tensor}`, so no tensor of it is distributed: remove \
                 `#[{attr}(..)]`"
            ));
        }
        self.is_struct(tensor).then(|| {
            format!(
                "field `{name}` of type `{ty}` is no tensor but a struct of them, which says itself how they are placed: \
                 remove `#[{attr}(..)]`"
            )
        })
    }

    /// Whether its tensors are those of another struct.
    pub(super) fn is_struct(&self, tensor: &Ident) -> bool {
        matches!(contained(self.ty), Type::Path(path) if !path.path.is_ident(tensor))
    }

    /// Without `r#`; a number in a tuple struct.
    pub(super) fn name(&self) -> String {
        match &self.member {
            Member::Named(name) => name.to_string().trim_start_matches("r#").to_owned(),
            Member::Unnamed(index) => index.index.to_string(),
        }
    }
}

/// What is in the `Option`s and `Vec`s.
pub(super) fn contained(ty: &Type) -> &Type {
    match types::argument_of(ty, "Option").or_else(|| types::argument_of(ty, "Vec")) {
        Some(inner) => contained(inner),
        None => types::bare(ty),
    }
}

/// Whether values of the type are surely not taken apart.
pub(super) fn is_misfit(ty: &Type) -> bool {
    // Only names that no layer would have: a `Cell` may well be one.
    const CONTAINERS: [&str; 9] = ["Arc", "BTreeMap", "Box", "HashMap", "Mutex", "Rc", "RefCell", "RwLock", "VecDeque"];
    match ty {
        Type::Path(path) => {
            CONTAINERS.iter().any(|name| path.path.segments.last().is_some_and(|last| last.ident == name))
        }
        Type::Macro(_) | Type::Verbatim(_) => false,
        _ => true,
    }
}

/// Where errors about the field's type belong.
pub(super) fn here(field: &Part) -> Span {
    Span::mixed_site().located_at(field.ty.span())
}

pub(super) fn param(field: &Part, private: &TokenStream) -> TokenStream {
    let name = field.name();
    let grad = field.grad.as_ref().map(|list| {
        let labelled = table::labelled(list, private);
        quote!(.grad(#private::Grad::#labelled))
    });
    match &field.list {
        Some(list) => {
            let placed = table::placed(&name, list, private);
            quote!(#placed #grad)
        }
        None => quote!(#private::Param::any(#name) #grad),
    }
}
