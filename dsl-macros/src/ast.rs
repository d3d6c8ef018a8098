//! What the attribute says, as it was written, with a span on everything that can be wrong.

use crate::function::{plain_name, simple_name};
use proc_macro2::{Ident, Span};
use syn::Pat;

/// The whole attribute.
#[derive(Default)]
pub(crate) struct Args {
    /// `in = [..]`, or `in = {..}`; absent when every distributed parameter takes any placement.
    pub(crate) inputs: Option<Inputs>,
    /// `grad = [..]`, or `grad = {..}`; absent when every gradient is placed as the runtime's tables say.
    pub(crate) grads: Option<Inputs>,
    /// `out = ..`
    pub(crate) outputs: Option<Outputs>,
    /// What stands on the parameters, `#[place(..)]`, with their positions among all but `self`.
    pub(crate) places: Vec<(usize, Entry)>,
    /// `axes = (dp, tp)`
    pub(crate) axes: Axes,
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
    /// `dynamic`
    pub(crate) dynamic: bool,
}

impl Args {
    /// Whether an entry has `..`: the function is for every mesh that has the named axes, and lists are by axis name.
    pub(crate) fn is_open(&self) -> bool {
        let lists = [self.input_lists(), self.output_lists(), self.grad_lists()];
        lists.iter().flatten().any(|list| list.rest.is_some() && list.names.is_some())
    }

    /// Whether an entry of a parameter has `..`.
    pub(crate) fn inputs_are_open(&self) -> bool {
        self.input_lists().iter().any(|list| list.rest.is_some() && list.names.is_some())
    }

    /// The entry of the parameter at `position`, which is the one `at` among those that take one, and is bound by `pat`.
    pub(crate) fn entry(&self, position: usize, at: usize, pat: &Pat) -> Option<&Entry> {
        let place = self.places.iter().find(|(placed, _)| *placed == position).map(|(_, entry)| entry);
        place.or_else(|| self.inputs.as_ref()?.entry(at, pat))
    }

    /// The same to be replaced.
    pub(crate) fn entry_mut(&mut self, position: usize, at: usize, pat: &Pat) -> Option<&mut Entry> {
        let place = self.places.iter_mut().find(|(placed, _)| *placed == position).map(|(_, entry)| entry);
        place.or_else(|| self.inputs.as_mut()?.entry_mut(at, pat))
    }

    /// The lists of parameters: in `in`, and on them.
    pub(crate) fn input_lists(&self) -> Vec<&List> {
        let on_parameters = self.places.iter().map(|(_, entry)| entry);
        placed(self.inputs.iter().flat_map(Inputs::entries).chain(on_parameters))
    }

    /// The lists of `grad`.
    pub(crate) fn grad_lists(&self) -> Vec<&List> {
        placed(self.grads.iter().flat_map(Inputs::entries))
    }

    /// The lists of `out`.
    pub(crate) fn output_lists(&self) -> Vec<&List> {
        match &self.outputs {
            Some(Outputs::One(list)) => vec![list],
            Some(Outputs::Each(entries)) => placed(&entries.items),
            _ => Vec::new(),
        }
    }
}

fn placed<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<&'a List> {
    let lists = entries.into_iter().flat_map(|entry| match entry {
        Entry::Placed(list) => vec![list],
        Entry::Tuple(entries) => placed(&entries.items),
        _ => Vec::new(),
    });
    lists.collect()
}

/// `axes = (dp, tp)`
#[derive(Default)]
pub(crate) enum Axes {
    /// Not written.
    #[default]
    Absent,
    /// Written, and already reported as wrong.
    Unreadable,
    /// Written: at least one, each once.
    Given(Vec<Ident>),
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
    /// Entries by parameter name.
    Named(Vec<(Ident, Entry)>),
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
    /// The entry of the parameter `at`, counted among those that take one, which is bound by `pat`.
    pub(crate) fn entry(&self, at: usize, pat: &Pat) -> Option<&Entry> {
        match self {
            Inputs::Each(entries) => entries.items.get(at),
            Inputs::Named(entries) => {
                let name = plain_name(simple_name(pat)?);
                entries.iter().find(|(named, _)| plain_name(named) == name).map(|(_, entry)| entry)
            }
            Inputs::Unreadable => None,
        }
    }

    /// The same to be replaced.
    pub(crate) fn entry_mut(&mut self, at: usize, pat: &Pat) -> Option<&mut Entry> {
        match self {
            Inputs::Each(entries) => entries.items.get_mut(at),
            Inputs::Named(entries) => {
                let name = plain_name(simple_name(pat)?);
                entries.iter_mut().find(|(named, _)| plain_name(named) == name).map(|(_, entry)| entry)
            }
            Inputs::Unreadable => None,
        }
    }

    /// All entries, as they are written.
    fn entries(&self) -> Vec<&Entry> {
        match self {
            Inputs::Each(entries) => entries.items.iter().collect(),
            Inputs::Named(entries) => entries.iter().map(|(_, entry)| entry).collect(),
            Inputs::Unreadable => Vec::new(),
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
    /// `[placement, ..]`, or `{ axis: placement, .. }`
    Placed(List),
    /// `{..}`: as it is itself, or as the fields of a struct say.
    Own(Span),
    /// `(entry, ..)`: of the elements of a tuple.
    Tuple(Entries),
    /// Already reported as wrong.
    Unreadable(Span),
}

impl Entry {
    /// The token to blame.
    pub(crate) fn span(&self) -> Span {
        match self {
            Entry::Plain(span) | Entry::Own(span) | Entry::Unreadable(span) => *span,
            Entry::Placed(list) => list.span,
            Entry::Tuple(entries) => entries.span,
        }
    }
}

/// One placement per mesh axis, or for some axes by their names.
pub(crate) struct List {
    /// The brackets, or braces.
    pub(crate) span: Span,
    pub(crate) placements: Vec<Written>,
    /// The axes of the placements, one each, where they go by name. Once the attribute is read, they do only where a `..` makes it
    /// open, or where something was wrong.
    pub(crate) names: Option<Vec<Ident>>,
    /// `..`: other axes stay as they are. In brackets, without names, it was reported.
    pub(crate) rest: Option<Span>,
    /// `on expr` behind it: the output lives on another mesh.
    pub(crate) on: Option<Box<syn::Expr>>,
}

/// A placement and where it stands.
pub(crate) struct Written {
    pub(crate) placement: Placement,
    pub(crate) span: Span,
}

impl std::ops::Deref for Written {
    type Target = Placement;
    fn deref(&self) -> &Placement {
        &self.placement
    }
}

impl List {
    /// Whether it says something of the axis.
    pub(crate) fn is_for(&self, axis: &Ident) -> bool {
        let axis = plain_name(axis);
        self.names.iter().flatten().any(|name| plain_name(name) == axis)
    }
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
