//! Placements as types, for tensors whose placements the compiler knows: `DTensor<(Shard<0>, Replicate)>`.
//!
//! A *layout* is a tuple with one such type per mesh axis, or [`Dyn`] where placements are known only at run time. `DTensor` alone
//! is `DTensor<Dyn>`. A tuple may hold `Dyn`, too, for an axis of which nothing is known.

use std::fmt::Debug;
use std::marker::PhantomData;

use smallvec::SmallVec;

use super::value::{Placement, ReduceOp};

/// The tensor is cut along dimension `D`; each rank along the axis has one piece.
#[derive(Debug)]
pub enum Shard<const D: usize> {}

/// Every rank along the axis has the whole.
#[derive(Debug)]
pub enum Replicate {}

/// Every rank along the axis has an addend (for [`Sum`]); the value is their reduction with `Op`.
#[derive(Debug)]
pub struct Partial<Op = Sum>(PhantomData<Op>);

/// A layout, or a placement, that is known only at run time.
#[derive(Debug)]
pub enum Dyn {}

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub enum $name {}

            impl Operation for $name {
                const VALUE: ReduceOp = ReduceOp::$name;
            }
        )*
    };
}

operations! {
    /// Reduction by addition.
    Sum
    /// Reduction by arithmetic mean.
    Avg
    /// Reduction by maximum.
    Max
    /// Reduction by minimum.
    Min
    /// Reduction by product.
    Prod
    /// True where any rank is true.
    Any
    /// True where all ranks are true.
    All
}

/// How a [`Partial`] value is reduced.
pub trait Operation {
    /// The same as a value.
    const VALUE: ReduceOp;
}

/// What a layout says of one mesh axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no placement",
    label = "not a placement",
    note = "placements as types are `Shard<0>`, `Replicate`, `Partial`, `Partial<Max>`, and `Dyn` where it is known at run time only"
)]
pub trait OneAxis {
    /// The same as a value; `None` for [`Dyn`].
    const VALUE: Option<Placement>;
}

impl<const D: usize> OneAxis for Shard<D> {
    const VALUE: Option<Placement> = Some(Placement::Shard(D as i64));
}

impl OneAxis for Replicate {
    const VALUE: Option<Placement> = Some(Placement::Replicate);
}

impl<Op: Operation> OneAxis for Partial<Op> {
    const VALUE: Option<Placement> = Some(Placement::Partial(Op::VALUE));
}

impl OneAxis for Dyn {
    const VALUE: Option<Placement> = None;
}

/// The placements that a layout knows, one per mesh axis.
pub type Known = SmallVec<[Option<Placement>; 4]>;

/// What a tensor's placements are known to be: [`Dyn`], or a tuple with one placement per mesh axis.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layout of a distributed tensor",
    label = "not a layout",
    note = "a layout is a tuple with one placement per mesh axis, `(Shard<0>, Replicate)`, with a comma for one axis, `(Shard<0>,)`"
)]
pub trait Layout {}

impl Layout for Dyn {}

/// A layout with one placement per mesh axis, of up to four axes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how each mesh axis is placed",
    label = "not a tuple of placements",
    note = "a layout is a tuple with one placement per mesh axis, `(Shard<0>, Replicate)`, with a comma for one axis, `(Shard<0>,)`"
)]
pub trait StaticLayout: Layout {
    /// The same as values.
    fn placements() -> Known;
}

/// A layout of `N` mesh axes, or one that is known at run time only: what a region requires whose entries speak of `N` axes.
#[diagnostic::on_unimplemented(
    message = "a tensor with layout `{Self}` is given where the function speaks of {N} mesh axes",
    label = "wrong number of mesh axes"
)]
pub trait Axes<const N: usize>: Layout {}

#[diagnostic::do_not_recommend]
impl<const N: usize> Axes<N> for Dyn {}

/// The placement of a layout on axis `I`. It is defined for every axis, so that a wrong number of axes is reported once, by [`Axes`].
pub trait AxisOf<const I: usize> {
    /// The placement; [`Dyn`] beyond the last axis.
    type Placement;
}

impl<const I: usize> AxisOf<I> for Dyn {
    type Placement = Dyn;
}

/// A mesh axis, for messages of the compiler: by the letters of its name, `Axis<'d', 'p'>`, or by its number, `Axis<'0'>`.
#[derive(Debug)]
pub enum Axis<
    const A: char,
    const B: char = '\0',
    const C: char = '\0',
    const D: char = '\0',
    const E: char = '\0',
    const F: char = '\0',
    const G: char = '\0',
    const H: char = '\0',
