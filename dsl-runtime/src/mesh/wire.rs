//! How a mesh is stored: validated again when it is read.

use serde::{Deserialize, Serialize};

use super::Mesh;
use super::axes::Axes;
use super::ranks::Ranks;
use crate::error::{Error, Report};

#[derive(Serialize, Deserialize)]
#[serde(rename = "Mesh")]
pub(super) struct Wire {
    axes: Vec<(String, usize)>,
    ranks: WireRanks,
}

#[derive(Serialize, Deserialize)]
enum WireRanks {
    Affine { base: usize, strides: Vec<usize> },
    Listed(Vec<usize>),
}

impl From<Mesh> for Wire {
    fn from(mesh: Mesh) -> Wire {
        let axes = mesh.names().map(str::to_owned).zip(mesh.sizes().iter().copied());
        Wire {
            axes: axes.collect(),
            ranks: match &mesh.0.ranks {
                Ranks::Affine { base, strides } => WireRanks::Affine { base: *base, strides: strides.to_vec() },
                Ranks::Listed(ranks) => WireRanks::Listed(ranks.to_vec()),
            },
        }
    }
}

impl TryFrom<Wire> for Mesh {
    type Error = Error;

    fn try_from(wire: Wire) -> Result<Mesh, Error> {
        let axes = Axes::new(wire.axes.iter().map(|(name, size)| (name.as_str(), *size)))?;
        let ranks = match wire.ranks {
            WireRanks::Listed(ranks) => Ranks::listed(&ranks, &axes)?,
            WireRanks::Affine { base, strides } => {
                Ranks::from_formula(base, &strides, axes.sizes()).ok_or_else(|| {
                    Error::Mesh(Report::new(format!("a mesh ({axes}) cannot be read: its ranks overlap or overflow")))
                })?
            }
        };
        Ok(Mesh::of(axes, ranks))
    }
}
