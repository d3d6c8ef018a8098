//! Gradients of the global function, swept: functions x entries x meshes x shapes x placements, against candle on one
//! device; and random programs of several regions.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{Device, Result, Tensor, Var};
use local_map::plan::Collective;
use local_map::prelude::*;
use proptest::prelude::*;
use support::{launched, on_ranks};

/// An annotated function: the placements of its entries, of each input and of the output.
struct Entry {
    ins: Vec<Vec<Placement>>,
    out: Vec<Placement>,
    run: fn(&[DTensor]) -> Result<DTensor>,
}

/// A function, and the entries under which its body computes the global function.
struct Function {
    name: &'static str,
    plain: fn(&[Tensor]) -> Result<Tensor>,
    /// For a mesh of one axis and of two.
    entries: [Vec<Entry>; 2],
}

impl Function {
    fn on(&self, axes: Axes) -> &[Entry] {
        &self.entries[axes.len() - 1]
    }

    fn entry(&self, axes: Axes, at: usize) -> &Entry {
        let all = self.on(axes);
        &all[at % all.len()]
    }
}

/// `function!(f(x, y); ([x's] [y's] => [output's])...)`: on one axis the listed entries, on two axes all pairs of them.
macro_rules! function {
    ($f:ident $x:tt; $($row:tt)+) => { function!(@rows $f $x; [$($row)+] [$($row)+]) };
    (@rows $f:ident $x:tt; [$($row:tt)+] $rows:tt) => {{
        let mut pairs = Vec::new();
        $(function!(@pairs pairs, $f $x, $row, $rows);)+
        let one = vec![$(function!(@one $f $x, $row)),+];
        Function { name: stringify!($f), plain: function!(@plain $f $x), entries: [one, pairs] }
    }};
    (@plain $f:ident ($($x:ident),+)) => {
        |all| {
            let [$($x),+] = all else { panic!("{} arguments", all.len()) };
            $f($($x),+)
        }
    };
    (@pairs $pairs:ident, $f:ident $x:tt, $a:tt, [$($b:tt)+]) => {
        $($pairs.push(function!(@two $f $x, $a, $b));)+
    };
    (@one $f:ident $x:tt, ($($entries:tt)+)) => { function!(@entry $f $x, $($entries)+) };
    (@two $f:ident $x:tt, ($([$($a:tt)+])+ => [$($ao:tt)+]), ($([$($b:tt)+])+ => [$($bo:tt)+])) => {
        function!(@entry $f $x, $([$($a)+, $($b)+])+ => [$($ao)+, $($bo)+])
    };
    (@entry $f:ident ($($x:ident),+), $([$($in:tt)+])+ => [$($out:tt)+]) => {{
        #[local_map(in = [$([$($in)+]),+], out = [$($out)+], reshard)]
        fn region($($x: &Tensor),+) -> Result<Tensor> {
            $f($($x),+)
        }
        let run = |all: &[DTensor]| {
            let [$($x),+] = all else { panic!("{} arguments", all.len()) };
            Ok(region($($x),+)?.erase())
        };
        Entry { ins: vec![$(vec![$($in)+]),+], out: vec![$($out)+], run }
    }};
}

fn identity(x: &Tensor) -> Result<Tensor> {
    Ok(x.clone())
}

fn scale(x: &Tensor) -> Result<Tensor> {
    x * 1.5
}

fn transpose(x: &Tensor) -> Result<Tensor> {
    x.t()
}

fn sum_of_columns(x: &Tensor) -> Result<Tensor> {
    x.sum(0)
}

fn sum_of_rows(x: &Tensor) -> Result<Tensor> {
    x.sum(1)
}

fn matmul(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    x.matmul(y)
}

fn softmax_of_rows(x: &Tensor) -> Result<Tensor> {
    local_map::ops::softmax(x, 1)
}

fn softmax_of_columns(x: &Tensor) -> Result<Tensor> {
    local_map::ops::softmax(x, 0)
}

fn relu(x: &Tensor) -> Result<Tensor> {
    x.relu()
}

