//! Entries by axis name, `..`, entries by parameter name and on parameters: against the unsharded function.
#![allow(clippy::unwrap_used)]

mod support;

use candle_core::{Device, Result, Tensor, Var};
use local_map::prelude::*;
use support::{counting, elements, launched, on_ranks, patient, said};

/// Megatron's pair, written once for every mesh that has an axis `tp`.
#[local_map(
    axes = (tp),
    in = { x: { tp: Replicate, .. }, up: [Shard(1)], bias: { tp: Shard(-1) }, down: { tp: Shard(0) } },
    out = { tp: Partial(Sum), .. },
)]
fn mlp(x: &Tensor, up: &Tensor, bias: Option<&Tensor>, down: &Tensor) -> Result<Tensor> {
    unsharded(x, up, bias, down)
}

/// The same, resharded where `tp` is wrong, and run again in backward.
#[local_map(
    axes = (tp),
    in = [{ tp: Replicate, .. }, { tp: Shard(1) }, [Shard(0)], [Shard(0)]],
    out = { tp: Partial, .. },
    reshard, recompute,
)]
fn resharded(x: &Tensor, up: &Tensor, bias: Option<&Tensor>, down: &Tensor) -> Result<Tensor> {
    unsharded(x, up, bias, down)
}

fn unsharded(x: &Tensor, up: &Tensor, bias: Option<&Tensor>, down: &Tensor) -> Result<Tensor> {
    let hidden = x.matmul(up)?;
    let hidden = bias.map_or(Ok(hidden.clone()), |bias| hidden.broadcast_add(bias))?;
    hidden.sqr()?.matmul(down)
}

#[local_map(axes = (tp), in = [{ .. }], out = { .. })]
fn squares(y: &Tensor) -> Result<Tensor> {
    y.sqr()?.sum_all()
}

fn values(shape: &[usize]) -> Tensor {
    (counting(shape) * 0.25).unwrap().sin().unwrap()
}

/// Value and gradients of the sum of the squares, on one device.
fn oracle(whole: &[Tensor; 4]) -> Result<Vec<Vec<f64>>> {
    let vars: Vec<Var> = whole.iter().map(Var::from_tensor).collect::<Result<_>>()?;
    let y = unsharded(&vars[0], &vars[1], Some(&vars[2]), &vars[3])?;
    let gradients = y.sqr()?.sum_all()?.backward()?;
    let gradients = vars.iter().map(|var| elements(gradients.get(var).unwrap()));
    Ok(std::iter::once(elements(&y)).chain(gradients).collect())
}

#[track_caller]
fn assert_close(found: &[Vec<f64>], wanted: &[Vec<f64>], what: &str) {
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert_eq!(found.len(), wanted.len(), "{what}, value {at}");
        let close = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + b.abs()));
        assert!(close, "{what}, value {at}: {found:?} instead of {wanted:?}");
    }
}

type Mlp = fn(&DTensor, &DTensor, Option<&DTensor>, &DTensor) -> Result<DTensor>;

/// Value and gradients of `f` on the mesh: rows of `x` along `dp`, everything along `tp` as `f` wants it unless `resharded`.
fn sharded(f: Mlp, whole: &[Tensor; 4], mesh: &DeviceMesh, as_wanted: bool) -> Result<Vec<Vec<f64>>> {
    let place = |x: &Tensor, of: &dyn Fn(&str) -> Placement| -> Result<DTensor> {
        let placements: Vec<Placement> = mesh.names().map(of).collect();
        Ok(DTensor::shard(x, mesh, &placements)?.requires_grad()?)
    };
    let along_tp = |wanted: Placement| move |axis: &str| if axis == "tp" && as_wanted { wanted } else { Replicate };
    let x = place(&whole[0], &|axis| if axis == "dp" { Shard(0) } else { Replicate })?;
    let up = place(&whole[1], &along_tp(Shard(1)))?;
    let bias = place(&whole[2], &along_tp(Shard(0)))?;
    let down = place(&whole[3], &along_tp(Shard(0)))?;
    let y = f(&x, &up, Some(&bias), &down)?;
    let placed = mesh.names().map(|axis| match axis {
        "tp" => Partial(Sum),
        "dp" => Shard(0),
        _ => Replicate,
    });
    assert_eq!(y.placements()[..], placed.collect::<Vec<_>>(), "{mesh}");
    let everywhere: Vec<Placement> = mesh.names().map(|_| Replicate).collect();
    let loss = squares(&y.reshard(&everywhere)?)?;
    let gradients = loss.backward()?;
    let mut found = vec![elements(&y.full()?)];
    for leaf in [&x, &up, &bias, &down] {
        found.push(elements(&gradients.get(leaf).unwrap().full()?));
    }
    Ok(found)
}

