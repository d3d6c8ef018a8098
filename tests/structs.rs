//! Structs of tensors as parameters and results of regions, against candle on one device.
#![allow(clippy::unwrap_used)]

#[path = "structs/results.rs"]
mod results;
mod support;

use candle_core::{DType, Device, Result, Tensor, Var};
use local_map::prelude::*;
use support::{assert_near, elements, failure, launched, numbers, on_ranks};

/// Megatron's pair.
#[derive(Clone, Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(1, ragged))]
    up: T,
    #[place(Shard(0, ragged))]
    bias: Option<T>,
    #[place(Shard(0, ragged))]
    down: T,
    /// An ordinary field.
    slope: f64,
}

impl Mlp<Tensor> {
    /// This rank's addend.
    fn addend(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = x.matmul(&self.up)?;
        let hidden = match &self.bias {
            Some(bias) => hidden.broadcast_add(bias)?,
            None => hidden,
        };
        (hidden.tanh()? * self.slope)?.matmul(&self.down)
    }
}

/// Structs in a struct, and a tensor without placements of its own.
#[derive(Clone, Distribute)]
struct Model<T = DTensor> {
    blocks: Vec<Mlp<T>>,
    scale: T,
}

impl Model<Tensor> {
    /// The sum of the blocks.
    fn addend(&self, x: &Tensor) -> Result<Tensor> {
        let mut sum = x.zeros_like()?;
        for block in &self.blocks {
            sum = (sum + block.addend(x)?)?;
        }
        sum.broadcast_mul(&self.scale)
    }
}

/// Names, shapes and placements; on 3 and 4 ranks pieces of the second block are empty.
const PARAMETERS: [(&str, &[usize], Placement); 6] = [
    ("blocks.0.up", &[3, 5], Shard(1)),
    ("blocks.0.bias", &[5], Shard(0)),
    ("blocks.0.down", &[5, 3], Shard(0)),
    ("blocks.1.up", &[3, 2], Shard(1)),
    ("blocks.1.down", &[2, 3], Shard(0)),
    ("scale", &[3], Replicate),
];

fn input() -> Tensor {
    numbers(9, &[4, 3])
}

fn model_of<T>(mut parameter: impl FnMut(usize) -> T) -> Model<T> {
    let first = Mlp { up: parameter(0), bias: Some(parameter(1)), down: parameter(2), slope: 1.5 };
    let second = Mlp { up: parameter(3), bias: None, down: parameter(4), slope: -0.5 };
    Model { blocks: vec![first, second], scale: parameter(5) }
}

fn distributed(mesh: &DeviceMesh) -> Model {
    model_of(|at| {
        let (_, shape, placement) = PARAMETERS[at];
        Param::new(&DTensor::shard(&numbers(at, shape), mesh, &[placement]).unwrap()).unwrap().into()
    })
}

