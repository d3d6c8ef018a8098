//! Where a tensor stands in the arguments of a call, for messages.

use std::fmt;
use std::rc::Rc;

use smallvec::SmallVec;

/// The way to a tensor, or to a struct of tensors: `x`, `xs[1]`, `mlp.blocks.1.up`.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) outer: Outer,
    /// Of the parameter or of the field.
    pub(super) name: &'static str,
    /// The place in it, if it is a list, or a list of lists.
    pub(super) elements: SmallVec<[usize; 2]>,
}

/// What a parameter or field belongs to.
#[derive(Clone, Debug)]
pub(super) enum Outer {
    /// To the function: it is a parameter.
    Function,
    /// To the layer whose method is called.
    This,
    /// To a struct. Its tensors share the way to it.
    Struct(Rc<Path>),
}

impl Path {
    /// A parameter.
    pub(super) fn parameter(name: &'static str) -> Path {
        Path { outer: Outer::Function, name, elements: SmallVec::new() }
    }
}

/// As authors write it; within a struct as [`parameters`](super::Distribute::parameters) names it.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outer {
            Outer::Struct(outer) => write!(f, "{outer}.{}", self.name)?,
            Outer::Function | Outer::This => f.write_str(self.name)?,
        }
        self.elements.iter().try_for_each(|index| match self.outer {
            Outer::Function => write!(f, "[{index}]"),
            _ => write!(f, ".{index}"),
        })
    }
}