#[test]
fn a_function_with_rest_works_on_every_mesh_that_has_its_axis() {
    let meshes: [&[(&str, usize)]; 10] = [
        &[("tp", 1)],
        &[("tp", 2)],
        &[("tp", 3)],
        &[("tp", 4)],
        &[("dp", 2), ("tp", 2)],
        &[("tp", 2), ("dp", 2)],
        &[("dp", 3), ("tp", 1)],
        &[("pp", 1), ("dp", 2), ("tp", 2)],
        &[("pp", 2), ("dp", 1), ("tp", 2)],
        &[("pp", 2), ("dp", 2), ("tp", 2)],
    ];
    // Uneven pieces, and empty ones.
    for (rows, hidden) in [(4, 4), (3, 5), (1, 2)] {
        let whole = [&[rows, 3][..], &[3, hidden], &[hidden], &[hidden, 2]].map(values);
        let wanted = oracle(&whole).unwrap();
        for axes in meshes {
            let ranks = axes.iter().map(|(_, size)| size).product();
            for (name, f, as_wanted) in [("mlp", mlp as Mlp, true), ("resharded", resharded as Mlp, false)] {
                let found = launched(ranks, |world| {
                    let mesh = world.mesh(axes.iter().copied())?;
                    Ok(sharded(f, &whole, &mesh, as_wanted)?)
                });
                found
                    .iter()
                    .for_each(|found| assert_close(found, &wanted, &format!("{name} on {axes:?}, {rows} rows")));
            }
        }
    }
}

#[local_map(axes = (dp, tp), in = [{ tp: Shard(1), dp: Shard(0) }, { tp: Shard(0) }], out = { dp: Shard(0), tp: Partial })]
fn product(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.matmul(w)
}

#[test]
fn names_are_looked_up_in_axes_not_in_the_order_in_which_they_are_written() {
    let (x, w) = (values(&[3, 5]), values(&[5, 2]));
    let wanted = elements(&x.matmul(&w).unwrap());
    let found = launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = DTensor::shard(&x, &mesh, &[Shard(0), Shard(1)])?;
        let w = DTensor::shard(&w, &mesh, &[Replicate, Shard(0)])?;
        let y = product(&x, &w)?;
        assert_eq!(y.placements()[..], [Shard(0), Partial(Sum)]);
        Ok(elements(&y.full()?))
    });
    found.iter().for_each(|found| assert_close(std::slice::from_ref(found), std::slice::from_ref(&wanted), "product"));
}

/// The message with which `f` refuses a tensor on a mesh, on every rank, before anything is communicated.
fn refusals(ranks: usize, program: impl Fn(local_map::World) -> Result<DTensor> + Sync) -> String {
    let outcomes = patient(ranks).run(|world| local_map::Result::Ok(said(&program(world).unwrap_err())));
    let mut messages = outcomes.unwrap();
    messages.dedup();
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages.remove(0)
}

