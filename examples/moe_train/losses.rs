//! The losses of the *global* batch: sums over each rank's tokens, divided by the number of all, multiplied only when whole.

use candle_core::{DType, Result, Tensor};
use local_map::ops::{log_softmax, logsumexp, softmax};
use local_map::prelude::*;

use crate::EXPERTS;

/// Weights of the auxiliary losses.
const BALANCE: f64 = 0.01;
const Z: f64 = 0.001;

/// Cross-entropy in nats, plus the auxiliary losses of the router.
pub(crate) fn total(scores: &DTensor, labels: &DTensor, logits: &DTensor, choice: &DTensor) -> Result<DTensor> {
    let tokens = scores.shape()?[0];
    let (probability, chosen) = means(logits, choice, tokens)?;
    let balance = balance(&probability, &chosen)?;
    // Both are addends of a sum over the ranks, which is linear: one reduction does for both.
    let rest = (cross_entropy(scores, labels, tokens)? + (z_loss(logits, tokens)? * Z)?)?;
    Ok((rest.reshard(&[Replicate, Replicate])? + (balance * BALANCE)?)?.erase())
}

#[local_map(in = [[Shard(0), Shard(0)], [Shard(0), Shard(0)], _], out = [Partial(Sum), Partial(Sum)])]
fn cross_entropy(scores: &Tensor, labels: &Tensor, tokens: usize) -> Result<Tensor> {
    let likelihoods = log_softmax(scores, 1)?.gather(&labels.unsqueeze(1)?, 1)?;
    likelihoods.sum_all()? / -(tokens as f64)
}

#[local_map(in = [[Shard(0), Shard(0)], _], out = [Partial(Sum), Partial(Sum)])]
fn z_loss(logits: &Tensor, tokens: usize) -> Result<Tensor> {
    logsumexp(logits, 1)?.sqr()?.sum_all()? / tokens as f64
}

/// The mean probability and the mean choice of each expert, as addends.
#[local_map(
    in = [[Shard(0), Shard(0)], [Shard(0), Shard(0)], _],
    out = [[Partial(Sum), Partial(Sum)], [Partial(Sum), Partial(Sum)]],
)]
fn means(logits: &Tensor, choice: &Tensor, tokens: usize) -> Result<(Tensor, Tensor)> {
    let mean = |rows: &Tensor| rows.sum(0)? / tokens as f64;
    Ok((mean(&softmax(logits, 1)?)?, mean(&choice.to_dtype(DType::F64)?)?))
}

/// Not linear in the batch, so the entries say that the means come whole, and `reshard` makes them so.
#[local_map(
    in = [[Replicate, Replicate], [Replicate, Replicate]],
    out = [Replicate, Replicate],
    reshard,
)]
fn balance(probability: &Tensor, chosen: &Tensor) -> Result<Tensor> {
    (probability * chosen)?.sum_all()? * EXPERTS as f64
}

/// How many tokens each expert got.
#[local_map(in = [[Shard(0), Shard(0)]], out = [Partial(Sum), Partial(Sum)])]
pub(crate) fn load(choice: &Tensor) -> Result<Tensor> {
    choice.sum(0)
}

/// How many tokens have their largest score at their label.
#[local_map(in = [[Shard(0), Shard(0)], [Shard(0), Shard(0)]], out = [Partial(Sum), Partial(Sum)])]
pub(crate) fn hits(scores: &Tensor, labels: &Tensor) -> Result<Tensor> {
    // `argmax` refuses a tensor without rows, which is what a rank holds if there are fewer tokens than ranks.
    let guesses = if labels.elem_count() == 0 { labels.clone() } else { scores.argmax(1)? };
    guesses.eq(labels)?.to_dtype(DType::U32)?.sum_all()
}
