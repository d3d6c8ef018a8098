//! Random programs over a mesh, a part of it and a part of that: regions, plain code, arithmetic and reshards, ragged pieces, leaves on
//! the way, values without gradients, accumulation; against candle on one device.
#![allow(clippy::unwrap_used)]

#[path = "mesh_sweep/regions.rs"]
mod regions;
mod support;

use std::time::Duration;

use candle_core::{Device, Tensor, Var};
use local_map::Launch;
use local_map::prelude::*;
use regions::*;

/// Choices that look random and are the same on all ranks.
struct Picks(u64);

impl Picks {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn tensor(&mut self, side: usize) -> Tensor {
        let values: Vec<f64> = (0..side * side).map(|_| self.below(2000) as f64 / 1000.0 - 1.0).collect();
        Tensor::from_vec(values, (side, side), &Device::Cpu).unwrap()
    }

    /// Where each of `parts` pieces of `len` rows starts, and how long it is.
    fn cuts(&mut self, len: usize, parts: usize) -> Vec<(usize, usize)> {
        let mut ends: Vec<usize> = (1..parts).map(|_| self.below(len + 1)).chain([len]).collect();
        ends.sort_unstable();
        let mut start = 0;
        ends.into_iter().map(|end| (start, end - std::mem::replace(&mut start, end))).collect()
    }
}

/// A value on one of the meshes, and what it is on one device.
#[derive(Clone)]
struct Value {
    at: usize,
    here: DTensor,
    whole: Tensor,
}

struct Program {
    world: World,
    meshes: [DeviceMesh; 3],
    side: usize,
    leaves: Vec<(DTensor, Tensor)>,
    log: Vec<String>,
}

const TO: [Placement; 5] = [Shard(0), Shard(1), Replicate, Partial(Sum), Partial(Avg)];

impl Program {
    fn coordinate(&self, at: usize) -> Option<usize> {
        self.meshes[at].ranks().position(|rank| rank == self.world.rank())
    }

    fn placements(&self, picks: &mut Picks, at: usize, all: &[Placement]) -> Vec<Placement> {
        self.meshes[at].sizes().iter().map(|_| picks.of(all)).collect()
    }

    fn add_leaf(&mut self, here: &DTensor, whole: &Tensor, deferred: bool) -> local_map::Result<(DTensor, Tensor)> {
        let here: DTensor = match deferred {
            true => Param::new(here)?.defer_reduction()?.into(),
            false => here.requires_grad()?,
        };
        let whole = Var::from_tensor(&whole.detach()).unwrap().into_inner();
        self.leaves.push((here.clone(), whole.clone()));
        Ok((here, whole))
    }

    fn new_leaf(&mut self, picks: &mut Picks, at: usize) -> local_map::Result<Value> {
        let whole = picks.tensor(self.side);
        let mesh = self.meshes[at].clone();
        let here = match picks.below(3) {
            0 => {
                let cuts = picks.cuts(self.side, mesh.sizes()[0]);
                let position = mesh.coordinate().map_or(0, |c| c[0]);
                let own = whole.narrow(0, cuts[position].0, cuts[position].1)?;
                let mut to = vec![Replicate; mesh.axis_count()];
                to[0] = Shard(0);
                DTensor::from_local_ragged(own, &mesh, &to)?
            }
            _ => DTensor::shard(&whole, &mesh, &self.placements(picks, at, &TO[..3]))?,
        };
        let deferred = picks.below(3) == 0;
        let (here, whole) = self.add_leaf(&here, &whole, deferred)?;
        Ok(Value { at, here, whole })
    }

    fn note(&mut self, what: String) {
        self.log.push(what);
    }

