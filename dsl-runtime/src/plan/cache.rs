//! A bounded cache of plans, each with what one rank does in its exchanges.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::{Plan, Routes, Step};
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
    /// One entry per step; `None` for local steps.
    pub(crate) parts: Vec<Option<Part>>,
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
    pub(crate) fn new(plan: Plan, coord: &[usize]) -> Prepared {
        let part = |step: &Step| step.routes(coord).map(|routes| Part { routes, shape: step.to.piece(coord).shape() });
        let parts = plan.steps().iter().map(part).collect();
        let (from, to) = (plan.from(), plan.to());
        let detail = format!("from {} to {}", from.placements(), to.placements()).into();
        Prepared { plan, parts, detail }
    }
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
    /// The plan from `from` to `to` for the rank at `coord`, planned once.
    pub(crate) fn get(&self, from: &Arc<Spec>, to: &[Placement], coord: &[usize]) -> Result<Arc<Prepared>> {
        let key = (from.clone(), Placements::from(to));
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(prepared) = lock().get(&key) {
            return Ok(prepared.clone());
        }
        let prepared = Arc::new(Prepared::new(Plan::between(from, to)?, coord));
        lock().put(key, prepared.clone());
        Ok(prepared)
    }
}
