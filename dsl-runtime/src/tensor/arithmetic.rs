//! Arithmetic that is right on every placement: sums of equally placed tensors, and scaling.

use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Sub};

use candle_core::{DType, Tensor};

use super::{DTensor, Label};
use crate::comm::require_same;
use crate::error::{Error, Report, Result};
use crate::grad::record_linear as record;
use crate::placement::types::Alike;
use crate::placement::{Placements, ReduceOp};
use crate::spec::{Spec, differing_axes};

/// What is computed.
#[derive(Clone, Copy)]
enum Op {
    Add,
    Sub,
    Scale(f64),
    Divide,
    Negate,
    Shift(f64),
}

impl DTensor {
    /// Combines two tensors of one mesh, shape, type and placement, rank by rank.
    fn zip(
        &self,
        op: Op,
        other: &DTensor,
        f: impl FnOnce(&Tensor, &Tensor) -> candle_core::Result<Tensor>,
    ) -> Result<DTensor> {
        require_same(|| op.to_string(), [self.mesh(), other.mesh()])?;
        self.require_alike(op, other)?;
        self.require_commuting(op)?;
        let both = self.parts.local.as_ref().zip(other.parts.local.as_ref());
        self.mapped(both.map(|(a, b)| f(&a.detach(), &b.detach())))
    }

    /// Applies a function of one tensor to every rank's piece.
    fn map(&self, op: Op, f: impl FnOnce(&Tensor) -> candle_core::Result<Tensor>) -> Result<DTensor> {
        self.require_exact(op)?;
        self.require_commuting(op)?;
        self.mapped(self.parts.local.as_ref().map(|x| f(&x.detach())))
    }

    /// Every element times a number.
    pub(crate) fn scaled(&self, by: f64) -> Result<DTensor> {
        record(self.map(Op::Scale(by), |x| x * by)?, &[(self, by)])
    }

    /// Adds a number to every element.
    fn shifted(&self, by: f64) -> Result<DTensor> {
        record(self.map(Op::Shift(by), |x| x.affine(1.0, by))?, &[(self, 1.0)])
    }

    fn plus(&self, other: &DTensor) -> Result<DTensor> {
        record(self.zip(Op::Add, other, |x, y| x + y)?, &[(self, 1.0), (other, 1.0)])
    }

    fn minus(&self, other: &DTensor) -> Result<DTensor> {
        record(self.zip(Op::Sub, other, |x, y| x - y)?, &[(self, 1.0), (other, -1.0)])
    }

    fn divided(&self, by: f64) -> Result<DTensor> {
        record(self.map(Op::Divide, |x| x / by)?, &[(self, 1.0 / by)])
    }

    fn negative(&self) -> Result<DTensor> {
        // candle negates floating-point numbers only.
        let negative = |x: &Tensor| if x.dtype().is_int() { x.affine(-1.0, 0.0) } else { x.neg() };
        record(self.map(Op::Negate, negative)?, &[(self, -1.0)])
    }

    fn mapped(&self, local: Option<candle_core::Result<Tensor>>) -> Result<DTensor> {
        let local = local.transpose()?;
        Ok(self.with(local, None))
    }

    /// The operation on the parts must be the operation on what they make up.
    fn require_commuting(&self, op: Op) -> Result<()> {
        let mut partial = self.placements().iter().filter_map(|p| p.partial_op());
        match partial.find_map(|reduction| op.obstacle(reduction).map(|why| (reduction, why))) {
            None => Ok(()),
            Some((reduction, why)) => Err(Error::Placement(
                Report::new(format!("{op} cannot be applied to a Partial({reduction}) tensor"))
                    .on(self.mesh())
                    .offender(format!("{self}: {why}"))
                    .advice("reshard it to Replicate or Shard first"),
            )),
        }
    }

    /// Integers must not be rounded, cut off or wrapped by the number that they meet.
    fn require_exact(&self, op: Op) -> Result<()> {
        // Outside the mesh the type may be unknown; the ranks inside refuse.
        let Ok(spec) = self.spec() else { return Ok(()) };
        match integers(spec.dtype()).and_then(|range| op.inexact(range)) {
            None => Ok(()),
            Some(why) => Err(Error::DType(
                Report::new(format!("{op} of {} elements would not be exact", spec.dtype().as_str()))
                    .on(self.mesh())
                    .offender(format!("{spec}: {why}"))
                    .advice("convert it to a floating-point or wider type first, in a region"),
            )),
        }
    }

