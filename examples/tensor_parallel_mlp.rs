//! A multi-layer perceptron whose hidden dimension is cut over four ranks, as Megatron does, and its gradients beside those of
//! one device.
//!
//! The first weight is cut by columns, the second by rows, so the two products need no communication between them: each rank
//! gets an addend of the result, and one all-reduce makes it whole. The backward pass needs one all-reduce, too: of the
//! gradient of the input, to which every rank has an addend.
//!
//! Run it with `cargo run --example tensor_parallel_mlp`.

use candle_core::{Device, Result, Tensor, Var};
use comfy_table::{Table, presets::UTF8_FULL_CONDENSED};
use local_map::prelude::*;

const RANKS: usize = 4;
const ROWS: usize = 6;
const WIDTH: usize = 8;
/// Does not divide by the number of ranks: they hold 5, 5, 5 and 3 hidden units.
const HIDDEN: usize = 18;

#[local_map(in = [[Replicate], [Shard(1)], [Shard(0)]], out = [Partial(Sum)])]
fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
    plain_mlp(x, up, down)
}

/// Half the mean square over the rows; the same on every rank, once the result is whole.
#[local_map(in = [[Replicate]], out = [Replicate], reshard)]
fn loss(y: &Tensor) -> Result<Tensor> {
    plain_loss(y)
}

fn plain_mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor> {
    x.matmul(up)?.relu()?.matmul(down)
}

fn plain_loss(y: &Tensor) -> Result<Tensor> {
    y.sqr()?.sum_all()? / (2 * ROWS) as f64
}

/// A tensor of waves: deterministic, and neither sign nor size is uniform.
fn waves(rows: usize, columns: usize, phase: f64) -> Result<Tensor> {
    let values: Vec<f64> = (0..rows * columns).map(|i| (0.7 * i as f64 + phase).sin()).collect();
    Tensor::from_vec(values, (rows, columns), &Device::Cpu)
}

/// The input and the two weights, by name.
fn tensors() -> Result<[(&'static str, Tensor); 3]> {
    Ok([("x", waves(ROWS, WIDTH, 0.0)?), ("up", waves(WIDTH, HIDDEN, 1.0)?), ("down", waves(HIDDEN, WIDTH, 2.0)?)])
}

/// The loss and the gradients on one device.
fn one_device() -> Result<(f64, Vec<Tensor>)> {
    let vars = tensors()?.iter().map(|(_, t)| Var::from_tensor(t)).collect::<Result<Vec<Var>>>()?;
    let loss = plain_loss(&plain_mlp(&vars[0], &vars[1], &vars[2])?)?;
    let gradients = loss.backward()?;
    let of = |var: &Var| gradients.get(var).cloned().ok_or_else(|| candle_core::Error::Msg("no gradient".into()));
    Ok((loss.to_scalar()?, vars.iter().map(of).collect::<Result<_>>()?))
}

/// What one rank holds of a tensor, and the whole gradient.
struct Row {
    placement: String,
    piece: Vec<usize>,
    gradient: Tensor,
}

fn program(world: World) -> Result<(f64, Vec<Row>)> {
    let mesh = world.mesh([("tp", RANKS)])?;
    let cut = [Replicate, Shard(1), Shard(0)];
    let params = tensors()?
        .iter()
        .zip(cut)
        .map(|((_, whole), placement)| Ok(Param::new(&DTensor::shard(whole, &mesh, &[placement])?)?))
        .collect::<Result<Vec<Param>>>()?;

    let loss = loss(&mlp(&params[0], &params[1], &params[2])?)?;
    let gradients = loss.backward()?;

    let row = |param: &Param| {
        let gradient = gradients.get(param).ok_or_else(|| candle_core::Error::Msg("no gradient".into()))?;
        let piece = gradient.to_local()?.dims().to_vec();
        Ok(Row { placement: gradient.placements().to_string(), piece, gradient: gradient.full()? })
    };
    Ok((loss.full()?.to_scalar()?, params.iter().map(row).collect::<Result<_>>()?))
}

/// The largest difference between two tensors.
fn distance(a: &Tensor, b: &Tensor) -> Result<f64> {
    (a - b)?.abs()?.max_all()?.to_scalar()
}

fn main() -> Result<()> {
    let (expected, oracle) = one_device()?;
    let ranks = launch(RANKS, program)?;
    println!("loss {:.9} on mesh (tp={RANKS}), {expected:.9} on one device\n", ranks[0].0);

    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["gradient of", "shape", "placed as", "piece on rank 0", "on rank 3", "off by at most"]);
    for (index, (name, whole)) in tensors()?.iter().enumerate() {
        let off = ranks.iter().map(|(_, rows)| distance(&rows[index].gradient, &oracle[index]));
        let off = off.collect::<Result<Vec<f64>>>()?.into_iter().fold(0.0, f64::max);
        assert!(off < 1e-9, "the gradient of `{name}` equals that of one device");
        let piece = |rank: usize| format!("{:?}", ranks[rank].1[index].piece);
        let shape = format!("{:?}", whole.dims());
        let placement = &ranks[0].1[index].placement;
        table.add_row([*name, &shape, placement, &piece(0), &piece(RANKS - 1), &format!("{off:.0e}")]);
    }
    println!("{table}");
    assert!(ranks.iter().all(|(loss, _)| (loss - expected).abs() < 1e-9), "every rank has the loss of one device");
    Ok(())
}
