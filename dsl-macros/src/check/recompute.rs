//! Whether the body can run again after the call has returned.

use crate::errors::Errors;
use crate::function::compact;
use crate::model::{Parameter, Region};
use crate::{forward, types};
use syn::Receiver;

const MUTABLE: &str = "with `recompute` the body runs again in backward, on a clone of `self`, so that it must not write it: write \
                       `&self`";
const CFG: &str = "`#[cfg]` on a parameter is not available in a method with `recompute`: put it on the method, and write the \
                   method twice";

/// Notes what cannot be kept; with unsound inputs nobody knows which parameters are.
pub(crate) fn check(region: &Region, inputs_are_sound: bool, errors: &mut Errors) {
    if region.args.recompute.is_none() {
        return;
    }
    if let Some(receiver) = region.own_receiver() {
        method(region, receiver, errors);
    }
    if let Some(ty) = region.unnamed_result() {
        let message = format!(
            "with `recompute` the body runs again in backward, so its result needs a type with a name, `{}` has none",
            compact(ty)
        );
        errors.under(ty, message);
    }
    if inputs_are_sound {
        region.plain().for_each(|parameter| can_be_kept(parameter, errors));
        region.inputs().for_each(|parameter| struct_can_be_kept(parameter, errors));
    }
}

fn method(region: &Region, receiver: &Receiver, errors: &mut Errors) {
    if forward::is_mutable(receiver) {
        errors.under(receiver, MUTABLE);
    }
    for condition in forward::conditions(region.function) {
        errors.under(condition, CFG);
    }
}

fn struct_can_be_kept(parameter: &Parameter, errors: &mut Errors) {
    if parameter.structs().is_some_and(|structs| !structs.can_be_kept()) {
        let message = format!(
            "with `recompute` the body runs again in backward, when what `{}` borrows may be gone: take an `Option` of the struct \
             itself",
            parameter.name()
        );
        errors.under(&parameter.written.ty, message);
    }
}

fn can_be_kept(parameter: &Parameter, errors: &mut Errors) {
    let ty = &parameter.written.ty;
    if types::borrows(ty) {
        let message = format!(
            "with `recompute` the body runs again in backward, when what `{}` borrows may be gone: {}",
            parameter.name(),
            owned_instead(parameter),
        );
        errors.under(ty, message);
    }
}

fn owned_instead(parameter: &Parameter) -> &'static str {
    match types::is_tensor(types::behind_reference(&parameter.written.ty)) {
        true => "take `Tensor`, which is cheap to clone",
        false => "take it by value, as an `Arc` or another type that is `Clone`",
    }
}