> {}

/// Says that a tensor with this placement may be given where `Want` is required on the mesh axis `Ax`.
#[diagnostic::on_unimplemented(
    message = "this argument is placed as `{Self}` on mesh axis `{Ax}`, where `{Want}` is required",
    label = "`{Self}` on axis `{Ax}`, required `{Want}`",
    note = "add `reshard` to the attribute of the function that is called, or reshard the argument first: \
            `x.reshard_to::<(.., {Want}, ..)>()?`"
)]
pub trait Placed<Want, Ax> {}

#[diagnostic::do_not_recommend]
impl<Given, Want: Takes<Given>, Ax> Placed<Want, Ax> for Given {}

/// The table behind [`Placed`]: a placement takes itself, and what is known at run time only.
pub trait Takes<Given> {}

#[diagnostic::do_not_recommend]
impl Takes<Replicate> for Replicate {}
#[diagnostic::do_not_recommend]
impl<const D: usize> Takes<Shard<D>> for Shard<D> {}
#[diagnostic::do_not_recommend]
impl<Op> Takes<Partial<Op>> for Partial<Op> {}
#[diagnostic::do_not_recommend]
impl Takes<Dyn> for Replicate {}
#[diagnostic::do_not_recommend]
impl<const D: usize> Takes<Dyn> for Shard<D> {}
#[diagnostic::do_not_recommend]
impl<Op> Takes<Dyn> for Partial<Op> {}

/// Says that tensors with these layouts can be combined element by element: they are equal, or one is known at run time only.
#[diagnostic::on_unimplemented(
    message = "tensors with layouts `{Self}` and `{Other}` are combined, which are not placed alike",
    label = "not placed as the other operand is",
    note = "reshard one of them to the placements of the other first: `x.reshard_to::<{Other}>()?`"
)]
pub trait Alike<Other> {
    /// What is known of both, and of what they make.
    type Both;
}

#[diagnostic::do_not_recommend]
impl<L: StaticLayout> Alike<L> for L {
    type Both = L;
}

#[diagnostic::do_not_recommend]
impl<L: StaticLayout> Alike<Dyn> for L {
    type Both = L;
}

#[diagnostic::do_not_recommend]
impl<L: StaticLayout> Alike<L> for Dyn {
    type Both = L;
}

#[diagnostic::do_not_recommend]
impl Alike<Dyn> for Dyn {
    type Both = Dyn;
}

/// The traits of the tuples, and what each has on axes 0 to 3.
macro_rules! tuples {
    ($($count:literal: ($($axis:ident),*) has $($at:literal: $placement:ty),*;)*) => {
        $(
            #[diagnostic::do_not_recommend]
            impl<$($axis: OneAxis),*> Layout for ($($axis,)*) {}

            #[diagnostic::do_not_recommend]
            impl<$($axis: OneAxis),*> StaticLayout for ($($axis,)*) {
                fn placements() -> Known {
                    Known::from_slice(&[$($axis::VALUE),*])
                }
            }

            #[diagnostic::do_not_recommend]
            impl<$($axis: OneAxis),*> Axes<$count> for ($($axis,)*) {}

            tuples!(@axes ($($axis),*); $($at: $placement),*);
        )*
    };
    (@axes $tuple:tt; $($at:literal: $placement:ty),*) => {
        $(tuples!(@axis $tuple $at: $placement);)*
    };
    (@axis ($($axis:ident),*) $at:literal: $placement:ty) => {
        impl<$($axis),*> AxisOf<$at> for ($($axis,)*) {
            type Placement = $placement;
        }
    };
}

tuples! {
    1: (A) has 0: A, 1: Dyn, 2: Dyn, 3: Dyn;
    2: (A, B) has 0: A, 1: B, 2: Dyn, 3: Dyn;
    3: (A, B, C) has 0: A, 1: B, 2: C, 3: Dyn;
    4: (A, B, C, D) has 0: A, 1: B, 2: C, 3: D;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_placements_that_they_say() {
        let placements = <(Shard<1>, Replicate, Partial<Max>, Dyn)>::placements();
        let known = [Placement::Shard(1), Placement::Replicate, Placement::Partial(ReduceOp::Max)].map(Some);
        assert_eq!(placements[..3], known);
        assert_eq!(placements[3], None);
    }
}
