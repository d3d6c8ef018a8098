//! What the attribute says, as it was written, with a span on everything that can be wrong.

use proc_macro2::Span;

/// The whole attribute.
#[derive(Default)]
pub(crate) struct Args {
    /// `in = [..]`; absent when every distributed parameter takes any placement.
    pub(crate) inputs: Option<Inputs>,
    /// `grad = [..]`; absent when every gradient is placed as the runtime's tables say.
    pub(crate) grads: Option<Inputs>,
    /// `out = ..`
    pub(crate) outputs: Option<Outputs>,
    /// `mesh = expr`
    pub(crate) mesh: Mesh,
    /// `crate = path`
    pub(crate) krate: Option<syn::Path>,
    /// `reshard`
    pub(crate) reshard: bool,
    /// `recompute`, with the span of the flag.
    pub(crate) recompute: Option<Span>,
    /// `check`
    pub(crate) check: bool,
}

/// `mesh = expr`
#[derive(Default)]
pub(crate) enum Mesh {
    /// Not written.
    #[default]
    Absent,
    /// Written, and already reported as wrong.
    Unreadable,
    /// Written.
    Given(Box<syn::Expr>),
}

/// The value of `in`, or of `grad`.
pub(crate) enum Inputs {
    /// Already reported as wrong.
    Unreadable,
    /// One entry per parameter that takes one.
    Each(Entries),
}

/// The value of `out`.
pub(crate) enum Outputs {
    /// Already reported as wrong.
    Unreadable,
    /// `_` or `[]`: nothing is labelled.
    Nothing,
    /// `[Shard(0)]`: the one output.
    One(List),
    /// `[[Shard(0)], _]`: one entry per output.
    Each(Entries),
}

impl Inputs {
    /// The entry of the parameter `at`, counted among those that take one.
    pub(crate) fn entry(&self, at: usize) -> Option<&Entry> {
        match self {
            Inputs::Each(entries) => entries.items.get(at),
            Inputs::Unreadable => None,
        }
    }
}

/// A bracketed list of entries.
pub(crate) struct Entries {
    /// The brackets.
    pub(crate) span: Span,
    pub(crate) items: Vec<Entry>,
}

/// What is said about one parameter or output.
pub(crate) enum Entry {
    /// `_`
    Plain(Span),
    /// `[placement, ..]`
    Placed(List),
    /// `{..}`: as it is itself, or as the fields of a struct say.
    Own(Span),
    /// Already reported as wrong.
    Unreadable(Span),
}

impl Entry {
    /// The token to blame.
    pub(crate) fn span(&self) -> Span {
        match self {
            Entry::Plain(span) | Entry::Own(span) | Entry::Unreadable(span) => *span,
            Entry::Placed(list) => list.span,
        }
    }
}

/// One placement per mesh axis.
pub(crate) struct List {
    /// The brackets.
    pub(crate) span: Span,
    pub(crate) placements: Vec<Placement>,
}

/// What happens to a value along one mesh axis.
pub(crate) enum Placement {
    /// `Shard(dim)`, or `Shard(dim, ragged)` with the span of `ragged`.
    Shard { dim: i64, ragged: Option<Span> },
    /// `Replicate`
    Replicate,
    /// `Partial(op)`, with the span of the op (of `Partial` where it stands alone).
    Partial { op: Op, span: Span },
    /// Already reported as wrong; still counts as one axis.
    Unreadable,
}

/// How the addends of a partial value are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Sum,
    Avg,
    Max,
    Min,
    Prod,
    Any,
    All,
}

impl Op {
    /// The names of all ops, as authors write them.
    pub(crate) const NAMES: [&'static str; 7] = ["Sum", "Avg", "Max", "Min", "Prod", "Any", "All"];

    /// The op that is written `name`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        use Op::*;
        [Sum, Avg, Max, Min, Prod, Any, All].into_iter().find(|op| op.name() == name)
    }

    /// As an author writes it.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether reducing one axis by `self` and another by `other` gives the same in either order.
    pub(crate) fn commutes_with(self, other: Self) -> bool {
        self == other || matches!((self, other), (Op::Sum, Op::Avg) | (Op::Avg, Op::Sum))
    }
}
