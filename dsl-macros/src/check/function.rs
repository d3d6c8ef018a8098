//! Which functions can be regions.

use crate::errors::Errors;
use crate::function::Function;

const ASYNC: &str = "an `async` function cannot be a region: a rank that waits elsewhere would keep the others \
                     waiting in a collective; call the region from the async code";
const CONST: &str = "a `const` function cannot be a region: a region communicates, which only works at run time";
const EXTERN: &str = "an `extern` function cannot be a region: distributed tensors have no foreign ABI; \
                      call the region from it";
const VARIADIC: &str = "a variadic function cannot be a region: every parameter needs a type";
const NO_BODY: &str = "a region needs a body: annotate the methods of the `impl` blocks, not the trait's declaration";

/// Notes what makes `function` unfit.
pub(crate) fn check(function: &Function, errors: &mut Errors) {
    let sig = &function.sig;
    if let Some(token) = &sig.constness {
        errors.at(token.span, CONST);
    }
    if let Some(token) = &sig.asyncness {
        errors.at(token.span, ASYNC);
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi.extern_token.span, EXTERN);
    }
    if let Some(variadic) = &sig.variadic {
        errors.under(variadic.dots, VARIADIC);
    }
    if function.body.is_none() {
        errors.at(sig.ident.span(), NO_BODY);
    }
}
