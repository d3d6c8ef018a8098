//! What becomes of a region's results.

use crate::ast::{Entries, Entry, List, Outputs};
use crate::model::Value;
use crate::types;
use syn::Type;

/// What becomes of the result.
pub(crate) enum Labels<'a> {
    /// One label for all of it.
    Whole(Label<'a>),
    /// One label per element of a tuple.
    Each(Vec<Label<'a>>),
}

/// What becomes of one value.
pub(crate) enum Label<'a> {
    /// Returned as it is.
    Plain,
    /// A tensor, returned as a plain one without its graph.
    Detached,
    /// Labelled as distributed; without a list where `{..}` stands, or where the list was wrong.
    Placed(Option<&'a List>),
    /// Each element of a tuple for itself.
    Each(Vec<Label<'a>>),
}

impl<'a> Labels<'a> {
    /// The most elements of a tuple that the runtime takes apart.
    pub(crate) const MOST: usize = 8;

    /// The labels of single values, in the order in which the runtime numbers them.
    pub(crate) fn leaves(&self) -> Vec<&Label<'a>> {
        match self {
            Labels::Whole(label) => label.leaves(),
            Labels::Each(labels) => labels.iter().flat_map(Label::leaves).collect(),
        }
    }

    /// The values that live on other meshes than the region's: their numbers and the meshes.
    pub(crate) fn elsewhere(&self) -> Vec<(usize, &'a syn::Expr)> {
        self.leaves().into_iter().enumerate().filter_map(|(at, label)| Some((at, label.mesh()?))).collect()
    }

    /// The elements of the longest tuple.
    pub(crate) fn longest(&self) -> usize {
        match self {
            Labels::Whole(label) => label.longest(),
            Labels::Each(labels) => labels.iter().map(Label::longest).fold(labels.len(), usize::max),
        }
    }
}

impl<'a> Label<'a> {
    fn leaves(&self) -> Vec<&Label<'a>> {
        match self {
            Label::Each(labels) => labels.iter().flat_map(Label::leaves).collect(),
            label => vec![label],
        }
    }

    /// The mesh of a value that has its own.
    fn mesh(&self) -> Option<&'a syn::Expr> {
        match self {
            Label::Placed(Some(list)) => list.on.as_deref(),
            _ => None,
        }
    }

    fn longest(&self) -> usize {
        match self {
            Label::Each(labels) => labels.iter().map(Label::longest).fold(labels.len(), usize::max),
            _ => 1,
        }
    }
}

/// The labels of a result of which `outputs` speaks; the best guess where it is wrong.
pub(crate) fn labels<'a>(outputs: Option<&'a Outputs>, value: Option<&Value>) -> Labels<'a> {
    match (outputs, value) {
        (Some(Outputs::Nothing), Some(value)) => unlabelled(value),
        (Some(Outputs::Nothing), None) => Labels::Whole(Label::Plain),
        (Some(Outputs::One(list)), None) => Labels::Whole(Label::Placed(Some(list))),
        (Some(Outputs::One(list)), Some(value)) if !value.tuple => {
            Labels::Whole(label(Some(list), value.elements.first()))
        }
        (Some(Outputs::Each(entries)), None) => match entries.items.as_slice() {
            [only] => Labels::Whole(entry_label(only, None)),
            many => Labels::Each(many.iter().map(|entry| entry_label(entry, None)).collect()),
        },
        (Some(Outputs::Each(entries)), Some(value)) if entries.items.len() == value.elements.len() => {
            gathered(value, each(entries, value.elements.iter()).into_iter())
        }
        (_, Some(value)) => gathered(value, value.elements.iter().map(|ty| label(None, Some(ty)))),
        (_, None) => Labels::Whole(Label::Placed(None)),
    }
}

/// A tuple is taken apart only for the sake of its tensors.
fn unlabelled<'a>(value: &Value) -> Labels<'a> {
    match value.elements.iter().any(types::is_tensor) {
        true => gathered(value, value.elements.iter().map(|ty| plain(Some(ty)))),
        false => Labels::Whole(Label::Plain),
    }
}

fn gathered<'a>(value: &Value, mut labels: impl Iterator<Item = Label<'a>>) -> Labels<'a> {
    match value.tuple && !value.elements.is_empty() {
        true => Labels::Each(labels.collect()),
        false => Labels::Whole(labels.next().unwrap_or(Label::Plain)),
    }
}

fn each<'a, 't>(entries: &'a Entries, types: impl Iterator<Item = &'t Type>) -> Vec<Label<'a>> {
    entries.items.iter().zip(types).map(|(entry, ty)| entry_label(entry, Some(ty))).collect()
}

fn entry_label<'a>(entry: &'a Entry, ty: Option<&Type>) -> Label<'a> {
    match (entry, ty.map(types::bare)) {
        (Entry::Tuple(entries), Some(Type::Tuple(tuple))) if entries.items.len() == tuple.elems.len() => {
            Label::Each(each(entries, tuple.elems.iter()))
        }
        (Entry::Plain(_), _) => plain(ty),
        (Entry::Placed(list), _) => label(Some(list), ty),
        (Entry::Own(_) | Entry::Tuple(_) | Entry::Unreadable(_), _) => label(None, ty),
    }
}

fn plain<'a>(ty: Option<&Type>) -> Label<'a> {
    match ty.is_some_and(types::is_tensor) {
        true => Label::Detached,
        false => Label::Plain,
    }
}

/// A value in which no tensor is seen stays plain: labelling it is reported elsewhere.
fn label<'a>(list: Option<&'a List>, ty: Option<&Type>) -> Label<'a> {
    match (ty.map(types::bare), ty.is_none_or(types::mentions_tensor)) {
        (Some(Type::Tuple(tuple)), true) => Label::Each(tuple.elems.iter().map(|ty| label(None, Some(ty))).collect()),
        (_, true) => Label::Placed(list),
        (_, false) => Label::Plain,
    }
}