fn gather_in_rows(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    // candle gathers by contiguous indices only; a cut index is a view.
    x.gather(&index.contiguous()?, 1)
}

fn gather_in_columns(x: &Tensor, index: &Tensor) -> Result<Tensor> {
    x.gather(&index.contiguous()?, 0)
}

fn first(x: &Tensor, _: &Tensor) -> Result<Tensor> {
    x * 2.0
}

fn weighted_sum(x: &Tensor, weights: &Tensor) -> Result<Tensor> {
    (x * weights)?.sum_all()
}

/// The identity under entries whose ranks are all equal, to be reduced by a maximum or minimum: they share the gradient.
fn extremes() -> [Function; 2] {
    let max = function! { identity(x);
        ([Replicate] => [Partial(Max)]) ([Replicate] => [Replicate]) ([Shard(0)] => [Shard(0)]) ([Shard(1)] => [Shard(1)])
    };
    let min = function! { identity(x); ([Replicate] => [Partial(Min)]) ([Shard(1)] => [Shard(1)]) };
    [max, min]
}

fn linear() -> [Function; 5] {
    [
        function! { identity(x);
            ([Shard(0)] => [Shard(0)]) ([Shard(1)] => [Shard(1)]) ([Replicate] => [Replicate])
            ([Partial(Sum)] => [Partial(Sum)]) ([Partial(Avg)] => [Partial(Avg)]) ([Replicate] => [Partial(Avg)])
        },
        function! { scale(x);
            ([Shard(0)] => [Shard(0)]) ([Shard(1)] => [Shard(1)]) ([Replicate] => [Replicate])
            ([Partial(Sum)] => [Partial(Sum)]) ([Partial(Avg)] => [Partial(Avg)])
        },
        function! { transpose(x);
            ([Shard(0)] => [Shard(1)]) ([Shard(1)] => [Shard(0)]) ([Replicate] => [Replicate])
            ([Partial(Sum)] => [Partial(Sum)]) ([Partial(Avg)] => [Partial(Avg)])
        },
        function! { sum_of_columns(x);
            ([Shard(0)] => [Partial(Sum)]) ([Shard(1)] => [Shard(0)]) ([Replicate] => [Replicate])
            ([Partial(Sum)] => [Partial(Sum)]) ([Partial(Avg)] => [Partial(Avg)])
        },
        function! { sum_of_rows(x);
            ([Shard(0)] => [Shard(0)]) ([Shard(1)] => [Partial(Sum)]) ([Replicate] => [Replicate])
            ([Partial(Avg)] => [Partial(Avg)])
        },
    ]
}

fn nonlinear() -> [Function; 3] {
    [
        function! { softmax_of_rows(x);
            ([Shard(0)] => [Shard(0)]) ([Replicate] => [Replicate]) ([Replicate] => [Partial(Avg)])
        },
        function! { softmax_of_columns(x); ([Shard(1)] => [Shard(1)]) ([Replicate] => [Replicate]) },
        function! { relu(x);
            ([Shard(0)] => [Shard(0)]) ([Shard(1)] => [Shard(1)]) ([Replicate] => [Replicate])
            ([Replicate] => [Partial(Avg)])
        },
    ]
}

fn products() -> Function {
    function! { matmul(x, y);
        ([Shard(0)] [Replicate] => [Shard(0)]) ([Replicate] [Shard(1)] => [Shard(1)])
        ([Shard(1)] [Shard(0)] => [Partial(Sum)]) ([Replicate] [Replicate] => [Replicate])
        ([Partial(Sum)] [Replicate] => [Partial(Sum)]) ([Replicate] [Partial(Sum)] => [Partial(Sum)])
        ([Partial(Avg)] [Replicate] => [Partial(Avg)]) ([Replicate] [Partial(Avg)] => [Partial(Avg)])
    }
}

