//! Where each token goes: plans, as plain numbers, of what a rank sends, receives and hands to its experts.

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;
use local_map::shard::chunk;

use crate::CHOSEN;

/// The experts that a rank's tokens chose. A token is sent once to each expert that it chose: these are its copies.
pub(crate) struct Choice {
    /// `[tokens, CHOSEN]`, the most likely expert first.
    pub(crate) experts: Tensor,
    /// How many copies go to each expert.
    counts: Vec<u32>,
    /// The token of each copy, in the order in which the copies are sent: by expert, then by token.
    pub(crate) tokens: Tensor,
    /// Where in that order the copies of each token are, token by token.
    pub(crate) places: Tensor,
}

impl Choice {
    /// The most likely experts of each token; of equally likely ones, the first.
    pub(crate) fn of(probabilities: &Tensor) -> Result<Choice> {
        let chosen: Vec<u32> = probabilities.to_vec2::<f64>()?.iter().flat_map(|row| most_likely(row)).collect();
        let mut counts = vec![0; probabilities.dim(1)?];
        chosen.iter().for_each(|&expert| counts[expert as usize] += 1);
        // Experts lie along the axis in order, so copies in the order of experts are also in the order of ranks.
        let mut order: Vec<u32> = (0..chosen.len() as u32).collect();
        order.sort_by_key(|&copy| chosen[copy as usize]);
        let device = probabilities.device();
        Ok(Choice {
            counts,
            tokens: indices(order.iter().map(|copy| copy / CHOSEN as u32).collect(), device)?,
            places: indices(inverse(&order), device)?,
            experts: indices(chosen, device)?.reshape((probabilities.dim(0)?, CHOSEN))?,
        })
    }

    /// One for the chosen experts of each token, zero for the others: `[tokens, experts]`.
    pub(crate) fn mask(&self) -> Result<Tensor> {
        let experts = Tensor::arange(0, self.counts.len() as u32, self.experts.device())?;
        let hits = self.experts.unsqueeze(2)?.broadcast_eq(&experts)?;
        hits.to_dtype(candle_core::DType::U32)?.sum(1)
    }

    /// Tells the ranks along `axis` what comes from here, and learns what comes from them.
    pub(crate) fn traffic(&self, ctx: &Region, axis: &str) -> Result<Traffic> {
        let counts = Tensor::new(&self.counts[..], self.experts.device())?.unsqueeze(0)?;
        let counts = ctx.all_gather(&counts, axis, 0)?.to_vec2::<u32>()?;
        Ok(Traffic::new(&counts, ctx.coordinate(axis)?))
    }
}

/// The copies that one rank exchanges with the others, and how those that come are grouped by its experts.
pub(crate) struct Traffic {
    /// How many copies go to each rank.
    pub(crate) send: Vec<usize>,
    /// How many come from each.
    pub(crate) receive: Vec<usize>,
    /// How many of those that come are for each of this rank's experts.
    pub(crate) loads: Vec<usize>,
    /// Which of those that come are for its first expert, then for its second, and so on.
    by_expert: Vec<u32>,
}

impl Traffic {
    /// `counts` has one row for each rank, of its copies to each of all experts; `me` is this rank's.
    fn new(counts: &[Vec<u32>], me: usize) -> Traffic {
        let (ranks, experts) = (counts.len(), counts[me].len());
        let held = |rank| {
            let span = chunk(experts, ranks, rank);
            span.start..span.end()
        };
        let total = |counts: &[u32]| counts.iter().sum::<u32>() as usize;
        // From each rank comes one run of copies for each of this rank's experts.
        let incoming: Vec<&[u32]> = counts.iter().map(|row| &row[held(me)]).collect();
        let loads: Vec<usize> =
            (0..held(me).len()).map(|expert| incoming.iter().map(|runs| runs[expert] as usize).sum()).collect();
        Traffic {
            send: (0..ranks).map(|rank| total(&counts[me][held(rank)])).collect(),
            receive: incoming.iter().map(|runs| total(runs)).collect(),
            by_expert: grouped(&incoming, loads.len()),
            loads,
        }
    }

    /// The indices that bring the copies, as they come, into the order of this rank's experts, and those that bring them back.
    pub(crate) fn there_and_back(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        Ok((indices(self.by_expert.clone(), device)?, indices(inverse(&self.by_expert), device)?))
    }
}

/// The positions of consecutive runs, of lengths `runs[rank][expert]`, in the order of experts.
fn grouped(runs: &[&[u32]], experts: usize) -> Vec<u32> {
    let mut groups = vec![Vec::new(); experts];
    let mut start = 0;
    for runs in runs {
        for (group, len) in groups.iter_mut().zip(*runs) {
            group.extend(start..start + len);
            start += len;
        }
    }
    groups.concat()
}

fn most_likely(probabilities: &[f64]) -> Vec<u32> {
    let mut experts: Vec<u32> = (0..probabilities.len() as u32).collect();
    experts.sort_by(|&a, &b| probabilities[b as usize].total_cmp(&probabilities[a as usize]));
    experts.truncate(CHOSEN);
    experts
}

/// The permutation that undoes this one.
fn inverse(permutation: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; permutation.len()];
    permutation.iter().enumerate().for_each(|(to, &from)| inverse[from as usize] = to as u32);
    inverse
}

fn indices(values: Vec<u32>, device: &Device) -> Result<Tensor> {
    let len = values.len();
    Tensor::from_vec(values, len, device)
}
