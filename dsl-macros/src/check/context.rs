//! The context: a `&Region` that the wrapper supplies.

use crate::errors::Errors;
use crate::function::compact;
use crate::model::{Parameter, Region};
use crate::types;

/// Notes a context that is not lent, and one too many.
pub(crate) fn check(region: &Region, errors: &mut Errors) {
    for context in region.contexts() {
        is_lent(context, errors);
    }
    let mut names = region.contexts().map(Parameter::name);
    let Some(first) = names.next() else { return };
    for again in region.contexts().skip(1) {
        let (name, ty) = (again.name(), &again.written.ty);
        errors.under(ty, format!("a region has one context, which is `{first}`: use it instead of `{name}`"));
    }
}

fn is_lent(context: &Parameter, errors: &mut Errors) {
    let ty = &context.written.ty;
    if !types::is_shared_reference(ty) {
        let (name, written) = (context.name(), compact(ty));
        let message =
            format!("the context is lent to the body, it cannot take `{name}` as `{written}`: write `&Region`");
        errors.under(ty, message);
    }
}
