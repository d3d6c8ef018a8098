#![allow(clippy::unwrap_used)]

use candle_core::DType;

use super::*;
use crate::placement::names::*;

fn spec(axes: &[(&'static str, usize)], placements: &[Placement]) -> Spec {
    let mesh = Mesh::new(axes.iter().copied()).unwrap();
    Spec::new(mesh, placements, &[8, 6], DType::F32).unwrap()
}

fn steps(from: &[Placement], to: &[Placement]) -> Vec<Action> {
    let axes: Vec<_> = [("dp", 2), ("tp", 2)].into_iter().take(from.len()).collect();
    let plan = Plan::between(&spec(&axes, from), to).unwrap();
    assert_eq!(plan.steps().last().map_or(plan.from(), |s| &s.to), plan.to());
    plan.steps().iter().map(|s| s.action.clone()).collect()
}

fn exchange(kind: Collective, axes: &[usize]) -> Action {
    let axes = axes.into();
    Action::Exchange { kind, axes }
}

#[test]
fn the_table_of_the_design_on_one_axis() {
    let on = |kind| vec![exchange(kind, &[0])];
    assert_eq!(steps(&[Shard(0)], &[Replicate]), on(Collective::AllGather));
    assert_eq!(steps(&[Shard(0)], &[Shard(1)]), on(Collective::AllToAll));
    assert_eq!(steps(&[Partial(Max)], &[Replicate]), on(Collective::AllReduce));
    assert_eq!(steps(&[Partial(Sum)], &[Shard(1)]), on(Collective::ReduceScatter));
    assert_eq!(steps(&[Replicate], &[Shard(1)]), [Action::Slice]);
    assert_eq!(steps(&[Replicate], &[Partial(Min)]), [Action::Fill]);
    assert_eq!(steps(&[Shard(0)], &[Partial(Sum)]), [Action::Embed]);
    assert_eq!(steps(&[Partial(Sum)], &[Partial(Avg)]), [Action::Scale { times: 2, over: 1 }]);
    assert_eq!(steps(&[Partial(Max)], &[Partial(Sum)]), [exchange(Collective::AllReduce, &[0]), Action::Fill]);
    assert_eq!(steps(&[Shard(0)], &[Shard(-2)]), []);
}

#[test]
fn several_axes_take_one_step() {
    let both = |kind| vec![exchange(kind, &[0, 1])];
    let sum = Partial(Sum);
    assert_eq!(steps(&[sum, sum], &[Replicate, Replicate]), both(Collective::AllReduce));
    assert_eq!(steps(&[sum, Partial(Avg)], &[Replicate, Replicate]), both(Collective::AllReduce));
    assert_eq!(steps(&[Shard(0), Shard(0)], &[Replicate, Replicate]), both(Collective::AllGather));
    assert_eq!(steps(&[sum, Shard(0)], &[Shard(0), Replicate]), both(Collective::Redistribute));
    assert_eq!(steps(&[Shard(0), Shard(1)], &[Shard(1), Shard(0)]), both(Collective::Redistribute));
}

#[test]
fn an_axis_takes_part_only_where_it_must() {
    let (outer, inner) = (vec![exchange(Collective::AllGather, &[1])], &[0, 1]);
    assert_eq!(steps(&[Shard(0), Shard(0)], &[Shard(0), Replicate]), outer);
    let crossed = vec![exchange(Collective::Redistribute, inner)];
    assert_eq!(steps(&[Shard(0), Shard(0)], &[Replicate, Shard(0)]), crossed);
    assert_eq!(steps(&[Replicate, Partial(Sum)], &[Shard(0), Replicate]), [exchange(Collective::AllReduce, &[1])]);
    assert_eq!(steps(&[Shard(0), Replicate], &[Shard(0), Shard(0)]), [Action::Slice]);
    assert_eq!(steps(&[Replicate, Shard(0)], &[Shard(0), Shard(0)]), [exchange(Collective::Redistribute, &[1])]);
    assert_eq!(
        steps(&[Shard(0), Shard(0)], &[Partial(Sum), Shard(0)]),
        [exchange(Collective::Redistribute, &[0, 1]), Action::Fill]
    );
    assert_eq!(steps(&[Shard(0), Shard(0)], &[Shard(0), Partial(Sum)]), [Action::Embed]);
}

fn routes_of(plan: &Plan, coord: &[usize]) -> Routes {
    let step = &plan.steps()[0];
    routes::routes(&step.from, &step.to, &[0], coord)
}

#[test]
fn bytes_are_those_that_a_rank_receives() {
    let bytes = |axes: &[(&'static str, usize)], from: &[Placement], to: &[Placement]| {
        let mesh = Mesh::new(axes.iter().copied()).unwrap();
        let from = Spec::new(mesh, from, &[8, 6], DType::F32).unwrap();
        Plan::between(&from, to).unwrap().bytes_per_rank()
    };
    // The global tensor has 192 bytes.
    assert_eq!(bytes(&[("a", 2)], &[Shard(0)], &[Replicate]), 96);
    assert_eq!(bytes(&[("a", 2)], &[Partial(Sum)], &[Replicate]), 192);
    assert_eq!(bytes(&[("a", 2)], &[Partial(Sum)], &[Shard(1)]), 96);
    assert_eq!(bytes(&[("a", 2)], &[Shard(0)], &[Shard(1)]), 48);
    assert_eq!(bytes(&[("a", 16)], &[Partial(Sum)], &[Replicate]), 360);
    let grid = [("a", 2), ("b", 4)];
    assert_eq!(bytes(&grid, &[Replicate, Partial(Sum)], &[Shard(0), Replicate]), 144);
    let one = [("a", 1), ("b", 4)];
    assert_eq!(bytes(&one, &[Replicate, Shard(0)], &[Shard(0), Shard(0)]), 0, "an axis of size 1 moves nothing");
    assert_eq!(Bytes(1023 << 10).to_string(), "1023 KiB");
    assert_eq!(Bytes((1 << 20) - 1).to_string(), "1.0 MiB");
}

#[test]
fn routes_merge_what_is_contiguous() {
    let gather = Plan::between(&spec(&[("dp", 2)], &[Shard(0)]), &[Replicate]).unwrap();
    let routes = routes_of(&gather, &[0]);
    let starts: Vec<_> = routes.routes.iter().map(|r| (r.from[0], r.dst.start, r.extent.to_vec())).collect();
    assert_eq!(starts, [(0, 0, vec![24]), (1, 24, vec![24])]);
    let columns = Plan::between(&spec(&[("dp", 2)], &[Shard(1)]), &[Replicate]).unwrap();
    let routes = routes_of(&columns, &[1]);
    assert_eq!(routes.routes[1].extent.as_slice(), [8, 3]);
    assert_eq!(routes.routes[1].dst.start, 3);
    assert_eq!(routes.share.as_slice(), [0, 1]);
}

#[test]
fn a_wrong_target_is_an_error() {
    let from = spec(&[("dp", 2)], &[Shard(0)]);
    assert!(Plan::between(&from, &[Shard(2)]).is_err());
    assert!(Plan::between(&from, &[]).is_err());
}
