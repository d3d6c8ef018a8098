//! Kinds of functions, and what may surround them.

use std::sync::Arc;

use candle_core::DType;

use super::*;

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn times<T, const N: usize>(x: &Tensor, by: T) -> Result<Tensor>
where
    T: Into<f64> + Copy,
{
    (0..N).try_fold(x.clone(), |x, _| x * by.into())
}

#[test]
fn generics_keep_their_turbofish() {
    assert_eq!(on_two(|mesh| all(&times::<f32, 3>(&rows(&mesh, 2)?, 2.0)?)), [0.0, 8.0]);
}

#[local_map(in = [[Shard(0)], [Shard(0)], _], out = [[Shard(0)], _])]
fn labelled<'a, 'b: 'a>(x: &'a Tensor, y: Option<&'b Tensor>, name: &'b str) -> Result<(Tensor, &'a str)> {
    Ok(((x + y.unwrap_or(x))?, &name[1..]))
}

#[test]
fn lifetimes() {
    let (values, name) = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let (sum, name) = labelled(&x, None, "xname")?;
        Ok((all(&sum)?, name.to_owned()))
    });
    assert_eq!((values, name), (vec![0.0, 2.0], "name".to_owned()));
}

#[derive(Clone)]
struct Layer<T> {
    mesh: DeviceMesh,
    name: T,
    by: f64,
    calls: usize,
}

impl<T: AsRef<str>> Layer<T> {
    const ONE: f64 = 1.0;

    #[local_map(in = [[Shard(0)]], out = [[Shard(0)], _])]
    fn forward(&self, x: &Tensor) -> Result<(Tensor, &str)> {
        Ok((x.affine(self.by, Self::ONE)?, self.name.as_ref()))
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn counted(&mut self, x: &Tensor) -> Result<Tensor> {
        self.calls += 1;
        x * self.calls as f64
    }

    #[local_map(in = [[Shard(0)]], out = [[Shard(0)], _])]
    fn borrowed(&mut self, x: &Tensor) -> Result<(Tensor, &mut f64)> {
        self.calls += 1;
        Ok((x.clone(), &mut self.by))
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn consumed(mut self, x: &Tensor) -> Result<Tensor> {
        self.by += Self::ONE;
        x * self.by
    }

    #[local_map(mesh = self.mesh, out = [Replicate])]
    fn ones(self: &Arc<Self>, n: usize) -> Result<Tensor> {
        Tensor::ones(n, DType::F32, &Device::Cpu)
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn associated(x: &Tensor) -> Result<Tensor> {
        x + Self::ONE
    }
}

/// A layer named `name` that multiplies by two, and `0.0, 1.0` in two pieces.
fn layer(mesh: DeviceMesh, name: &str) -> Result<(Layer<&str>, DTensor)> {
    let x = rows(&mesh, 2)?;
    let (by, calls) = (2.0, 0);
    Ok((Layer { mesh, name, by, calls }, x))
}

#[test]
fn methods() {
    let values: Vec<Vec<f32>> = on_two(|mesh| {
        let (mut layer, x) = layer(mesh, "first")?;
        let shared = layer.forward(&x)?.0;
        let counted = [layer.counted(&x)?, layer.counted(&x)?];
        let ones = Arc::new(layer.clone()).ones(1)?;
        let results = [shared.erase(), ones.erase(), layer.consumed(&x)?.erase()];
        counted.iter().map(all).chain(results.iter().map(all)).collect()
    });
    let expected: [&[f32]; 5] = [&[0.0, 1.0], &[0.0, 2.0], &[1.0, 3.0], &[1.0], &[0.0, 3.0]];
    assert_eq!(values, expected);
}

#[test]
fn associated_functions() {
    let sum = |mesh| all(&Layer::<String>::associated(&rows(&mesh, 2)?)?);
    assert_eq!(on_two(sum), [1.0, 2.0]);
}

#[test]
fn borrows_of_self_can_be_returned() {
    let found = on_two(|mesh| {
        let (mut layer, x) = layer(mesh, "first")?;
        *layer.borrowed(&x)?.1 += 1.0;
        let name = layer.forward(&x)?.1.to_owned();
        Ok((name, layer.by))
    });
    assert_eq!(found, ("first".to_owned(), 3.0));
}

trait Module {
    fn forward(&self, x: &DTensor) -> Result<DTensor>;
}

impl Module for f64 {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)], dynamic)]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * *self
    }
}

#[test]
fn methods_of_a_trait_object() {
    let modules: [Box<dyn Module + Sync>; 2] = [Box::new(2.0), Box::new(3.0)];
    let values = on_two(|mesh| {
        let x = modules.iter().try_fold(rows(&mesh, 2)?, |x, module| module.forward(&x))?;
        all(&x)
    });
    assert_eq!(values, [0.0, 6.0]);
}

#[local_map(mesh = mesh, out = [Replicate])]
fn ones(mesh: &DeviceMesh, n: usize) -> Result<Tensor> {
    Tensor::ones(n * mesh.size(), DType::F32, &Device::Cpu)
}

