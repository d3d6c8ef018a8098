//! Collectives on plain tensors among the ranks along mesh axes.

use std::panic::Location;
use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::storage::{buffer_of, plain, tensor_of};
use crate::comm::{BARRIER, Buffer, Call, Counts, DeviceMesh, Transport};
use crate::error::{Error, Report, Result};
use crate::placement::ReduceOp;
use crate::plan::Routes;
use crate::shard::{Dims, chunk};
use crate::spec::{Typed, can_reduce};

/// The ranks along some axes of a mesh through this one, and the collectives among them.
///
/// Positions count the ranks in the order of the axes. Every rank of the group must make the same calls in the same
/// order; a call that differs is an error on all of them that names every call's line. All take and give plain tensors. A
/// result may be one tensor that is shared with other ranks: never write it in place, copy it first.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use local_map::prelude::*;
/// use local_map::Result;
/// let sums = launch(3, |world| -> Result<f64> {
///     let group = world.mesh([("dp", 3)])?.communicator(&["dp"])?;
///     let mine = Tensor::new(world.rank() as f64, &Device::Cpu)?;
///     Ok(group.all_reduce(&mine, Sum)?.to_scalar()?)
/// })?;
/// assert_eq!(sums, [3.0; 3]);
/// # Ok::<(), local_map::Error>(())
/// ```
///
/// # Errors
/// All operations: another rank failed, disagrees or does not come; the tensor is on a device that the engine does not
/// reach; its type or shape does not fit the operation.
#[derive(Clone)]
pub struct Communicator(Arc<dyn Transport>);

impl DeviceMesh {
    /// The ranks along the named axes through this one, flattened in this order; all ranks of the mesh where no axis is
    /// named.
    ///
    /// # Errors
    /// An unknown or repeated axis, or this rank is outside the mesh.
    pub fn communicator(&self, axes: &[&str]) -> Result<Communicator> {
        self.group_by_name(axes).map(Communicator)
    }
}

impl DeviceMesh {
    /// The ranks along the axes with these indices through this one, flattened in this order.
    pub(crate) fn communicator_over(&self, axes: &[usize]) -> Result<Communicator> {
        self.group(axes).map(Communicator)
    }
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(position {} of {})", self.position(), self.size())
    }
}

impl Communicator {
    /// This rank's position in the group.
    pub fn position(&self) -> usize {
        self.0.position()
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.size()
    }

