//! A masked loss over two ranks that hold different numbers of masked elements.
//!
//! Run it with `cargo run --example masked_loss`.

use candle_core::{Device, Result, Tensor};
use local_map::prelude::*;

/// The mean of the masked logits of one rank; the global loss is the sum over the ranks.
#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Partial(Sum)])]
fn masked_loss(logits: &Tensor, mask: &Tensor) -> Result<Tensor> {
    (logits * mask)?.sum_all()? / mask.sum_all()?
}

/// What one rank saw.
struct Seen {
    logits: Vec<f32>,
    mask: Vec<f32>,
    local: f32,
    global: f32,
}

fn program(world: World) -> Result<Seen> {
    let mesh = world.mesh([("dp", 2)])?;
    let rank = world.rank() as f32;
    let logits = Tensor::arange(rank, rank + 10.0, &Device::Cpu)?;
    // Rank 0 keeps elements 1 and 2, rank 1 keeps elements 4, 5 and 6.
    let kept = [1..3, 4..7][world.rank()].clone();
    let mask: Vec<f32> = (0..10).map(|i| f32::from(u8::from(kept.contains(&i)))).collect();
    let mask = Tensor::new(mask, &Device::Cpu)?;

    let loss = masked_loss(
        &DTensor::from_local(logits.clone(), &mesh, &[Shard(0)])?,
        &DTensor::from_local(mask.clone(), &mesh, &[Shard(0)])?,
    )?;
    Ok(Seen {
        logits: logits.to_vec1()?,
        mask: mask.to_vec1()?,
        local: loss.to_local()?.to_scalar()?,
        global: loss.full()?.to_scalar()?,
    })
}

fn main() -> Result<()> {
    let ranks = launch(2, program)?;
    println!("masked loss on mesh (dp=2)\n");
    for (rank, seen) in ranks.iter().enumerate() {
        println!("rank {rank}  logits {:?}", seen.logits);
        println!("        mask   {:?}", seen.mask);
        println!("        local loss {}\n", seen.local);
    }
    println!("global loss {}: the sum of the local ones", ranks[0].global);
    assert_eq!(ranks.iter().map(|s| s.local).collect::<Vec<_>>(), [1.5, 6.0]);
    assert!(ranks.iter().all(|s| s.global == 7.5), "every rank knows the global loss");
    Ok(())
}
