use super::{assert_expands, assert_holds, expand, run};

#[test]
fn the_example_of_the_design() {
    assert_expands(
        "out = [Partial(Sum)], in = [[Shard(0)], _], reshard",
        "/// docs
         pub fn masked_mean(x: &Tensor, mask: &Tensor) -> Result<Tensor> { body(x)? }",
        r#"/// docs
        #[track_caller]
        pub fn masked_mean(x: &::local_map::DTensor, mask: &Tensor) -> Result<::local_map::DTensor> {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "masked_mean",
                &[P::Param::placed("x", &[P::Want::Shard(0)])],
                &[P::Out::Placed(&[P::Want::Partial(P::Op::Sum)])]
            ).reshard();
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            __call.ready()?;
            __call.run::<P::Dist, _, _>(|__locals| -> Result<Tensor> {
                let x: &Tensor = __locals.take(__input0);
                #[allow(unused_braces)]
                { body(x)? }
            })
        }"#,
    );
}

#[test]
fn everything_omitted() {
    assert_expands(
        "out = _",
        "fn show(x: &Tensor, n: usize) { print(x) }",
        r#"#[track_caller]
        fn show(x: &::local_map::DTensor, n: usize) -> ::local_map::Result<()> {
            static __REGION: P::RegionSpec = P::RegionSpec::new("show", &[P::Param::any("x")], &[P::Out::Plain]);
            let mut __call = __REGION.call();
            let __input0 = __call.input(0, x);
            __call.ready()?;
            __call.run::<P::Plain, _, _>(|__locals| -> () {
                let x: &Tensor = __locals.take(__input0);
                #[allow(unused_braces)]
                { print(x) }
            })
        }"#,
    );
}

#[test]
fn every_placement() {
    assert_holds(
        "out = [Shard(-1, ragged), Replicate, Partial, Partial(Avg)], in = [[Shard(0), Shard(-2), Replicate, Partial(Max)]]",
        "fn f(x: &Tensor) -> Result<Tensor> {}",
        r#"&[P::Param::placed("x", &[P::Want::Shard(0), P::Want::Shard(-2), P::Want::Replicate,
            P::Want::Partial(P::Op::Max)])],
        &[P::Out::Placed(&[P::Want::Ragged(-1), P::Want::Replicate, P::Want::Partial(P::Op::Sum),
            P::Want::Partial(P::Op::Avg)])]"#,
    );
    for op in crate::ast::Op::NAMES {
        let want = format!("P::Want::Partial(P::Op::{op})");
        assert_holds(&format!("out = [Partial({op})]"), "fn f(x: Tensor) -> Tensor {}", &want);
    }
}

#[test]
fn the_ends_of_the_dim_range() {
    let item = "fn f(x: Tensor) -> Tensor {}";
    assert_holds("out = [Shard(9223372036854775807)]", item, "P::Want::Shard(9223372036854775807)");
    assert_holds("out = [Shard(-9223372036854775808)]", item, "P::Want::Shard(-9223372036854775808)");
}

#[test]
fn flags_mesh_and_crate() {
    assert_holds("out = [Replicate], check, reshard", "fn f(x: Tensor) -> Tensor {}", ").reshard().check();");
    assert_holds(
        "mesh = mesh_of::<A, B>(n, 1), out = [Replicate],",
        "fn f(n: usize) -> Tensor {}",
        "let mut __call = __REGION.call_on(&(mesh_of::<A, B>(n, 1)));",
    );
    let renamed = expand("out = [Replicate], crate = crate::lm", "fn f(x: Tensor) -> Loss {}");
    assert!(!renamed.contains("local_map"), "{renamed}");
    assert!(renamed.contains("crate::lm::DTensor"), "{renamed}");
}