#[test]
fn without_rest_the_mesh_has_exactly_the_axes() {
    let refusal = |axes: &[(&str, usize)]| {
        refusals(4, |world| {
            let mesh = world.mesh(axes.iter().copied())?;
            let placements = vec![Replicate; axes.len()];
            let x = DTensor::shard(&values(&[2, 2]), &mesh, &placements)?;
            Ok(product(&x, &x)?.erase())
        })
    };
    assert_eq!(
        refusal(&[("tp", 2), ("dp", 2)]),
        "product: the mesh has other axes than the attribute speaks of\n  \
         mesh (tp=2, dp=2)\n  \
         - the attribute speaks of axes (dp, tp)\n  \
         give a mesh with exactly these axes in this order, or write `..` in the entries: the others then stay as they are"
    );
    for axes in [&[("dp", 4)][..], &[("dp", 2), ("tp", 1), ("pp", 2)], &[("a", 2), ("b", 2)]] {
        assert!(refusal(axes).starts_with("product: the mesh has other axes"), "{axes:?}");
    }
}

#[test]
fn with_rest_the_mesh_has_the_named_axes() {
    let message = refusals(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&values(&[2, 2]), &mesh, &[Replicate])?;
        mlp(&x, &x, None, &x)
    });
    assert_eq!(
        message,
        "mlp: the mesh lacks axes that the attribute speaks of\n  \
         mesh (dp=2)\n  \
         - the attribute speaks of axes (tp)\n  \
         give a mesh that has these axes, in any order"
    );
}

#[test]
fn ranks_outside_the_mesh_refuse_it_too() {
    let message = refusals(3, |world| {
        let mesh = world.bind(Mesh::over(&[0, 1], [("dp", 2)])?)?;
        let x = DTensor::shard(&values(&[2, 2]), &mesh, &[Replicate])?;
        mlp(&x, &x, None, &x)
    });
    assert!(message.starts_with("mlp: the mesh lacks axes"), "{message}");
}

#[test]
fn ranks_outside_the_mesh_get_the_placements_that_rest_stands_for() {
    launched(3, |world| {
        let mesh = world.bind(Mesh::over(&[0, 1], [("dp", 1), ("tp", 2)])?)?;
        let place = |shape: &[usize], placements: &[Placement]| DTensor::shard(&values(shape), &mesh, placements);
        let (up, down) = (place(&[3, 4], &[Replicate, Shard(1)])?, place(&[4, 2], &[Replicate, Shard(0)])?);
        let y = mlp(&place(&[2, 3], &[Shard(0), Replicate])?, &up, None, &down)?;
        assert_eq!(y.is_absent(), world.rank() == 2);
        assert_eq!(y.placements()[..], [Shard(0), Partial(Sum)]);
        Ok(())
    });
}

#[local_map(axes = (tp), in = { a: { tp: Shard(1), .. }, b: { .. } }, out = { tp: Shard(1), .. }, reshard)]
fn added(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    a + b
}

#[test]
fn inputs_that_disagree_on_other_axes_are_refused_even_with_reshard() {
    let message = refusals(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let a = DTensor::shard(&values(&[2, 2]), &mesh, &[Shard(0), Replicate])?;
        let b = DTensor::shard(&values(&[2, 2]), &mesh, &[Shard(1), Shard(1)])?;
        added(&a, &b)
    });
    assert_eq!(
        message,
        "added: argument `b` is not placed as `in` requires\n  \
         mesh (dp=2, tp=2)\n  \
         - b: f32[2, 2] is (Shard(1), Shard(1)), and a is (Shard(0), Replicate): they must agree on axis `dp`, which `..` leaves \
         open\n  \
         call b.reshard(..) first, so that both are placed alike there"
    );
}

