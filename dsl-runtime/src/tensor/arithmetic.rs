//! Arithmetic that is right on every placement: sums of equally placed tensors, and scaling.

use std::ops::{Add, Div, Mul, Neg, Sub};

use candle_core::Tensor;

use super::{DTensor, Label};
use crate::comm::require_same;
use crate::error::{Error, Report, Result};
use crate::grad::record_linear as record;
use crate::placement::ReduceOp;

impl DTensor {
    /// Combines two tensors of one mesh, shape, type and placement, rank by rank.
    fn zip(
        &self,
        name: &str,
        other: &DTensor,
        f: impl FnOnce(&Tensor, &Tensor) -> candle_core::Result<Tensor>,
    ) -> Result<DTensor> {
        require_same(|| name.to_owned(), [&self.mesh, &other.mesh])?;
        if let (Label::Known(left), Label::Known(right)) = (&self.label, &other.label)
            && left != right
        {
            return Err(Error::Placement(
                Report::new(format!("{name}: the operands are not placed alike"))
                    .on(&self.mesh)
                    .offender(format!("left: {left}"))
                    .offender(format!("right: {right}"))
                    .advice("reshard one of them to the placements of the other; shapes and types must be equal"),
            ));
        }
        self.require_linear(name)?;
        let both = self.local.as_ref().zip(other.local.as_ref());
        self.mapped(both.map(|(a, b)| f(&a.detach(), &b.detach())))
    }

    /// Applies a linear function to every rank's piece.
    fn map(&self, name: &str, f: impl FnOnce(&Tensor) -> candle_core::Result<Tensor>) -> Result<DTensor> {
        self.require_linear(name)?;
        self.mapped(self.local.as_ref().map(|x| f(&x.detach())))
    }

    /// Every element times a number.
    pub(crate) fn scaled(&self, by: f64) -> Result<DTensor> {
        record(self.map("scaling", |x| x * by)?, &[(self, by)])
    }

    fn mapped(&self, local: Option<candle_core::Result<Tensor>>) -> Result<DTensor> {
        let local = local.transpose()?;
        Ok(DTensor { local, edge: None, ..self.clone() })
    }

    /// Sums and means commute with linear functions; other reductions do not.
    fn require_linear(&self, name: &str) -> Result<()> {
        self.refuse_partial(
            name,
            |op| !op.is_linear(),
            |op| format!("the {op} of the results is not the result of the {op}"),
        )
    }

    fn refuse_partial(
        &self,
        name: &str,
        refused: impl Fn(ReduceOp) -> bool,
        why: impl Fn(ReduceOp) -> String,
    ) -> Result<()> {
        let ops = self.placements().iter().filter_map(|p| p.partial_op());
        match ops.into_iter().find(|&op| refused(op)) {
            None => Ok(()),
            Some(op) => Err(Error::Placement(
                Report::new(format!("{name} cannot be applied to a Partial({op}) tensor"))
                    .offender(format!("{self}: {}", why(op)))
                    .advice("reshard it to Replicate or Shard first"),
            )),
        }
    }

    /// Adds a number to every element.
    fn shifted(&self, by: f64) -> Result<DTensor> {
        let name = "adding a number";
        self.refuse_partial(
            name,
            |_| true,
            |_| "every rank would add it to its own part, so that it would count once per rank".to_owned(),
        )?;
        let shifted = self.mapped(self.local.as_ref().map(|x| x.detach().affine(1.0, by)))?;
        record(shifted, &[(self, 1.0)])
    }
}

macro_rules! linear {
    ($($(#[$doc:meta])* $trait:ident $method:ident $right:ty, |$x:ident, $y:ident| $body:expr;)*) => {
        $(
            $(#[$doc])*
            impl $trait<$right> for &DTensor {
                type Output = Result<DTensor>;
                fn $method(self, right: $right) -> Result<DTensor> {
                    let ($x, $y) = (self, right);
                    $body
                }
            }
        )*
    };
}

linear! {
    /// The sum of two tensors that are placed alike; partial ones must be Sum or Avg.
    Add add &DTensor, |a, b| record(a.zip("addition", b, |x, y| x + y)?, &[(a, 1.0), (b, 1.0)]);
    /// The difference of two tensors that are placed alike; partial ones must be Sum or Avg.
    Sub sub &DTensor, |a, b| record(a.zip("subtraction", b, |x, y| x - y)?, &[(a, 1.0), (b, -1.0)]);
    /// Every element times a number; partial tensors must be Sum or Avg.
    Mul mul f64, |a, by| a.scaled(by);
    /// Every element divided by a number; partial tensors must be Sum or Avg.
    Div div f64, |a, by| record(a.map("scaling", |x| x / by)?, &[(a, 1.0 / by)]);
    /// Every element plus a number; an error on partial tensors, where each rank would add it.
    Add add f64, |a, by| a.shifted(by);
    /// Every element minus a number; an error on partial tensors, where each rank would subtract it.
    Sub sub f64, |a, by| a.shifted(-by);
}

/// The negative; partial tensors must be Sum or Avg.
impl Neg for &DTensor {
    type Output = Result<DTensor>;
    fn neg(self) -> Result<DTensor> {
        record(self.map("negation", |x| x.neg())?, &[(self, -1.0)])
    }
}
