//! Sums and scalings on the tape.

use crate::error::Result;
use crate::tensor::{DTensor, Edge, Node, Pulled, Rule, is_recording};

/// The inputs' factors: the output is the sum of the inputs, each times its factor.
struct Linear(Vec<f64>);

impl Rule for Linear {
    fn pull(self: Box<Self>, cotangents: Vec<Option<DTensor>>) -> Result<Pulled> {
        let cotangent = cotangents.into_iter().next().flatten();
        let scaled = |factor: f64| cotangent.as_ref().map(|c| c.scaled(factor)).transpose();
        let cotangents = self.0.into_iter().map(scaled).collect::<Result<_>>()?;
        Ok(Pulled { cotangents, ..Pulled::default() })
    }
}

/// Records that `output` is the sum of the inputs, each times its factor.
pub(crate) fn record(output: DTensor, inputs: &[(&DTensor, f64)]) -> Result<DTensor> {
    let edges: Vec<Option<Edge>> = inputs.iter().map(|(x, _)| x.edge().cloned()).collect();
    if !is_recording() || edges.iter().all(Option::is_none) {
        return Ok(output);
    }
    if output.is_absent() {
        return Ok(output.with_edge(Edge { node: Node::outside(edges), output: 0 }));
    }
    let node = Node::step(edges);
    node.set_rule(Box::new(Linear(inputs.iter().map(|(_, factor)| *factor).collect())));
    output.produced_by(Edge { node, output: 0 })
}
