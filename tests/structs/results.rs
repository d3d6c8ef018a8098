//! Structs as results, their gradients' labels, and messages about their fields.

use super::*;

/// Each tensor as its field says, the factor in a tuple.
#[local_map(in = [{..}, _], out = [{..}, _])]
fn multiplied(mlp: &Mlp<Tensor>, by: f64) -> Result<(Mlp<Tensor>, f64)> {
    let times = |x: &Tensor| x * by;
    let bias = mlp.bias.as_ref().map(times).transpose()?;
    Ok((Mlp { up: times(&mlp.up)?, bias, down: times(&mlp.down)?, slope: mlp.slope + by }, by))
}

#[local_map(in = [{..}], out = [Replicate])]
fn same(model: Model<Tensor>) -> Result<Model<Tensor>> {
    Ok(model)
}

#[local_map(in = [{..}], out = [Replicate], recompute)]
fn same_again(model: Model<Tensor>) -> Result<Model<Tensor>> {
    Ok(model)
}

#[test]
fn a_struct_result_carries_values_and_gradients() {
    let region = |model: &Model, x: &DTensor| {
        let (first, by) = multiplied(&model.blocks[0], 3.0)?;
        assert_eq!((first.slope, by), (4.5, 3.0));
        assert!(multiplied(&model.blocks[1], 3.0)?.0.bias.is_none());
        Ok(two(&first, None, x, 1.0)?)
    };
    as_on_one_device(region, |model, x| {
        let times = |x: &Tensor| x * 3.0;
        let mlp = &model.blocks[0];
        let bias = mlp.bias.as_ref().map(times).transpose()?;
        Mlp { up: times(&mlp.up)?, bias, down: times(&mlp.down)?, slope: 4.5 }.addend(x)
    });
    as_on_one_device(|model, x| Ok(lent(&same(same(model.clone())?)?, x)?), |model, x| model.addend(x));
    as_on_one_device(|model, x| Ok(lent(&same_again(model.clone())?, x)?), |model, x| model.addend(x));
}

#[test]
fn a_struct_result_has_the_placements_of_its_fields() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("tp", 2)])?;
        let model = same(distributed(&mesh))?;
        let mut at = 0;
        model.visit("", &mut |name, tensor| {
            assert_eq!(name, PARAMETERS[at].0);
            assert_eq!(tensor.placements()[0], PARAMETERS[at].2, "{name}");
            at += 1;
        });
        assert_eq!(at, 6);
        Ok(())
    });
}

/// Nothing in it that a rank outside the mesh could not make up.
#[derive(Distribute)]
struct Pair<T = DTensor> {
    #[place(Shard(0))]
    first: T,
    second: Inner<T>,
}

#[derive(Distribute)]
struct Inner<T>(#[place(Replicate)] T, #[place(Partial(Sum))] T);

#[local_map(in = [[Shard(0)]], out = {..})]
fn pair(x: &Tensor) -> Result<Pair<Tensor>> {
    Ok(Pair { first: x.clone(), second: Inner(Tensor::ones(2, DType::F64, &Device::Cpu)?, x.clone()) })
}

#[local_map(in = [[Shard(0)]], out = {..})]
fn with_a_plain_field(x: &Tensor) -> Result<Mlp<Tensor>> {
    Ok(Mlp { up: x.clone(), bias: None, down: x.clone(), slope: 1.0 })
}

#[test]
fn outside_the_mesh_the_tensors_of_a_result_are_absent() {
    let names = launched(3, |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let x = DTensor::shard(&input(), &mesh, &[Shard(0)])?;
        let pair = pair(&x)?;
        let mut names = Vec::new();
        pair.visit("", &mut |name, tensor| names.push(format!("{name} {}", tensor.placements())));
        assert_eq!(pair.first.is_absent(), world.rank() == 2);
        assert_eq!(pair.second.1.is_absent(), world.rank() == 2);
        let plain = with_a_plain_field(&x);
        match world.rank() {
            2 => assert!(plain.err().unwrap().to_string().contains("there is no plain result")),
            _ => assert_eq!(plain?.slope, 1.0),
        }
        Ok(names)
    });
    let expected = ["first (Shard(0))", "second.0 (Replicate)", "second.1 (Partial(Sum))"];
    assert!(names.iter().all(|names| *names == expected), "{names:?}");
}

fn message<T>(program: impl Fn(&Model, &DTensor) -> Result<T> + Sync) -> String {
    let failure = failure(2, |world| -> local_map::Result<()> {
        let mesh = world.mesh([("tp", 2)])?;
        let model = distributed(&mesh);
        program(&model, &DTensor::from_local(input(), &mesh, &[Replicate])?)?;
        Ok(())
    });
    failure.cause.to_string()
}

