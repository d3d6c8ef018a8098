//! A bounded cache of plans, each with what one rank does in its exchanges.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lru::LruCache;

use super::{Plan, Routes, routes};
use crate::error::Result;
use crate::placement::{Placement, Placements};
use crate::shard::Dims;
use crate::spec::Spec;

/// How many plans are kept for one mesh; the least recently used one makes room.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not zero");

/// A plan with what one rank does.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    /// One entry per step, worked out when the step is first performed.
    parts: Vec<OnceLock<Part>>,
    /// The whole change as text, which ranks compare.
    pub(crate) detail: Arc<str>,
}

/// What one rank does in an exchange, and the shape that it gets.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) routes: Routes,
    pub(crate) shape: Dims,
}

impl Prepared {
    pub(crate) fn new(plan: Plan) -> Prepared {
        let parts = plan.steps().iter().map(|_| OnceLock::new()).collect();
        let detail = described(&plan).into();
        Prepared { plan, parts, detail }
    }

    /// What the rank at `coord` does in an exchange over `axes`; always the same rank.
    pub(crate) fn part(&self, index: usize, axes: &[usize], coord: &[usize]) -> &Part {
        let step = &self.plan.steps()[index];
        self.parts[index].get_or_init(|| Part {
            routes: routes::routes(&step.from, &step.to, axes, coord),
            shape: step.to.piece(coord).shape(),
        })
    }
}

/// All that ranks must agree on beside shape and element type.
fn described(plan: &Plan) -> String {
    let (from, to) = (plan.from(), plan.to());
    let ragged = |spec: &Spec| -> String {
        let dims = spec.ragged_dims().iter();
        dims.map(|r| format!(" with dim {} in parts of {:?}", r.dim, r.lens)).collect()
    };
    format!("from {}{} to {}{} on {}", from.placements(), ragged(from), to.placements(), ragged(to), from.mesh())
}

/// The plans of one rank on one mesh.
#[derive(Debug)]
pub(crate) struct PlanCache(Mutex<LruCache<Change, Arc<Prepared>>>);

/// A tensor and the placements that it gets.
type Change = (Arc<Spec>, Placements);

impl Default for PlanCache {
    fn default() -> Self {
        PlanCache(Mutex::new(LruCache::new(CAPACITY)))
    }
}

impl PlanCache {
    /// The plan from `from` to `to`, planned once.
    pub(crate) fn get(&self, from: &Arc<Spec>, to: &[Placement]) -> Result<Arc<Prepared>> {
        let key = (from.clone(), Placements::from(to));
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = lock().get(&key) {
            return Ok(prepared.clone());
        }
        let prepared = Arc::new(Prepared::new(Plan::between(from, to)?));
        lock().put(key, prepared.clone());
        Ok(prepared)
    }
}
