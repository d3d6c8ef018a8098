//! The kinds of distributed arguments, and how each becomes the local one that the body sees.

use std::ops::Range;

use candle_core::Tensor;

use super::region::{Input, RegionCall};
use crate::tensor::DTensor;

/// A distributed argument: handed over before the body, taken back as local tensors within it.
pub trait Argument<'a> {
    /// What stands for the argument in between.
    type Held: Held;

    /// Hands the argument over; `param` is its index among the distributed parameters.
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Self::Held;
}

/// What stands for an argument until the body takes its locals.
pub trait Held {
    /// What the body sees.
    type Local<'l>;

    /// Takes the locals.
    fn local(self, locals: &[Tensor]) -> Self::Local<'_>;
}

/// A `&Tensor` argument.
#[derive(Clone, Copy, Debug)]
pub struct Borrowed(usize);

/// A `Tensor` argument.
#[derive(Clone, Copy, Debug)]
pub struct Owned(usize);

/// A `&[Tensor]` argument.
#[derive(Clone, Debug)]
pub struct Slice(Range<usize>);

/// A `Vec<Tensor>` argument.
#[derive(Clone, Debug)]
pub struct Many(Range<usize>);

impl<'a, L> Argument<'a> for &'a DTensor<L> {
    type Held = Borrowed;
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Borrowed {
        Borrowed(call.hold(param, Input::Borrowed(self.as_dyn())))
    }
}

impl Held for Borrowed {
    type Local<'l> = &'l Tensor;
    fn local(self, locals: &[Tensor]) -> &Tensor {
        &locals[self.0]
    }
}

impl<'a, L> Argument<'a> for DTensor<L> {
    type Held = Owned;
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Owned {
        Owned(call.hold(param, Input::Owned(Box::new(self.erase()))))
    }
}

impl Held for Owned {
    type Local<'l> = Tensor;
    fn local(self, locals: &[Tensor]) -> Tensor {
        locals[self.0].clone()
    }
}

impl<'a, L> Argument<'a> for &'a [DTensor<L>] {
    type Held = Slice;
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Slice {
        Slice(call.hold_all(param, self.iter().map(|tensor| Input::Borrowed(tensor.as_dyn()))))
    }
}

impl Held for Slice {
    type Local<'l> = &'l [Tensor];
    fn local(self, locals: &[Tensor]) -> &[Tensor] {
        &locals[self.0]
    }
}

impl<'a, L> Argument<'a> for Vec<DTensor<L>> {
    type Held = Many;
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Many {
        Many(call.hold_all(param, self.into_iter().map(|tensor| Input::Owned(Box::new(tensor.erase())))))
    }
}

impl Held for Many {
    type Local<'l> = Vec<Tensor>;
    fn local(self, locals: &[Tensor]) -> Vec<Tensor> {
        locals[self.0].to_vec()
    }
}

impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    type Held = Option<A::Held>;
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Self::Held {
        self.map(|argument| argument.hold(call, param))
    }
}

impl<H: Held> Held for Option<H> {
    type Local<'l> = Option<H::Local<'l>>;
    fn local(self, locals: &[Tensor]) -> Self::Local<'_> {
        self.map(|held| held.local(locals))
    }
}

impl<'a, A: Argument<'a>, const N: usize> Argument<'a> for [A; N] {
    type Held = [A::Held; N];
    fn hold(self, call: &mut RegionCall<'a>, param: usize) -> Self::Held {
        let mut next = 0..N;
        self.map(|argument| call.hold_element(param, next.next().unwrap_or(N), argument))
    }
}

impl<H: Held, const N: usize> Held for [H; N] {
    type Local<'l> = [H::Local<'l>; N];
    fn local(self, locals: &[Tensor]) -> Self::Local<'_> {
        self.map(|held| held.local(locals))
    }
}
