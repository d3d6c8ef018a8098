//! Placements as values.

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// How the ranks along one mesh axis combine their partial values into the value they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReduceOp {
    /// The sum, in rank order.
    Sum,
    /// The arithmetic mean; floating-point only.
    Avg,
    /// The maximum; NaN wins.
    Max,
    /// The minimum; NaN wins.
    Min,
    /// The product, in rank order.
    Prod,
    /// True (non-zero) where any rank is true; unsigned integers only.
    Any,
    /// True (non-zero) where all ranks are true; unsigned integers only.
    All,
}

impl ReduceOp {
    /// Whether addition and scaling commute with the reduction.
    pub fn is_linear(self) -> bool {
        matches!(self, ReduceOp::Sum | ReduceOp::Avg)
    }

    /// Whether a tensor may be partial over one axis with `self` and over another with `other`: only where the order
    /// of the two reductions cannot matter.
    pub fn commutes_with(self, other: ReduceOp) -> bool {
        self == other || (self.is_linear() && other.is_linear())
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// How one mesh axis holds a tensor.
///
/// ```
/// use local_map::prelude::*;
/// assert_eq!(Shard(0).to_string(), "Shard(0)");
/// assert_eq!(Partial(Sum).to_string(), "Partial(Sum)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Placement {
    /// Cut along a tensor dimension; negative counts from the last, as in `Shard(-1)`.
    Shard(i64),
    /// The whole on every rank.
    Replicate,
    /// The value is the reduction of what the ranks hold.
    Partial(ReduceOp),
}

impl Placement {
    /// The same placement with a dimension counted from the front; `None` if the dimension is not one of `rank`.
    pub fn normalized(self, rank: usize) -> Option<Placement> {
        let Placement::Shard(dim) = self else {
            return Some(self);
        };
        let rank = i64::try_from(rank).ok()?;
        let front = if dim < 0 { dim.checked_add(rank)? } else { dim };
        (0..rank).contains(&front).then_some(Placement::Shard(front))
    }

    /// Whether both may be the same placement of a tensor whose number of dimensions is not known: a dimension that is counted
    /// from the end may be any that is counted from the front.
    pub(crate) fn may_equal(self, other: Placement) -> bool {
        match (self, other) {
            (Placement::Shard(a), Placement::Shard(b)) => a == b || (a < 0) != (b < 0),
            _ => self == other,
        }
    }

    /// The dimension that a normalised `Shard` cuts.
    pub fn shard_dim(self) -> Option<usize> {
        match self {
            Placement::Shard(dim) => usize::try_from(dim).ok(),
            _ => None,
        }
    }

    /// The operation of a `Partial`.
    pub fn partial_op(self) -> Option<ReduceOp> {
        match self {
            Placement::Partial(op) => Some(op),
            _ => None,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Shard(dim) => write!(f, "Shard({dim})"),
            Placement::Replicate => f.write_str("Replicate"),
            Placement::Partial(op) => write!(f, "Partial({op})"),
        }
    }
}

/// One placement per mesh axis; prints as `(Shard(0), Replicate)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placements(SmallVec<[Placement; 4]>);

impl Placements {
    /// The placements in axis order.
    pub fn new(placements: impl IntoIterator<Item = Placement>) -> Self {
        Placements(placements.into_iter().collect())
    }

    pub(crate) fn push(&mut self, placement: Placement) {
        self.0.push(placement);
    }
}

impl From<&[Placement]> for Placements {
    fn from(placements: &[Placement]) -> Self {
        Placements(SmallVec::from_slice(placements))
    }
}

impl std::ops::Deref for Placements {
    type Target = [Placement];
    fn deref(&self) -> &[Placement] {
        &self.0
    }
}

impl std::ops::DerefMut for Placements {
    fn deref_mut(&mut self) -> &mut [Placement] {
        &mut self.0
    }
}

impl fmt::Display for Placements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, placement) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{placement}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement::*, ReduceOp::*, *};

    #[test]
    fn negative_dims_count_from_the_last() {
        assert_eq!(Shard(-1).normalized(3), Some(Shard(2)));
        assert_eq!(Shard(5).normalized(2), None);
        assert_eq!(Shard(-3).normalized(2), None);
        assert_eq!(Shard(0).normalized(0), None);
        assert_eq!(Shard(i64::MIN).normalized(2), None);
        assert_eq!(Replicate.normalized(0), Some(Replicate));
    }

    #[test]
    fn only_sum_and_avg_mix() {
        assert!(Sum.commutes_with(Avg));
        assert!(Max.commutes_with(Max));
        assert!(!Max.commutes_with(Sum));
        assert!(!Any.commutes_with(All));
    }

    #[test]
    fn placements_print_as_a_tuple() {
        let placements = Placements::new([Shard(0), Replicate, Partial(Max)]);
        assert_eq!(placements.to_string(), "(Shard(0), Replicate, Partial(Max))");
    }
}
