//! Layers: structs of parameters that regions take apart, against candle on one device.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD};
use local_map::prelude::*;
use support::{assert_near, elements, failure, launched, numbers, on_ranks};

/// An ordinary field.
#[derive(Clone, Copy)]
enum Activation {
    Tanh,
    Square,
}

impl Activation {
    fn of(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Activation::Tanh => x.tanh(),
            Activation::Square => x.sqr(),
        }
    }
}

/// Megatron's pair: the columns of `up` and the rows of `down` are spread, so that only the result is summed up.
#[derive(Distribute)]
struct Mlp<T = DTensor> {
    #[place(Shard(1))]
    up: T,
    #[place(Shard(-1))]
    bias: Option<T>,
    #[place(Shard(0))]
    down: T,
    act: Activation,
}

#[local_layer(in = [[Replicate]], out = [Partial(Sum)])]
impl Mlp<Tensor> {
    /// This rank's addend.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = x.matmul(&self.up)?;
        let hidden = match &self.bias {
            Some(bias) => hidden.broadcast_add(bias)?,
            None => hidden,
        };
        self.act.of(&hidden)?.matmul(&self.down)
    }
}

#[derive(Distribute)]
struct Model<T = DTensor> {
    blocks: Vec<Mlp<T>>,
    #[place(Replicate)]
    scale: T,
    last: Option<Box1<T>>,
    factor: f64,
}

/// A tuple struct.
#[derive(Distribute)]
struct Box1<T = DTensor>(#[place(Replicate)] T, f64);

#[local_layer(in = [[Replicate]], out = [Replicate], check)]
impl Model<Tensor> {
    /// Both blocks and the sums between them.
    fn forward(&self, x: &Tensor, ctx: &Region) -> Result<Tensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = ctx.all_reduce(&block.forward(&x)?, "tp", Sum)?;
        }
        self.finish(&x)
    }
}

impl Model<Tensor> {
    fn finish(&self, x: &Tensor) -> Result<Tensor> {
        let x = (x.broadcast_mul(&self.scale)? * self.factor)?;
        match &self.last {
            Some(Box1(shift, by)) => x.broadcast_add(&(shift * *by)?),
            None => Ok(x),
        }
    }
}

impl Model {
    /// The same as `forward`, one region per block.
    fn by_regions(&self, x: &DTensor) -> local_map::Result<DTensor> {
        let mut x = x.clone();
        for block in &self.blocks {
            x = block.forward(&x)?.reshard(&[Replicate])?;
        }
        Ok(finish(self, &x)?)
    }
}

/// What `Model::finish` does, over distributed tensors.
fn finish(model: &Model, x: &DTensor) -> Result<DTensor> {
    let last = model.last.as_ref().unwrap();
    Ok(finished(x, &model.scale, model.factor, &last.0, last.1)?.erase())
}

#[local_map(in = [[Replicate], [Replicate], _, [Replicate], _], out = [Replicate])]
fn finished(x: &Tensor, scale: &Tensor, factor: f64, shift: &Tensor, by: f64) -> Result<Tensor> {
    (x.broadcast_mul(scale)? * factor)?.broadcast_add(&(shift * by)?)
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn energy(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

/// The names of the parameters, and their shapes and placements.
const PARAMETERS: [(&str, &[usize], Placement); 7] = [
    ("blocks.0.up", &[3, 5], Shard(1)),
    ("blocks.0.bias", &[5], Shard(0)),
    ("blocks.0.down", &[5, 3], Shard(0)),
    ("blocks.1.up", &[3, 6], Shard(1)),
    ("blocks.1.down", &[6, 3], Shard(0)),
    ("scale", &[3], Replicate),
    ("last.0", &[3], Replicate),
];

fn input() -> Tensor {
    numbers(9, &[4, 3])
}

fn with<T>(mut parameter: impl FnMut(usize) -> T) -> Model<T> {
    let first = Mlp { up: parameter(0), bias: Some(parameter(1)), down: parameter(2), act: Activation::Tanh };
    let second = Mlp { up: parameter(3), bias: None, down: parameter(4), act: Activation::Square };
    let (scale, last) = (parameter(5), Some(Box1(parameter(6), 0.25)));
    Model { blocks: vec![first, second], scale, last, factor: 1.5 }
}

fn distributed(mesh: &DeviceMesh) -> Model {
    with(|at| {
        let (_, shape, placement) = PARAMETERS[at];
        Param::new(&DTensor::shard(&numbers(at, shape), mesh, &[placement]).unwrap()).unwrap().into()
    })
}

/// The model on one device: its parameters and its result.
fn on_one_device() -> (Vec<Var>, Tensor) {
    let vars: Vec<Var> = (0..7).map(|at| Var::from_tensor(&numbers(at, PARAMETERS[at].1)).unwrap()).collect();
    let model = with(|at| vars[at].as_tensor().clone());
    let mut x = input();
    for block in &model.blocks {
        x = block.forward(&x).unwrap();
    }
    (vars, model.finish(&x).unwrap())
}

#[test]
fn values_and_gradients_are_those_of_one_device() {
    let (vars, y) = on_one_device();
    let expected = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    on_ranks(&[1, 2, 3, 4], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let model = distributed(&mesh);
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?;
        for result in [model.forward(&x)?.erase(), model.by_regions(&x)?] {
            assert_near(&result.full()?, &y, "result");
            let gradients = energy(&result)?.backward()?;
            assert_eq!(gradients.len(), 7);
            let parameters = model.parameters();
            assert_eq!(parameters.len(), 7);
            for (at, (name, parameter)) in parameters.into_iter().enumerate() {
                assert_eq!(name, PARAMETERS[at].0);
                let gradient = gradients.get(parameter).unwrap();
                assert_eq!(gradient.spec()?, parameter.spec()?);
                assert_near(&gradient.full()?, expected.get(&vars[at]).unwrap(), &name);
            }
        }
        Ok(())
    });
}

#[test]
fn a_step_of_sgd_changes_the_parameters_as_on_one_device() {
    let (vars, y) = on_one_device();
    let mut optimizer = SGD::new(vars.clone(), 0.01).unwrap();
    optimizer.backward_step(&y.sqr().unwrap().sum_all().unwrap()).unwrap();
    // On 4 ranks the last piece of 5 columns is empty.
    on_ranks(&[1, 2, 3, 4], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let model = distributed(&mesh);
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?;
        let gradients = energy(&model.forward(&x)?)?.backward()?;
        let parameters: Vec<&DTensor> = model.parameters().into_iter().map(|(_, parameter)| parameter).collect();
        let mut optimizer = SGD::new(model.variables()?, 0.01)?;
        optimizer.step(&gradients.to_store(parameters.iter().copied())?)?;
        for (at, parameter) in parameters.into_iter().enumerate() {
            assert_near(&parameter.full()?, vars[at].as_tensor(), PARAMETERS[at].0);
        }
        Ok(())
    });
}