    fn step(&mut self, picks: &mut Picks, values: &[Value]) -> local_map::Result<Vec<Value>> {
        let x = values[if picks.below(2) == 0 { values.len() - 1 } else { picks.below(values.len()) }].clone();
        let at = x.at;
        let on_mesh: Vec<&Value> = values.iter().filter(|v| v.at == at).collect();
        let y = on_mesh[picks.below(on_mesh.len())].clone();
        let two = self.meshes[at].axis_count() == 2;
        let which = picks.below(8);
        let one = |here: DTensor, whole: Tensor| Ok(vec![Value { at, here, whole }]);
        let kind = picks.below(17);
        self.note(format!("{kind}/{which} of {} ({at})", x.here));
        match kind {
            0 => one(if two { tanh2 } else { tanh1 }(which, &[x.here])?, x.whole.tanh()?),
            1 => one(if two { scale2 } else { scale1 }(which, &[x.here])?, (x.whole * 1.5)?),
            2 => {
                let all = [x.here.rebalance()?, y.here.rebalance()?];
                one(if two { product2 } else { product1 }(which, &all)?, product(&x.whole, &y.whole)?)
            }
            3 => {
                let all = [x.here.rebalance()?, y.here.rebalance()?];
                one(if two { first2 } else { first1 }(which, &all)?, (x.whole * 2.0)?)
            }
            4 => {
                let to = self.placements(picks, at, &TO);
                one(x.here.reshard(&to)?, x.whole)
            }
            5 => one(x.here.rebalance()?, x.whole),
            6 => {
                let to = self.placements(picks, at, &TO);
                let (a, b) = (x.here.rebalance()?.reshard(&to)?, y.here.rebalance()?.reshard(&to)?);
                match picks.below(3) {
                    0 => one((&a - &b)?, (x.whole - y.whole)?),
                    1 => one((&a + &(&b * -0.5)?)?, (x.whole + (y.whole * -0.5)?)?),
                    _ => one((-(&a + &a)?)?, (x.whole * -2.0)?),
                }
            }
            7 => {
                let here = no_grad(|| if two { tanh2 } else { tanh1 }(which, &[x.here]))?;
                assert!(!here.needs_grad());
                one(here, x.whole.tanh()?.detach())
            }
            8 if picks.below(3) == 0 => {
                let to = self.placements(picks, at, &TO[..3]);
                let (here, whole) = self.add_leaf(&x.here.reshard(&to)?, &x.whole, which.is_multiple_of(2))?;
                one(here, whole)
            }
            9 => self.sources(picks, &x, &y),
            10 => match two {
                true => one(around2(&x.here)?.erase(), x.whole.tanh()?.sqr()?),
                false => one(around1(&x.here)?.erase(), x.whole.tanh()?.sqr()?),
            },
            _ => self.across(picks, x, which),
        }
    }

    fn sources(&mut self, picks: &mut Picks, x: &Value, y: &Value) -> local_map::Result<Vec<Value>> {
        let (at, mesh) = (x.at, self.meshes[x.at].clone());
        let axes = mesh.axis_count();
        let local = |x: &DTensor| {
            if x.is_absent() { Ok(Tensor::zeros(1, candle_core::DType::F64, &Device::Cpu)?) } else { x.to_local() }
        };
        let (here, whole) = match picks.below(4) {
            0 => {
                let x1 = x.here.reshard(&self.placements(picks, at, &TO[..3]))?;
                let squares = local(&x1)?.sqr()?;
                (Sources::new([&x1]).from_local_ragged(squares, &mesh, x1.placements())?, x.whole.sqr()?)
            }
            1 => {
                let x1 = x.here.reshard(&self.placements(picks, at, &TO[2..4]))?;
                let scaled = (local(&x1)? * 0.7)?;
                (Sources::new([&x1]).from_local(scaled, &mesh, x1.placements())?, (&x.whole * 0.7)?)
            }
            2 => {
                let all = vec![Replicate; axes];
                let (x1, y1) = (x.here.reshard(&all)?, y.here.reshard(&all)?);
                let both = (local(&x1)? * local(&y1)?)?;
                (Sources::new([&x1, &y1, &x1]).from_local(both, &mesh, &all)?, (&x.whole * &y.whole)?)
            }
            _ => {
                let x1 = x.here.reshard(&vec![Replicate; axes])?;
                let cuts = picks.cuts(self.side, mesh.sizes()[0]);
                let mut to = vec![Replicate; axes];
                to[0] = Shard(0);
                let own = match mesh.coordinate() {
                    Some(c) => local(&x1)?.narrow(0, cuts[c[0]].0, cuts[c[0]].1)?.tanh()?,
                    None => local(&x1)?,
                };
                (Sources::new([&x1]).from_local_ragged(own, &mesh, &to)?, x.whole.tanh()?)
            }
        };
        Ok(vec![Value { at, here, whole }])
    }

