//! Expansions of `#[local_layer]` and `#[derive(Distribute)]`.

use super::{dynamic, normal, tokens};
use crate::errors::Errors;
use proc_macro2::TokenStream;

fn messages(errors: Errors) -> Vec<(String, String)> {
    let errors = errors.into_error().into_iter().flatten();
    errors.map(|error| (error.to_string(), error.span().source_text().unwrap_or_default())).collect()
}

fn layer(args: &str, item: &str) -> (TokenStream, Vec<(String, String)>) {
    let mut errors = Errors::default();
    let out = crate::layer::expansion(tokens(args), tokens(item), &mut errors);
    (out, messages(errors))
}

fn derive(item: &str) -> (TokenStream, Vec<(String, String)>) {
    let mut errors = Errors::default();
    let out = crate::distribute::expansion(tokens(item), &mut errors);
    (out, messages(errors))
}

/// The layer's `impl` stays, and `part` is found in what comes with it.
#[track_caller]
fn layer_holds(args: &str, item: &str, part: &str) {
    let (out, errors) = layer(&dynamic(args), item);
    assert_eq!(errors, [], "{item}");
    let (out, kept, part) = (normal(&out.to_string()), normal(&tokens(item).to_string()), normal(part));
    let beside = out.strip_prefix(&kept).expect(&out);
    assert!(beside.contains(&part), "no\n  {part}\nin\n  {beside}");
}

#[track_caller]
fn derive_holds(item: &str, part: &str) {
    let (out, errors) = derive(item);
    assert_eq!(errors, [], "{item}");
    let (out, part) = (normal(&out.to_string()), normal(part));
    assert!(out.contains(&part), "no\n  {part}\nin\n  {out}");
}

#[test]
fn the_method_is_called_on_the_local_struct() {
    layer_holds(
        "in = [[Replicate]], out = [Partial(Sum)]",
        r#"#[doc = "block"]
        impl Mlp<Tensor> {
            #[doc = "docs"]
            pub fn forward(&self, x: &Tensor) -> Result<Tensor> { body }
        }"#,
        r#"#[doc = "block"]
        impl Mlp<::local_map::DTensor> {
            #[doc = "docs"]
            #[track_caller]
            pub fn forward(&self, x: &::local_map::DTensor) -> Result<::local_map::DTensor> {
                static __REGION: P::RegionSpec = P::RegionSpec::new(
                    "Mlp::forward",
                    &[P::Param::placed("x", &[P::Want::Replicate])],
                    &[P::Out::Placed(&[P::Want::Partial(P::Op::Sum)])]
                );
                let mut __call = __REGION.call();
                let __layer = __call.layer(self);
                let __input0 = __call.input(0, x);
                __call.ready()?;
                __call.run::<P::Dist, _, _>(|__locals| -> Result<Tensor> {
                    let __layer = __locals.layer(__layer);
                    let x: &Tensor = __locals.take(__input0);
                    #[allow(unused_braces)]
                    { <Mlp<Tensor> >::forward(&__layer, x) }
                })
            }
        }"#,
    );
}

#[test]
fn the_last_tensor_among_the_arguments_is_distributed() {
    layer_holds(
        "out = _",
        "impl<'a, A> m::Two<'a, Tensor, A, Tensor, 3> where A: Clone { fn f(&self) {} }",
        "impl<'a, A> m::Two<'a, Tensor, A, ::local_map::DTensor, 3> where A: Clone {",
    );
}

#[test]
fn patterns_generics_and_contexts_are_passed_on() {
    layer_holds(
        "in = [_, [Shard(0)], _], out = _",
        "impl L<Tensor> {
            unsafe fn f<'a, B, const N: usize>(&'a self, (a, b): (B, B), mut x: Tensor, c: &Region, o: &Self) {}
        }",
        "{ unsafe { <L<Tensor> >::f::<B, N>(&__layer, __arg0, x, c, o) } }",
    );
    layer_holds(
        "out = _",
        "impl L<Tensor> { fn f(&self, o: &Self) {} }",
        "fn f(&self, o: &L<::local_map::DTensor>) ->",
    );
    layer_holds("out = _, in = [_]", "impl L<Tensor> { fn f(&self, o: &Self) {} }", "fn f(&self, o: &L<Tensor>) ->");
    layer_holds(
        "out = _",
        "impl L<Tensor> { fn f(&self, o: [f32; Self::N]) {} }",
        "fn f(&self, o: [f32; <L<Tensor> >::N]) ->",
    );
}

#[test]
fn other_items_may_stand_in_the_block() {
    let item = "impl L<Tensor> { #![allow(unused)] const N: usize = 1; fn f(&self) { 0 = @ } fn g(x: Tensor) {} }";
    layer_holds("out = _", item, "{ <L<Tensor> >::f(&__layer,) }");
}

