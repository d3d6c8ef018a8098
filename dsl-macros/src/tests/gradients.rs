//! Expansions with `grad`, with a context and with `recompute`.

use super::{assert_expands, assert_holds, expand, normal, run};

#[test]
fn gradients_follow_the_parameters() {
    assert_holds(
        "out = [Shard(0), Replicate], in = [[Shard(0), Replicate], _, [Replicate, Replicate]],
         grad = [_, _, [Shard(-1), Partial]], reshard",
        "fn f(x: &Tensor, n: f32, w: &Tensor) -> Result<Tensor> {}",
        "&[P::Out::Placed(&[P::Want::Shard(0), P::Want::Replicate])])
         .grad(&[P::Grad::Default, P::Grad::Placed(&[P::Want::Shard(-1), P::Want::Partial(P::Op::Sum)])])
         .reshard();",
    );
}

#[test]
fn gradients_of_conditional_parameters() {
    assert_holds(
        "out = _, grad = [[Replicate], [Shard(1)]]",
        "fn f(#[cfg(a)] x: &Tensor, #[cfg(b)] #[allow(unused)] y: &Tensor) {}",
        ".grad(&[#[cfg(a)] P::Grad::Placed(&[P::Want::Replicate]), #[cfg(b)] P::Grad::Placed(&[P::Want::Shard(1)])]);",
    );
}

#[test]
fn all_gradients_may_be_the_default() {
    assert_holds("out = _, grad = [_]", "fn f(x: &Tensor) {}", ".grad(&[P::Grad::Default]);");
    assert_holds("out = _, mesh = m, grad = []", "fn f() {}", ".grad(&[]);");
}

#[test]
fn nothing_is_said_of_gradients_without_the_key() {
    let out = expand("out = _, reshard, check", "fn f(x: &Tensor) {}");
    assert!(!out.contains("grad") && !out.contains("context") && !out.contains("recompute"), "{out}");
}

#[test]
fn the_context_is_supplied() {
    assert_expands(
        "in = [[Shard(0)], _], out = [Shard(0)]",
        "fn f(x: &Tensor, ctx: &Region, n: usize) -> Result<Tensor> { body }",
        r#"#[track_caller]
        fn f(x: &::local_map::DTensor, n: usize) -> Result<::local_map::DTensor> {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::placed("x", &[P::Want::Shard(0)])],
                &[P::Out::Placed(&[P::Want::Shard(0)])]
            ).context();
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            __call.ready()?;
            __call.run::<P::Dist, _, _>(|__locals| -> Result<Tensor> {
                let x: &Tensor = __locals.take(__input0);
                let ctx: &Region = __locals.region();
                #[allow(unused_braces)]
                { body }
            })
        }"#,
    );
}

#[test]
fn every_way_to_write_the_context() {
    for (written, bound) in [
        ("&Region", "&Region"),
        ("&'a Region", "&Region"),
        ("&local_map::Region", "&local_map::Region"),
        ("(&(Region))", "&Region"),
    ] {
        let item = format!("fn f<'a>(&self, #[allow(unused)] _ctx: {written}, x: &Tensor) {{}}");
        assert_holds("out = _, in = [[Replicate]]", &item, "fn f<'a>(&self, x: &::local_map::DTensor)");
        assert_holds("out = _", &item, &format!("#[allow(unused)] let _ctx: {bound} = __locals.region();"));
    }
    assert_holds("out = _, mesh = m", "fn f(_: &Region) {}", "fn f() ->");
}

#[test]
fn other_regions_are_passed_through() {
    for ty in ["&Region<f32>", "Option<&Region>", "&[Region]", "Regions", "&&Region"] {
        let item = format!("fn f(x: &Tensor, r: {ty}) {{}}");
        assert_holds("out = _, in = [[Replicate], _]", &item, &format!("r: {ty})"));
    }
}

