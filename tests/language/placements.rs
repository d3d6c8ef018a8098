//! Placements and flags.

use super::*;

#[local_map(in = [[Shard(0)]], out = [Partial])]
fn summed(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[test]
fn partial_alone_sums() {
    let sum = on_two(|mesh| {
        let sum = summed(&rows(&mesh, 4)?)?;
        assert_eq!(sum.placements()[..], [Partial(Sum)]);
        all(&sum)
    });
    assert_eq!(sum, [6.0]);
}

#[local_map(in = [[Shard(0)]], out = [[Partial(Avg)], [Partial(Max)], [Partial(Min)], [Partial(Prod)]])]
fn reduced(x: &Tensor) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    Ok((x.sum_all()?, x.max(0)?, x.min(0)?, x.sum_all()?))
}

#[test]
fn every_reduction() {
    let values = on_two(|mesh| {
        let (avg, max, min, prod) = reduced(&rows(&mesh, 4)?)?;
        Ok([avg.erase(), max.erase(), min.erase(), prod.erase()].iter().map(all).collect::<Result<Vec<_>>>()?.concat())
    });
    assert_eq!(values, [3.0, 3.0, 0.0, 5.0]);
}

#[local_map(in = [[Partial(Sum)]], out = [Partial(Sum)])]
fn doubled(x: &Tensor) -> Result<Tensor> {
    x * 2.0
}

#[test]
fn partial_inputs_are_the_addends() {
    let value = on_two(|mesh| {
        let one = Tensor::new(1f32, &Device::Cpu)?;
        all(&doubled(&DTensor::from_local(one, &mesh, &[Partial(Sum)])?)?)
    });
    assert_eq!(value, [4.0]);
}

#[local_map(in = [[Shard(-1)]], out = [Shard(-2)])]
fn transposed(x: &Tensor) -> Result<Tensor> {
    x.t()
}

#[test]
fn negative_dims_count_from_the_end() {
    let (shape, placed) = on_two(|mesh| {
        let x = Tensor::zeros((3, 4), candle_core::DType::F32, &Device::Cpu)?;
        let t = transposed(&DTensor::shard(&x, &mesh, &[Shard(1)])?)?;
        Ok((t.shape()?.to_vec(), t.placements()[0]))
    });
    assert_eq!((shape, placed), (vec![4, 3], Shard(0)));
}

#[local_map(out = [Shard(0, ragged)])]
fn first_ones(x: &Tensor, rank: usize) -> Result<Tensor> {
    x.narrow(0, 0, 1 + rank)
}

#[test]
fn ragged_results_are_joined() {
    let values = on_two(|mesh| {
        let rank = mesh.world().rank();
        all(&first_ones(&rows(&mesh, 6)?, rank)?)
    });
    assert_eq!(values, [0.0, 3.0, 4.0]);
}

#[local_map(in = [[Shard(0), Replicate], [Replicate, Shard(1)]], out = [Shard(0), Shard(1)])]
fn product(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

#[test]
fn one_placement_per_axis() {
    let run = |world: World| -> Result<Vec<f32>> {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
        let w = Tensor::new(&[[1f32, 10.0], [100.0, 1000.0]], &Device::Cpu)?;
        let x = DTensor::shard(&x, &mesh, &[Shard(0), Replicate])?;
        let w = DTensor::shard(&w, &mesh, &[Replicate, Shard(1)])?;
        all(&product(&x, &w)?)
    };
    for values in launch(4, run).unwrap() {
        assert_eq!(values, [201.0, 2010.0, 403.0, 4030.0]);
    }
}

#[local_map(out = [Shard(0)])]
fn shifted(x: &Tensor) -> Result<Tensor> {
    x + 1.0
}

#[test]
fn without_in_any_placement_will_do() {
    let values = on_two(|mesh| {
        let whole = replicated(&mesh, &[0.0, 1.0])?;
        Ok([all(&shifted(&rows(&mesh, 2)?)?)?, all(&shifted(&whole)?)?].concat())
    });
    assert_eq!(values, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
}

#[local_map(in = [[Replicate]], out = [Replicate], reshard, check)]
fn total(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[test]
fn flags() {
    assert_eq!(on_two(|mesh| all(&total(&rows(&mesh, 5)?)?)), [10.0]);
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn strict(r#type: &Tensor) -> Result<Tensor> {
    r#type.sum_all()
}

#[test]
fn without_reshard_another_placement_is_an_error() {
    let message = on_two(|mesh| Ok(strict(&rows(&mesh, 4)?).unwrap_err().to_string()));
    let here = "  called at tests/language/placements.rs:";
    assert!(message.lines().nth(1).is_some_and(|line| line.starts_with(here)), "{message}");
    let message: Vec<&str> = message.lines().filter(|line| !line.starts_with(here)).collect();
    let expected = "strict: argument `type` is not placed as `in` requires\n  \
                    mesh (dp=2)\n  \
                    - type: f32[4] is (Shard(0)), required (Replicate): axis `dp` differs\n  \
                    add `reshard` to the attribute, or call type.reshard(..) first";
    assert_eq!(message.join("\n"), expected);
}