fn gathers() -> [Function; 2] {
    [
        function! { gather_in_rows(x, index);
            ([Shard(0)] [Shard(0)] => [Shard(0)]) ([Replicate] [Shard(1)] => [Shard(1)])
            ([Replicate] [Replicate] => [Replicate]) ([Partial(Sum)] [Replicate] => [Partial(Sum)])
            ([Partial(Avg)] [Replicate] => [Partial(Avg)])
        },
        function! { gather_in_columns(x, index);
            ([Shard(1)] [Shard(1)] => [Shard(1)]) ([Replicate] [Shard(0)] => [Shard(0)])
            ([Replicate] [Replicate] => [Replicate]) ([Partial(Sum)] [Replicate] => [Partial(Sum)])
        },
    ]
}

/// A replicated output on an axis along which the ranks do not all compute the same.
fn choices() -> Function {
    function! { first(x, y);
        ([Replicate] [Shard(0)] => [Replicate]) ([Replicate] [Partial(Sum)] => [Replicate])
        ([Shard(0)] [Replicate] => [Shard(0)]) ([Replicate] [Replicate] => [Replicate])
    }
}

/// What every output ends in: its sum, weighted so that no two elements have the same cotangent.
fn losses() -> Function {
    function! { weighted_sum(x, weights);
        ([Shard(0)] [Shard(0)] => [Partial(Sum)]) ([Shard(1)] [Shard(1)] => [Partial(Sum)])
        ([Replicate] [Replicate] => [Replicate]) ([Partial(Sum)] [Replicate] => [Partial(Sum)])
        ([Partial(Avg)] [Replicate] => [Partial(Avg)])
    }
}

type Axes = &'static [(&'static str, usize)];

const MESHES: [Axes; 5] = [&[("a", 1)], &[("a", 2)], &[("a", 3)], &[("a", 4)], &[("a", 2), ("b", 2)]];

fn ranks(axes: Axes) -> usize {
    axes.iter().map(|(_, n)| n).product()
}

/// Choices that look random and are the same on all ranks.
struct Picks(u64);

impl Picks {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn placements(&mut self, axes: Axes, all: &[Placement]) -> Vec<Placement> {
        axes.iter().map(|_| *self.of(all)).collect()
    }

    /// Numbers away from 0, where `relu` has its kink.
    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let mut number = || (0.2 + self.below(1000) as f64 / 1000.0) * [1.0, -1.0][self.below(2)];
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| number()).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }

    fn index(&mut self, shape: &[usize], below: usize) -> Tensor {
        let values: Vec<u32> = (0..shape.iter().product()).map(|_| self.below(below) as u32).collect();
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    }
}

/// Where a leaf may be.
const LEAF: [Placement; 3] = [Shard(0), Shard(1), Replicate];
/// Where a region's input may be given.
const GIVEN: [Placement; 5] = [Shard(0), Shard(1), Replicate, Partial(Sum), Partial(Avg)];

fn of_rank(rank: usize, all: &[Placement]) -> Vec<Placement> {
    all.iter().copied().filter(|p| !matches!(p, Shard(d) if *d >= rank as i64)).collect()
}

/// Equal up to rounding.
fn close(given: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(given.dims(), expected.dims(), "{what}: shapes");
    let numbers = |x: &Tensor| x.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    let (given, expected) = (numbers(given), numbers(expected));
    let size = expected.iter().fold(1f64, |most, x| most.max(x.abs()));
    let equal = given.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-9 * size);
    assert!(equal, "{what}: {given:?}, not {expected:?}");
}

/// A leaf's gradient, or zeros where the loss does not depend on it, against candle's.
fn same_gradient(
    ours: (&Gradients, &DTensor),
    theirs: (&candle_core::backprop::GradStore, &Tensor),
    what: &str,
) -> local_map::Result<()> {
    let (gradients, leaf) = ours;
    let zeros = || theirs.1.zeros_like().unwrap();
    let given = gradients.get(leaf).map(|gradient| {
        assert_eq!(gradient.spec().unwrap(), leaf.spec().unwrap(), "{what}: a gradient is placed as its leaf");
        gradient.full()
    });
    let given = given.transpose()?.unwrap_or_else(zeros);
    close(&given, &theirs.0.get(theirs.1).cloned().unwrap_or_else(zeros), what);
    Ok(())
}

fn variable(x: &Tensor) -> Tensor {
    if x.dtype().is_float() { Var::from_tensor(x).unwrap().into_inner() } else { x.clone() }
}