fn variables() -> (Vec<Var>, Model<Tensor>) {
    let vars: Vec<Var> = (0..6).map(|at| Var::from_tensor(&numbers(at, PARAMETERS[at].1)).unwrap()).collect();
    let model = model_of(|at| vars[at].as_tensor().clone());
    (vars, model)
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn energy(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

/// The energy of the region's result and all gradients are those of the unsharded function.
fn as_on_one_device<T: Into<DTensor>>(
    region: impl Fn(&Model, &DTensor) -> local_map::Result<T> + Sync,
    unsharded: impl Fn(&Model<Tensor>, &Tensor) -> Result<Tensor>,
) {
    let (vars, model) = variables();
    let y = unsharded(&model, &input()).unwrap();
    let expected = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    on_ranks(&[1, 2, 3, 4], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let model = distributed(&mesh);
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?;
        let result: DTensor = region(&model, &x)?.into();
        let result = result.reshard(&[Replicate])?;
        assert_near(&result.full()?, &y, "result");
        let gradients = energy(&result)?.backward()?;
        let parameters = model.parameters();
        assert_eq!(parameters.len(), 6);
        for (at, (name, parameter)) in parameters.into_iter().enumerate() {
            assert_eq!(name, PARAMETERS[at].0);
            match (gradients.get(parameter), expected.get(&vars[at])) {
                (Some(gradient), Some(expected)) => {
                    assert_eq!(gradient.spec()?, parameter.spec()?);
                    assert_near(&gradient.full()?, expected, &name);
                }
                (None, None) => {}
                (given, expected) => panic!("{name}: {:?} {:?}", given.is_some(), expected.is_some()),
            }
        }
        Ok(())
    });
}

#[local_map(in = [{..}, [Replicate]], out = [Partial(Sum)])]
fn lent(model: &Model<Tensor>, x: &Tensor) -> Result<Tensor> {
    model.addend(x)
}

#[local_map(in = [[Replicate], [Replicate]], out = [Partial(Sum)])]
fn owned(mut model: Model<Tensor>, x: &Tensor) -> Result<Tensor> {
    model.blocks.reverse();
    model.addend(x)
}

#[local_map(out = [Partial(Sum)])]
fn undeclared(x: &Tensor, Model { blocks, scale }: &Model<Tensor>) -> Result<Tensor> {
    Model { blocks: blocks.clone(), scale: scale.clone() }.addend(x)
}

#[local_map(in = { blocks: {..} }, out = [Partial(Sum)])]
fn fields(blocks: &[Mlp<Tensor>], scale: &Tensor, x: Tensor) -> Result<Tensor> {
    Model { blocks: blocks.to_vec(), scale: scale.clone() }.addend(&x)
}

#[test]
fn a_struct_parameter_lent_or_owned_or_in_a_slice_equals_one_device() {
    as_on_one_device(|model, x| Ok(lent(model, x)?), |model, x| model.addend(x));
    as_on_one_device(|model, x| Ok(owned(model.clone(), x)?), |model, x| model.addend(x));
    as_on_one_device(|model, x| Ok(undeclared(x, model)?), |model, x| model.addend(x));
    as_on_one_device(|model, x| Ok(fields(&model.blocks, &model.scale, x.clone())?), |model, x| model.addend(x));
}

#[local_map(in = [{..}, {..}, [Replicate], _], out = [Partial(Sum)])]
fn two(first: &Mlp<Tensor>, second: Option<&Mlp<Tensor>>, x: &Tensor, by: f64) -> Result<Tensor> {
    let y = first.addend(x)?;
    match second {
        Some(second) => y + (second.addend(x)? * by)?,
        None => Ok(y),
    }
}

#[local_map(in = [{..}, [Replicate]], out = [Partial(Sum)])]
fn some(mlp: Option<Mlp<Tensor>>, x: &Tensor) -> Result<Tensor> {
    mlp.unwrap().addend(x)
}

#[local_map(in = [{..}, {..}, {..}, [Replicate]], out = [Partial(Sum)])]
fn lists(one: Vec<Mlp<Tensor>>, two: [Mlp<Tensor>; 1], rest: Option<&[Mlp<Tensor>]>, x: &Tensor) -> Result<Tensor> {
    assert!(rest.is_some_and(<[_]>::is_empty));
    one[0].addend(x)? + two[0].addend(x)?
}

#[test]
fn several_struct_parameters_and_structs_that_may_be_missing_equal_one_device() {
    let sum = |model: &Model<Tensor>, x: &Tensor| model.blocks[0].addend(x)? + model.blocks[1].addend(x)?;
    as_on_one_device(|model, x| Ok(two(&model.blocks[0], Some(&model.blocks[1]), x, 1.0)?), sum);
    as_on_one_device(|model, x| Ok(two(&model.blocks[0], None, x, 1.0)?), |model, x| model.blocks[0].addend(x));
    as_on_one_device(|model, x| Ok(some(Some(model.blocks[1].clone()), x)?), |model, x| model.blocks[1].addend(x));
    // The same struct twice: its gradients add up.
    as_on_one_device(
        |model, x| Ok(two(&model.blocks[0], Some(&model.blocks[0]), x, -3.0)?),
        |model, x| model.blocks[0].addend(x)? * -2.0,
    );
    as_on_one_device(
        |model, x| Ok(lists(vec![model.blocks[0].clone()], [model.blocks[1].clone()], Some(&[]), x)?),
        sum,
    );
}

#[local_map(in = [[Replicate], [Replicate]], out = [Replicate], check)]
fn with_context(model: &Model<Tensor>, x: &Tensor, ctx: &Region) -> Result<Tensor> {
    let mut x = x.clone();
    for block in &model.blocks {
        x = ctx.all_reduce(&block.addend(&x)?, "tp", Sum)?;
    }
    x.broadcast_mul(&model.scale)
}

fn one_after_the_other(model: &Model<Tensor>, x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for block in &model.blocks {
        x = block.addend(&x)?;
    }
    x.broadcast_mul(&model.scale)
}

#[test]
fn a_struct_beside_a_context_equals_one_device() {
    as_on_one_device(|model, x| Ok(with_context(model, x)?), one_after_the_other);
}

#[local_map(in = [[Replicate], {..}, _], out = [Partial(Sum)], recompute)]
fn again(x: &Tensor, model: &Model<Tensor>, by: f64, _ctx: &Region) -> Result<Tensor> {
    model.addend(x)? * by
}

#[local_map(in = [[Replicate], {..}, {..}], out = [Partial(Sum)], recompute)]
fn again_owned(x: &Tensor, mlp: Option<Mlp<Tensor>>, more: &[Mlp<Tensor>]) -> Result<Tensor> {
    let mut y = mlp.unwrap().addend(x)?;
    for mlp in more {
        y = (y + mlp.addend(x)?)?;
    }
    Ok(y)
}

#[local_layer(in = [[Replicate]], out = [Replicate], recompute)]
impl Model<Tensor> {
    fn forward(&self, x: &Tensor, ctx: &Region) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = ctx.all_reduce(&block.addend(&x)?, "tp", Sum)?;
        }
        x.broadcast_mul(&self.scale)
    }
}

