//! W4: a step of a mixture of experts.

use std::hint::black_box;

use candle_core::{DType, Device, Tensor, Var};
use local_map::ops::softmax;
use local_map::prelude::*;
use local_map::{Result, launch};

use crate::measure::{Samples, sample, slowest};
use crate::rows::Row;
use dispatch::{Choice, Traffic};

#[path = "../../examples/moe_train/dispatch.rs"]
mod dispatch;

const TOKENS: usize = 2048;
const WIDTH: usize = 256;
const EXPERTS: usize = 8;
/// Experts per token, as the dispatch of the example wants it.
pub(crate) const CHOSEN: usize = 2;
const HIDDEN: usize = 512;
const BALANCE: f64 = 0.01;
/// Milliseconds of one and of two ranks of PyTorch.
const PYTORCH: [(usize, f64); 2] = [(1, 119.0), (2, 84.0)];
/// Of the largest magnitude: sums run in other orders than on one rank.
const TOLERANCE: f32 = 1e-4;

/// What the experts make of each token, with the router's probabilities and 0/1 choice, `[tokens, experts]`.
#[local_map(in = [[Shard(0)], [Replicate], [Shard(0)], [Shard(0)]], out = [[Shard(0)], [Shard(0)], [Shard(0)]])]
fn mixture(
    x: &Tensor,
    router: &Tensor,
    up: &Tensor,
    down: &Tensor,
    ctx: &Region,
) -> candle_core::Result<(Tensor, Tensor, Tensor)> {
    let (probabilities, choice) = route(x, router)?;
    let traffic = choice.traffic(ctx, "ep")?;
    let copies = x.index_select(&choice.tokens, 0)?;
    let here = ctx.all_to_all_varying(&copies, "ep", &traffic.send, &traffic.receive)?;
    let answers = experts(&here, up, down, &traffic)?;
    let answers = ctx.all_to_all_varying(&answers, "ep", &traffic.receive, &traffic.send)?;
    let weights = probabilities.gather(&choice.experts, 1)?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(1)?)?.unsqueeze(1)?;
    let answers = answers.index_select(&choice.places, 0)?.reshape((x.dim(0)?, CHOSEN, WIDTH))?;
    let mask = choice.mask()?.to_dtype(DType::F32)?;
    Ok((weights.matmul(&answers)?.squeeze(1)?, probabilities, mask))
}

fn route(x: &Tensor, router: &Tensor) -> candle_core::Result<(Tensor, Choice)> {
    let probabilities = softmax(&x.matmul(router)?, 1)?;
    let choice = Choice::of(&probabilities.detach().to_dtype(DType::F64)?)?;
    Ok((probabilities, choice))
}

/// The answers of this rank's experts to the copies that came, in the order in which these came.
fn experts(here: &Tensor, up: &Tensor, down: &Tensor, traffic: &Traffic) -> candle_core::Result<Tensor> {
    let (there, back) = traffic.there_and_back(here.device())?;
    let (from, to) = slots(&traffic.loads, here.device())?;
    let rows = here.index_select(&there.index_select(&from, 0)?, 0)?;
    let rows = rows.reshape((traffic.loads.len(), (), WIDTH))?;
    let answers = rows.matmul(up)?.relu()?.matmul(down)?.reshape(((), WIDTH))?;
    answers.index_select(&to.index_select(&back, 0)?, 0)
}

/// As many slots for each expert as the busiest needs, so that one product does for all: the row that lies in each slot,
/// and the slot of each row. Rows in spare slots are anybody's, and their answers nobody's.
fn slots(loads: &[usize], device: &Device) -> candle_core::Result<(Tensor, Tensor)> {
    let most = loads.iter().max().map_or(0, |&load| load);
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for (expert, &load) in loads.iter().enumerate() {
        let (start, slot) = (to.len(), expert * most);
        from.extend((0..most).map(|at| if at < load { (start + at) as u32 } else { 0 }));
        to.extend((slot..slot + load).map(|slot| slot as u32));
    }
    Ok((Tensor::new(from, device)?, Tensor::new(to, device)?))
}

/// Addends of the mean square, and of each expert's mean probability and mean choice.
#[local_map(in = [[Shard(0)], [Shard(0)], [Shard(0)]], out = [[Partial(Sum)], [Partial(Sum)], [Partial(Sum)]])]
fn means(out: &Tensor, probabilities: &Tensor, mask: &Tensor) -> candle_core::Result<(Tensor, Tensor, Tensor)> {
    plain_means(out, probabilities, mask)
}

fn plain_means(out: &Tensor, probabilities: &Tensor, mask: &Tensor) -> candle_core::Result<(Tensor, Tensor, Tensor)> {
    let square = (out.sqr()?.sum_all()? / (TOKENS * WIDTH) as f64)?;
    Ok((square, (probabilities.sum(0)? / TOKENS as f64)?, (mask.sum(0)? / TOKENS as f64)?))
}