/// A leaf of these placements, resharded.
fn given(whole: &Tensor, mesh: &DeviceMesh, leaf: &[Placement], to: &[Placement]) -> local_map::Result<[DTensor; 2]> {
    let placed = DTensor::shard(whole, mesh, leaf)?;
    let placed = if whole.dtype().is_float() { placed.requires_grad()? } else { placed };
    Ok([placed.clone(), placed.reshard(to)?])
}

/// One entry on one mesh: value and gradients, of inputs that come from anywhere and an output that goes anywhere.
fn check(
    mesh: &DeviceMesh,
    axes: Axes,
    function: &Function,
    entry: &Entry,
    loss: &Function,
    wholes: &[Tensor],
    seed: u64,
) {
    let mut picks = Picks(seed);
    let variables: Vec<Tensor> = wholes.iter().map(variable).collect();
    let expected = (function.plain)(&variables).unwrap();
    let weights = variable(&picks.tensor(expected.dims()));
    let oracle = (loss.plain)(&[expected.clone(), weights.clone()]).unwrap().backward().unwrap();

    let fits = |e: &&Entry| expected.rank() > 1 || !e.ins.iter().flatten().any(|p| *p == Shard(1));
    let ends: Vec<&Entry> = loss.on(axes).iter().filter(fits).collect();
    let end = *picks.of(&ends);
    let mut what = format!("{} {:?} -> {:?} on {axes:?}", function.name, entry.ins, entry.out);
    what += &format!(", then {:?}, of", end.ins);
    let mut leaves = Vec::new();
    let mut inputs = Vec::new();
    for whole in wholes {
        let leaf = picks.placements(axes, &LEAF);
        let to = if whole.dtype().is_float() { picks.placements(axes, &GIVEN) } else { picks.placements(axes, &LEAF) };
        what += &format!(" {:?} {leaf:?} as {to:?}", whole.dims());
        let [leaf, input] = given(whole, mesh, &leaf, &to).unwrap();
        leaves.push(leaf);
        inputs.push(input);
    }
    let mut run = || -> Result<()> {
        let output = (entry.run)(&inputs)?;
        assert_eq!(output.placements()[..], entry.out[..], "{what}");
        close(&output.full()?, &expected, &what);
        let ranked = of_rank(expected.rank(), &LEAF);
        let weight_leaf = picks.placements(axes, &ranked);
        let [weight_leaf, weight] = given(&weights.detach(), mesh, &weight_leaf, &weight_leaf)?;
        let mut total = (end.run)(&[output, weight])?;
        if picks.below(2) == 0 {
            total = total.reshard(&vec![Replicate; axes.len()])?;
        }
        let gradients = total.backward()?;
        same_gradient((&gradients, &weight_leaf), (&oracle, &weights), &format!("weights: {what}"))?;
        for (at, (leaf, whole)) in leaves.iter().zip(&variables).enumerate() {
            if whole.dtype().is_float() {
                same_gradient((&gradients, leaf), (&oracle, whole), &format!("input {at}: {what}"))?;
            }
        }
        Ok(())
    };
    if let Err(error) = run() {
        panic!("{what}: {error}");
    }
}

/// All entries of the functions on all meshes, with the inputs that `wholes` makes for lengths m, k and n.
fn sweep(functions: &[Function], wholes: impl Fn(&mut Picks, [usize; 3]) -> Option<Vec<Tensor>> + Sync) {
    /// Even, uneven, shorter than the mesh and empty.
    const LENGTHS: [[usize; 3]; 8] =
        [[4, 4, 4], [5, 3, 7], [3, 5, 2], [1, 2, 1], [2, 1, 5], [0, 3, 4], [3, 0, 4], [3, 4, 0]];
    let loss = losses();
    for axes in MESHES {
        launched(ranks(axes), |world| {
            let mesh = world.mesh(axes.iter().copied())?;
            let mut seed = 0;
            for function in functions {
                for entry in function.on(axes) {
                    // Three times each, from and to other placements.
                    for lengths in LENGTHS.into_iter().cycle().take(3 * LENGTHS.len()) {
                        seed += 1;
                        if let Some(wholes) = wholes(&mut Picks(seed), lengths) {
                            check(&mesh, axes, function, entry, &loss, &wholes, seed);
                        }
                    }
                }
            }
            Ok(())
        });
    }
}

