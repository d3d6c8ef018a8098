//! Structs of tensors as parameters and results, and methods whose body runs again.

use super::{assert_expands, assert_holds, expand, refused};

#[test]
fn a_struct_is_handed_over_and_put_together() {
    assert_expands(
        "in = [{..}, [Replicate]], out = [Replicate]",
        "fn f(mlp: &m::Mlp<'a, Tensor>, w: &Tensor) -> Result<Tensor> { body }",
        r#"#[track_caller]
        fn f(mlp: &m::Mlp<'a, ::local_map::DTensor>, w: &::local_map::DTensor) -> Result<::local_map::DTensor> {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::any("mlp"), P::Param::placed("w", &[P::Want::Replicate])],
                &[P::Out::Placed(&[P::Want::Replicate])]
            );
            let mut __call = __REGION.call();
            let __input0 = __call.fields(0, mlp);
            let __input1 = __call.input(1, w);
            __call.ready()?;
            __call.run::<P::Dist, _, _>(|__locals| -> Result<Tensor> {
                let __input0 = __locals.layer(__input0);
                let mlp: &m::Mlp<'a, Tensor> = &__input0;
                let w: &Tensor = __locals.take(__input1);
                #[allow(unused_braces)]
                { body }
            })
        }"#,
    );
}

#[test]
fn every_way_to_give_a_struct() {
    for (written, wrapped, given, taken) in [
        ("&S<Tensor>", "&S<::local_map::DTensor>", "x", "&__input0"),
        ("S<Tensor>", "S<::local_map::DTensor>", "&x", "__input0"),
        ("&[S<Tensor>]", "&[S<::local_map::DTensor>]", "x", "&__input0"),
        ("Vec<S<Tensor>>", "Vec<S<::local_map::DTensor>>", "&x", "__input0"),
        ("[S<Tensor>; 2]", "[S<::local_map::DTensor>; 2]", "&x", "__input0"),
        ("Option<S<Tensor>>", "Option<S<::local_map::DTensor>>", "&x", "__input0"),
        ("Option<&S<Tensor>>", "Option<&S<::local_map::DTensor>>", "&x", "__input0.as_ref()"),
        ("Option<&[S<Tensor>]>", "Option<&[S<::local_map::DTensor>]>", "&x", "__input0.as_deref()"),
        // Only the last argument stands for the tensors.
        ("&S<Tensor, Tensor, 3>", "&S<Tensor, ::local_map::DTensor, 3>", "x", "&__input0"),
    ] {
        let item = format!("fn f(x: {written}) {{}}");
        for args in ["out = _", "out = _, in = [{..}]", "out = _, in = [[Shard(0)]]"] {
            assert_holds(args, &item, &format!("fn f(x: {wrapped})"));
            assert_holds(args, &item, &format!("__call.fields(0, {given});"));
            assert_holds(args, &item, &format!("let x: {written} = {taken};"));
        }
        assert_holds("out = _, in = [_], mesh = m", &item, &format!("fn f(x: {written})"));
    }
    assert_holds(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: S<Tensor>) {}",
        r#"P::Param::placed("x", &[P::Want::Shard(0)])"#,
    );
}

#[test]
fn containers_of_tensors_are_no_structs() {
    for ty in
        ["Arc<Tensor>", "HashMap<String, Tensor>", "std::cell::RefCell<Tensor>", "PhantomData<Tensor>", "S<Tensor, u8>"]
    {
        assert_holds("out = _, mesh = m", &format!("fn f(x: {ty}) {{}}"), &format!("fn f(x: {ty})"));
    }
}

#[test]
fn structs_in_other_types_are_refused() {
    for ty in ["&Vec<S<Tensor>>", "&[&S<Tensor>]", "[&S<Tensor>; 2]", "&Option<S<Tensor>>", "Vec<Option<&S<Tensor>>>"] {
        let message = format!(
            "parameter `x` of type `{ty}` cannot be distributed: a struct of tensors is taken as `S`, `&S`, `Option<&S>`, \
             `&[S]` or `Vec<S>`"
        );
        refused("out = _, in = [{..}]", &format!("fn f(x: {ty}) {{}}"), "{..}", &message);
    }
}