#[local_map(axes = (tp), in = [{ tp: Shard(-1), .. }, { tp: Shard(1) }], out = { tp: Shard(1), .. })]
fn all_added(parts: &[Tensor], bias: Option<&Tensor>) -> Result<Tensor> {
    let sum = parts.iter().skip(1).try_fold(parts[0].clone(), |sum, part| sum + part)?;
    bias.map_or(Ok(sum.clone()), |bias| &sum + bias)
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let message = refusals(4, |world| {
        let mesh = world.mesh([("tp", 2), ("dp", 2)])?;
        let place = |placements: [Placement; 2]| DTensor::shard(&values(&[2, 2]), &mesh, &placements);
        let right = place([Shard(1), Shard(0)])?;
        let other = place([Shard(1), Replicate])?;
        let wrong = place([Shard(0), Replicate])?;
        all_added(&[right.clone(), other, wrong], Some(&right))
    });
    assert_eq!(
        message,
        "all_added: arguments `parts[1]`, `parts[2]`, `bias` are not placed as `in` requires\n  \
         mesh (tp=2, dp=2)\n  \
         - parts[1]: f32[2, 2] is (Shard(1), Replicate), and parts[0] is (Shard(1), Shard(0)): they must agree on axis `dp`, \
         which `..` leaves open\n  \
         - parts[2]: f32[2, 2] is (Shard(0), Replicate), and parts[0] is (Shard(1), Shard(0)): they must agree on axis `dp`, \
         which `..` leaves open\n  \
         - parts[2]: f32[2, 2] is (Shard(0), Replicate), required (Shard(1), Replicate): axis `tp` differs\n  \
         - bias: f32[2, 2] is (Shard(1), Shard(0)), required (Shard(1), Replicate): axis `dp` differs\n  \
         call parts[1].reshard(..) first, so that both are placed alike there"
    );
}

#[test]
fn inputs_without_rest_are_replicated_on_other_axes() {
    let message = refusals(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let x = DTensor::shard(&values(&[2, 2]), &mesh, &[Shard(0), Replicate])?;
        let up = DTensor::shard(&values(&[2, 2]), &mesh, &[Shard(0), Shard(1)])?;
        let down = DTensor::shard(&values(&[2, 2]), &mesh, &[Replicate, Shard(0)])?;
        mlp(&x, &up, None, &down)
    });
    assert_eq!(
        message,
        "mlp: argument `up` is not placed as `in` requires\n  \
         mesh (dp=2, tp=2)\n  \
         - up: f32[2, 2] is (Shard(0), Shard(1)), required (Replicate, Shard(1)): axis `dp` differs\n  \
         add `reshard` to the attribute, or call up.reshard(..) first"
    );
}

#[test]
fn reshard_leaves_other_axes_as_they_are() {
    let whole = values(&[3, 4]);
    let twice = elements(&(&whole * 2.0).unwrap());
    let found = launched(4, |world| {
        let mesh = world.mesh([("tp", 2), ("dp", 2)])?;
        let x = DTensor::shard(&whole, &mesh, &[Replicate, Shard(0)])?;
        let y = added(&x, &x.reshard(&[Shard(1), Shard(0)])?)?;
        assert_eq!(y.placements()[..], [Shard(1), Shard(0)]);
        Ok(elements(&y.full()?))
    });
    found.iter().for_each(|found| assert_close(std::slice::from_ref(found), std::slice::from_ref(&twice), "added"));
}

#[local_map(axes = (tp), in = { x: { tp: Shard(0), .. } }, out = { tp: Shard(0, ragged), .. })]
fn kept(x: &Tensor, rank: usize) -> Result<Tensor> {
    x.narrow(0, 0, rank.min(x.dim(0)?))
}

#[test]
fn ragged_results_beside_open_axes() {
    let whole = counting(&[4, 2]);
    let found = launched(4, |world| {
        let mesh = world.mesh([("dp", 2), ("tp", 2)])?;
        let tp = mesh.coordinate().unwrap_or_default()[1];
        let x = DTensor::shard(&whole, &mesh, &[Shard(1), Shard(0)])?;
        let y = kept(&x, 2 - tp)?;
        assert_eq!((y.shape()?, &y.placements()[..]), (&[3, 2][..], &[Shard(1), Shard(0)][..]));
        Ok(elements(&y.full()?))
    });
    found.iter().for_each(|found| assert_eq!(*found, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]));
}

/// The body's gradient of `w` is already added up along `tp`; on other axes it is as ever.
#[local_map(
    axes = (tp),
    in = [{ tp: Shard(0), .. }, { tp: Replicate }],
    out = { tp: Shard(0), .. },
    grad = { w: { tp: Partial(Sum), .. } },
)]
fn scaled(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(w)
}

