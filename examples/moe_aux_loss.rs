//! The auxiliary losses of a mixture-of-experts router, on 1,797 handwritten digits over four ranks.
//!
//! The router sends every token, here one digit, to the two of eight experts that it finds most likely. Two losses
//! train it: one keeps the experts evenly busy, one keeps the logits small. Both must come out as they would on one
//! device, although no rank sees all tokens and the ranks hold different numbers of them.
//!
//! Run it with `cargo run --example moe_aux_loss`.

use candle_core::{DType, Device, Error, Result, Tensor};
use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use flate2::read::GzDecoder;
use local_map::prelude::*;

const RANKS: usize = 4;
const PIXELS: usize = 64;
const EXPERTS: usize = 8;
const CHOSEN: usize = 2; // experts per token

/// The mathematics, for one device. The annotated functions call the same functions on the tokens of one rank.
mod plain {
    use super::{CHOSEN, DType, EXPERTS, Result, Tensor};

    /// Each row minus its largest value, and that value, so that `exp` cannot overflow.
    fn shifted(logits: &Tensor) -> Result<(Tensor, Tensor)> {
        // `max` refuses a tensor without rows, which is what a rank holds if there are fewer tokens than ranks.
        let top = match logits.dim(0)? {
            0 => logits.narrow(1, 0, 1)?,
            _ => logits.max_keepdim(1)?,
        };
        Ok((logits.broadcast_sub(&top)?, top))
    }

    /// Softmax over the experts.
    pub(super) fn probabilities(logits: &Tensor) -> Result<Tensor> {
        let exp = shifted(logits)?.0.exp()?;
        exp.broadcast_div(&exp.sum_keepdim(1)?)
    }

    /// One for the most likely experts of each token, zero for the others.
    pub(super) fn choice(probabilities: &Tensor) -> Result<Tensor> {
        // Sorting the sorted positions gives each expert's place in its row, and ties get different places.
        let order = probabilities.arg_sort_last_dim(false)?;
        let place = order.arg_sort_last_dim(true)?;
        place.lt(CHOSEN as u32)?.to_dtype(probabilities.dtype())
    }

    /// How many tokens each expert gets.
    pub(super) fn counts(choice: &Tensor) -> Result<Tensor> {
        choice.sum(0)?.to_dtype(DType::U32)
    }

    /// The sum over these rows, divided by the number of all `tokens`.
    pub(super) fn mean(rows: &Tensor, tokens: usize) -> Result<Tensor> {
        rows.sum(0)? / tokens as f64
    }

    /// `E * sum_e(g_e * m_e)` of each expert's mean probability and mean choice; `CHOSEN` if the load is even.
    pub(super) fn balance(probability: &Tensor, choice: &Tensor) -> Result<Tensor> {
        (probability * choice)?.sum_all()? * EXPERTS as f64
    }

    /// The mean over all `tokens` of the squared log-sum-exp, these rows' part of it.
    pub(super) fn z_loss(logits: &Tensor, tokens: usize) -> Result<Tensor> {
        let (shifted, top) = shifted(logits)?;
        let logsumexp = (shifted.exp()?.sum_keepdim(1)?.log()? + top)?;
        logsumexp.sqr()?.sum_all()? / tokens as f64
    }
}

/// Every rank routes its own tokens with the same weights.
#[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
fn logits(tokens: &Tensor, weights: &Tensor) -> Result<Tensor> {
    tokens.matmul(weights)
}

/// The softmax runs over the experts, of which a rank has all, so it needs no other rank.
#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn probabilities(logits: &Tensor) -> Result<Tensor> {
    plain::probabilities(logits)
}

/// The choice is made token by token.
#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn choice(probabilities: &Tensor) -> Result<Tensor> {
    plain::choice(probabilities)
}

/// Each rank counts its own tokens; an expert's count is the sum over the ranks.
#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn counts(choice: &Tensor) -> Result<Tensor> {
    plain::counts(choice)
}

/// The mean probability and the mean choice of each expert, as addends. All ranks divide by the global number of
/// tokens: dividing by their own would give a token of a rank with few tokens more weight.
#[local_map(in = [[Shard(0)], [Shard(0)], _], out = [[Partial(Sum)], [Partial(Sum)]])]
fn means(probabilities: &Tensor, choice: &Tensor, tokens: usize) -> Result<(Tensor, Tensor)> {
    let mean = |rows| plain::mean(rows, tokens);
    Ok((mean(probabilities)?, mean(choice)?))
}

/// The load-balance loss. It multiplies two means, and the product of sums is not the sum of the ranks' products: the
/// addends of [`means`] must be added up before. The entries say `Replicate`, so `reshard` does that on the way in;
/// without the flag a call is an error, never a wrong loss.
#[local_map(in = [[Replicate], [Replicate]], out = [Replicate], reshard)]
fn balance(probability: &Tensor, choice: &Tensor) -> Result<Tensor> {
    plain::balance(probability, choice)
}

/// The z-loss is a plain mean over the tokens, so each rank's part of it can be an addend of the loss itself.
#[local_map(in = [[Shard(0)], _], out = [Partial(Sum)])]
fn z_loss(logits: &Tensor, tokens: usize) -> Result<Tensor> {
    plain::z_loss(logits, tokens)
}

/// What not to do: a loss for each rank's own tokens, averaged over the ranks. It punishes a rank whose tokens resemble
/// each other, even if the other ranks keep the other experts busy.
#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Partial(Avg)])]
fn balance_by_rank(probabilities: &Tensor, choice: &Tensor) -> Result<Tensor> {
    let own_mean = |rows: &Tensor| plain::mean(rows, rows.dim(0)?);
    plain::balance(&own_mean(probabilities)?, &own_mean(choice)?)
}

