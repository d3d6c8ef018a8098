//! Where a tensor's gradient goes: the node that produced it, on a tape that the tensors themselves hold together.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::DTensor;
use crate::error::Result;
use crate::spec::Spec;

/// One result of a node.
#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) node: Arc<Node>,
    pub(crate) output: usize,
}

/// A step of the program that was recorded for differentiation.
pub(crate) struct Node {
    /// Its place in the program: every rank creates the nodes of its program in the same order.
    pub(crate) order: u64,
    /// Where the gradients of its inputs go; `None` for one that needs none.
    pub(crate) inputs: Vec<Option<Edge>>,
    pub(crate) kind: Kind,
    /// Whether gradients reach it on ranks outside the mesh of its outputs, too: they come from a region on a larger mesh.
    pub(crate) beyond: bool,
}

pub(crate) enum Kind {
    /// A tensor that was made to need a gradient, with the spec that the gradient gets.
    Leaf { spec: Arc<Spec>, deferred: bool },
    /// A computation; the rule is used up by the backward pass.
    Step(Mutex<Option<Box<dyn Rule>>>),
}

/// Turns the cotangents of a node's outputs into those of its inputs.
pub(crate) trait Rule: Send {
    /// `cotangents` has one entry per output, the result one per input. Where there is none, this rank has nothing to add, but
    /// others may: a node is visited on every rank or on none, so that all issue the same collectives.
    fn pull(self: Box<Self>, cotangents: Vec<Option<DTensor>>) -> Result<Pulled>;
}

/// The cotangents of a node's inputs, and the gradients of candle variables that its body reached.
#[derive(Default)]
pub(crate) struct Pulled {
    pub(crate) cotangents: Vec<Option<DTensor>>,
    pub(crate) variables: candle_core::backprop::GradStore,
}

impl Node {
    pub(crate) fn leaf(spec: Arc<Spec>, deferred: bool) -> Arc<Node> {
        Node::new(Vec::new(), Kind::Leaf { spec, deferred }, false)
    }

    /// A computation whose rule is set when it is known.
    pub(crate) fn step(inputs: Vec<Option<Edge>>) -> Arc<Node> {
        Node::step_to(inputs, false)
    }

    /// A computation with outputs on other meshes, if `elsewhere`.
    pub(crate) fn step_to(inputs: Vec<Option<Edge>>, elsewhere: bool) -> Arc<Node> {
        let beyond = elsewhere || Node::any_beyond(&inputs);
        Node::new(inputs, Kind::Step(Mutex::default()), beyond)
    }

    /// A computation of the ranks of a mesh that this rank is outside of. It is visited so that what comes before it is.
    pub(crate) fn outside(inputs: Vec<Option<Edge>>) -> Arc<Node> {
        let node = Node::step(inputs);
        node.set_rule(Box::new(Outside));
        node
    }

    /// Whether an input's gradient is one of ranks outside its mesh, too.
    pub(crate) fn any_beyond(inputs: &[Option<Edge>]) -> bool {
        inputs.iter().flatten().any(|edge| edge.node.beyond)
    }

    fn new(inputs: Vec<Option<Edge>>, kind: Kind, beyond: bool) -> Arc<Node> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let order = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Node { order, inputs, kind, beyond })
    }

    pub(crate) fn set_rule(&self, rule: Box<dyn Rule>) {
        if let Kind::Step(slot) = &self.kind {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(rule);
        }
    }

    /// The rule, once.
    pub(crate) fn take_rule(&self) -> Option<Box<dyn Rule>> {
        match &self.kind {
            Kind::Step(slot) => slot.lock().unwrap_or_else(PoisonError::into_inner).take(),
            Kind::Leaf { .. } => None,
        }
    }
}

/// Of a computation elsewhere this rank has no cotangents.
struct Outside;

impl Rule for Outside {
    fn pull(self: Box<Self>, _: Vec<Option<DTensor>>) -> Result<Pulled> {
        Ok(Pulled::default())
    }
}

/// A long chain is dropped node by node: dropping each within the one before would overflow the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut edges: Vec<Edge> = self.inputs.drain(..).flatten().collect();
        while let Some(edge) = edges.pop() {
            if let Some(mut node) = Arc::into_inner(edge.node) {
                // The rule may hold tensors with edges of their own.
                drop(node.take_rule());
                edges.extend(node.inputs.drain(..).flatten());
            }
        }
    }
}

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(true) };
}

/// Whether this thread records nodes.
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

/// Runs `f` without recording anything for differentiation: results need no gradient, and no memory is kept for one.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use local_map::prelude::*;
/// use local_map::Result;
/// launch(1, |world| -> Result<()> {
///     let mesh = world.mesh([("dp", 1)])?;
///     let x = DTensor::from_local(Tensor::new(1f32, &Device::Cpu)?, &mesh, &[Replicate])?.requires_grad()?;
///     assert!(!no_grad(|| &x * 2.0)?.needs_grad());
///     assert!((&x * 2.0)?.needs_grad());
///     Ok(())
/// })?;
/// # Ok::<(), local_map::Error>(())
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    /// Puts the state back even if `f` panics.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            RECORDING.set(self.0);
        }
    }
    let _restore = Restore(RECORDING.replace(false));
    f()
}