#[test]
fn linear_functions_of_one_tensor() {
    sweep(&linear(), |picks, [m, k, _]| Some(vec![picks.tensor(&[m, k])]));
}

#[test]
fn equal_values_under_a_maximum_or_minimum() {
    sweep(&extremes(), |picks, [m, k, _]| Some(vec![picks.tensor(&[m, k])]));
}

#[test]
fn softmax_and_relu() {
    let [rows, columns, relu] = nonlinear();
    sweep(&[rows, relu], |picks, [m, k, _]| (k > 0).then(|| vec![picks.tensor(&[m, k])]));
    sweep(&[columns], |picks, [m, k, _]| (m > 0).then(|| vec![picks.tensor(&[m, k])]));
}

#[test]
fn matrix_products() {
    sweep(&[products()], |picks, [m, k, n]| Some(vec![picks.tensor(&[m, k]), picks.tensor(&[k, n])]));
}

#[test]
fn a_replicated_output_beside_a_sharded_input() {
    sweep(&[choices()], |picks, [m, k, n]| Some(vec![picks.tensor(&[m, k]), picks.tensor(&[k, n])]));
}

#[test]
fn gathers_along_a_dimension() {
    let [rows, columns] = gathers();
    sweep(&[rows], |picks, [m, k, n]| (k > 0).then(|| vec![picks.tensor(&[m, k]), picks.index(&[m, n], k)]));
    sweep(&[columns], |picks, [m, k, n]| (m > 0).then(|| vec![picks.tensor(&[m, k]), picks.index(&[n, k], m)]));
}

/// A step of a random program on square matrices: of two earlier values, resharded, it makes another.
#[derive(Clone, Debug)]
struct Step {
    /// A function, or with the last number a sum.
    function: usize,
    entry: usize,
    values: [usize; 2],
    placed: [Vec<Placement>; 2],
}

#[derive(Clone, Debug)]
struct Chain {
    axes: Axes,
    side: usize,
    leaves: [Vec<Placement>; 2],
    steps: Vec<Step>,
    /// The entries of the losses, of the last value and of any other, and where the totals are added.
    ends: [usize; 2],
    other: usize,
    total: Vec<Placement>,
}

/// The functions that chains are made of; all take and give square matrices.
fn square_functions() -> Vec<Function> {
    linear().into_iter().take(3).chain(nonlinear()).chain([products(), choices()]).collect()
}

fn placements(axes: usize, all: &'static [Placement]) -> impl Strategy<Value = Vec<Placement>> {
    proptest::collection::vec(proptest::sample::select(all), axes)
}

fn steps(axes: usize) -> impl Strategy<Value = Step> {
    let placed = [placements(axes, &GIVEN), placements(axes, &GIVEN)];
    (0usize..9, 0usize..64, [0usize..8, 0usize..8], placed).prop_map(|(function, entry, values, placed)| Step {
        function,
        entry,
        values,
        placed,
    })
}

fn chains() -> impl Strategy<Value = Chain> {
    let shape = (proptest::sample::select(&MESHES[..]), prop_oneof![1 => Just(0usize), 9 => 1usize..6]);
    shape.prop_flat_map(|(axes, side)| {
        let n = axes.len();
        let leaves = [placements(n, &LEAF), placements(n, &LEAF)];
        let ends = ([0usize..64, 0usize..64], 0usize..8, placements(n, &[Replicate, Partial(Sum), Partial(Avg)]));
        (leaves, proptest::collection::vec(steps(n), 1..4), ends).prop_map(
            move |(leaves, steps, (ends, other, total))| Chain { axes, side, leaves, steps, ends, other, total },
        )
    })
}

/// The last of all: the most recent value is the most likely to be used.
fn nth<T>(all: &[T], at: usize) -> &T {
    all.get(all.len().wrapping_sub(1 + at / 2)).unwrap_or(&all[at % all.len()])
}