fn same<A, B>(mesh: &DeviceMesh, _: A, _: B) -> DeviceMesh {
    mesh.clone()
}

#[local_map(mesh = same::<i32, u8>(&mesh, 1, 2), in = [_, [Shard(0)]], out = [Shard(0)])]
fn on_an_expression(mesh: DeviceMesh, x: &Tensor) -> Result<Tensor> {
    drop(mesh);
    Ok(x.clone())
}

#[test]
fn mesh_expressions() {
    let values =
        on_two(|mesh| Ok([all(&ones(&mesh, 1)?)?, all(&on_an_expression(mesh.clone(), &rows(&mesh, 2)?)?)?].concat()));
    assert_eq!(values, [1.0, 1.0, 0.0, 1.0]);
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn early(x: &Tensor, stop: bool) -> Result<Tensor> {
    if stop {
        return Ok(x.clone());
    }
    let x = x.reshape(7)?;
    Ok(x)
}

#[test]
fn return_and_question_mark_are_the_bodys_own() {
    let (values, failed) = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        Ok((all(&early(&x, true)?)?, early(&x, false).is_err()))
    });
    assert_eq!((values, failed), (vec![0.0, 1.0], true));
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
fn with_items(x: &Tensor) -> Result<Tensor> {
    #![allow(dead_code)]
    use std::ops::Add;
    const BY: f64 = 2.0;
    struct Unused;
    fn twice(x: &Tensor) -> Result<Tensor> {
        x * BY
    }
    macro_rules! once {
        ($x:expr) => {
            twice($x)
        };
    }
    once!(x)?.add(1.0)
}

#[test]
fn items_inside_the_body() {
    assert_eq!(on_two(|mesh| all(&with_items(&rows(&mesh, 2)?)?)), [1.0, 3.0]);
}

#[local_map(in = [[Shard(0)]], out = [Shard(0)])]
unsafe fn unchecked(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn unsafe_functions() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        // SAFETY: nothing is required.
        all(&unsafe { unchecked(&x) }?)
    });
    assert_eq!(values, [0.0, 1.0]);
}

mod inner {
    #![deny(missing_docs)]
    use super::*;

    /// Documented.
    #[must_use = "it changes nothing"]
    #[inline]
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    pub(in super::super) fn attributed(x: &Tensor) -> Option<Tensor> {
        Some(x.clone())
    }
}

#[test]
fn attributes_and_visibility_are_kept() {
    #[deny(unused_must_use)]
    let values = on_two(|mesh| all(&inner::attributed(&rows(&mesh, 2)?)?.unwrap()));
    assert_eq!(values, [0.0, 1.0]);
}

macro_rules! regions {
    ($($(#[$doc:meta])* $vis:vis $name:ident($x:ident: $ty:ty) = $body:expr, $entry:tt, $dim:literal;)*) => {
        $($(#[$doc])* #[local_map(in = [$entry], out = [Shard($dim)])]
        $vis fn $name($x: $ty) -> Result<Tensor> { $body })*
    };
}

regions! {
    /// Doubles.
    pub(crate) doubled(x: &Tensor) = x * 2.0, [Shard(0)], 0;
    cleared(x: Tensor) = x.zeros_like(), [Shard(0)], -1;
}

macro_rules! filled {
    ($name:ident, $mesh:ident, $at:expr, $value:expr) => {
        #[local_map(mesh = $at, out = [Replicate])]
        fn $name($mesh: &DeviceMesh) -> Result<Tensor> {
            Tensor::new(&[$value], &Device::Cpu)
        }
    };
}

filled!(seven, mesh, mesh.clone(), 7f32);

#[test]
fn within_macro_rules() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        Ok([all(&doubled(&x)?)?, all(&cleared(x)?)?, all(&seven(&mesh)?)?].concat())
    });
    assert_eq!(values, [0.0, 2.0, 0.0, 0.0, 7.0]);
}

mod renamed {
    pub(crate) use ::local_map::*;
    pub(crate) use ::local_map::{__private, local_map as region};
}

#[renamed::region(crate = crate::functions::renamed, in = [[Shard(0)]], out = [Shard(0)])]
fn in_a_module(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

macro_rules! from_a_macro {
    ($name:ident) => {
        #[local_map(crate = $crate::functions::renamed, in = [[Shard(0)]], out = [Shard(0)])]
        fn $name(x: &Tensor) -> Result<Tensor> {
            Ok(x.clone())
        }
    };
}
from_a_macro!(by_crate);

#[local_map(crate = ::local_map, in = [[Shard(0)]], out = [Shard(0)])]
fn absolute(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

#[test]
fn the_crate_under_another_path() {
    assert_eq!(on_two(|mesh| all(&by_crate(&in_a_module(&absolute(&rows(&mesh, 2)?)?)?)?)), [0.0, 1.0]);
}