#[test]
fn gradients_by_name_on_open_meshes() {
    let (x, w) = (values(&[4, 3]), values(&[3]));
    let (vx, vw) = (Var::from_tensor(&x).unwrap(), Var::from_tensor(&w).unwrap());
    let loss = vx.broadcast_mul(&vw).unwrap().sqr().unwrap().sum_all().unwrap();
    let wanted = loss.backward().unwrap();
    let wanted = [&vx, &vw].map(|var| elements(wanted.get(var).unwrap()));
    for axes in [&[("tp", 2)][..], &[("tp", 2), ("dp", 2)], &[("dp", 2), ("tp", 1)]] {
        let ranks = axes.iter().map(|(_, size)| size).product();
        let found = launched(ranks, |world| {
            let mesh = world.mesh(axes.iter().copied())?;
            let everywhere = vec![Replicate; axes.len()];
            let rows = vec![Shard(0); axes.len()];
            let x = DTensor::shard(&x, &mesh, &rows)?.requires_grad()?;
            let w = DTensor::shard(&w, &mesh, &everywhere)?.requires_grad()?;
            let loss = squares(&scaled(&x, &w)?.reshard(&everywhere)?)?;
            let gradients = loss.backward()?;
            [&x, &w]
                .map(|leaf| Ok(elements(&gradients.get(leaf).unwrap().full()?)))
                .into_iter()
                .collect::<Result<Vec<_>>>()
                .map_err(Into::into)
        });
        found.iter().for_each(|found| assert_close(found, &wanted, &format!("{axes:?}")));
    }
}

#[local_map(out = [Shard(0)])]
fn on_parameters(
    #[place(Shard(0))] x: &Tensor,
    #[place(Replicate)] w: &Tensor,
    #[place(_)] plain: &Tensor,
    by: f64,
) -> Result<Tensor> {
    x.broadcast_mul(w)?.broadcast_add(plain)? * by
}

#[local_map(in = { x: [Shard(0)], plain: _ }, out = [Shard(0)])]
fn by_name(plain: &Tensor, x: &Tensor, any: &Tensor, by: f64) -> Result<Tensor> {
    x.broadcast_mul(any)?.broadcast_add(plain)? * by
}

#[local_map(axes = (tp,), out = { tp: Shard(-1), .. })]
fn by_axis(#[place(tp: Shard(1), ..)] x: &Tensor, #[place(tp: Shard(0))] w: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(w)
}

#[test]
fn entries_on_parameters_and_by_name() {
    let (x, w) = (values(&[3, 4]), values(&[4]));
    let wanted = elements(&((x.broadcast_mul(&w).unwrap().broadcast_add(&w)).unwrap() * 2.0).unwrap());
    let product = elements(&x.broadcast_mul(&w).unwrap());
    on_ranks(&[1, 2, 3], |world| {
        let mesh = world.mesh([("dp", world.size())])?;
        let (rows, whole) = (DTensor::shard(&x, &mesh, &[Shard(0)])?, DTensor::shard(&w, &mesh, &[Replicate])?);
        let found = [on_parameters(&rows, &whole, &w, 2.0)?, by_name(&w, &rows, &whole, 2.0)?];
        for found in found {
            assert_close(&[elements(&found.full()?)], std::slice::from_ref(&wanted), "rows");
        }
        let refused = on_parameters(&whole, &whole, &w, 2.0).unwrap_err().to_string();
        assert!(refused.starts_with("on_parameters: argument `x` is not placed as `in` requires"), "{refused}");
        let mesh = world.mesh([("dp", 1), ("tp", world.size())])?;
        let columns = DTensor::shard(&x, &mesh, &[Shard(0), Shard(1)])?;
        let found = by_axis(&columns, &DTensor::shard(&w, &mesh, &[Replicate, Shard(0)])?)?;
        assert_close(&[elements(&found.full()?)], std::slice::from_ref(&product), "columns");
        Ok(())
    });
}

