//! Whether the body can run again after the call has returned.

use crate::errors::Errors;
use crate::function::compact;
use crate::model::{Parameter, Region};
use crate::types;

const METHOD: &str = "`recompute` is not available on methods yet: take what the body needs as parameters";

const LAYER: &str = "`recompute` is not available on layers yet, as backward could not keep the struct: leave it out, or write a \
                     function with `#[local_map(.., recompute)]` that takes the layer's tensors as parameters";

/// Notes what cannot be kept; with unsound inputs nobody knows which parameters are.
pub(crate) fn check(region: &Region, inputs_are_sound: bool, errors: &mut Errors) {
    let Some(flag) = region.args.recompute else {
        return;
    };
    if region.layer.is_some() {
        return errors.at(flag, LAYER);
    }
    if region.function.sig.receiver().is_some() {
        errors.at(flag, METHOD);
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