#[test]
fn a_tensor_that_stays_as_it_is() {
    assert_holds("out = _, in = [{..}]", "fn f(x: &Tensor) {}", r#"&[P::Param::named("x", &[], true)]"#);
    assert_holds("out = _, in = [{..}]", "fn f(x: &S<Tensor>) {}", r#"&[P::Param::any("x")]"#);
    refused(
        "out = _, in = [{..}]",
        "fn f(x: f32) {}",
        "{..}",
        "parameter `x` of type `f32` cannot be distributed: only a `Tensor` has placements, write `_`",
    );
}

#[test]
fn a_struct_result_may_place_itself() {
    let nested = ("[({..}, _), [Shard(0)]]", "((S<Tensor>, f32), Tensor)");
    for (out, ty) in [("{..}", "S<Tensor>"), ("[{..}]", "S<Tensor>"), ("[{..}, _]", "(S<Tensor>, f32)"), nested] {
        let item = format!("fn f(x: &Tensor) -> Result<{ty}> {{}}");
        assert_holds(&format!("out = {out}"), &item, "P::places_itself::<S<Tensor> >();");
        assert_holds(&format!("out = {out}"), &item, "P::Out::Placed(&[])");
    }
    let listed = expand("out = [Shard(0)]", "fn f(x: &Tensor) -> Result<S<Tensor>> {}");
    assert!(!listed.contains("places_itself"), "{listed}");
    refused(
        "out = _, grad = [{..}]",
        "fn f(x: &S<Tensor>) {}",
        "{..}",
        "a struct's own `#[grad(..)]`s hold anyway: write `_`, or a list for its other tensors",
    );
}

#[test]
fn a_struct_is_kept_for_the_body_that_runs_again() {
    let item = "fn f(mlp: &S<Tensor>) {}";
    assert_holds("out = _, recompute", item, "let __input0 = __call.keep(&__input0); __call.run_again::<");
    assert_holds(
        "out = _, recompute",
        item,
        "let __input0 = __locals.layer(__input0.held()); let mlp: &S<Tensor> = &__input0;",
    );
}

#[test]
fn a_method_that_runs_again_has_its_body_beside() {
    assert_expands(
        "in = [_, [Shard(0)]], out = [Shard(0)], recompute",
        "/// docs
         #[cfg(a)]
         pub fn f<A: Clone>(&self, (a, _): (A, A), mut x: Tensor, _ctx: &Region) -> Result<Tensor> { #![allow(b)] body }",
        r#"/// docs
        #[cfg(a)]
        #[track_caller]
        pub fn f<A: Clone>(&self, __arg0: (A, A), x: ::local_map::DTensor) -> Result<::local_map::DTensor> {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::placed("x", &[P::Want::Shard(0)])],
                &[P::Out::Placed(&[P::Want::Shard(0)])]
            ).recompute().context();
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            P::kept::<Self>();
            P::kept::<(A, A)>();
            __call.ready()?;
            __call.run_again::<P::Dist, _, _>({
                let __this = <Self as ::core::clone::Clone>::clone(self);
                let __kept0 = __arg0;
                move |__locals: &P::Locals| -> Result<Tensor> {
                    let __arg0 = <(A, A) as ::core::clone::Clone>::clone(&__kept0);
                    let x: Tensor = __locals.take(::core::clone::Clone::clone(&__input0));
                    let _ctx: &Region = __locals.region();
                    #[allow(unused_braces)]
                    { Self::__recompute_f::<A>(&__this, __arg0, x, _ctx) }
                }
            })
        }
        #[cfg(a)]
        #[allow(b)]
        #[doc(hidden)]
        #[allow(dead_code)]
        fn __recompute_f<A: Clone>(&self, (a, _): (A, A), mut x: Tensor, _ctx: &Region) -> Result<Tensor> { body }"#,
    );
}

#[test]
fn every_receiver_of_a_method_that_runs_again() {
    for (receiver, kept, keep, call) in [
        ("self", "Self", "let __this = self;", "(::core::clone::Clone::clone(&__this), x)"),
        ("&'a self", "Self", "let __this = <Self as ::core::clone::Clone>::clone(self);", "(&__this, x)"),
        (
            "self: &Arc<Self>",
            "Arc<Self>",
            "let __this = <Arc<Self> as ::core::clone::Clone>::clone(self);",
            "(&__this, x)",
        ),
        ("self: Arc<Self>", "Arc<Self>", "let __this = self;", "(::core::clone::Clone::clone(&__this), x)"),
    ] {
        let item = format!("unsafe fn f<'a>({receiver}, x: &Tensor) {{}}");
        assert_holds("out = _, recompute", &item, &format!("P::kept::<{kept}>();"));
        assert_holds("out = _, recompute", &item, keep);
        assert_holds("out = _, recompute", &item, &format!("{{ unsafe {{ Self::__recompute_f {call} }} }}"));
    }
}
