#![allow(clippy::unwrap_used)]

use candle_core::DType;

use super::*;
use crate::error::Error;
use crate::placement::names::*;

fn mesh22() -> Mesh {
    Mesh::new([("dp", 2), ("tp", 2)]).unwrap()
}

fn spec(placements: &[Placement], shape: &[usize]) -> Result<Spec> {
    Spec::new(mesh22(), placements, shape, DType::F32)
}

#[test]
fn pieces_nest_left_to_right() {
    let nested = spec(&[Shard(0), Shard(0)], &[5, 3]).unwrap();
    let rows: Vec<_> = mesh22().coords().map(|c| nested.span(0, &c)).collect();
    assert_eq!(rows.iter().map(|s| s.len).collect::<Vec<_>>(), [2, 1, 1, 1]);
    assert_eq!(rows.iter().map(|s| s.start).collect::<Vec<_>>(), [0, 2, 3, 4]);
    let grid = spec(&[Shard(0), Shard(-1)], &[9, 5]).unwrap();
    assert_eq!(grid.placements()[1], Shard(1));
    assert_eq!(grid.piece(&[1, 1]).shape().as_slice(), [4, 2]);
    assert_eq!(grid.piece(&[1, 1]).offset().as_slice(), [5, 3]);
}

#[test]
fn wrong_specs_say_why() {
    let message = |r: Result<Spec>| r.unwrap_err().to_string();
    assert!(message(spec(&[Shard(0)], &[4])).contains("placements given: 1, mesh axes: 2"));
    let both = message(spec(&[Shard(5), Shard(-3)], &[4, 4]));
    assert!(both.contains("axis `dp`: Shard(5), but the tensor has 2 dimensions"), "{both}");
    assert!(both.contains("axis `tp`: Shard(-3)"), "{both}");
    assert!(spec(&[Shard(0), Replicate], &[]).is_err());
    let mixed = message(spec(&[Partial(Max), Partial(Sum)], &[3]));
    assert!(mixed.contains("do not commute"), "{mixed}");
    assert!(spec(&[Partial(Sum), Partial(Avg)], &[3]).is_ok());
    let huge = message(spec(&[Replicate, Replicate], &[usize::MAX, 2]));
    assert!(huge.contains("more bytes than can be addressed"), "{huge}");
    let ints = |op| Spec::new(mesh22(), &[Partial(op), Replicate], &[3], DType::I64);
    assert!(message(ints(Avg)).contains("would truncate"));
    assert!(message(ints(Any)).contains("truth values"));
    assert!(ints(Prod).is_ok());
}

#[test]
fn ragged_lengths_are_checked_and_kept_while_the_same_axes_shard() {
    let lens = |lens: &[usize]| Ragged { dim: 0, lens: lens.into() };
    let build = |placements: &[Placement], r: Ragged| Spec::ragged(mesh22(), placements, &[7], DType::F32, [r]);
    let good = build(&[Shard(0), Partial(Sum)], lens(&[7, 0])).unwrap();
    assert_eq!(good.span(0, &[1, 0]), Span { start: 7, len: 0 });
    assert!(!good.is_even(0));
    assert_eq!(good.placed(&[Shard(0), Replicate]).unwrap().ragged_dims().len(), 1);
    assert_eq!(good.placed(&[Shard(0), Shard(0)]).unwrap().ragged_dims().len(), 0);
    assert!(build(&[Shard(0), Replicate], lens(&[3, 3])).is_err());
    assert!(build(&[Shard(0), Replicate], lens(&[7])).is_err());
    assert!(build(&[Replicate, Replicate], lens(&[7])).is_err());
}

#[test]
fn specs_survive_storage_and_damaged_ones_do_not() {
    let lens = Ragged { dim: 0, lens: [3, 4].into() };
    let mesh = mesh22();
    let spec = Spec::ragged(mesh, &[Shard(0), Partial(Avg)], &[7, 2], DType::BF16, [lens]).unwrap();
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    for (from, to) in [("bf16", "bool"), ("[7,2]", "[9,2]"), ("Avg", "Median")] {
        let bad = text.replace(from, to);
        assert_ne!(bad, text);
        assert!(serde_json::from_str::<Spec>(&bad).is_err(), "{bad}");
    }
    assert!(matches!(Spec::new(mesh22(), &[], &[1], DType::F32), Err(Error::Placement(_))));
}