#[local_map(in = [[Replicate], [Replicate], [Replicate]], out = [Replicate], reshard)]
fn total(square: &Tensor, probability: &Tensor, chosen: &Tensor) -> candle_core::Result<Tensor> {
    plain_total(square, probability, chosen)
}

fn plain_total(square: &Tensor, probability: &Tensor, chosen: &Tensor) -> candle_core::Result<Tensor> {
    square + ((probability * chosen)?.sum_all()? * (BALANCE * EXPERTS as f64))?
}

/// The tokens, the router and the experts' two matrices: whole, and the same in every run.
fn leaves() -> candle_core::Result<[Tensor; 4]> {
    let leaf = |seed: f64, scale: f64, shape: &[usize]| -> candle_core::Result<Tensor> {
        let n = Tensor::arange(1.0, shape.iter().product::<usize>() as f64 + 1.0, &Device::Cpu)?;
        ((n.sqr()? * seed)?.sin()? * scale)?.to_dtype(DType::F32)?.reshape(shape)
    };
    Ok([
        leaf(2.3, 1.0, &[TOKENS, WIDTH])?,
        leaf(2.9, 0.1, &[WIDTH, EXPERTS])?,
        leaf(3.7, 0.1, &[EXPERTS, WIDTH, HIDDEN])?,
        leaf(4.3, 0.1, &[EXPERTS, HIDDEN, WIDTH])?,
    ])
}

/// The loss and the gradients of the leaves on one rank, where every expert answers every token: nothing is dispatched.
fn reference(leaves: &[Tensor; 4]) -> Result<Vec<Vec<f32>>> {
    let vars = leaves.iter().map(Var::from_tensor).collect::<candle_core::Result<Vec<Var>>>()?;
    let [x, router, up, down] = &vars[..] else { panic!("there are four leaves") };
    let (probabilities, choice) = route(x, router)?;
    let mask = choice.mask()?.to_dtype(DType::F32)?;
    let weights = (&probabilities * &mask)?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(1)?)?.t()?.unsqueeze(2)?;
    let answers = x.broadcast_left(EXPERTS)?.contiguous()?.matmul(up)?.relu()?.matmul(down)?;
    let out = answers.broadcast_mul(&weights)?.sum(0)?;
    let (square, probability, chosen) = plain_means(&out, &probabilities, &mask)?;
    let loss = plain_total(&square, &probability, &chosen)?;
    let gradients = loss.backward()?;
    let mut all = vec![vec![loss.to_scalar()?]];
    for var in &vars {
        let Some(gradient) = gradients.get(var) else { panic!("every leaf has a gradient") };
        all.push(gradient.flatten_all()?.to_vec1()?);
    }
    Ok(all)
}

fn same(ours: &DTensor, theirs: &[f32]) -> Result<()> {
    let ours = ours.full()?.flatten_all()?.to_vec1::<f32>()?;
    assert_eq!(ours.len(), theirs.len());
    let largest = theirs.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let close = |(ours, theirs): (&f32, &f32)| (ours - theirs).abs() <= TOLERANCE * largest;
    assert!(ours.iter().zip(theirs).all(close), "several ranks and one must agree");
    Ok(())
}

pub(crate) fn w4(ranks: usize, rows: &mut Vec<Row>) -> Result<()> {
    let whole = leaves()?;
    let expected = reference(&whole)?;
    let samples = launch(ranks, |world| -> Result<Samples> {
        let mesh = world.mesh([("ep", ranks)])?;
        let leaf = |whole, placement| DTensor::shard(whole, &mesh, &[placement])?.requires_grad();
        let [x, router, up, down] = &whole;
        let leaves = [leaf(x, Shard(0))?, leaf(router, Replicate)?, leaf(up, Shard(0))?, leaf(down, Shard(0))?];
        let [x, router, up, down] = &leaves;
        let step = || -> Result<(DTensor, Gradients)> {
            let (out, probabilities, mask) = mixture(black_box(x), router, up, down)?;
            let (square, probability, chosen) = means(&out, &probabilities, &mask)?;
            let loss = total(&square, &probability, &chosen)?;
            let gradients = loss.backward()?;
            Ok((loss.erase(), gradients))
        };

        let (loss, gradients) = step()?;
        same(&loss, &expected[0])?;
        for (leaf, expected) in leaves.iter().zip(&expected[1..]) {
            let Some(gradient) = gradients.get(leaf) else { panic!("every leaf has a gradient") };
            same(gradient, expected)?;
        }
        drop((loss, gradients));
        sample(&mesh.communicator(&[])?, step)
    })?;
    let samples = slowest(samples);
    let mut row = Row::new("W4", "moe step fwd+bwd", ranks, format!("{TOKENS}x{WIDTH}"), "f32", samples);
    if let Some((_, theirs)) = PYTORCH.into_iter().find(|&(n, _)| n == ranks) {
        row.note = format!("{:.2} x PyTorch's {theirs} ms", row.median() / 1e3 / theirs);
    }
    rows.push(row);
    Ok(())
}