    fn across(&mut self, picks: &mut Picks, x: Value, which: usize) -> local_map::Result<Vec<Value>> {
        let same_ranks = self.meshes[1].size() == 4;
        let to = match x.at {
            0 => 1 + picks.below(2),
            1 => {
                if same_ranks && picks.below(2) == 0 {
                    0
                } else {
                    2
                }
            }
            _ => return Ok(vec![x]),
        };
        let target = self.meshes[to].clone();
        let parts = target.sizes()[0];
        let cuts = picks.cuts(self.side, parts);
        let weight = self
            .coordinate(to)
            .map_or(7.0, |position| (position as f64 + 1.0) * 2.0 / ((target.size() * (target.size() + 1)) as f64));
        let cut = target.coordinate().map_or((0, self.side), |c| cuts[c[0]]);
        let tanh = x.whole.tanh()?;
        let one = |here: DTensor, whole: Tensor| Ok(vec![Value { at: to, here, whole }]);
        match (x.at, to) {
            (0, _) => match which {
                0 => one(whole_21(&x.here, &target)?.erase(), tanh),
                1 => one(rows_21(&x.here, &target, cut)?.into(), tanh),
                2 => one(rows_21_again(&x.here, target, cut)?.into(), tanh),
                3 => one(addends_21(&x.here, &target, weight)?.erase(), tanh),
                4 => {
                    let split = |n: usize| [n.div_ceil(2), n / 2];
                    let dp = split(self.side);
                    let d = self.meshes[0].coordinate().map_or(0, |c| c[0]);
                    let x1 = x.here.rebalance()?;
                    let x1 = x1.reshard(&[Shard(0), Shard(0)])?;
                    one(gathered_21(&x1, &target, split(dp[d]), dp)?.erase(), tanh)
                }
                5 => one(summed_21(&x.here, &target)?.erase(), tanh),
                _ => {
                    let row = self.meshes[0].at("dp", which - 6)?;
                    let target: Vec<usize> = target.ranks().collect();
                    match row.ranks().collect::<Vec<_>>() == target {
                        true => {
                            let (a, b) = both_21(&x.here.rebalance()?, &self.meshes[to])?;
                            let a = Value { at: 0, here: a.erase(), whole: tanh };
                            let b = Value { at: to, here: b.into(), whole: (&x.whole * 0.5)?.tanh()? };
                            Ok(vec![a, b])
                        }
                        false => one(whole_21(&x.here, &self.meshes[to])?.erase(), tanh),
                    }
                }
            },
            (_, 0) => match which % 2 {
                0 => one(whole_12(&x.here, &target)?.erase(), tanh),
                _ => one(rows_12(&x.here, &target, cut)?.into(), tanh),
            },
            _ => match which % 3 {
                0 => one(whole_11(&x.here, &target)?.erase(), tanh),
                1 => one(rows_11(&x.here, &target, cut)?.into(), tanh),
                _ => one(addends_11(&x.here, &target, weight)?.erase(), tanh),
            },
        }
    }

    fn loss(&self, value: &Value) -> local_map::Result<(DTensor, Tensor)> {
        let here = match self.meshes[value.at].axis_count() {
            2 => loss2(&value.here)?.erase(),
            _ => loss1(&value.here)?.erase(),
        };
        Ok((here, weighed(&value.whole)?))
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.flatten_all().unwrap().to_vec1().unwrap()
}

fn close(given: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(given.dims(), expected.dims(), "{what}");
    let (given, expected) = (numbers(given), numbers(expected));
    let size = expected.iter().fold(1f64, |most, x| most.max(x.abs()));
    assert!(
        given.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-9 * size),
        "{what}: {given:?}, not {expected:?}"
    );
}

