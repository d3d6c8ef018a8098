//! The mixture-of-experts layer: a region whose body sends every token to the ranks that hold its experts, and back.

use candle_core::{Result, Tensor};
use local_map::ops::softmax;
use local_map::prelude::*;

use crate::CHOSEN;
use crate::dispatch::{Choice, Traffic};

/// Each token plus what its experts make of it, with the router's logits `[tokens, experts]` and its 0/1 choice.
///
/// Tokens are cut over both axes of the mesh (dp, ep), experts over `ep`: a token finds all experts on the ranks along
/// `ep`, and each expert is held, and trained, once for every position on `dp`.
#[local_map(
    in = [[Shard(0), Shard(0)], [Replicate, Replicate], [Replicate, Shard(0)], [Replicate, Shard(0)]],
    out = [[Shard(0), Shard(0)], [Shard(0), Shard(0)], [Shard(0), Shard(0)]],
)]
pub(crate) fn mixture(
    x: &Tensor,
    router: &Tensor,
    up: &Tensor,
    down: &Tensor,
    ctx: &Region,
) -> Result<(Tensor, Tensor, Tensor)> {
    let logits = x.matmul(router)?;
    let probabilities = softmax(&logits, 1)?;
    let choice = Choice::of(&probabilities)?;
    let traffic = choice.traffic(ctx, "ep")?;
    let copies = x.index_select(&choice.tokens, 0)?;
    let here = ctx.all_to_all_varying(&copies, "ep", &traffic.send, &traffic.receive)?;
    let answers = experts(&here, up, down, &traffic)?;
    let answers = ctx.all_to_all_varying(&answers, "ep", &traffic.receive, &traffic.send)?;
    let mixed = combine(&answers, &probabilities, &choice)?;
    Ok(((x + mixed)?, logits, choice.mask()?))
}

/// The answers of this rank's experts to the copies that came, in the order in which these came.
fn experts(here: &Tensor, up: &Tensor, down: &Tensor, traffic: &Traffic) -> Result<Tensor> {
    let (there, back) = traffic.there_and_back(here.device())?;
    let grouped = here.index_select(&there, 0)?;
    let mut answers = Vec::new();
    let mut start = 0;
    for (expert, &load) in traffic.loads.iter().enumerate() {
        // An expert without tokens takes part with no rows.
        let rows = grouped.narrow(0, start, load)?;
        answers.push(rows.matmul(&up.get(expert)?)?.relu()?.matmul(&down.get(expert)?)?);
        start += load;
    }
    Tensor::cat(&answers, 0)?.index_select(&back, 0)
}

/// The mean of the answers to each token, weighted by the probabilities of the experts that gave them.
fn combine(answers: &Tensor, probabilities: &Tensor, choice: &Choice) -> Result<Tensor> {
    let weights = probabilities.gather(&choice.experts, 1)?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(1)?)?.unsqueeze(2)?;
    let answers = answers.index_select(&choice.places, 0)?;
    let answers = answers.reshape((weights.dim(0)?, CHOSEN, answers.dim(1)?))?;
    answers.broadcast_mul(&weights)?.sum(1)
}