#[test]
fn every_distributed_type() {
    let types = [
        ("&Tensor", "&::local_map::DTensor"),
        ("Tensor", "::local_map::DTensor"),
        ("candle_core::Tensor", "::local_map::DTensor"),
        ("&'a Tensor", "&'a ::local_map::DTensor"),
        ("Option<&Tensor>", "Option<&::local_map::DTensor>"),
        ("Option<Tensor>", "Option<::local_map::DTensor>"),
        ("Vec<Tensor>", "Vec<::local_map::DTensor>"),
        ("&[Tensor]", "&[::local_map::DTensor]"),
        ("[Tensor; N]", "[::local_map::DTensor; N]"),
        ("[&Tensor; N]", "[&::local_map::DTensor; N]"),
        ("Option<&[Tensor]>", "Option<&[::local_map::DTensor]>"),
        ("[Option<Vec<Tensor>>; N]", "[Option<Vec<::local_map::DTensor>>; N]"),
    ];
    for (written, wrapped) in types {
        let item = format!("fn f<'a, const N: usize>(x: {written}) {{}}");
        assert_holds("out = _, in = [[Shard(0)]]", &item, &format!("(x: {wrapped})"));
        let inner = format!("let x: {} = __locals.take(__input0);", written.replace("'a ", ""));
        assert_holds("out = _", &item, &inner);
    }
}

#[test]
fn other_types_are_passed_through() {
    for ty in [
        "f32",
        "&str",
        "&Linear",
        "&[f32]",
        "Option<Vec<f32>>",
        "Vec<Linear>",
        "HashMap<String, Tensor>",
        "Tensor<B, 2>",
        "impl Fn(Tensor)",
        "&mut f32",
        "Box<Tensor>",
    ] {
        let out = expand("out = _, mesh = m()", &format!("fn f(x: {ty}) {{}}"));
        assert!(out.contains(&super::normal(&format!("(x: {ty})"))), "{out}");
        assert!(!out.contains("input"), "{out}");
    }
}

#[test]
fn underscore_keeps_a_tensor_plain() {
    for ty in ["&Tensor", "&mut Tensor", "&Vec<Tensor>", "(Tensor, f32)"] {
        let item = format!("fn f(x: {ty}, y: &Tensor) {{}}");
        assert_holds("out = _, in = [_, [Replicate]]", &item, &format!("(x: {ty}, y: &::local_map::DTensor)"));
    }
}