    fn require_alike(&self, op: Op, other: &DTensor) -> Result<()> {
        match (&self.parts.label, &other.parts.label) {
            (Label::Known(left), Label::Known(right)) if left == right => Ok(()),
            (Label::Known(left), Label::Known(right)) => Err(self.unlike(op, left, right)),
            _ if may_be_alike(self.placements(), other.placements()) => Ok(()),
            _ => {
                let report = operands(op, "are not placed alike", self.placements(), other.placements());
                Err(Error::Placement(report.on(self.mesh()).advice(RESHARD)))
            }
        }
    }

    /// Says in what two specs differ: the first of type, shape, placements and lengths.
    fn unlike(&self, op: Op, left: &Spec, right: &Spec) -> Error {
        let report = |what: &str| operands(op, what, left, right).on(self.mesh());
        if left.dtype() != right.dtype() {
            let advice = "convert one of them to the type of the other first, in a region";
            return Error::DType(report("have different element types").advice(advice));
        }
        if left.shape() != right.shape() {
            let advice = "give tensors of one shape: distributed tensors are not broadcast outside a region";
            return Error::Shape(report("have different shapes").advice(advice));
        }
        if left.placements() != right.placements() {
            let axes = differing_axes(self.mesh(), left.placements(), right.placements()).join(", ");
            let what = format!("are not placed alike on {axes}");
            return Error::Placement(report(&what).advice(RESHARD));
        }
        let advice = "call `rebalance` on those that are ragged first";
        Error::Placement(report("are placed alike, but cut into different lengths").advice(advice))
    }
}

const RESHARD: &str = "reshard one of them to the placements of the other first";

fn operands(op: Op, what: &str, left: &impl fmt::Display, right: &impl fmt::Display) -> Report {
    let report = Report::new(format!("{op}: the operands {what}"));
    report.offender(format!("left: {left}")).offender(format!("right: {right}"))
}

/// Whether placements of tensors whose number of dimensions is not known may be the same.
fn may_be_alike(left: &Placements, right: &Placements) -> bool {
    left.len() == right.len() && left.iter().zip(right.iter()).all(|(left, right)| left.may_equal(*right))
}

/// The integers of an element type: the least, and the first beyond the largest. All four bounds are exact in `f64`.
fn integers(dtype: DType) -> Option<(f64, f64)> {
    let signed = |bits: i32| (-2f64.powi(bits - 1), 2f64.powi(bits - 1));
    match dtype {
        DType::U8 => Some((0.0, 2f64.powi(8))),
        DType::U32 => Some((0.0, 2f64.powi(32))),
        DType::I16 => Some(signed(16)),
        DType::I32 => Some(signed(32)),
        DType::I64 => Some(signed(64)),
        _ => None,
    }
}

impl Op {
    /// Why integers of this range cannot be given to the operation. candle converts the number to their type, without a word
    /// if that changes it, and computes exactly if it does not.
    fn inexact(self, (least, beyond): (f64, f64)) -> Option<String> {
        match self {
            Op::Divide => Some("quotients of integers are fractions".to_owned()),
            Op::Negate if least == 0.0 => Some("the type has no negative numbers".to_owned()),
            Op::Scale(by) | Op::Shift(by) if by.fract() != 0.0 || !(least..beyond).contains(&by) => {
                Some(format!("{by} is not a number of this type"))
            }
            _ => None,
        }
    }