    /// The reduction of all ranks' tensors, which have one shape.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, op: ReduceOp) -> Result<Tensor> {
        let call = self.open(reducing("all-reduce", x, op)?)?;
        let routes = Routes::all_reduce(self.size(), x.elem_count(), op);
        self.run(&call, Some(x), &routes, x.dims())
    }

    /// All ranks' tensors, which have one shape, concatenated along `dim`.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        self.all_gather_at(x, dim, Location::caller())
    }

    pub(crate) fn all_gather_at(&self, x: &Tensor, dim: usize, site: &'static Location<'static>) -> Result<Tensor> {
        let mut call = self.open(Call { site, ..Call::new("all-gather", x.dtype(), x.dims()) })?;
        call.detail = Some(format!("along dim {dim}").into());
        let len = length(&call, x.dims(), dim)?;
        self.gather_parts(call, x, dim, &vec![len; self.size()])
    }

    /// All ranks' tensors concatenated along `dim`, of which rank `r` brings `lens[r]`; other dimensions are equal.
    #[track_caller]
    pub fn all_gather_varying(&self, x: &Tensor, dim: usize, lens: &[usize]) -> Result<Tensor> {
        let mut call = self.open(Call::new("all-gather", x.dtype(), x.dims()))?;
        let len = length(&call, x.dims(), dim)?;
        self.one_per_rank(&call, lens.len())?;
        if lens[self.position()] != len {
            let expected = lens[self.position()];
            return Err(misfit(
                &call,
                format!("dim {dim} is {len}, but `lens` says {expected}"),
                "give the lengths that the ranks bring",
            ));
        }
        let (outer, inner) = around(x.dims(), dim);
        call.shape[dim] = total(&call, lens, outer * inner)?;
        call.detail = Some(format!("along dim {dim} in parts of {lens:?}").into());
        self.gather_parts(call, x, dim, lens)
    }

    fn gather_parts(&self, call: Call, x: &Tensor, dim: usize, lens: &[usize]) -> Result<Tensor> {
        let (outer, inner) = around(x.dims(), dim);
        let runs: Vec<usize> = lens.iter().map(|n| n * inner).collect();
        let mut shape: Dims = x.dims().into();
        shape[dim] = lens.iter().sum();
        self.run(&call, Some(x), &Routes::all_gather(outer, &runs), &shape)
    }

    /// This rank's chunk, along `dim`, of the reduction of all ranks' tensors, which have one shape. Chunks follow the
    /// rule of [`chunk`].
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, dim: usize, op: ReduceOp) -> Result<Tensor> {
        let mut call = self.open(reducing("reduce-scatter", x, op)?)?;
        call.detail = Some(format!("along dim {dim}").into());
        let len = length(&call, x.dims(), dim)?;
        let lens: Vec<usize> = (0..self.size()).map(|r| chunk(len, self.size(), r).len).collect();
        self.scatter_parts(call, x, dim, &lens, op)
    }

    /// As [`reduce_scatter`](Communicator::reduce_scatter) by Sum, where position `r` gets `lens[r]` indices.
    #[track_caller]
    pub(crate) fn reduce_scatter_parts(&self, x: &Tensor, dim: usize, lens: &[usize]) -> Result<Tensor> {
        let mut call = reducing("reduce-scatter", x, ReduceOp::Sum)?;
        call.detail = Some(format!("along dim {dim} in parts of {lens:?}").into());
        self.scatter_parts(call, x, dim, lens, ReduceOp::Sum)
    }

    fn scatter_parts(&self, call: Call, x: &Tensor, dim: usize, lens: &[usize], op: ReduceOp) -> Result<Tensor> {
        let (outer, inner) = around(x.dims(), dim);
        let runs: Vec<usize> = lens.iter().map(|n| n * inner).collect();
        let me = self.position();
        let mut shape: Dims = x.dims().into();
        shape[dim] = lens[me];
        self.run(&call, Some(x), &Routes::reduce_scatter(outer, &runs, me, op), &shape)
    }

    /// Position `to` gets the tensor of position `from`, for each pair `(from, to)`; zeros where no pair ends. All ranks bring
    /// tensors of one type and shape, and give the same pairs, in which no position receives twice.
    #[track_caller]
    pub fn permute(&self, x: &Tensor, pairs: &[(usize, usize)]) -> Result<Tensor> {
        let mut call = self.open(Call::new("permute", x.dtype(), x.dims()))?;
        call.detail = Some(format!("by {pairs:?}").into());
        let (me, size) = (self.position(), self.size());
        for (i, &(from, to)) in pairs.iter().enumerate() {
            if from >= size || to >= size {
                return Err(misfit(&call, format!("({from}, {to}) is not a pair of {size} positions"), POSITIONS));
            }
            if pairs[..i].iter().any(|&(_, other)| other == to) {
                return Err(misfit(&call, format!("position {to} receives twice"), "let every position receive once"));
            }
        }
        match pairs.iter().find(|&&(_, to)| to == me) {
            Some(&(from, _)) => self.run(&call, Some(x), &Routes::broadcast(from, x.elem_count(), [me]), x.dims()),
            None => {
                self.run(&call, Some(x), &Routes::nothing(me), &[0])?;
                Ok(x.detach().zeros_like()?)
            }
        }
    }

    /// `gradient` where this rank's value is the largest (or smallest) of all ranks', shared equally among those that tie.
    #[track_caller]
    pub(crate) fn keep_extremes(&self, value: &Tensor, gradient: &Tensor, op: ReduceOp) -> Result<Tensor> {
        let kept = value.eq(&self.all_reduce(value, op)?)?.to_dtype(value.dtype())?;
        let ties = self.all_reduce(&kept, ReduceOp::Sum)?;
        Ok((gradient * (kept / ties)?)?)
    }

    /// Sends one of `size` equal runs of rows to each rank, and concatenates the runs that come. All ranks bring one shape,
    /// whose first dimension divides by the number of ranks.
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor) -> Result<Tensor> {
        let call = self.open(Call::new("all-to-all", x.dtype(), x.dims()))?;
        let (rows, n) = (length(&call, x.dims(), 0)?, self.size());
        if !rows.is_multiple_of(n) {
            return Err(misfit(&call, format!("{rows} rows do not divide by {n} ranks"), "use `all_to_all_varying`"));
        }
        let each = vec![rows / n; n];
        self.exchange_rows(call, x, &each, &each)
    }

    /// Sends `send[r]` rows to each rank `r`, in order, and concatenates the rows that come: `receive[r]` from each. All
    /// ranks bring rows of one shape.
    #[track_caller]
    pub fn all_to_all_varying(&self, x: &Tensor, send: &[usize], receive: &[usize]) -> Result<Tensor> {
        let mut call = self.open(Call::new("all-to-all", x.dtype(), x.dims()))?;
        let rows = length(&call, x.dims(), 0)?;
        self.one_per_rank(&call, send.len())?;
        self.one_per_rank(&call, receive.len())?;
        let (_, row) = around(x.dims(), 0);
        let sent = total(&call, send, row)?;
        total(&call, receive, row)?;
        if sent != rows {
            return Err(misfit(&call, format!("it has {rows} rows, but `send` adds up to {sent}"), "send every row"));
        }
        // Ranks agree on the shape of a row, not on how many there are.
        call.shape.remove(0);
        call.detail = Some("per row".into());
        self.exchange_rows(call, x, send, receive)
    }

    fn exchange_rows(&self, call: Call, x: &Tensor, send: &[usize], receive: &[usize]) -> Result<Tensor> {
        let (_, row) = around(x.dims(), 0);
        let counts = Counts { row, send: send.to_vec(), receive: receive.to_vec() };
        let mut shape: Dims = x.dims().into();
        shape[0] = receive.iter().sum();
        tensor_of(self.0.all_to_all(&call, buffer_of(x)?, &counts, &plain(&shape))?)
    }

    /// The tensor of position `root`. All ranks bring tensors of one type and shape.
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, root: usize) -> Result<Tensor> {
        let call = self.rooted(Call::new("broadcast", x.dtype(), x.dims()), root)?;
        let routes = Routes::broadcast(root, x.elem_count(), 0..self.size());
        self.run(&call, Some(x), &routes, x.dims())
    }

    /// All ranks' tensors, which have one shape, concatenated along `dim` at position `root`; `None` elsewhere.
    #[track_caller]
    pub fn gather(&self, x: &Tensor, dim: usize, root: usize) -> Result<Option<Tensor>> {
        let mut call = self.rooted(Call::new("gather", x.dtype(), x.dims()), root)?;
        call.detail = Some(format!("along dim {dim}").into());
        let (len, me) = (length(&call, x.dims(), dim)?, self.position());
        let (outer, inner) = around(x.dims(), dim);
        let mut shape: Dims = x.dims().into();
        shape[dim] = len * self.size();
        if me != root {
            self.run(&call, Some(x), &Routes::nothing(me), &[0])?;
            return Ok(None);
        }
        let routes = Routes::all_gather(outer, &vec![len * inner; self.size()]).alone(me);
        self.run(&call, Some(x), &routes, &shape).map(Some)
    }

    /// This rank's chunk, along the first dimension, of the tensor of position `root`, which has the type and shape that
    /// all ranks give. Other ranks' `whole` is not read. Chunks follow the rule of [`chunk`].
    #[track_caller]
    pub fn scatter(&self, whole: Option<&Tensor>, dtype: DType, shape: &[usize], root: usize) -> Result<Tensor> {
        let call = self.rooted(Call::new("scatter", dtype, shape), root)?;
        let (rows, n, me) = (length(&call, shape, 0)?, self.size(), self.position());
        // A zero elsewhere would hide an overflow.
        let lens: Vec<usize> = shape.iter().copied().filter(|&len| len > 0).collect();
        if lens.iter().try_fold(dtype.size_in_bytes(), |bytes, &len| bytes.checked_mul(len)).is_none() {
            return Err(misfit(&call, "it has more bytes than can be addressed".to_owned(), "give the root's shape"));
        }
        let input = match whole {
            _ if me != root => None,
            Some(x) if x.dtype() == dtype && x.dims() == shape => Some(x),
            Some(x) => {
                let line = format!("the root has {}", Typed(x.dtype(), x.dims()));
                return Err(misfit(&call, line, "give the root's type and shape on every rank"));
            }
            None => return Err(misfit(&call, "the root has no tensor".to_owned(), "give it on the root")),
        };
        let (_, row) = around(shape, 0);
        let span = chunk(rows, n, me);
        let routes = Routes::broadcast(root, span.len * row, [me]).further(span.start * row);
        let mut part: Dims = shape.into();
        part[0] = span.len;
        self.run(&call, input, &routes, &part)
    }

    /// Sends a copy of `x` to position `to`; returns without waiting.
    #[track_caller]
    pub fn send(&self, x: &Tensor, to: usize) -> Result<()> {
        let call = Call::new("send and receive", x.dtype(), x.dims());
        self.peer(&call, to)?;
        self.0.send(&call, to, buffer_of(x)?, &plain(x.dims()))
    }

    /// Waits for the tensor of this type and shape that position `from` sends.
    #[track_caller]
    pub fn recv(&self, dtype: DType, shape: &[usize], from: usize) -> Result<Tensor> {
        let call = Call::new("send and receive", dtype, shape);
        self.peer(&call, from)?;
        tensor_of(self.0.recv(&call, from)?)
    }

    /// Waits until all ranks of the group have come here.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.0.barrier(&Call::new(BARRIER, DType::U8, &[]))
    }

    /// Runs an exchange of tensors. `call` was made at the author's line.
    fn run(&self, call: &Call, x: Option<&Tensor>, routes: &Routes, shape: &[usize]) -> Result<Tensor> {
        let input: Option<Buffer> = x.map(buffer_of).transpose()?;
        tensor_of(self.0.exchange(call, input, routes, &plain(shape))?)
    }

    /// Refuses what the engine cannot do before anything is prepared for it.
    fn open(&self, call: Call) -> Result<Call> {
        self.0.ready(&call)?;
        Ok(call)
    }

    fn rooted(&self, call: Call, root: usize) -> Result<Call> {
        let call = self.open(call)?;
        if root >= self.size() {
            let size = self.size();
            return Err(misfit(&call, format!("root {root} is not one of {size} positions"), POSITIONS));
        }
        Ok(Call { root: Some(root), ..call })
    }

    fn peer(&self, call: &Call, peer: usize) -> Result<()> {
        let (me, size) = (self.position(), self.size());
        if peer >= size {
            return Err(misfit(call, format!("peer {peer} is not one of {size} positions"), POSITIONS));
        }
        if peer == me {
            return Err(misfit(call, format!("peer {peer} is this rank itself"), POSITIONS));
        }
        Ok(())
    }

    fn one_per_rank(&self, call: &Call, given: usize) -> Result<()> {
        let size = self.size();
        if given == size {
            return Ok(());
        }
        Err(misfit(call, format!("lengths given: {given}, ranks: {size}"), "give one length per rank of the group"))
    }
}

