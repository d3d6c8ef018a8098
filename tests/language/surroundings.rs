//! What may stand around a region, in it and beside it; clippy's strictest groups hold for this file and for its expansions.

use std::error::Error as StdError;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::*;

#[local_map(in = [[Shard(0)], [Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn collected(x: &Tensor, maybe: Option<Vec<Tensor>>, slice: &[Tensor]) -> Result<Tensor> {
    maybe.unwrap_or_default().iter().chain(slice).try_fold(x.clone(), |sum, x| sum + x)
}

#[test]
fn a_vec_within_an_option() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let three = vec![x.clone(), x.clone(), x.clone()];
        Ok([all(&collected(&x, Some(three.clone()), &three)?)?, all(&collected(&x, None, &[])?)?].concat())
    });
    assert_eq!(values, [0.0, 7.0, 0.0, 1.0]);
}

/// Whatever maps one distributed tensor to another.
trait Layer {
    fn forward(&self, x: &DTensor) -> Result<DTensor>;

    fn scale(&self) -> f64 {
        2.0
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)], dynamic)]
    fn scaled(&self, x: &Tensor) -> Result<Tensor> {
        x * self.scale()
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn halved(&self, x: &Tensor) -> Result<Tensor>
    where
        Self: Sized,
    {
        x / self.scale()
    }
}

struct Plus<const BY: i32>;

impl<const BY: i32> Plus<BY> {
    const ZERO: f64 = 0.0;
}

impl<const BY: i32> Layer for Plus<BY> {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)], dynamic)]
    #[inline]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x.affine(1.0, f64::from(BY) + Self::ZERO)
    }
}

#[test]
fn default_methods_and_boxed_layers() {
    let layers: Vec<Box<dyn Layer + Sync>> = vec![Box::new(Plus::<1>), Box::new(Plus::<2>)];
    let values = on_two(|mesh| {
        let x = layers.iter().try_fold(rows(&mesh, 2)?, |x, layer| layer.forward(&x))?;
        all(&Plus::<0>.halved(&layers[0].scaled(&x)?)?)
    });
    assert_eq!(values, [3.0, 4.0]);
}

#[derive(Clone)]
struct Shared<T> {
    by: T,
}

impl<T> Shared<T>
where
    T: Copy + Into<f64> + Send + Sync + 'static,
{
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn owned(self: Arc<Self>, x: &Tensor) -> Result<Tensor> {
        let Self { by } = *self;
        x * by.into()
    }

    #[local_map(in = [[Shard(0)], _], out = [[Shard(0)], _])]
    fn twice<'a>(&'a self, x: &Tensor, other: &'a Self) -> Result<(Tensor, [&'a Self; 2])> {
        Ok(((x * other.by.into())?, [self, other]))
    }

    #[local_map(in = [[Shard(0)]], out = [Shard(0)], recompute)]
    fn again(&self, x: &Tensor) -> Result<Tensor> {
        x * self.by.into()
    }
}

#[test]
fn every_receiver_of_a_generic_struct() {
    let values = on_two(|mesh| {
        let (x, shared) = (rows(&mesh, 2)?, Shared { by: 3f32 });
        let (twice, [_, other]) = shared.twice(&x, &shared)?;
        let owned = Arc::new(other.clone()).owned(&twice)?;
        Ok([all(&owned)?, all(&shared.again(&x)?)?].concat())
    });
    assert_eq!(values, [0.0, 9.0, 0.0, 3.0]);
}

