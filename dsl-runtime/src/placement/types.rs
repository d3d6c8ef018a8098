//! Placements as types, for tensors whose placements the compiler knows: `DTensor<(Shard<0>, Replicate)>`. Such tensors cannot be
//! made yet; every tensor is a `DTensor<Dyn>`, which is what `DTensor` alone means.

use std::marker::PhantomData;

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
        $($(#[$doc])* #[derive(Debug)] pub enum $name {})*
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