#[local_layer(in = [{..}, [Replicate]], out = [Partial(Sum)])]
impl Mlp<Tensor> {
    fn with(&self, other: &Self, x: &Tensor) -> Result<Tensor> {
        self.addend(x)? + other.addend(x)?
    }
}

#[test]
fn structs_and_layers_of_bodies_that_run_again_equal_one_device() {
    as_on_one_device(|model, x| Ok(again(x, model, 2.0)?), |model, x| model.addend(x)? * 2.0);
    let sum = |model: &Model<Tensor>, x: &Tensor| model.blocks[0].addend(x)? + model.blocks[1].addend(x)?;
    as_on_one_device(|model, x| Ok(again_owned(x, Some(model.blocks[0].clone()), &model.blocks[1..])?), sum);
    as_on_one_device(|model, x| Ok(model.forward(x)?), one_after_the_other);
    as_on_one_device(|model, x| Ok(model.blocks[0].with(&model.blocks[1], x)?), sum);
}

/// What regions take beside structs.
#[derive(Clone)]
struct Scaled<A> {
    by: A,
}

impl<A: Clone + Send + Sync + Into<f64> + 'static> Scaled<A> {
    /// Lent, with a pattern, generics and a context.
    #[local_map(in = [_, {..}, [Replicate]], out = [Partial(Sum)], recompute)]
    fn lent<B: Into<f64> + Clone + Send + 'static>(
        &self,
        (times, _): (B, u8),
        mut model: Model<Tensor>,
        ctx: &Region,
        x: &Tensor,
    ) -> Result<Tensor> {
        assert!(ctx.size("tp")? > 0);
        model.blocks.reverse();
        model.addend(x)? * (self.by.clone().into() * times.into())
    }

    #[local_map(in = [{..}, [Replicate]], out = [Partial(Sum)], recompute)]
    fn owned(self, model: &Model<Tensor>, x: &Tensor) -> Result<Tensor> {
        model.addend(x)? * self.by.into()
    }

    /// By another notation.
    #[local_map(in = [{..}, [Replicate]], out = [Partial(Sum)], recompute)]
    fn shared(self: std::sync::Arc<Self>, model: &Model<Tensor>, x: &Tensor) -> Result<Tensor> {
        model.addend(x)? * self.by.clone().into()
    }
}

#[test]
fn methods_that_run_again_equal_one_device() {
    let twice = |model: &Model<Tensor>, x: &Tensor| model.addend(x)? * 2.0;
    as_on_one_device(|model, x| Ok(Scaled { by: 0.5f32 }.owned(model, x)?), |model, x| model.addend(x)? * 0.5);
    as_on_one_device(|model, x| Ok(std::sync::Arc::new(Scaled { by: 2.0 }).shared(model, x)?), twice);
    // What was lent is gone when the body runs again.
    as_on_one_device(|model, x| Ok(Scaled { by: 4f32 }.lent::<f32>((0.5, 1), model.clone(), x)?), twice);
}

/// Draws a number in every run of its body.
#[derive(Clone)]
struct Noisy(std::sync::Arc<std::sync::Mutex<Vec<u64>>>);

impl Noisy {
    #[local_map(in = [[Replicate]], out = [Replicate], recompute)]
    fn forward(&self, x: &Tensor, ctx: &Region) -> Result<Tensor> {
        self.0.lock().unwrap().push(ctx.rank_seed());
        x * (ctx.shared_seed() % 7) as f64
    }
}

#[test]
fn a_method_that_runs_again_draws_the_same_numbers() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?.requires_grad()?;
        let noisy = Noisy(std::sync::Arc::default());
        let (first, second) = (noisy.forward(&x)?, noisy.forward(&x)?);
        energy(&(&first + &second)?)?.backward()?;
        let seeds = noisy.0.lock().unwrap().clone();
        assert_eq!(seeds.len(), 4);
        assert_ne!(seeds[0], seeds[1]);
        // Backward goes through the regions in reverse.
        assert_eq!(seeds[2..], [seeds[1], seeds[0]]);
        Ok(())
    });
}

#[local_map(in = [_, [Replicate]], out = [Replicate])]
fn plain(mlp: &Mlp<Tensor>, x: &Tensor) -> Result<Tensor> {
    mlp.addend(x)
}

#[test]
fn an_underscore_passes_a_plain_struct_through() {
    let (_, model) = variables();
    let expected = model.blocks[0].addend(&input()).unwrap();
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("tp", 2)])?;
        let (_, model) = variables();
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?;
        assert_near(&plain(&model.blocks[0], &x)?.full()?, &expected, "result");
        Ok(())
    });
}
