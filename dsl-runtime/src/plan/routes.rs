//! Routes: which elements of whose local tensor go where in one rank's new part.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::mesh::unflatten;
use crate::placement::{Placement, ReduceOp};
use crate::shard::{Dims, Piece, Span};
use crate::spec::{AxisList, Spec, flatten_over};

/// What one rank does in an exchange: its output is tiled by routes, each the reduction of one box of several ranks'
/// inputs. Ranks are positions in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routes {
    /// The number of elements of the output.
    pub(crate) len: usize,
    /// Disjoint boxes that cover the output.
    pub(crate) routes: Vec<Route>,
    /// How the sources of a route are combined.
    pub(crate) reduction: Reduction,
    /// The positions that compute the same output, this one among them, rising.
    pub(crate) share: SmallVec<[usize; 8]>,
    /// A hash of how the output is tiled and shared: ranks that fill one output together must agree on it.
    pub(crate) tiling: u64,
}

/// One box of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The positions whose boxes are reduced, rising.
    pub(crate) from: SmallVec<[usize; 4]>,
    /// The size of the box; its last dimension is contiguous in the sources and in the output.
    pub(crate) extent: Dims,
    /// Where the box lies in each source.
    pub(crate) src: Lines,
    /// Where it lies in the output.
    pub(crate) dst: Lines,
}

/// How a box lies in a row-major buffer, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lines {
    /// The first element.
    pub(crate) start: usize,
    /// The distance between neighbours on each dimension.
    pub(crate) strides: Dims,
}

/// How partial values are combined: a fold in rank order, then a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// The fold.
    pub(crate) fold: Fold,
    /// What the result is divided by; 1 but for averages.
    pub(crate) divisor: usize,
}

/// An associative operation on elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Addition.
    Sum,
    /// Multiplication.
    Prod,
    /// The larger; NaN wins.
    Max,
    /// The smaller; NaN wins.
    Min,
}

impl Reduction {
    /// The reduction of `op` over `ranks` ranks.
    ///
    /// Truth values are unsigned and true when not zero, so Any is the maximum and All the minimum.
    pub(crate) fn of(op: ReduceOp, ranks: usize) -> Reduction {
        let (fold, divisor) = match op {
            ReduceOp::Sum => (Fold::Sum, 1),
            ReduceOp::Avg => (Fold::Sum, ranks),
            ReduceOp::Prod => (Fold::Prod, 1),
            ReduceOp::Max | ReduceOp::Any => (Fold::Max, 1),
            ReduceOp::Min | ReduceOp::All => (Fold::Min, 1),
        };
        Reduction { fold, divisor }
    }

    /// Plain copies, for exchanges that reduce nothing.
    pub(crate) const NONE: Reduction = Reduction { fold: Fold::Sum, divisor: 1 };
}

impl Route {
    /// How many elements the box has.
    pub(crate) fn elements(&self) -> usize {
        self.extent.iter().product()
    }

    /// The route of `overlap` from a source that holds `old` to an output that holds `new`.
    fn of(from: SmallVec<[usize; 4]>, old: &Piece, new: &Piece, overlap: &Piece) -> Route {
        let (src, dst) = (Lines::of(old, overlap), Lines::of(new, overlap));
        let mut route = Route { from, extent: overlap.shape(), src, dst };
        route.simplify();
        route
    }

    /// The route of the first `len` elements of one source to the start of the output.
    fn copy(from: usize, len: usize) -> Route {
        let whole = run(0, len);
        Route::of([from].into_iter().collect(), &whole, &whole, &whole)
    }

    /// Merges dimensions that are one run in both buffers, so that the last one is as long as can be.
    fn simplify(&mut self) {
        let mut merged = Route {
            from: std::mem::take(&mut self.from),
            extent: Dims::new(),
            src: Lines::empty(self.src.start),
            dst: Lines::empty(self.dst.start),
        };
        for dim in 0..self.extent.len() {
            let (len, s, d) = (self.extent[dim], self.src.strides[dim], self.dst.strides[dim]);
            if len != 1 {
                merged.append(len, s, d);
            }
        }
        if merged.src.strides.last() != Some(&1) || merged.dst.strides.last() != Some(&1) {
            merged.push(1, 1, 1);
        }
        *self = merged;
    }