/// The meshes of a part and of a part of it.
const PARTS: [(&[usize], &[usize]); 8] = [
    (&[0], &[0]),
    (&[3], &[3]),
    (&[1, 2], &[2]),
    (&[0, 1], &[1, 0]),
    (&[2, 3], &[3]),
    (&[2, 0, 3], &[3, 2]),
    (&[0, 1, 2, 3], &[1, 2, 3]),
    (&[3, 1, 0, 2], &[2, 3]),
];

fn run(world: World, seed: u64) -> local_map::Result<()> {
    let mut picks = Picks(seed);
    for _ in 0..5 {
        picks.below(2);
    }
    let (n, o) = picks.of(&PARTS);
    let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
    let part = |ranks: &[usize]| world.bind(Mesh::over(ranks, [("n", ranks.len())])?);
    let meshes = [mesh, part(n)?, part(o)?];
    let side = picks.below(6);
    let rank = world.rank();
    let mut program = Program { world, meshes, side, leaves: Vec::new(), log: Vec::new() };
    let mut values = vec![program.new_leaf(&mut picks, 0)?, program.new_leaf(&mut picks, 0)?];
    if picks.below(2) == 0 {
        values.push(program.new_leaf(&mut picks, 1)?);
    }
    for _ in 0..1 + picks.below(9) {
        let new = program.step(&mut picks, &values)?;
        for value in &new {
            if !value.here.is_absent() {
                close(&value.here.full()?, &value.whole, &format!("value, seed {seed}: {:#?}", program.log));
            }
        }
        values.extend(new);
    }
    let last = values.last().unwrap().clone();
    let (mut here, mut whole) = program.loss(&last)?;
    let other = values[picks.below(values.len())].clone();
    if other.at == last.at {
        let (a, b) = program.loss(&other)?;
        (here, whole) = ((&here + &(a * 0.5)?)?, (whole + (b * 0.5)?)?);
    }
    let oracle = whole.backward()?;
    let what = format!("seed {seed}, rank {rank}: {:#?}", program.log);
    if !here.is_absent() && !here.needs_grad() {
        return Ok(());
    }
    // The ranks outside cannot but follow.
    let mut gradients = here.backward()?;
    gradients.reduce()?;
    let mut squares = 0.0;
    let mut on_mesh = false;
    for (at, (leaf, whole)) in program.leaves.iter().enumerate() {
        let zeros = whole.zeros_like()?;
        let expected = oracle.get(whole).unwrap_or(&zeros);
        squares += numbers(expected).iter().map(|x| x * x).sum::<f64>();
        match gradients.get(leaf) {
            _ if leaf.is_absent() => assert!(gradients.get(leaf).is_none()),
            None => close(&zeros, expected, &format!("leaf {at} of {what}")),
            Some(gradient) => {
                on_mesh |= leaf.mesh().size() == 4;
                assert_eq!(gradient.spec()?, leaf.spec()?, "leaf {at} of {what}");
                close(&gradient.full()?, expected, &format!("leaf {at} of {what}"));
            }
        }
    }
    if on_mesh {
        let norm = gradients.clip_global_norm(0.1)?;
        assert!((norm - squares.sqrt()).abs() <= 1e-9 * norm.max(1.0), "{norm}, not {}: {what}", squares.sqrt());
    }
    Ok(())
}

#[test]
fn programs_over_a_mesh_and_parts_of_it_equal_one_device() {
    for seed in 0..3000 {
        // What waits for a rank that does not come waits in vain, and not for long.
        let launch = Launch::new(5).deadline(Duration::from_secs(20));
        launch.run(|world| run(world, seed)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}