#[test]
fn a_misplaced_field_is_named() {
    let failure = failure(2, |world| -> local_map::Result<()> {
        let mesh = world.mesh([("tp", 2)])?;
        let mut model = distributed(&mesh);
        model.blocks[1].up = model.blocks[1].up.reshard(&[Shard(0)])?;
        let x = DTensor::from_local(input(), &mesh, &[Replicate])?;
        model.forward(&x)?;
        Ok(())
    });
    let text = failure.cause.to_string();
    assert!(text.contains("Model::forward: argument `blocks.1.up` is not placed"), "{text}");
    assert!(text.contains("is (Shard(0)), required (Shard(1))"), "{text}");
}

/// Generics of all kinds before the tensor's parameter, and a `where` clause that speaks of it.
#[derive(Distribute)]
struct Scaled<'n, A, const N: usize, T = DTensor>
where
    A: Into<f64>,
    T: Clone,
{
    #[place(Replicate)]
    r#in: Vec<T>,
    by: A,
    name: &'n str,
    shape: [usize; N],
}

#[local_layer(in = [[Shard(0)], _, _, [Replicate]], out = [[Shard(0)], _], reshard)]
impl<'n, A, const N: usize> Scaled<'n, A, N, Tensor>
where
    A: Into<f64> + Clone,
{
    const MORE: f64 = 1.0;

    /// Not a layer's method.
    fn more(by: f64) -> f64 {
        by + Self::MORE
    }

    #[allow(clippy::too_many_arguments)]
    fn forward<B: Into<f64>, const M: usize>(
        &self,
        x: &Tensor,
        (a, _): (B, [u8; M]),
        plus: impl Fn(f64) -> f64,
        w: Vec<Tensor>,
    ) -> Result<(Tensor, String)> {
        let by = plus(Self::more(self.by.clone().into()) + a.into());
        let mut y = (x * by)?;
        for w in self.r#in.iter().chain(&w) {
            y = y.broadcast_add(w)?;
        }
        Ok((y, format!("{}{:?}{M}", self.name, self.shape)))
    }
}

#[test]
fn structs_and_methods_may_be_generic() {
    let results = launched(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let one = DTensor::from_local(Tensor::ones(1, DType::F64, &Device::Cpu)?, &mesh, &[Replicate])?;
        let layer = Scaled { r#in: vec![one.clone(), one.clone()], by: 2f32, name: "n", shape: [3, 4] };
        let x = DTensor::from_local(Tensor::new(&[1f64, 2.0, 3.0], &Device::Cpu)?, &mesh, &[Replicate])?;
        let (y, name) = layer.forward::<f32, 2>(&x, (4.0, [0, 0]), |by| by * 2.0, vec![one])?;
        assert_eq!(y.placements().to_string(), "(Shard(0))");
        Ok((elements(&y.full()?), name))
    });
    assert_eq!(results[0], (vec![17.0, 31.0, 45.0], "n[3, 4]2".to_owned()));
    assert_eq!(results[0], results[1]);
}

#[test]
fn parameters_are_the_leaves_only() {
    on_ranks(&[1], |world| {
        let mesh = world.mesh([("tp", 1)])?;
        let mut model = distributed(&mesh);
        model.scale = DTensor::from_local(numbers(5, &[3]), &mesh, &[Replicate])?;
        let names: Vec<String> = model.parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 6);
        assert!(!names.contains(&"scale".to_owned()), "{names:?}");
        Ok(())
    });
}

/// The crate by another name.
mod renamed {
    use super::{Result, Tensor};
    use ::local_map as lm;
    use lm::prelude::*;

    #[derive(Distribute)]
    #[local_map(crate = lm)]
    struct Scale<T = DTensor> {
        by: T,
    }

    #[local_layer(in = [[Shard(0)]], out = [Shard(0)], crate = lm)]
    impl Scale<Tensor> {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            x.broadcast_mul(&self.by)
        }
    }

    #[test]
    fn works() {
        super::on_ranks(&[2], |world| {
            let mesh = world.mesh([("dp", 2)])?;
            let by = DTensor::from_local(super::numbers(1, &[1]), &mesh, &[Replicate])?;
            let x = DTensor::shard(&super::input(), &mesh, &[Shard(0)])?;
            let layer = Scale { by };
            super::assert_near(
                &layer.forward(&x)?.full()?,
                &super::input().broadcast_mul(&super::numbers(1, &[1]))?,
                "scaled",
            );
            Ok(())
        });
    }
}