#[test]
fn a_conditional_context() {
    let item = "fn f(#[cfg(a)] ctx: &Region, x: &Tensor) {}";
    assert_holds(
        "out = _, in = [[Replicate]]",
        item,
        "= { let __spec = P::RegionSpec::new(\"f\", &[P::Param::placed(\"x\", &[P::Want::Replicate])], &[P::Out::Plain]);
            #[cfg(a)] let __spec = __spec.context();
            __spec };",
    );
    assert_holds("out = _", item, "#[cfg(a)] let ctx: &Region = __locals.region();");
}

#[test]
fn the_body_can_run_again() {
    assert_expands(
        "in = [_, [Shard(0)], _, [Replicate]], out = [[Shard(0)], _], recompute, check",
        "fn f<T: Clone>(mut n: usize, x: &Tensor, W(w): W<T>, y: Tensor, ctx: &Region) -> Result<(Tensor, T)> { body }",
        r#"#[track_caller]
        fn f<T: Clone>(n: usize, x: &::local_map::DTensor, __arg2: W<T>, y: ::local_map::DTensor)
            -> Result<(::local_map::DTensor, T,)> {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::placed("x", &[P::Want::Shard(0)]), P::Param::placed("y", &[P::Want::Replicate])],
                &[P::Out::Placed(&[P::Want::Shard(0)]), P::Out::Plain]
            ).recompute().check().context();
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            let __input1 = __call.input(1, y);
            P::kept::<usize>();
            P::kept::<W<T> >();
            __call.ready()?;
            __call.run_again::<(P::Dist, P::Plain,), _, _>({
                let __kept0 = n;
                let __kept1 = __arg2;
                move |__locals: &P::Locals| -> Result<(Tensor, T)> {
                    let mut n = <usize as ::core::clone::Clone>::clone(&__kept0);
                    let W(w) = <W<T> as ::core::clone::Clone>::clone(&__kept1);
                    let x: &Tensor = __locals.take(::core::clone::Clone::clone(&__input0));
                    let y: Tensor = __locals.take(::core::clone::Clone::clone(&__input1));
                    let ctx: &Region = __locals.region();
                    #[allow(unused_braces)]
                    { body }
                }
            })
        }"#,
    );
}

#[test]
fn kept_parameters_with_attributes() {
    let item = "fn f(x: &Tensor, #[cfg(a)] #[allow(unused_mut)] mut n: usize) {}";
    assert_holds("out = _, recompute", item, "#[cfg(a)] n: usize)");
    assert_holds("out = _, recompute", item, "#[cfg(a)] P::kept::<usize>();");
    assert_holds("out = _, recompute", item, "#[cfg(a)] let __kept0 = n;");
    assert_holds(
        "out = _, recompute",
        item,
        "#[cfg(a)] #[allow(unused_mut)] let mut n = <usize as ::core::clone::Clone>::clone(&__kept0);",
    );
}

#[test]
fn kept_parameters_without_a_name_for_their_type() {
    let item = "fn f(x: &Tensor, g: impl Fn(&Tensor) + Clone + Send + 'static) {}";
    assert!(!expand("out = _, recompute", item).contains("::kept"));
    assert_holds("out = _, recompute", item, "let g = ::core::clone::Clone::clone(&__kept0);");
}

#[test]
fn what_lives_for_ever_can_be_kept() {
    for ty in ["&'static str", "Cow<'static, str>", "Box<dyn Fn(&Tensor)>", "fn(&Tensor)", "Arc<Linear>"] {
        let item = format!("fn f(x: &Tensor, y: {ty}) {{}}");
        assert_holds("out = _, recompute", &item, &format!("P::kept::<{ty}>();"));
    }
}

#[test]
fn a_mistake_about_recompute_leaves_an_ordinary_region() {
    for item in
        ["fn f(&mut self, x: &Tensor) { b }", "fn f(x: &Tensor, n: &str) { b }", "fn f(x: &Tensor) -> impl Copy { b }"]
    {
        let (out, errors) = run("out = _, recompute", item);
        assert_eq!(errors.len(), 1);
        let out = normal(&out.to_string());
        assert!(out.contains("__call.run::<") && !out.contains("recompute"), "{out}");
    }
}
