//! Parameters and results that are tuples.

use super::{assert_expands, assert_holds, expand, refused};

#[test]
fn elements_are_parameters_of_their_own() {
    assert_expands(
        "in = [([Shard(0)], _), [Replicate]], out = [Shard(0)]",
        "fn f((x, mut by): (Tensor, f64), w: &Tensor) -> Result<Tensor> { body }",
        r#"#[track_caller]
        fn f(__arg0: (::local_map::DTensor, f64,), w: &::local_map::DTensor) -> Result<::local_map::DTensor> {
            use ::local_map::__private as __m;
            let (x, by,) = __arg0;
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::placed("x", &[P::Want::Shard(0)]), P::Param::placed("w", &[P::Want::Replicate])],
                &[P::Out::Placed(&[P::Want::Shard(0)])]
            );
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            let __input1 = __call.input(1, w);
            __call.ready()?;
            __call.run::<P::Dist, _, _>(|__locals| -> Result<Tensor> {
                let x: Tensor = __locals.take(__input0);
                let w: &Tensor = __locals.take(__input1);
                let (x, mut by): (Tensor, f64) = (x, by,);
                #[allow(unused_braces)]
                { body }
            })
        }"#,
    );
}

#[test]
fn entries_of_tuples_stand_anywhere() {
    let pair = "fn f(n: u8, pair: (Tensor, &Tensor)) -> Tensor {}";
    let listed = expand("in = [_, ([Shard(0)], [Replicate])], out = [Shard(0)]", pair);
    assert_eq!(expand("in = { pair: ([Shard(0)], [Replicate]) }, out = [Shard(0)]", pair), listed);
    assert!(listed.contains("(::local_map::DTensor,&::local_map::DTensor,)"), "{listed}");
    assert_holds(
        "in = [_, (_, [Replicate])], grad = [_, (_, [Partial])], out = [Shard(0)]",
        pair,
        ".grad(&[P::Grad::Placed(&[P::Want::Partial(P::Op::Sum)])])",
    );
    assert_holds("out = [Shard(0)]", pair, r#"P::Param::any("pair.0"), P::Param::any("pair.1")"#);
    assert_holds("in = [_, _], mesh = m, out = [Shard(0)]", pair, "(n: u8, pair: (Tensor, &Tensor))");
}

#[test]
fn tuples_within_tuples() {
    assert_holds(
        "in = [([Shard(0)], (_, [Replicate]))], out = [Shard(0)]",
        "fn f((a, (n, b)): (Tensor, (u8, Tensor))) -> Tensor {}",
        r#"P::Param::placed("a", &[P::Want::Shard(0)]), P::Param::placed("b", &[P::Want::Replicate])"#,
    );
    assert_holds(
        "out = [([Shard(0)], _), [Replicate]]",
        "fn f(x: &Tensor) -> Result<((Tensor, u8), Tensor)> {}",
        "__call.run::<((P::Dist, P::Plain,), P::Dist,), _, _>",
    );
    let each = expand("out = [[Shard(0)], _]", "fn f(x: &Tensor) -> Result<(Tensor, u8)> {}");
    assert_eq!(expand("out = ([Shard(0)], _)", "fn f(x: &Tensor) -> Result<(Tensor, u8)> {}"), each);
}

#[test]
fn misuse_of_tuples() {
    let pair = "fn f(pair: (Tensor, u8)) -> Tensor {}";
    refused(
        "out = [Shard(0)], in = [([Shard(0)])]",
        pair,
        "([Shard(0)])",
        "`pair` of type `(Tensor, u8)` has 2 elements, but its entry in `in` has 1 entry",
    );
    refused(
        "out = [Shard(0)], in = [[Shard(0)]]",
        pair,
        "[Shard(0)]",
        "`pair` of type `(Tensor, u8)` is a tuple: write one entry per element, as in `([Shard(0)], _)`",
    );
    refused(
        "out = [Shard(0)], in = [([Shard(0)], _)]",
        "fn f(x: &Tensor) -> Tensor {}",
        "([Shard(0)], _)",
        "parameter `x` of type `&Tensor` is no tuple: write its placements, as in `[Shard(0)]`, or `_`",
    );
    refused(
        "out = [Shard(0)], in = [([Shard(0)], _)]",
        "fn f(pair: &(Tensor, u8)) -> Tensor {}",
        "([Shard(0)], _)",
        "parameter `pair` of type `&(Tensor, u8)` cannot be distributed: take the tuple itself, of tensors or of references \
         to them, `(Tensor, &Tensor)`",
    );
    refused(
        "out = [([Shard(0)], _)]",
        "fn f(x: &Tensor) -> Tensor {}",
        "([Shard(0)], _)",
        "an output of type `Tensor` is no tuple: write its placements, as in `[Shard(0)]`, or `_`",
    );
    refused(
        "out = [([Shard(0)], _), _]",
        "fn f(x: &Tensor) -> ((Tensor, u8, u8), u8) {}",
        "([Shard(0)], _)",
        "an output of type `(Tensor, u8, u8)` has 3 elements, but its entry has 2 entries",
    );
    refused(
        "out = [Shard(0)], in = [([Shard(0)], [Replicate])]",
        pair,
        "[Replicate]",
        "parameter `pair.1` of type `u8` cannot be distributed: only a `Tensor` has placements, write `_`",
    );
}