/// What the router did with the tokens.
struct Routing {
    counts: Vec<u32>,
    balance: f64,
    z_loss: f64,
}

/// What one rank knows in the end: of its own tokens, and of all.
struct Seen {
    own_counts: Vec<u32>,
    global: Routing,
    balance_by_rank: f64,
}

/// The program of one rank.
fn sharded(world: &World, tokens: &Tensor, weights: &Tensor) -> Result<Seen> {
    let mesh = world.mesh([("dp", RANKS)])?;
    let tokens = DTensor::shard(tokens, &mesh, &[Shard(0)])?;
    let weights = DTensor::shard(weights, &mesh, &[Replicate])?;
    let total = tokens.shape()?[0];
    let logits = logits(&tokens, &weights)?;
    let probabilities = probabilities(&logits)?;
    let choice = choice(&probabilities)?;
    let counts = counts(&choice)?;
    let (probability, chosen) = means(&probabilities, &choice, total)?;
    let wrong = balance_by_rank(&probabilities, &choice)?;
    Ok(Seen {
        own_counts: counts.to_local()?.to_vec1()?,
        global: Routing {
            counts: counts.full()?.to_vec1()?,
            balance: balance(&probability, &chosen)?.full()?.to_scalar()?,
            z_loss: z_loss(&logits, total)?.full()?.to_scalar()?,
        },
        balance_by_rank: wrong.full()?.to_scalar()?,
    })
}

/// The same on one device: what every rank must arrive at.
fn unsharded(tokens: &Tensor, weights: &Tensor) -> Result<Routing> {
    let total = tokens.dim(0)?;
    let logits = tokens.matmul(weights)?;
    let probabilities = plain::probabilities(&logits)?;
    let choice = plain::choice(&probabilities)?;
    let probability = plain::mean(&probabilities, total)?;
    let chosen = plain::mean(&choice, total)?;
    Ok(Routing {
        counts: plain::counts(&choice)?.to_vec1()?,
        balance: plain::balance(&probability, &chosen)?.to_scalar()?,
        z_loss: plain::z_loss(&logits, total)?.to_scalar()?,
    })
}

/// The lines of a compressed csv file; in f64, so that near ties fall alike however many rows a matrix product has.
fn lines(path: &str) -> csv::Result<Vec<Vec<f64>>> {
    let file = GzDecoder::new(std::fs::File::open(path)?);
    let mut csv = csv::ReaderBuilder::new();
    let csv = csv.has_headers(false).from_reader(file);
    csv.into_deserialize().collect()
}

/// The digits as `[tokens, pixels]` in 0..=1, without the label that ends each line.
fn digits() -> Result<Tensor> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits.csv.gz");
    let lines = lines(path).map_err(|e| Error::Msg(format!("cannot read {path}: {e}")))?;
    Tensor::new(lines, &Device::Cpu)?.narrow(1, 0, PIXELS)? / 16.0
}

/// Weights that look random and are the same in every run: `sin(2.3 n^2)`. They prefer some experts and starve none.
fn weights() -> Result<Tensor> {
    let n = Tensor::arange(0.0, (PIXELS * EXPERTS) as f64, &Device::Cpu)?;
    (n.sqr()? * 2.3)?.sin()?.reshape((PIXELS, EXPERTS))
}

/// A table whose columns, but for the first, are numbers.
fn table(header: &str, rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(header.split(", ")).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// One row per expert, and one for all of them: tokens on each rank, tokens in total, share.
fn load_table(ranks: &[Seen], total: &[u32]) -> Table {
    let columns = || ranks.iter().map(|r| &r.own_counts[..]).chain([total]);
    let all = f64::from(total.iter().sum::<u32>());
    let row = |name: String, count: &dyn Fn(&[u32]) -> u32| {
        let mut row = vec![name];
        row.extend(columns().map(|column| count(column).to_string()));
        row.push(format!("{:.1} %", 100.0 * f64::from(count(total)) / all));
        row
    };
    let experts = (0..EXPERTS).map(|e| row(e.to_string(), &|counts| counts[e]));
    let sums = row("all".to_owned(), &|counts| counts.iter().sum());
    let rows = experts.chain([sums]).collect();
    table("expert, rank 0, rank 1, rank 2, rank 3, total, share", rows)
}

/// The losses of all ranks together, beside those of one device.
fn loss_table(sharded: &Routing, unsharded: &Routing) -> Table {
    let row = |name: &str, a: f64, b: f64| vec![name.into(), format!("{a:.9}"), format!("{b:.9}")];
    let balance = row("load balance", sharded.balance, unsharded.balance);
    let z_loss = row("z-loss", sharded.z_loss, unsharded.z_loss);
    table("loss, sharded, unsharded", vec![balance, z_loss])
}

fn main() -> Result<()> {
    let (tokens, weights) = (digits()?, weights()?);
    let ranks = launch(RANKS, |world| sharded(&world, &tokens, &weights))?;
    let expected = unsharded(&tokens, &weights)?;
    let (first, count) = (&ranks[0], tokens.dim(0)?);
    println!("{count} tokens, {CHOSEN} of {EXPERTS} experts each, on mesh (dp={RANKS})\n");
    println!("{}\n", load_table(&ranks, &first.global.counts));
    println!("{}\n", loss_table(&first.global, &expected));
    let wrong = first.balance_by_rank;
    println!("the mean of the ranks' own load-balance losses would have been {wrong:.9}");
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * b.abs();
    for Seen { global, .. } in &ranks {
        assert_eq!(global.counts, expected.counts, "tokens per expert");
        assert!(close(global.balance, expected.balance), "load balance");
        assert!(close(global.z_loss, expected.z_loss), "z-loss");
    }
    Ok(())
}