#[test]
fn other_keys_reach_the_layer() {
    let item = "impl L<Tensor> { fn f(&self, x: &Tensor) -> Result<(Tensor, f32)> { b } }";
    layer_holds(
        "in = [[Shard(0)]], grad = [[Shard(0)]], out = [[Shard(0)], _], mesh = m, reshard, check, crate = k",
        item,
        ".grad(&[P::Grad::Placed(&[P::Want::Shard(0)])]).reshard().check();",
    );
    let (_, errors) = layer("in = [[Shard(0)]]", item);
    assert!(errors[0].0.starts_with("`out` is missing"), "{errors:?}");
}

#[test]
fn conditional_parameters_are_refused() {
    let (_, errors) = layer("out = _", "impl L<Tensor> { fn f(&self, #[cfg(a)] x: &Tensor) {} }");
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].1, "#[cfg(a)]");
}

#[test]
fn wrong_blocks_come_out_as_they_are() {
    for (item, under) in [
        ("impl A for L<Tensor> { fn f(&self) {} }", "for"),
        ("impl L { fn f(&self) {} }", "L"),
        ("impl L<DTensor> { fn f(&self) {} }", "L<DTensor>"),
        ("impl L<Tensor> {}", "impl"),
        ("impl L<Tensor> { fn f(x: Tensor) {} }", "f"),
        ("impl L<Tensor> { fn f(&mut self) {} }", "&mut self"),
        ("impl L<Tensor> { fn f(self: &Self) {} }", "self: &Self"),
        ("pub struct L;", "struct"),
        ("fn f() {}", "fn"),
    ] {
        let (out, errors) = layer("out = _", item);
        assert_eq!(normal(&out.to_string()), normal(&tokens(item).to_string()));
        assert_eq!(errors.len(), 1, "{item}: {errors:?}");
        assert_eq!(errors[0].1, under, "{item}");
    }
}

#[test]
fn a_struct_of_tensors() {
    derive_holds(
        "struct Mlp<T = DTensor> {
            #[place(Replicate, Shard(-1, ragged))] #[grad(Partial, Replicate)] r#up: Option<T>, inner: Block<T>, act: Act
        }",
        r#"const _: () = {
            static __FIELDS: [P::Param; 2usize] = [
                P::Param::placed("up", &[P::Want::Replicate, P::Want::Ragged(-1)])
                    .grad(P::Grad::Placed(&[P::Want::Partial(P::Op::Sum), P::Want::Replicate])),
                P::Param::any("inner")
            ];
            #[automatically_derived]
            impl<> ::local_map::Distribute for Mlp<::local_map::DTensor> where {
                type Local = Mlp<::local_map::candle_core::Tensor>;
                fn hand_over<'__a>(&'__a self, __to: &mut P::HandOver<'_, '__a>, __declared: &'static P::Param) {
                    __to.within(__declared, |__to| {
                        ::local_map::Distribute::hand_over(&self.r#up, __to, &__FIELDS[0usize]);
                        ::local_map::Distribute::hand_over(&self.inner, __to, &__FIELDS[1usize]);
                    });
                }
                fn localize(&self, __next: &mut dyn ::core::ops::FnMut() -> ::local_map::candle_core::Tensor)
                    -> Self::Local {
                    Mlp {
                        r#up: ::local_map::Distribute::localize(&self.r#up, __next),
                        inner: ::local_map::Distribute::localize(&self.inner, __next),
                        act: ::core::clone::Clone::clone(&self.act)
                    }
                }
                fn visit<'__a>(
                    &'__a self,
                    __path: &::core::primitive::str,
                    __each: &mut dyn ::core::ops::FnMut(&::core::primitive::str, &'__a ::local_map::DTensor)
                ) {
                    ::local_map::Distribute::visit(&self.r#up, &P::joined(__path, "up"), __each);
                    ::local_map::Distribute::visit(&self.inner, &P::joined(__path, "inner"), __each);
                }
            }"#,
    );
}

