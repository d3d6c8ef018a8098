//! What the attribute says of a function, as a constant.

use std::fmt;

use super::entry::Entry;
use super::region::RegionCall;
use crate::comm::DeviceMesh;
use crate::placement::{Placement, ReduceOp};

/// An annotated function: its name, distributed parameters, results and flags.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpec {
    pub(super) name: &'static str,
    pub(super) params: &'static [Param],
    pub(super) outs: &'static [Out],
    pub(super) grads: &'static [Grad],
    pub(super) axes: Axes,
    pub(super) reshard: bool,
    pub(super) check: bool,
    pub(super) context: bool,
    pub(super) recompute: bool,
}

/// The mesh axes that an attribute speaks of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Axes {
    /// As many as its lists have placements, whatever they are called.
    Unnamed,
    /// These, in this order.
    Exactly(&'static [&'static str]),
    /// These, anywhere among the mesh's.
    Among(&'static [&'static str]),
}

/// How the gradient that the body computes for a distributed parameter is labelled.
#[derive(Clone, Copy, Debug)]
pub enum Grad {
    /// As the tables say.
    Default,
    /// As the attribute says.
    Placed(&'static [Want]),
    /// As the attribute says by the names of axes; with `true`, on the others as the tables say.
    Named(&'static [(&'static str, Want)], bool),
}

/// A distributed parameter, or the field of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub(super) name: &'static str,
    pub(super) wanted: Option<Entry>,
    /// Of a struct's field; those of a function's parameters stand in its [`RegionSpec`].
    pub(super) grad: Grad,
}

/// How one result is treated.
#[derive(Clone, Copy, Debug)]
pub enum Out {
    /// Returned as it is.
    Plain,
    /// Labelled as a distributed tensor.
    Placed(&'static [Want]),
    /// Labelled by the names of axes; with `true`, on the others as the inputs that leave them open, too.
    Named(&'static [(&'static str, Want)], bool),
}

/// A placement as the attribute writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// `Shard(n)`; negative counts from the last dimension.
    Shard(i64),
    /// `Shard(n, ragged)`: the ranks' lengths are exchanged.
    Ragged(i64),
    /// `Replicate`.
    Replicate,
    /// `Partial(op)`.
    Partial(ReduceOp),
}

impl RegionSpec {
    /// A function without flags; `params` are its distributed parameters.
    pub const fn new(name: &'static str, params: &'static [Param], outs: &'static [Out]) -> RegionSpec {
        let (reshard, check, context, recompute) = (false, false, false, false);
        RegionSpec { name, params, outs, grads: &[], axes: Axes::Unnamed, reshard, check, context, recompute }
    }

    /// The labels of the gradients, one per distributed parameter.
    #[must_use]
    pub const fn grad(mut self, grads: &'static [Grad]) -> RegionSpec {
        self.grads = grads;
        self
    }

    /// The mesh must have exactly these axes, in this order.
    #[must_use]
    pub const fn axes(mut self, names: &'static [&'static str]) -> RegionSpec {
        self.axes = Axes::Exactly(names);
        self
    }

    /// The mesh must have these axes, in any order and among any others.
    #[must_use]
    pub const fn axes_among(mut self, names: &'static [&'static str]) -> RegionSpec {
        self.axes = Axes::Among(names);
        self
    }

    /// The body takes the region context, so that it may communicate.
    #[must_use]
    pub const fn context(mut self) -> RegionSpec {
        self.context = true;
        self
    }

    /// The body's graph is not kept; the body runs again in the backward pass.
    #[must_use]
    pub const fn recompute(mut self) -> RegionSpec {
        self.recompute = true;
        self
    }

    /// Inputs that are placed otherwise are resharded.
    #[must_use]
    pub const fn reshard(mut self) -> RegionSpec {
        self.reshard = true;
        self
    }

    /// Shapes and replicas are verified after the body, by a collective.
    #[must_use]
    pub const fn check(mut self) -> RegionSpec {
        self.check = true;
        self
    }

    /// The function and one of its results in words, for messages.
    pub(super) fn result(&self, output: usize) -> String {
        match self.outs.len() {
            1 => format!("{}: the result", self.name),
            _ => format!("{}: result {output}", self.name),
        }
    }

    /// What is declared of the distributed parameter with this index.
    pub(super) fn param(&self, index: usize) -> (&'static Param, &'static Grad) {
        static UNKNOWN: Param = Param::any("?");
        let param = self.params.get(index).unwrap_or(&UNKNOWN);
        (param, self.grads.get(index).unwrap_or(&param.grad))
    }

    /// Begins a call on the mesh of the distributed inputs.
    #[track_caller]
    pub fn call<'a>(&'static self) -> RegionCall<'a> {
        RegionCall::new(self, None)
    }

    /// Begins a call on `mesh`.
    #[track_caller]
    pub fn call_on<'a>(&'static self, mesh: &DeviceMesh) -> RegionCall<'a> {
        RegionCall::new(self, Some(mesh.clone()))
    }
}

impl Param {
    /// A parameter that must be placed as `wanted`.
    pub const fn placed(name: &'static str, wanted: &'static [Want]) -> Param {
        let wanted = Some(Entry::Axes(wanted));
        Param { name, wanted, grad: Grad::Default }
    }

    /// A parameter that must be placed so on the named axes: `Replicate` on the others, or, with `rest`, as the other
    /// parameters that leave them open.
    pub const fn named(name: &'static str, axes: &'static [(&'static str, Want)], rest: bool) -> Param {
        let wanted = Some(Entry::Named { axes, rest });
        Param { name, wanted, grad: Grad::Default }
    }

    /// A parameter of any placement.
    pub const fn any(name: &'static str) -> Param {
        Param { name, wanted: None, grad: Grad::Default }
    }

    /// The same with a label for the gradient that bodies compute.
    #[must_use]
    pub const fn grad(mut self, grad: Grad) -> Param {
        self.grad = grad;
        self
    }
}

impl Out {
    /// The entry of a labelled result.
    pub(super) fn entry(self) -> Option<Entry> {
        match self {
            Out::Plain => None,
            Out::Placed(wanted) => Some(Entry::Axes(wanted)),
            Out::Named(axes, rest) => Some(Entry::Named { axes, rest }),
        }
    }
}

impl Want {
    /// The placement that is meant.
    pub(super) fn placement(self) -> Placement {
        match self {
            Want::Shard(dim) | Want::Ragged(dim) => Placement::Shard(dim),
            Want::Replicate => Placement::Replicate,
            Want::Partial(op) => Placement::Partial(op),
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Ragged(dim) => write!(f, "Shard({dim}, ragged)"),
            other => other.placement().fmt(f),
        }
    }
}

/// Prints the placements of an entry as `(Shard(0), Replicate)`.
pub(super) struct Wanted<'a>(pub(super) &'a [Want]);

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(Want::to_string).collect();
        write!(f, "({})", texts.join(", "))
    }
}