#[track_caller]
fn reducing(name: &'static str, x: &Tensor, op: ReduceOp) -> Result<Call> {
    let call = Call { op: Some(op), site: Location::caller(), ..Call::new(name, x.dtype(), x.dims()) };
    can_reduce(op, x.dtype()).map_err(|why| Error::DType(Report::new(call.to_string()).offender(why)))?;
    Ok(call)
}

fn length(call: &Call, shape: &[usize], dim: usize) -> Result<usize> {
    let given = shape.len();
    shape.get(dim).copied().ok_or_else(|| misfit(call, format!("dim {dim} is not one of {given}"), "count dims from 0"))
}

/// What a wrong root or peer needs to know.
const POSITIONS: &str = "positions count the ranks of the group from 0, in the order of its axes";

fn misfit(call: &Call, line: String, advice: &str) -> Error {
    Error::Shape(Report::new(format!("{call}: an argument does not fit")).offender(line).advice(advice))
}

/// The sum of lengths, each of so many elements, or an error where they cannot be addressed.
fn total(call: &Call, lens: &[usize], elements: usize) -> Result<usize> {
    let sum = lens.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
    let each = elements.max(1) * call.dtype.size_in_bytes();
    let addressable = |sum: &usize| sum.checked_mul(each).is_some_and(|bytes| bytes <= isize::MAX as usize);
    sum.filter(addressable)
        .ok_or_else(|| misfit(call, format!("the lengths {lens:?} add up to more than can be"), "correct them"))
}

/// The number of elements around a dimension: how many rows before it, and the size of one index of it.
fn around(shape: &[usize], dim: usize) -> (usize, usize) {
    (shape[..dim].iter().product(), shape[dim + 1..].iter().product())
}
