//! What the compiler knows of a tensor's placements: learnt by a check or a reshard, forgotten where it is in the way.

use std::ops::Deref;
use std::panic::Location;

use super::DTensor;
use crate::error::{Error, Report, Result};
use crate::placement::types::StaticLayout;
use crate::placement::{Placement, Placements};

impl<L> DTensor<L> {
    /// The same tensor, of whose placements the compiler knows nothing: for collections and variables that hold tensors of several
    /// layouts. See [`as_dyn`](DTensor::as_dyn) for a borrowed one.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use local_map::prelude::*;
    /// # use local_map::Result;
    /// # launch(1, |world| -> Result<()> {
    /// # let mesh = world.mesh([("dp", 1)])?;
    /// let x = DTensor::from_local(Tensor::zeros(4, DType::F32, &Device::Cpu)?, &mesh, &[Shard(0)])?;
    /// let rows = x.cast::<(Shard<0>,)>()?;
    /// let whole = x.reshard_to::<(Replicate,)>()?;
    /// let both: [DTensor; 2] = [rows.erase(), whole.erase()];
    /// # Ok(())
    /// # })?;
    /// # Ok::<(), local_map::Error>(())
    /// ```
    pub fn erase(self) -> DTensor {
        DTensor::new(self.parts)
    }

    /// The borrowed tensor as one of whose placements the compiler knows nothing, for functions that take any: `show(f(&x)?.as_dyn())`.
    /// Where it is clear already that the tensor has a known layout, as in `let y = f(&x)?; show(&y)`, the compiler does this itself.
    pub fn as_dyn(&self) -> &DTensor {
        DTensor::of(&self.parts)
    }

    /// What became of a tensor with this layout under an operation that keeps placements.
    pub(crate) fn keeping(tensor: DTensor) -> DTensor<L> {
        DTensor::new(tensor.parts)
    }
}

impl DTensor {
    /// The same tensor, with a layout that the compiler knows from here on. No communication.
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use local_map::prelude::*;
    ///
    /// type Batch = DTensor<(Shard<0>,)>;
    ///
    /// fn batch(rows: Tensor, mesh: &DeviceMesh) -> local_map::Result<Batch> {
    ///     DTensor::from_local(rows, mesh, &[Shard(0)])?.cast()
    /// }
    ///
    /// launch(1, |world| {
    ///     let rows = Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?;
    ///     batch(rows, &world.mesh([("dp", 1)])?).map(drop)
    /// })?;
    /// # Ok::<(), local_map::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor is placed otherwise; see [`reshard_to`](DTensor::reshard_to).
    pub fn cast<L: StaticLayout>(&self) -> Result<DTensor<L>> {
        let wanted = L::placements();
        let agrees = |(wanted, given): (&Option<Placement>, &Placement)| wanted.is_none_or(|w| w.may_equal(*given));
        if wanted.len() == self.placements().len() && wanted.iter().zip(self.placements().iter()).all(agrees) {
            return Ok(DTensor::keeping(self.clone()));
        }
        Err(Error::Placement(
            Report::new("a tensor does not have the layout that it is cast to")
                .on(self.mesh())
                .offender(format!("it is {self}, required {}", shown(&wanted)))
                .advice("call `reshard_to` instead, or correct the layout"),
        ))
    }

    /// The same global tensor under the placements of a layout, which the compiler knows from here on. [`Dyn`](crate::placement::types::Dyn) on an axis
    /// leaves it as it is. See [`reshard`](DTensor::reshard), which this is otherwise.
    ///
    /// # Errors
    /// As for [`reshard`](DTensor::reshard).
    #[track_caller]
    pub fn reshard_to<L: StaticLayout>(&self) -> Result<DTensor<L>> {
        let site = Location::caller();
        let mut to = Placements::new([]);
        for (axis, wanted) in L::placements().into_iter().enumerate() {
            to.push(wanted.or(self.placements().get(axis).copied()).unwrap_or(Placement::Replicate));
        }
        self.reshard_at(&to, site).map(DTensor::keeping)
    }
}

fn shown(wanted: &[Option<Placement>]) -> String {
    let text = |wanted: &Option<Placement>| wanted.map_or_else(|| "any".to_owned(), |placement| placement.to_string());
    format!("({})", wanted.iter().map(text).collect::<Vec<_>>().join(", "))
}

/// A tensor of a known layout is used as any tensor: everything that is done with a `DTensor` can be done with it.
impl<L: StaticLayout> Deref for DTensor<L> {
    type Target = DTensor;
    fn deref(&self) -> &DTensor {
        self.as_dyn()
    }
}

/// Forgets the layout.
impl<L: StaticLayout> From<DTensor<L>> for DTensor {
    fn from(tensor: DTensor<L>) -> DTensor {
        tensor.erase()
    }
}

/// A function that takes `impl AsRef<DTensor>` takes tensors of all layouts.
impl<L> AsRef<DTensor> for DTensor<L> {
    fn as_ref(&self) -> &DTensor {
        self.as_dyn()
    }
}

impl<L: StaticLayout> std::borrow::Borrow<DTensor> for DTensor<L> {
    fn borrow(&self) -> &DTensor {
        self.as_dyn()
    }
}