#[test]
fn misplaced_tensors_are_named_by_their_fields() {
    let text = message(|model, x| {
        let mut model = model.clone();
        model.blocks[1].up = model.blocks[1].up.reshard(&[Replicate])?;
        model.scale = model.scale.reshard(&[Shard(0)])?;
        owned(model, x)
    });
    assert!(
        text.contains("owned: arguments `model.blocks.1.up`, `model.scale` are not placed as `in` requires"),
        "{text}"
    );
    assert!(text.contains("- model.scale: f64[3] is (Shard(0)), required (Replicate)"), "{text}");
    let text = message(|model, x| {
        let mut blocks = model.blocks.clone();
        blocks[1].down = blocks[1].down.reshard(&[Replicate])?;
        fields(&blocks, &model.scale, x.clone())
    });
    assert!(text.contains("fields: argument `blocks[1].down` is not placed"), "{text}");
}

#[test]
fn a_struct_may_have_any_placements_where_its_fields_say_none() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("tp", 2)])?;
        let mut model = distributed(&mesh);
        model.scale = model.scale.reshard(&[Shard(0)])?;
        assert_eq!(counted(&model)?.to_local()?.to_scalar::<f64>()?, if world.rank() == 0 { 2.0 } else { 1.0 });
        Ok(())
    });
}

#[local_map(in = [{..}], out = [Partial(Sum)])]
fn counted(model: &Model<Tensor>) -> Result<Tensor> {
    Tensor::new(model.scale.dims()[0] as f64, &Device::Cpu)
}

#[local_map(in = [{..}], out = [Shard(2)])]
fn too_deep(model: Model<Tensor>) -> Result<Model<Tensor>> {
    Ok(model)
}

#[test]
fn a_result_that_cannot_be_placed_is_named_by_its_field() {
    let text = message(|model, _| too_deep(model.clone()));
    assert!(
        text.starts_with("field `scale`: too_deep: the result, locally f64[3], cannot be placed as (Shard(2))"),
        "{text}"
    );
}

/// A label for the gradient of one field: the body sums it up itself.
#[derive(Clone, Distribute)]
struct Labelled<T = DTensor> {
    #[place(Replicate)]
    #[grad(Replicate)]
    whole: T,
    #[place(Replicate)]
    addends: T,
    #[grad(Partial(Sum))]
    free: T,
}

#[local_map(in = [[Replicate], [Shard(0)]], out = [Partial(Sum)])]
fn labelled(layer: &Labelled<Tensor>, x: &Tensor) -> Result<Tensor> {
    ((&layer.whole * 2.0)?.sum_all()? + x.broadcast_mul(&layer.addends)?.sum_all()?)? + layer.free.sum_all()?
}

#[local_map(in = [[Replicate], [Shard(0)]], out = [Partial(Sum)], grad = [[Replicate], _])]
fn labelled_by_a_list(layer: &Labelled<Tensor>, x: &Tensor) -> Result<Tensor> {
    x.broadcast_mul(&layer.addends)?.sum_all()? + layer.free.sum_all()?
}

#[test]
fn a_field_has_its_own_gradient_label() {
    on_ranks(&[2], |world| {
        let mesh = world.mesh([("dp", 2)])?;
        let ones =
            || Param::new(&DTensor::from_local(Tensor::ones(3, DType::F64, &Device::Cpu)?, &mesh, &[Replicate])?);
        let layer: Labelled = Labelled { whole: ones()?.into(), addends: ones()?.into(), free: ones()?.into() };
        let x = DTensor::shard(&Tensor::ones((5, 3), DType::F64, &Device::Cpu)?, &mesh, &[Shard(0)])?;
        let gradients = labelled(&layer, &x)?.backward()?;
        let of = |x: &DTensor| Ok::<_, local_map::Error>(elements(&gradients.get(x).unwrap().full()?));
        // Taken as it is, though every rank adds as much; summed up by default; summed up as the field says.
        assert_eq!(of(&layer.whole)?, [2.0; 3]);
        assert_eq!(of(&layer.addends)?, [5.0; 3]);
        assert_eq!(of(&layer.free)?, [2.0; 3]);
        // The list holds for the field that says nothing itself: this rank's rows.
        let gradients = labelled_by_a_list(&layer, &x)?.backward()?;
        let rows = if world.rank() == 0 { 3.0 } else { 2.0 };
        assert_eq!(elements(&gradients.get(&layer.addends).unwrap().to_local()?), [rows; 3]);
        assert_eq!(elements(&gradients.get(&layer.free).unwrap().to_local()?), [2.0; 3]);
        Ok(())
    });
}