#[test]
fn parameters_that_are_no_names() {
    let item = "fn f(mut a: Tensor, W(b): Tensor, _c: &Tensor, (d): &Tensor, _: &Tensor, r#type: &Tensor) {}";
    assert_holds(
        "out = _",
        item,
        "fn f(a: ::local_map::DTensor, __arg1: ::local_map::DTensor, __arg2: &::local_map::DTensor,
              __arg3: &::local_map::DTensor, __arg4: &::local_map::DTensor, r#type: &::local_map::DTensor)",
    );
    assert_holds("out = _", item, "let __input1 = __call.input(1, __arg1);");
    assert_holds(
        "out = _",
        item,
        "let mut a: Tensor = __locals.take(__input0);
         let W(b): Tensor = __locals.take(__input1);
         let _c: &Tensor = __locals.take(__input2);
         let (d): &Tensor = __locals.take(__input3);
         let _: &Tensor = __locals.take(__input4);
         let r#type: &Tensor = __locals.take(__input5);",
    );
    assert_holds("out = _", item, r#"P::Param::any("W(b)")"#);
    assert_holds("out = _", item, r#"P::Param::any("type")"#);
}

#[test]
fn conditional_parameters_shift_the_index() {
    let item = "fn f(#[cfg(a)] x: &Tensor, y: &Tensor, #[cfg(b)] #[allow(unused)] z: &Tensor, w: &Tensor) {}";
    assert_holds(
        "out = _",
        item,
        r#"&[#[cfg(a)] P::Param::any("x"), P::Param::any("y"), #[cfg(b)] P::Param::any("z"),"#,
    );
    assert_holds("out = _", item, "#[cfg(a)] let __input0 = __call.input(0, x);");
    assert_holds("out = _", item, "let __input1 = __call.input(0 + ::core::cfg!(all(a)) as usize, y);");
    assert_holds(
        "out = _",
        item,
        "let __input3 = __call.input(1 + ::core::cfg!(all(a)) as usize + ::core::cfg!(all(b)) as usize, w);",
    );
    assert_holds("out = _", item, "#[cfg(b)] #[allow(unused)] let z: &Tensor = __locals.take(__input2);");
    assert_holds("out = _", item, "#[cfg(b)] z: &::local_map::DTensor");
}

#[test]
fn methods_and_generics_are_kept() {
    assert_holds(
        "in = [[Replicate], _], out = [Replicate]",
        "#[must_use] pub(crate) unsafe fn forward<'a, T>(&'a mut self, x: &'a Tensor, t: T) -> Result<Tensor> where T: Copy {}",
        "#[must_use] #[track_caller] pub(crate) unsafe fn forward<'a, T>(&'a mut self, x: &'a ::local_map::DTensor, t: T)
            -> Result<::local_map::DTensor> where T: Copy {",
    );
}

#[test]
fn track_caller_is_not_doubled() {
    let out = expand("out = _", "#[track_caller] fn f(x: &Tensor) {}");
    assert_eq!(out.matches("track_caller").count(), 1);
}

#[test]
fn inner_attributes_move_out_of_the_body() {
    let item = "fn f(x: &Tensor) { #![allow(dead_code)] 1; }";
    assert_holds("out = _", item, "#[allow(dead_code)] #[track_caller] fn f");
    assert_holds("out = _", item, "{ 1; } }) }");
}

#[test]
fn results_with_one_label() {
    let cases = [
        ("Result<Tensor>", "Result<::local_map::DTensor>"),
        ("anyhow::Result<Tensor>", "anyhow::Result<::local_map::DTensor>"),
        ("Result<Tensor, MyError>", "Result<::local_map::DTensor, MyError>"),
        ("Result<Vec<Tensor>>", "Result<Vec<::local_map::DTensor>>"),
        ("Tensor", "::local_map::Result<::local_map::DTensor>"),
        ("[Tensor; 2]", "::local_map::Result<[::local_map::DTensor; 2]>"),
        ("Option<Tensor>", "::local_map::Result<Option<::local_map::DTensor>>"),
        ("Loss", "<Loss as P::Outcome>::With<::local_map::DTensor>"),
        ("Res<Tensor>", "<Res<Tensor> as P::Outcome>::With<::local_map::DTensor>"),
        ("Res<Vec<Tensor>>", "<Res<Vec<Tensor>> as P::Outcome>::With<Vec<::local_map::DTensor>>"),
        ("Out<MyError>", "<Out<MyError> as P::Outcome>::With<::local_map::DTensor>"),
    ];
    for (written, wrapped) in cases {
        let item = format!("fn f(x: &Tensor) -> {written} {{}}");
        for out in ["out = [Replicate]", "out = [[Replicate]]"] {
            assert_holds(out, &item, &format!("-> {wrapped} {{"));
            assert_holds(out, &item, "run::<P::Dist, _, _>");
            assert_holds(out, &item, &format!("(|__locals| -> {written} {{"));
        }
    }
}

#[test]
fn results_without_a_label() {
    let cases = [
        ("Result<Tensor>", "Result<Tensor>"),
        ("Result<(u8, f32)>", "Result<(u8, f32)>"),
        ("Option<Tensor>", "::local_map::Result<Option<Tensor>>"),
        ("f32", "::local_map::Result<f32>"),
        ("()", "::local_map::Result<()>"),
        ("Loss", "<Loss as P::Outcome>::With<<Loss as P::Outcome>::Value>"),
    ];
    for (written, wrapped) in cases {
        for out in ["out = _", "out = []"] {
            let item = format!("fn f(x: &Tensor) -> {written} {{}}");
            assert_holds(out, &item, &format!("-> {wrapped} {{"));
            assert_holds(out, &item, "&[P::Out::Plain]");
            let marker = if written == "Result<Tensor>" { "Detached" } else { "Plain" };
            assert_holds(out, &item, &format!("run::<P::{marker}, _, _>"));
        }
    }
}

#[test]
fn tensors_without_a_label_are_detached() {
    let cases = [
        ("Tensor", "P::Detached"),
        ("Result<candle_core::Tensor, E>", "P::Detached"),
        ("Result<(Tensor, f32)>", "(P::Detached, P::Plain,)"),
        ("(Tensor,)", "(P::Detached,)"),
        ("Result<Vec<Tensor>>", "P::Plain"),
        ("Tensor<B, 2>", "P::Plain"),
    ];
    for (written, markers) in cases {
        let item = format!("fn f(x: &Tensor) -> {written} {{}}");
        assert_holds("out = _", &item, &format!("run::<{markers}, _, _>"));
    }
    assert_holds("out = _", "fn f(x: &Tensor) -> Result<(Tensor, f32)> {}", "&[P::Out::Plain, P::Out::Plain]");
    assert_holds(
        "out = [_, [Replicate], _]",
        "fn f(x: &Tensor) -> Result<(Tensor, Tensor, Option<Tensor>)> {}",
        "run::<(P::Detached, P::Dist, P::Plain,), _, _>",
    );
}

#[test]
fn results_that_are_tuples() {
    let out = "out = [[Replicate], _]";
    let item = "fn f(x: &Tensor) -> Result<(Tensor, f32)> {}";
    assert_holds(out, item, "-> Result<(::local_map::DTensor, f32,)> {");
    assert_holds(out, item, "run::<(P::Dist, P::Plain,), _, _>");
    assert_holds(out, item, "&[P::Out::Placed(&[P::Want::Replicate]), P::Out::Plain]");
    assert_holds(
        "out = [_, [Replicate]]",
        "fn f(x: &Tensor) -> (Tensor, Option<Tensor>) {}",
        "-> ::local_map::Result<(Tensor, Option<::local_map::DTensor>,)> {",
    );
    assert_holds("out = [[Replicate]]", "fn f(x: &Tensor) -> Result<(Tensor,)> {}", "run::<(P::Dist,), _, _>");
}

#[test]
fn impl_results_are_left_to_the_compiler() {
    assert_holds(
        "out = _",
        "fn f(x: &Tensor) -> Result<(u8, impl Iterator<Item = u8>), E> { it }",
        "(|__locals| -> Result<(u8, _), E> {",
    );
}

#[test]
fn the_body_is_not_parsed() {
    let (item, errors) = run("out = _", "fn f(x: &Tensor) { this is ! not [ rust ] , }");
    assert_eq!(errors, []);
    assert!(item.to_string().contains("this is ! not [rust]"), "{item}");
}

#[test]
fn invisible_groups_are_seen_through() {
    use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
    let group = |text: &str| TokenStream::from(TokenTree::Group(Group::new(Delimiter::None, super::tokens(text))));
    let (list, number, ty, block) = (group("[Shard(0)]"), group("-1"), group("&Tensor"), group("{ 1 }"));
    let mut errors = crate::errors::Errors::default();
    let item = crate::expansion::function(
        quote::quote!(in = [#list], out = [Shard(#number)]),
        quote::quote!(fn f(x: #ty) -> Tensor #block),
        &mut errors,
    );
    assert_eq!(errors.count(), 0);
    assert!(super::normal(&item.to_string()).contains("Want::Shard(-1)"), "{item}");
}

#[test]
fn outputs_on_other_meshes() {
    assert_expands(
        "in = [[Shard(0)]], out = [[Shard(0)], [Partial, Replicate] on self.meshes.of::<A, B>(1, 2), _, [Shard(0)] on m]",
        "fn f(&self, x: &Tensor) -> Result<(Tensor, Tensor, u8, Vec<Tensor>)> { body }",
        r#"#[track_caller]
        fn f(&self, x: &::local_map::DTensor)
            -> Result<(::local_map::DTensor, ::local_map::DTensor, u8, Vec<::local_map::DTensor>,)>
        {
            static __REGION: P::RegionSpec = P::RegionSpec::new(
                "f",
                &[P::Param::placed("x", &[P::Want::Shard(0)])],
                &[
                    P::Out::Placed(&[P::Want::Shard(0)]),
                    P::Out::Placed(&[P::Want::Partial(P::Op::Sum), P::Want::Replicate]),
                    P::Out::Plain,
                    P::Out::Placed(&[P::Want::Shard(0)])
                ]
            );
            let mut __call = __REGION.call();
            __call.output_on(1, &(self.meshes.of::<A, B>(1, 2)));
            __call.output_on(3, &(m));
            let __input0 = __call.input(0, x);
            __call.ready()?;
            __call.run::<(P::Dist, P::Dist, P::Plain, P::Dist,), _, _>(
                |__locals| -> Result<(Tensor, Tensor, u8, Vec<Tensor>)> {
                    let x: &Tensor = __locals.take(__input0);
                    #[allow(unused_braces)]
                    { body }
                }
            )
        }"#,
    );
    assert_holds(
        "out = [Partial] on mesh_of::<A, B>(), in = [[Shard(0), Replicate]], reshard",
        "fn f(x: &Tensor) -> Result<Tensor> {}",
        "let mut __call = __REGION.call(); __call.output_on(0, &(mesh_of::<A, B>()));",
    );
}