/// The value that two weighted sums of the program's values add up to.
fn on_one_device(chain: &Chain, functions: &[Function], leaves: &[Tensor], weights: &Tensor) -> Result<Tensor> {
    let mut values = leaves.to_vec();
    for step in &chain.steps {
        let [a, b] = step.values.map(|at| nth(&values, at).clone());
        values.push(match functions.get(step.function) {
            None => (a + b)?,
            Some(f) if f.entries[0][0].ins.len() == 1 => (f.plain)(&[a])?,
            Some(f) => (f.plain)(&[a, b])?,
        });
    }
    let last = weighted_sum(nth(&values, 0), weights)?;
    last + weighted_sum(nth(&values, chain.other), weights)?
}

fn on_a_mesh(
    chain: &Chain,
    functions: &[Function],
    loss: &Function,
    leaves: &[DTensor],
    weights: &DTensor,
) -> Result<DTensor> {
    let mut values = leaves.to_vec();
    for step in &chain.steps {
        let a = nth(&values, step.values[0]).reshard(&step.placed[0])?;
        let b = nth(&values, step.values[1]);
        values.push(match functions.get(step.function) {
            None => (&a + &b.reshard(&step.placed[0])?)?,
            Some(f) => {
                let entry = f.entry(chain.axes, step.entry);
                let inputs = [a, b.reshard(&step.placed[1])?];
                (entry.run)(&inputs[..entry.ins.len()])?
            }
        });
    }
    let end = |value: &DTensor, at: usize| -> Result<DTensor> {
        let entry = loss.entry(chain.axes, at);
        Ok((entry.run)(&[value.clone(), weights.clone()])?.reshard(&chain.total)?)
    };
    let last = end(nth(&values, 0), chain.ends[0])?;
    Ok((&last + &end(nth(&values, chain.other), chain.ends[1])?)?)
}

fn check_chain(chain: &Chain, functions: &[Function], loss: &Function) {
    let mut picks = Picks(chain.side as u64);
    let shape = [chain.side; 2];
    let [x, y, weights] = [0; 3].map(|_| variable(&picks.tensor(&shape)));
    let wholes = [x, y];
    let expected = on_one_device(chain, functions, &wholes, &weights).unwrap();
    let oracle = expected.backward().unwrap();
    launched(ranks(chain.axes), |world| {
        let mesh = world.mesh(chain.axes.iter().copied())?;
        let leaf = |(whole, to): (&Tensor, &Vec<Placement>)| Ok(given(&whole.detach(), &mesh, to, to)?[0].clone());
        let leaves: Vec<DTensor> = wholes.iter().zip(&chain.leaves).map(leaf).collect::<local_map::Result<_>>()?;
        let weight_leaf = leaf((&weights, &chain.leaves[0]))?;
        let total = on_a_mesh(chain, functions, loss, &leaves, &weight_leaf)?;
        close(&total.full()?, &expected, "the value");
        let gradients = total.backward()?;
        same_gradient((&gradients, &weight_leaf), (&oracle, &weights), "weights")?;
        for (at, (leaf, whole)) in leaves.iter().zip(&wholes).enumerate() {
            same_gradient((&gradients, leaf), (&oracle, whole), &format!("leaf {at}"))?;
        }
        Ok(())
    });
}

#[test]
fn chains_of_regions_with_shared_values() {
    let (functions, loss) = (square_functions(), losses());
    let config = ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(chain in chains())| check_chain(&chain, &functions, &loss));
}

#[test]
fn a_maximum_over_two_axes() {
    fn max_of_columns(x: &Tensor) -> Result<Tensor> {
        x.max(0)
    }
    let function = function! { max_of_columns(x); ([Shard(0)] => [Partial(Max)]) ([Shard(1)] => [Shard(0)]) };
    let loss = losses();
    for axes in MESHES {
        launched(ranks(axes), |world| {
            let mesh = world.mesh(axes.iter().copied())?;
            for entry in function.on(axes) {
                // No empty shards, of which candle has no maximum.
                for (seed, shape) in (7..).zip([[4, 4], [8, 8], [12, 11]]) {
                    if axes != MESHES[2] || shape[0] > 4 {
                        check(&mesh, axes, &function, entry, &loss, &[Picks(seed).tensor(&shape)], seed);
                    }
                }
            }
            Ok(())
        });
    }
}

