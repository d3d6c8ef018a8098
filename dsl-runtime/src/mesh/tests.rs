#![allow(clippy::unwrap_used)]

use super::*;

fn grid() -> Mesh {
    Mesh::new([("pp", 2), ("dp", 3), ("tp", 2)]).unwrap()
}

#[test]
fn every_rank_has_the_coordinates_it_sits_at() {
    let listed = Mesh::over(&[5, 0, 9, 2], [("a", 2), ("b", 2)]).unwrap();
    let columns = Mesh::over(&[0, 3, 1, 4, 2, 5], [("a", 3), ("b", 2)]).unwrap();
    for mesh in [grid(), listed, columns] {
        for (coord, rank) in mesh.coords().zip(mesh.ranks()) {
            assert_eq!(mesh.coordinate(rank), Some(coord.clone()), "{mesh}");
            assert_eq!(mesh.rank_at(&coord), Some(rank), "{mesh}");
        }
    }
    assert_eq!(grid().coordinate(12), None);
    assert_eq!(grid().rank_at(&[0, 3, 0]), None);
    assert_eq!(grid().rank_at(&[0, 0]), None);
}

#[test]
fn sub_meshes_go_through_the_rank() {
    let mesh = grid();
    let ranks = |m: Mesh| m.ranks().collect::<Vec<_>>();
    assert_eq!(ranks(mesh.sub(&["tp"], 7).unwrap()), [6, 7]);
    assert_eq!(ranks(mesh.sub(&["dp"], 7).unwrap()), [7, 9, 11]);
    assert_eq!(ranks(mesh.sub(&["tp", "pp"], 2).unwrap()), [2, 8, 3, 9]);
    assert_eq!(ranks(mesh.at("pp", 1).unwrap()), [6, 7, 8, 9, 10, 11]);
    assert_eq!(ranks(mesh.at("dp", 1).unwrap()), [2, 3, 8, 9]);
    assert!(mesh.at("dp", 3).is_err());
    assert!(mesh.sub(&["ep"], 0).is_err());
    assert!(mesh.sub(&["tp", "tp"], 0).is_err());
    assert!(matches!(mesh.sub(&["tp"], 12), Err(Error::Absent(_))));
    let listed = Mesh::over(&[5, 0, 9, 2], [("a", 2), ("b", 2)]).unwrap();
    assert_eq!(ranks(listed.sub(&["a"], 0).unwrap()), [0, 2]);
}

#[test]
fn equal_ranks_in_equal_shapes_are_equal_whatever_their_names() {
    let plain = Mesh::new([("a", 2), ("b", 2)]).unwrap();
    let listed = Mesh::over(&[0, 1, 2, 3], [("x", 2), ("y", 2)]).unwrap();
    assert_eq!(plain, listed);
    assert!(!plain.names_agree(&listed));
    assert_ne!(plain, Mesh::new([("a", 4)]).unwrap());
    assert_ne!(plain, Mesh::over(&[1, 0, 2, 3], [("a", 2), ("b", 2)]).unwrap());
    let one = Mesh::over(&[3], [("a", 1)]).unwrap();
    assert_eq!(one, plain.sub(&["a"], 1).unwrap().at_rank_of(3));
}

impl Mesh {
    /// A mesh of one axis of size 1 that holds `rank`, cut out of a larger one.
    fn at_rank_of(&self, rank: usize) -> Mesh {
        let wide = Mesh::over(&[rank, rank + 1], [("a", 1), ("b", 2)]).unwrap();
        wide.at("b", 0).unwrap()
    }
}

#[test]
fn wrong_meshes_are_errors() {
    assert!(Mesh::new([]).is_err());
    assert!(Mesh::new([("a", 0)]).is_err());
    assert!(Mesh::new([("a", 2), ("a", 2)]).is_err());
    assert!(Mesh::new([("", 2)]).is_err());
    assert!(Mesh::new([("a", usize::MAX), ("b", 2)]).is_err());
    assert!(Mesh::over(&[0, 0], [("a", 2)]).is_err());
    assert!(Mesh::over(&[0], [("a", 2)]).is_err());
}

#[test]
fn meshes_survive_storage_and_damaged_ones_do_not() {
    let listed = Mesh::over(&[5, 0, 9, 2], [("a", 2), ("b", 2)]).unwrap();
    for mesh in [grid(), listed, grid().sub(&["dp"], 7).unwrap()] {
        let text = serde_json::to_string(&mesh).unwrap();
        let back: Mesh = serde_json::from_str(&text).unwrap();
        assert_eq!(back, mesh);
        assert!(back.names_agree(&mesh));
    }
    for bad in [
        r#"{"axes":[["a",2]],"ranks":{"Affine":{"base":0,"strides":[0]}}}"#,
        r#"{"axes":[["a",2],["b",2]],"ranks":{"Affine":{"base":0,"strides":[1,1]}}}"#,
        r#"{"axes":[["a",2]],"ranks":{"Affine":{"base":18446744073709551615,"strides":[1]}}}"#,
        r#"{"axes":[["a",2]],"ranks":{"Listed":[1,1]}}"#,
    ] {
        assert!(serde_json::from_str::<Mesh>(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_mesh_prints_its_axes_and_unusual_ranks() {
    assert_eq!(grid().to_string(), "mesh (pp=2, dp=3, tp=2)");
    let sub = grid().sub(&["tp"], 7).unwrap();
    assert_eq!(sub.to_string(), "mesh (tp=2; ranks 6, 7)");
}