    /// Why the operation cannot be done on the parts before the reduction.
    fn obstacle(self, reduction: ReduceOp) -> Option<String> {
        use ReduceOp::{All, Any, Avg, Max, Min, Prod, Sum};
        let turned = if reduction == Max { Min } else { Max };
        match (self, reduction) {
            (_, Any | All) => Some("truth values have no arithmetic".to_owned()),
            (Op::Shift(_), Sum) => {
                Some("every rank would add it to its own part, so that it would count once per rank".to_owned())
            }
            (Op::Shift(_), _) => Some("a number can be added to reduced values only".to_owned()),
            (_, Sum | Avg) => None,
            (Op::Negate, Max | Min) => Some(format!("negation would turn {reduction} into {turned}")),
            (Op::Scale(_) | Op::Divide, Max | Min) => {
                Some(format!("{self} does not commute with {reduction}: a negative factor would turn it into {turned}"))
            }
            (Op::Scale(_) | Op::Divide | Op::Negate, Prod) => Some(format!(
                "{self} does not commute with Prod: it would apply to every rank's factor, and so count once per rank"
            )),
            (Op::Add | Op::Sub, Max | Min | Prod) => Some(format!(
                "{self} does not commute with {reduction}: the operands must be reduced before they are combined"
            )),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Add => "addition",
            Op::Sub => "subtraction",
            Op::Scale(_) => "scaling",
            Op::Divide => "division",
            Op::Negate => "negation",
            Op::Shift(_) => "adding a number",
        })
    }
}

/// Operators of two tensors, borrowed or owned, whose layouts do not clash.
macro_rules! of_tensors {
    ($($trait:ident $method:ident by $function:ident of [$($left:ty, $right:ty);+];)*) => {
        $($(
            /// Element by element, of tensors that are placed alike; partial ones must be Sum or Avg.
            impl<L: Alike<M>, M> $trait<$right> for $left {
                type Output = Result<DTensor<L::Both>>;
                fn $method(self, right: $right) -> Self::Output {
                    self.as_dyn().$function(right.as_dyn()).map(DTensor::keeping)
                }
            }
        )+)*
    };
}

of_tensors! {
    Add add by plus of
        [&DTensor<L>, &DTensor<M>; &DTensor<L>, DTensor<M>; DTensor<L>, &DTensor<M>; DTensor<L>, DTensor<M>];
    Sub sub by minus of
        [&DTensor<L>, &DTensor<M>; &DTensor<L>, DTensor<M>; DTensor<L>, &DTensor<M>; DTensor<L>, DTensor<M>];
}

/// Operators of a tensor, borrowed or owned, and a number.
macro_rules! with_number {
    ($($(#[$doc:meta])* $trait:ident $method:ident, |$x:ident, $by:ident| $body:expr;)*) => {
        $(
            $(#[$doc])*
            impl<L> $trait<f64> for &DTensor<L> {
                type Output = Result<DTensor<L>>;
                fn $method(self, $by: f64) -> Result<DTensor<L>> {
                    let $x = self.as_dyn();
                    $body.map(DTensor::keeping)
                }
            }

            $(#[$doc])*
            impl<L> $trait<f64> for DTensor<L> {
                type Output = Result<DTensor<L>>;
                fn $method(self, by: f64) -> Result<DTensor<L>> {
                    $trait::$method(&self, by)
                }
            }
        )*
    };
}

with_number! {
    /// Every element times a number, which integers must be able to hold; partial tensors must be Sum or Avg.
    Mul mul, |x, by| x.scaled(by);
    /// Every element divided by a number; an error on integers; partial tensors must be Sum or Avg.
    Div div, |x, by| x.divided(by);
    /// Every element plus a number, which integers must be able to hold; an error on partial tensors.
    Add add, |x, by| x.shifted(by);
    /// Every element minus a number, whose negative integers must be able to hold; an error on partial tensors.
    Sub sub, |x, by| x.shifted(-by);
}

/// The negative; an error on unsigned integers; partial tensors must be Sum or Avg.
impl<L> Neg for &DTensor<L> {
    type Output = Result<DTensor<L>>;
    fn neg(self) -> Result<DTensor<L>> {
        self.as_dyn().negative().map(DTensor::keeping)
    }
}

/// The negative; an error on unsigned integers; partial tensors must be Sum or Avg.
impl<L> Neg for DTensor<L> {
    type Output = Result<DTensor<L>>;
    fn neg(self) -> Result<DTensor<L>> {
        -&self
    }
}

/// Every element times a number, as `x * by`.
impl<L> Mul<&DTensor<L>> for f64 {
    type Output = Result<DTensor<L>>;
    fn mul(self, x: &DTensor<L>) -> Result<DTensor<L>> {
        x * self
    }
}
