//! Where a tensor stands in the arguments of a call, for messages.

use std::fmt;
use std::rc::Rc;

use smallvec::SmallVec;

use super::spec::Param;

/// The way to a tensor, or to a struct of tensors: `x`, `xs[1]`, `mlp.blocks.1.up`. Small, as every input of a call has one.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The struct that it is a field of, shared by all of its tensors; none for a parameter.
    pub(super) outer: Option<Rc<Path>>,
    /// The parameter, or the field.
    pub(super) declared: &'static Param,
    /// The place in it, if it is a list, or a list of lists.
    pub(super) elements: SmallVec<[usize; 2]>,
}

impl Path {
    /// A parameter.
    pub(super) fn parameter(declared: &'static Param) -> Path {
        Path { outer: None, declared, elements: SmallVec::new() }
    }
}

/// As authors write it; within a struct as [`parameters`](super::Distribute::parameters) names it.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A layer has no name of its own: its fields stand alone.
        if let Some(outer) = self.outer.as_ref().filter(|outer| !outer.declared.name.is_empty()) {
            write!(f, "{outer}.")?;
        }
        f.write_str(self.declared.name)?;
        self.elements.iter().try_for_each(|index| match self.outer {
            None => write!(f, "[{index}]"),
            Some(_) => write!(f, ".{index}"),
        })
    }
}