/// Generics of all kinds, on a mesh of two axes.
#[derive(Clone, Distribute)]
struct Linear<'n, A, const N: usize, T = DTensor> {
    #[place(Replicate, Shard(1))]
    weight: T,
    more: [A; N],
    name: &'n str,
}

#[local_map(in = [[Shard(0), Replicate], {..}], out = [[Shard(0), Shard(1)], _])]
fn linear<'n, A: Clone + Into<f64>, const N: usize>(
    x: &Tensor,
    layer: &Linear<'n, A, N, Tensor>,
) -> Result<(Tensor, &'n str)> {
    let by: f64 = layer.more.iter().cloned().map(Into::into).sum();
    Ok(((x.matmul(&layer.weight)? * by)?, layer.name))
}

#[local_map(in = [[Shard(0), Shard(1)]], out = [Partial(Sum), Partial(Sum)])]
fn energy_of_pieces(x: &Tensor) -> Result<Tensor> {
    x.sqr()?.sum_all()
}

#[test]
fn a_generic_struct_on_two_axes_equals_one_device() {
    let weight = Var::from_tensor(&numbers(1, &[3, 5])).unwrap();
    let y = (input().matmul(&weight).unwrap() * 3.0).unwrap();
    let expected = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
    for shape in [[2, 2], [1, 4], [3, 1]] {
        launched(shape[0] * shape[1], |world| {
            let mesh = world.mesh([("dp", shape[0]), ("tp", shape[1])])?;
            let weight_here = Param::new(&DTensor::shard(&numbers(1, &[3, 5]), &mesh, &[Replicate, Shard(1)])?)?;
            let layer: Linear<'_, f32, 2> = Linear { weight: weight_here.into(), more: [1.0, 2.0], name: "n" };
            let x = DTensor::shard(&input(), &mesh, &[Shard(0), Replicate])?;
            let (result, name) = linear(&x, &layer)?;
            assert_eq!(name, "n");
            assert_near(&result.full()?, &y, "result");
            let gradients = energy_of_pieces(&result)?.backward()?;
            assert_near(&gradients.get(&layer.weight).unwrap().full()?, expected.get(&weight).unwrap(), "weight");
            Ok(())
        });
    }
}

/// Takes more than it gave.
struct Greedy<T>(T);

impl Distribute for Greedy<DTensor> {
    type Local = Greedy<Tensor>;

    fn hand_over<'a>(
        &'a self,
        to: &mut local_map::__private::HandOver<'_, 'a>,
        declared: &'static local_map::__private::Param,
    ) {
        self.0.hand_over(to, declared);
    }

    fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Greedy<Tensor> {
        drop(next());
        Greedy(next())
    }

    fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
        self.0.visit(path, each);
    }
}

#[local_map(in = [{..}], out = [Replicate])]
fn greedy(x: &Greedy<Tensor>) -> Result<Tensor> {
    Ok(x.0.clone())
}

#[test]
fn a_struct_that_takes_more_tensors_than_it_gave_is_an_error() {
    let text = message(|model, _| greedy(&Greedy(model.scale.clone())));
    assert!(
        text.starts_with("greedy: a struct among the arguments localizes more tensors than it hands over"),
        "{text}"
    );
}

/// A struct within a tuple within a tuple, placed as its own fields say.
#[local_map(in = [({..}, _)], out = [({..}, _), [Replicate]])]
fn deep((mlp, by): (Mlp<Tensor>, f64)) -> Result<((Mlp<Tensor>, f64), Tensor)> {
    let one = Tensor::new(1f64, &Device::Cpu)?;
    Ok(((Mlp { slope: by, ..mlp }, by), one))
}

#[test]
fn a_struct_within_tuples_has_the_placements_of_its_fields() {
    on_ranks(&[1, 2, 3], |world| {
        let mesh = world.mesh([("tp", world.size())])?;
        let model = distributed(&mesh);
        let ((mlp, by), one) = deep((model.blocks[0].clone(), 2.0))?;
        assert_eq!((mlp.slope, by, one.full()?.to_scalar::<f64>()?), (2.0, 2.0, 1.0));
        assert_eq!(**mlp.up.placements(), [Shard(1)]);
        assert_near(&mlp.down.full()?, &model.blocks[0].down.full()?, "down");
        Ok(())
    });
}
