//! The expansions of the most important shapes, printed as code, to be read by a person.
//!
//! After a change on purpose: `INSTA_UPDATE=always cargo test -p local-map-macros`, then read the diff.

use super::run;
use crate::errors::Errors;

/// What becomes of the item, as code.
#[track_caller]
fn printed(args: &str, item: &str) -> String {
    let (item, errors) = run(args, item);
    assert_eq!(errors, [], "{args}");
    prettyplease::unparse(&syn::parse2(item).unwrap())
}

/// Compares with the snapshot of this name; a simple function must stay short.
macro_rules! snapshot {
    ($name:ident, $args:literal, $item:literal) => {
        #[test]
        fn $name() {
            insta::assert_snapshot!(printed($args, $item));
        }
    };
}

snapshot!(
    a_simple_function,
    "out = [Partial(Sum)], in = [[Shard(0)], _]",
    "/// The share of this rank.
     pub fn mean(x: &Tensor, count: usize) -> Result<Tensor> { x.sum_all()? / count as f64 }"
);

snapshot!(
    reshard_accepts_every_layout,
    "out = [Shard(0), Shard(1)], in = [[Shard(0), Replicate], [Replicate, Shard(1)]], reshard",
    "fn project(x: &Tensor, w: &Tensor) -> Result<Tensor> { x.matmul(w) }"
);

snapshot!(
    any_placement_and_a_value_that_is_no_tensor,
    "out = _",
    "fn show(x: &Tensor) -> Result<usize> { Ok(x.rank()) }"
);

snapshot!(
    several_results,
    "out = [[Shard(0), Partial(Max)], [Shard(-1), Replicate], _], in = [[Shard(0), Replicate]]",
    "fn split(x: &Tensor) -> Result<(Tensor, Tensor, usize)> { body(x) }"
);

snapshot!(
    containers_are_dynamic,
    "out = [Replicate], in = [[Replicate], [Replicate]]",
    "fn sum(all: &[Tensor], bias: Option<&Tensor>) -> Result<Vec<Tensor>> { body(all, bias) }"
);

snapshot!(
    dynamic_and_a_mesh,
    "out = [Shard(0)], mesh = self.mesh, dynamic, check",
    "fn forward(&self, x: &Tensor) -> Result<Tensor> { self.inner.apply(x) }"
);

snapshot!(
    the_context_and_generics,
    "out = [Replicate], in = [[Shard(0)], _], grad = [[Shard(0)], _]",
    "fn total<'a, T: Into<f64>>(x: &'a Tensor, ctx: &Region, by: T) -> Result<Tensor> where T: Copy { body(x, ctx, by) }"
);

snapshot!(
    a_result_behind_an_alias,
    "out = [Partial(Avg)], in = [[Shard(0)]], crate = renamed",
    "fn loss(x: Tensor) -> Loss { body(x) }"
);

snapshot!(
    a_body_that_runs_again,
    "out = [Shard(0)], in = [[Shard(0)], _], recompute",
    "fn wave(x: &Tensor, factor: f64) -> Result<Tensor> { x.sin()? * factor }"
);

#[test]
fn a_layer() {
    let item = "impl Mlp<Tensor> {
        fn forward(&self, x: &Tensor) -> Result<Tensor> { x.matmul(&self.up) }
    }";
    let mut errors = Errors::default();
    let args = "out = [Shard(1)], in = [[Replicate]]".parse().unwrap();
    let item = crate::layer::expansion(args, item.parse().unwrap(), &mut errors);
    assert!(errors.into_error().is_none());
    insta::assert_snapshot!(prettyplease::unparse(&syn::parse2(item).unwrap()));
}

#[test]
fn a_simple_function_expands_to_few_lines() {
    let item = "fn energy(x: &Tensor) -> Result<Tensor> { x.sqr()?.sum_all() }";
    assert!(printed("out = [Partial(Sum)], in = [[Shard(0)]]", item).lines().count() < 40);
}