    fn append(&mut self, len: usize, src: usize, dst: usize) {
        match (self.extent.last_mut(), self.src.strides.last_mut(), self.dst.strides.last_mut()) {
            (Some(e), Some(s), Some(d)) if *s == src * len && *d == dst * len => {
                *e *= len;
                *s = src;
                *d = dst;
            }
            _ => self.push(len, src, dst),
        }
    }

    fn push(&mut self, len: usize, src: usize, dst: usize) {
        self.extent.push(len);
        self.src.strides.push(src);
        self.dst.strides.push(dst);
    }
}

impl Lines {
    fn empty(start: usize) -> Lines {
        let strides = Dims::new();
        Lines { start, strides }
    }

    /// How the box `part` lies in a row-major buffer that holds the box `whole`.
    fn of(whole: &Piece, part: &Piece) -> Lines {
        let mut lines = Lines::empty(0);
        let mut stride = 1;
        for (w, p) in whole.0.iter().zip(&part.0).rev() {
            lines.start += (p.start - w.start) * stride;
            lines.strides.push(stride);
            stride *= w.len;
        }
        lines.strides.reverse();
        lines
    }
}

/// One run of a flat buffer, as a box.
fn run(start: usize, len: usize) -> Piece {
    Piece([Span { start, len }].into_iter().collect())
}

/// A box of `rows` rows, of which it holds the columns of `span`.
fn columns(rows: usize, span: Span) -> Piece {
    let rows = Span { start: 0, len: rows };
    Piece([rows, span].into_iter().collect())
}

impl Routes {
    /// Every rank reduces the whole inputs of all, of `len` elements each.
    pub(crate) fn all_reduce(ranks: usize, len: usize, op: ReduceOp) -> Routes {
        let whole = run(0, len);
        let route = Route::of((0..ranks).collect(), &whole, &whole, &whole);
        Routes::of(len, [route], Reduction::of(op, ranks), (0..ranks).collect())
    }

    /// Every rank concatenates all inputs along a dimension: `outer` rows, in which rank `r` has `lens[r]` elements.
    pub(crate) fn all_gather(outer: usize, lens: &[usize]) -> Routes {
        let row = lens.iter().sum();
        let whole = columns(outer, Span { start: 0, len: row });
        let mut start = 0;
        let routes = lens.iter().enumerate().map(|(rank, &len)| {
            let part = columns(outer, Span { start, len });
            start += len;
            Route::of([rank].into_iter().collect(), &part, &whole, &part)
        });
        Routes::of(outer * row, routes, Reduction::NONE, (0..lens.len()).collect())
    }

    /// Rank `me` reduces its run of the rows of all inputs: of `outer` rows, rank `r` gets `lens[r]` elements each.
    pub(crate) fn reduce_scatter(outer: usize, lens: &[usize], me: usize, op: ReduceOp) -> Routes {
        let whole = columns(outer, Span { start: 0, len: lens.iter().sum() });
        let start = lens[..me].iter().sum();
        let part = columns(outer, Span { start, len: lens[me] });
        let route = Route::of((0..lens.len()).collect(), &whole, &part, &part);
        let reduction = Reduction::of(op, lens.len());
        Routes::of(outer * lens[me], [route], reduction, [me].into_iter().collect())
    }

    /// Rank `me` concatenates one run of each source's input: `runs[r]` starts there and is that long.
    pub(crate) fn runs(me: usize, runs: &[Span]) -> Routes {
        let len = runs.iter().map(|r| r.len).sum();
        let mut start = 0;
        let routes = runs.iter().enumerate().map(|(rank, run)| {
            let mut route = Route::copy(rank, run.len);
            (route.src.start, route.dst.start) = (run.start, start);
            start += run.len;
            route
        });
        Routes::of(len, routes, Reduction::NONE, [me].into_iter().collect())
    }

    /// All ranks of `share` copy the input of `root`, of `len` elements.
    pub(crate) fn broadcast(root: usize, len: usize, share: impl IntoIterator<Item = usize>) -> Routes {
        let route = Route::copy(root, len);
        Routes::of(len, [route], Reduction::NONE, share.into_iter().collect())
    }

