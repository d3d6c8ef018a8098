//! How a spec is stored: validated again when it is read.

use candle_core::DType;
use serde::{Deserialize, Serialize};

use super::{Ragged, Spec};
use crate::error::{Error, Report};
use crate::mesh::Mesh;
use crate::placement::Placement;

#[derive(Serialize, Deserialize)]
#[serde(rename = "Spec")]
pub(super) struct Wire {
    mesh: Mesh,
    placements: Vec<Placement>,
    shape: Vec<usize>,
    dtype: String,
    ragged: Vec<Ragged>,
}

impl From<Spec> for Wire {
    fn from(spec: Spec) -> Wire {
        Wire {
            placements: spec.placements.to_vec(),
            shape: spec.shape.to_vec(),
            dtype: spec.dtype.as_str().to_owned(),
            ragged: spec.ragged.to_vec(),
            mesh: spec.mesh,
        }
    }
}

impl TryFrom<Wire> for Spec {
    type Error = Error;

    fn try_from(wire: Wire) -> Result<Spec, Error> {
        let dtype: DType = wire.dtype.parse().map_err(|_| {
            let name: String = wire.dtype.chars().take(20).collect();
            Error::DType(Report::new(format!("a spec cannot be read: `{name}` is no element type")))
        })?;
        Spec::ragged(wire.mesh, &wire.placements, &wire.shape, dtype, wire.ragged)
    }
}