macro_rules! region_of {
    ($(#[$attr:meta])* $vis:vis fn $name:ident($($x:ident: $ty:ty = $entry:tt),*) -> $result:ty, $out:tt, $($flag:ident)* => $body:block) => {
        $(#[$attr])*
        #[local_map(in = { $($x: $entry),* }, out = $out, $($flag),*)]
        $vis fn $name($($x: $ty),*) -> $result $body
    };
}

region_of! {
    /// Adds a vector.
    #[allow(unreachable_pub, reason = "a visibility comes through the macro")]
    #[inline]
    pub fn moved(x: &Tensor = [Shard(0)], by: &Tensor = [Replicate], times: f64 = _) -> Result<Tensor>, [Shard(0)], reshard check => {
        x.broadcast_add(&(by * times)?)
    }
}

macro_rules! one_placement {
    ($name:ident, $dim:expr, $op:ident, $placement:ident) => {
        #[local_map(in = [[Shard($dim)]], out = [[$placement($op)], [Shard($dim)]])]
        fn $name(x: &Tensor) -> Result<(Tensor, Tensor)> {
            Ok((x.sum_all()?, x.clone()))
        }
    };
}
one_placement!(with_sum, 0, Sum, Partial);

#[test]
fn whole_functions_from_macro_rules() {
    let values = on_two(|mesh| {
        let (x, by) = (rows(&mesh, 2)?, replicated(&mesh, &[10.0])?);
        let (sum, x) = with_sum(&moved(&x, &by, 2.0)?)?;
        Ok([all(&sum.reshard(&[Replicate])?)?, all(&x)?].concat())
    });
    assert_eq!(values, [41.0, 20.0, 21.0]);
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
#[track_caller]
fn labelled_blocks(x: &Tensor, way: i32) -> Result<Tensor> {
    let by = 'found: {
        for at in 0.. {
            if at == way {
                break 'found at;
            }
        }
        return x.zeros_like();
    };
    x * f64::from(by)
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn shadowing(x: &Tensor, __call: f64) -> Result<Tensor> {
    let __locals = __call;
    let __input0 = x;
    let __m = 1.0;
    __input0.affine(__locals, __m)
}

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn capturing(x: &Tensor, times: usize) -> Result<Tensor> {
    fn once(x: &Tensor) -> Result<Tensor> {
        x + 1.0
    }
    let mut calls = 0;
    let mut step = |x: Tensor| {
        calls += 1;
        once(&x)
    };
    let x = (0..times).try_fold(x.clone(), |x, _| step(x))?;
    x * f64::from(calls)
}

#[test]
fn bodies() {
    let values = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let results = [labelled_blocks(&x, 3)?, shadowing(&x, 2.0)?, capturing(&x, 2)?];
        results.iter().map(all).collect::<Result<Vec<_>>>()
    });
    assert_eq!(values, [[0.0, 3.0], [1.0, 3.0], [4.0, 6.0]]);
}

/// Multiplies by two as often as asked, one region each.
fn repeated(x: &DTensor, times: usize) -> Result<DTensor> {
    #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
    fn once(x: &Tensor) -> Result<Tensor> {
        x * 2.0
    }
    match times {
        0 => Ok(x.clone()),
        times => repeated(once(x)?.as_dyn(), times - 1),
    }
}

async fn from_async_code(x: DTensor) -> Result<DTensor> {
    let once = repeated(&x, 1)?;
    std::future::ready(()).await;
    repeated(&once, 1)
}

#[test]
fn regions_within_functions_and_async_code() {
    let values = on_two(|mesh| {
        let future = pin!(from_async_code(rows(&mesh, 2)?));
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(x) => all(&x?),
            Poll::Pending => Ok(Vec::new()),
        }
    });
    assert_eq!(values, [0.0, 4.0]);
}

type Anything = Box<dyn StdError + Send + Sync>;
type Checked<T, E = Anything> = std::result::Result<T, E>;

#[local_map(in = [[Shard(0)], _], out = [Shard(0)])]
fn checked(x: &Tensor, text: &str) -> Checked<Tensor> {
    Ok((x * text.parse::<f64>()?)?)
}

#[local_map(in = [[Shard(0)], _], out = _)]
fn lengths<'a>(x: &Tensor, names: &'a [&'a str]) -> Result<impl Iterator<Item = &'a str> + use<'a>> {
    let rows = x.dim(0)?;
    Ok(names.iter().copied().take(rows))
}

#[local_map(in = [[Shard(0)], _, _], out = [Shard(0)])]
fn with_tail(x: &Tensor, lock: &std::sync::Mutex<f64>, by: impl Fn(f64) -> f64 + Copy) -> Result<Tensor> {
    x * by(*lock.lock().unwrap())
}

#[test]
fn aliases_with_defaults_iterators_and_temporaries() {
    let (values, failed, names) = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        let twice = checked(&x, "2").unwrap();
        let failed = checked(&x, "two").unwrap_err().to_string();
        let names: Vec<String> = lengths(&x, &["first", "second"])?.map(str::to_owned).collect();
        Ok((all(&with_tail(&twice, &2.0.into(), |by| by + 1.0)?)?, failed, names))
    });
    assert_eq!((values, failed), (vec![0.0, 6.0], "invalid float literal".to_owned()));
    assert_eq!(names, ["first"]);
}

#[local_map(in = [[Shard(0)], [Shard(0)]], out = [Shard(0)])]
fn with_context(r#in: &Tensor, ctx: &Region, r#out: Tensor) -> Result<Tensor> {
    let rank = ctx.coordinate("dp")?;
    (r#in + r#out)?.affine(1.0, rank as f64)
}

#[test]
fn the_context_between_raw_identifiers() {
    let sums = on_two(|mesh| {
        let x = rows(&mesh, 2)?;
        all(&with_context(&x, x.clone())?)
    });
    assert_eq!(sums, [0.0, 3.0]);
}