#[local_map(in = [[Replicate], [Replicate]], out = [Replicate])]
fn whole_product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    matmul(x, y)
}

#[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
fn rows_product(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    matmul(x, y)
}

#[local_map(in = [[Replicate]], out = [Replicate])]
fn whole_total(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
fn rows_total(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

/// A rank of a world without other ranks, on which every collective is an error.
fn alone(ranks: usize) -> local_map::Result<(DeviceMesh, Tensor, Tensor)> {
    let mesh = World::fake(ranks - 1, ranks)?.mesh([("a", ranks)])?;
    let mut picks = Picks(1);
    Ok((mesh, picks.tensor(&[8, 3]), picks.tensor(&[3, 3])))
}

#[test]
fn replicated_regions_and_sharded_data_need_no_communication() -> local_map::Result<()> {
    for n in 1..=4 {
        let (mesh, x, w) = alone(n)?;
        let place = |x: &Tensor, p: Placement| DTensor::shard(x, &mesh, &[p])?.requires_grad();
        let (whole, weight) = (place(&x, Replicate)?, place(&w, Replicate)?);
        let gradients = whole_total(&whole_product(&whole_product(&whole, &weight)?, &weight)?)?.backward()?;
        assert_eq!(gradients.len(), 2);
        let rows = place(&x, Shard(0))?;
        let constant = DTensor::shard(&w, &mesh, &[Replicate])?;
        assert_eq!(rows_total(&rows_product(&rows, &constant)?)?.backward()?.len(), 1);
    }
    Ok(())
}

#[test]
fn a_weight_is_reduced_once_however_often_it_is_used() -> local_map::Result<()> {
    let run = |weight: &DTensor, rows: &DTensor| -> Result<Gradients> {
        let first = rows_product(rows, weight)?;
        let second = rows_product(&(&first + rows)?, weight)?;
        Ok((&rows_total(&second)? + &rows_total(&first)?)?.backward()?)
    };
    let (mesh, x, w) = alone(4)?;
    let rows = DTensor::shard(&x, &mesh, &[Shard(0)])?;
    let weight = || Param::new(&DTensor::shard(&w, &mesh, &[Replicate])?);
    // Deferred, its contributions add up without communication; otherwise the first collective is the reduction.
    let deferred = weight()?.defer_reduction()?;
    let gradients = run(&deferred, &rows)?;
    let gradient = gradients.get(&deferred).unwrap();
    assert_eq!(gradient.placements()[..], [Partial(Sum)]);
    assert_eq!(gradient.explain(&[Replicate])?.collectives().collect::<Vec<_>>(), [Collective::AllReduce]);
    let reduced = run(&*weight()?, &rows).err().unwrap().to_string();
    assert!(reduced.contains("all-reduce"), "{reduced}");
    Ok(())
}

#[test]
fn a_gathered_weight_gets_its_gradient_by_one_reduce_scatter() {
    on_ranks(&[2, 3, 4], |world| {
        let mesh = world.mesh([("a", world.size())])?;
        let mut picks = Picks(3);
        let rows = DTensor::shard(&picks.tensor(&[8, 3]), &mesh, &[Shard(0)])?;
        let weight = Param::new(&DTensor::shard(&picks.tensor(&[3, 3]), &mesh, &[Shard(0)])?)?.defer_reduction()?;
        let whole = weight.reshard(&[Replicate])?;
        let gradients = rows_total(&rows_product(&rows_product(&rows, &whole)?, &whole)?)?.backward()?;
        let gradient = gradients.get(&weight).unwrap();
        let plan = gradient.explain(weight.placements())?;
        assert_eq!(plan.collectives().collect::<Vec<_>>(), [Collective::ReduceScatter]);
        Ok(())
    });
}