#[test]
fn a_struct_as_a_result() {
    derive_holds(
        "struct Mlp<T = DTensor> { #[place(Replicate)] up: Vec<T>, inner: Option<Block<T>> }",
        r#"#[automatically_derived]
        impl<> P::Distributable for Mlp<::local_map::candle_core::Tensor> where {
            type Distributed = Mlp<::local_map::DTensor>;
            fn label(self, __labels: &mut P::Labels<'_>, __output: ::core::primitive::usize)
                -> ::local_map::Result<Self::Distributed> {
                let Mlp { up: __field0, inner: __field1 } = self;
                ::core::result::Result::Ok(Mlp {
                    up: __labels.field(&__FIELDS[0usize], |__labels| {
                        P::Distributable::label(__field0, __labels, __output)
                    })?,
                    inner: __labels.field(&__FIELDS[1usize], |__labels| {
                        P::Distributable::label(__field1, __labels, __output)
                    })?
                })
            }
            fn absent(__labels: &mut P::Labels<'_>, __output: ::core::primitive::usize)
                -> ::local_map::Result<Self::Distributed> {
                ::core::result::Result::Ok(Mlp {
                    up: __labels.field(&__FIELDS[0usize], |__labels| {
                        <Vec<::local_map::candle_core::Tensor> as P::Distributable>::absent(__labels, __output)
                    })?,
                    inner: __labels.field(&__FIELDS[1usize], |__labels| {
                        <Option<Block<::local_map::candle_core::Tensor> > as P::Distributable>::absent(__labels, __output)
                    })?
                })
            }
            #[allow(unused_variables)]
            fn tensors(self, __into: &mut ::std::vec::Vec<::local_map::candle_core::Tensor>) {
                let Mlp { up: __field0, inner: __field1 } = self;
                P::Distributable::tensors(__field0, __into);
                P::Distributable::tensors(__field1, __into);
            }
        }
        #[automatically_derived]
        impl<> P::Placed for Mlp<::local_map::candle_core::Tensor>
        where for<'__any> Block<::local_map::candle_core::Tensor>: P::Placed {}"#,
    );
    let with_a_plain_field = "struct S<T> { #[place(Replicate)] x: T, #[place(Replicate)] y: Option<T>, act: Act }";
    derive_holds(with_a_plain_field, "{ ::core::result::Result::Err(__labels.no_value_here()) }");
    derive_holds(with_a_plain_field, "::Placed for S<::local_map::candle_core::Tensor> where {}");
    let (unplaced, _) = derive("struct S<T> { #[place(Replicate)] x: T, y: Option<T> }");
    assert!(!unplaced.to_string().contains("Placed"));
}

#[test]
fn generics_of_the_struct() {
    derive_holds(
        "struct S<'a, A: Into<T> = f32, T: Clone = DTensor, const N: usize = 2>(T, A, [&'a u8; N]) where Vec<T>: X<X::T>;",
        "impl<'a, A: Into<::local_map::DTensor>, const N: usize> ::local_map::Distribute
            for S<'a, A, ::local_map::DTensor, N>
        where
            Vec<::local_map::DTensor>: X<X::T>,
            Vec<::local_map::candle_core::Tensor>: X<X::T>,
            A: ::core::clone::Clone,
            A: Into<::local_map::candle_core::Tensor>
        { type Local = S<'a, A, ::local_map::candle_core::Tensor, N>;",
    );
}

#[test]
fn the_crate_of_a_struct() {
    derive_holds("#[local_map(crate = a::b)] struct S<T>(T);", "impl<> a::b::Distribute for S<a::b::DTensor>");
    let (_, errors) = derive("#[local_map(out = _)] struct S<T>(T);");
    assert_eq!(errors[0].1, "#[local_map(out = _)]");
}

#[test]
fn tensors_in_other_types_are_refused() {
    let containers = ["Box<dyn Fn(T)>", "std::collections::HashMap<String, T>", "Vec<Arc<T>>"];
    for ty in ["[T; 2]", "(T, T)", "&'static T", "Option<(T,)>", "Cell<dyn Fn(T)>"].into_iter().chain(containers) {
        let (out, errors) = derive(&format!("struct S<T> {{ x: {ty} }}"));
        match ty.starts_with("Cell") {
            true => assert_eq!(errors, [], "the compiler's to report"),
            false => {
                assert_eq!(errors[0].1, ty);
                assert!(out.is_empty());
            }
        }
    }
}

#[test]
fn placements_on_the_parameters_of_a_method() {
    let block = "impl Mlp<Tensor> { fn forward(&self, #[place(Shard(0))] #[allow(unused)] x: &Tensor) -> Tensor {} }";
    let mut errors = Errors::default();
    let out = crate::layer::expansion(tokens("out = [Shard(0)]"), tokens(block), &mut errors);
    assert_eq!(errors.count(), 0);
    let out = normal(&out.to_string());
    assert!(!out.contains("place("), "{out}");
    assert!(out.contains(&normal(r#"P::Param::placed("x", &[P::Want::Shard(0)])"#)), "{out}");
    assert!(out.contains(&normal("fn forward(&self, #[allow(unused)] x: &Tensor) -> Tensor {}")), "{out}");
}

#[test]
fn placements_on_the_parameters_of_another_function() {
    let block =
        "impl Mlp<Tensor> { fn forward(&self, x: &Tensor) -> Tensor {} fn new(#[place(Shard(0))] x: &Tensor) {} }";
    let mut errors = Errors::default();
    crate::layer::expansion(tokens("out = [Shard(0)]"), tokens(block), &mut errors);
    let errors: Vec<String> = errors.into_error().into_iter().flatten().map(|error| error.to_string()).collect();
    let message =
        "`#[place(..)]` is for the parameters of the method that takes `&self`: this function is called as it is";
    assert_eq!(errors, [message]);
}