/// A layer whose fields name their axis.
#[derive(Distribute)]
struct Pair<T = DTensor> {
    #[place(tp: Shard(1))]
    up: T,
    #[place(tp: Shard(0))]
    down: T,
}

#[local_layer(axes = (tp), out = { tp: Partial, .. })]
impl Pair<Tensor> {
    fn forward(&self, #[place(tp: Replicate, ..)] x: &Tensor) -> Result<Tensor> {
        unsharded(x, &self.up, None, &self.down)
    }
}

#[test]
fn fields_by_axis_name_work_on_every_mesh_that_has_it() {
    let whole = [&[3, 3][..], &[3, 5], &[5, 2]].map(values);
    let wanted = elements(&unsharded(&whole[0], &whole[1], None, &whole[2]).unwrap());
    for axes in [&[("tp", 3)][..], &[("dp", 2), ("tp", 2)], &[("tp", 2), ("dp", 2)]] {
        let ranks = axes.iter().map(|(_, size)| size).product();
        launched(ranks, |world| {
            let mesh = world.mesh(axes.iter().copied())?;
            let place = |at: usize, dp: Placement, tp: Placement| {
                let placements: Vec<_> = mesh.names().map(|axis| if axis == "tp" { tp } else { dp }).collect();
                DTensor::shard(&whole[at], &mesh, &placements)
            };
            let pair: Pair = Pair { up: place(1, Replicate, Shard(1))?, down: place(2, Replicate, Shard(0))? };
            let y = pair.forward(&place(0, Shard(0), Replicate)?)?;
            assert_close(&[elements(&y.full()?)], std::slice::from_ref(&wanted), &format!("{axes:?}"));
            Ok(())
        });
    }
}

/// Without `axes` on the method nothing checks the mesh's names but the fields.
#[derive(Distribute)]
struct Scale<T = DTensor> {
    #[place(tp: Shard(0), pp: Replicate)]
    by: T,
}

#[local_layer(out = [Shard(0)])]
impl Scale<Tensor> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        x * &self.by
    }
}

#[test]
fn a_field_names_the_axes_that_the_mesh_lacks() {
    let message = refusals(2, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&Tensor::ones(2, candle_core::DType::F32, &Device::Cpu)?, &mesh, &[Shard(0)])?;
        let scale: Scale = Scale { by: x.clone() };
        Ok(scale.forward(&x)?.erase())
    });
    assert_eq!(
        message,
        "Scale::forward: the mesh lacks axes that the arguments are placed on\n  \
         mesh (dp=2)\n  \
         - by: axes `tp`, `pp` of its `#[place(..)]` are missing\n  \
         give a mesh that has these axes, or correct `#[place(..)]`"
    );
}

/// `dynamic` changes nothing here.
#[local_map(dynamic, in = [[Shard(0)]], out = [Partial])]
fn summed(x: &Tensor) -> Result<Tensor> {
    x.sum_all()
}

#[test]
fn dynamic_is_a_flag() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let sum = summed(&DTensor::shard(&counting(&[3]), &mesh, &[Shard(0)])?)?;
        assert_eq!(elements(&sum.full()?), [3.0]);
        Ok(())
    });
}

macro_rules! doubled {
    ($name:ident($x:ident), $axis:ident, $rest:tt) => {
        #[local_map(axes = ($axis), in = { $x: { $axis: Shard(0), .. } }, out = $rest)]
        fn $name($x: &Tensor) -> Result<Tensor> {
            $x * 2.0
        }
    };
}
doubled!(doubled_along_tp(x), tp, { tp: Shard(0), .. });

#[test]
fn names_come_through_macro_rules() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("tp", 2), ("pp", 1)])?;
        let y = doubled_along_tp(&DTensor::shard(&counting(&[3]), &mesh, &[Shard(0), Replicate])?)?;
        assert_eq!(elements(&y.full()?), [0.0, 2.0, 4.0]);
        Ok(())
    });
}