    /// The rank at `coord` cuts its part out of the whole tensor, which position `root` of the mesh has.
    pub(crate) fn from_root(spec: &Spec, root: usize, coord: &[usize]) -> Routes {
        let whole = Piece(spec.shape().iter().map(|&len| Span { start: 0, len }).collect());
        let part = spec.piece(coord);
        let route = Route::of([root].into_iter().collect(), &whole, &part, &part);
        let axes: AxisList = (0..spec.mesh().axis_count()).collect();
        Routes::of(part.elements(), [route], Reduction::NONE, sharers(spec, &axes, coord))
    }

    /// The same output for position `me` alone.
    #[must_use]
    pub(crate) fn alone(self, me: usize) -> Routes {
        Routes::of(self.len, self.routes, self.reduction, [me].into_iter().collect())
    }

    /// Every source is read from `start` elements further on.
    #[must_use]
    pub(crate) fn further(mut self, start: usize) -> Routes {
        self.routes.iter_mut().for_each(|r| r.src.start += start);
        self
    }

    /// Nothing is produced.
    pub(crate) fn nothing(me: usize) -> Routes {
        Routes::of(0, [], Reduction::NONE, [me].into_iter().collect())
    }

    fn of(
        len: usize,
        routes: impl IntoIterator<Item = Route>,
        reduction: Reduction,
        share: SmallVec<[usize; 8]>,
    ) -> Routes {
        let routes: Vec<Route> = routes.into_iter().filter(|r| r.elements() > 0).collect();
        let mut hasher = std::hash::DefaultHasher::new();
        (len, &share).hash(&mut hasher);
        routes.iter().for_each(|r| (&r.extent, &r.dst).hash(&mut hasher));
        let tiling = hasher.finish();
        Routes { len, routes, reduction, share, tiling }
    }
}

/// What the rank at `coord` does in an exchange over `axes` that turns `from` into `to`.
pub(crate) fn routes(from: &Spec, to: &Spec, axes: &[usize], coord: &[usize]) -> Routes {
    let new = to.piece(coord);
    let cut = in_group(axes, |a| from.placements()[a].shard_dim().is_some());
    let reduced =
        in_group(axes, |a| from.placements()[a].partial_op().is_some() && from.placements()[a] != to.placements()[a]);
    let routes = walk(&cut, coord, from.mesh().sizes()).map(|source| {
        let old = from.piece(&source);
        let overlap = old.intersect(&new);
        Route::of(positions(&reduced, &source, axes, from), &old, &new, &overlap)
    });
    Routes::of(new.elements(), routes, reduction(from, &reduced), sharers(to, axes, coord))
}

fn in_group(axes: &[usize], keep: impl Fn(usize) -> bool) -> AxisList {
    axes.iter().copied().filter(|&a| keep(a)).collect()
}

/// `coord` with every combination of coordinates on `axes`, in row-major order.
fn walk(axes: &[usize], coord: &[usize], sizes: &[usize]) -> impl Iterator<Item = Dims> {
    let picked: Dims = axes.iter().map(|&a| sizes[a]).collect();
    (0..picked.iter().product()).map(move |flat| {
        let mut full = Dims::from_slice(coord);
        for (&a, c) in axes.iter().zip(unflatten(flat, &picked)) {
            full[a] = c;
        }
        full
    })
}

/// The positions in the group of all ranks that agree with `coord` but on the axes `free`.
fn positions(free: &[usize], coord: &[usize], axes: &[usize], spec: &Spec) -> SmallVec<[usize; 4]> {
    let sizes = spec.mesh().sizes();
    let all = walk(free, coord, sizes).map(|c| flatten_over(axes, &c, sizes));
    all.collect()
}

/// Ranks whose outputs are equal: they differ only where the target is replicated.
fn sharers(to: &Spec, axes: &[usize], coord: &[usize]) -> SmallVec<[usize; 8]> {
    let replicated = in_group(axes, |a| to.placements()[a] == Placement::Replicate);
    positions(&replicated, coord, axes, to).into_iter().collect()
}

/// Over several axes only Sum and Avg meet, which are one sum and one division.
fn reduction(from: &Spec, reduced: &[usize]) -> Reduction {
    let each = reduced.iter().filter_map(|&a| {
        let op = from.placements()[a].partial_op()?;
        Some(Reduction::of(op, from.mesh().sizes()[a]))
    });
    each.reduce(|a, b| Reduction { fold: a.fold, divisor: a.divisor * b.divisor }).unwrap_or(Reduction::NONE)
}
