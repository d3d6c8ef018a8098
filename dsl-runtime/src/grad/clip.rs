//! Clipping by the norm of all gradients together.

use candle_core::{DType, Device, Tensor};

use super::gradients::Gradients;
use super::reduce::require_reduced;
use crate::comm::DeviceMesh;
use crate::error::Result;
use crate::placement::{Placement, ReduceOp};
use crate::tensor::{DTensor, no_grad};

impl Gradients {
    /// The Euclidean norm of all gradients as one vector, each element of the global tensors counted once. The same on every
    /// rank, which must all call this, where the tensors live on one mesh or on parts of it.
    ///
    /// # Errors
    /// A gradient is still partial; another rank failed, disagrees or does not come.
    #[track_caller]
    pub fn global_norm(&self) -> Result<f64> {
        let mut meshes: Vec<(DeviceMesh, f64)> = Vec::new();
        for leaf in self.leaves() {
            let Some(gradient) = self.of_leaves.get(&leaf) else { continue };
            require_reduced(&gradient.value)?;
            let squares = own_squares(&gradient.value)?;
            match meshes.iter_mut().find(|(mesh, _)| mesh == gradient.value.mesh()) {
                Some((_, total)) => *total += squares,
                None => meshes.push((gradient.value.mesh().clone(), squares)),
            }
        }
        let mut total = 0.0;
        for (mesh, squares) in on_largest(&meshes) {
            let squares = Tensor::new(squares, &Device::Cpu)?;
            total += mesh.communicator(&[])?.all_reduce(&squares, ReduceOp::Sum)?.to_scalar::<f64>()?;
        }
        Ok(total.sqrt())
    }

    /// Scales all gradients down so that their [global norm](Gradients::global_norm) is at most `most`; returns what it was.
    ///
    /// # Errors
    /// As for [`global_norm`](Gradients::global_norm).
    #[track_caller]
    pub fn clip_global_norm(&mut self, most: f64) -> Result<f64> {
        let norm = self.global_norm()?;
        if norm > most {
            no_grad(|| {
                let each = self.of_leaves.values_mut();
                each.into_iter().try_for_each(|gradient| {
                    gradient.value = gradient.value.scaled(most / norm)?;
                    Ok::<_, crate::error::Error>(())
                })
            })?;
        }
        Ok(norm)
    }
}

/// The squares of a mesh's gradients go with those of the first mesh that holds all its ranks: so they reach the ranks that the
/// smaller one does not have. All ranks of a mesh see the same larger ones, in the same order.
fn on_largest(meshes: &[(DeviceMesh, f64)]) -> Vec<(&DeviceMesh, f64)> {
    let holds = |a: usize, b: usize| meshes[a].0.first_outside(&meshes[b].0).is_none();
    let larger = |of: usize| (0..meshes.len()).find(|&at| at != of && holds(at, of) && (at < of || !holds(of, at)));
    let mut totals = vec![0.0; meshes.len()];
    for (at, (_, squares)) in meshes.iter().enumerate() {
        let mut root = at;
        while let Some(next) = larger(root) {
            root = next;
        }
        totals[root] += squares;
    }
    let roots = (0..meshes.len()).filter(|&at| larger(at).is_none());
    roots.map(|at| (&meshes[at].0, totals[at])).collect()
}

/// The sum of the squares of the elements that this rank is the first to hold: replicas count once.
fn own_squares(gradient: &DTensor) -> Result<f64> {
    let coord = gradient.mesh().inside()?;
    let replica = gradient.placements().iter().zip(coord).any(|(p, &c)| *p == Placement::Replicate && c != 0);
    let local = gradient.local()?;
    if replica || local.elem_count() == 0 {
        return Ok(0.0);
    }
    // candle's direct conversion of 8-bit floats to f64 never returns.
    let wide = if local.dtype() == DType::F8E4M3 { local.to_dtype(DType::F32)? } else { local.clone() };
    Ok(wide.to_dtype(DType::F64)?.sqr()?.sum_all()?.to_scalar()?)
}
