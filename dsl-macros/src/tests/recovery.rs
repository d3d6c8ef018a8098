//! After an error the item still has the signature that callers count on.

use super::{dynamic, normal, run};

#[track_caller]
fn still_has(args: &str, item: &str, signature: &str) {
    let (out, errors) = run(&dynamic(args), item);
    assert!(!errors.is_empty(), "{args}");
    syn::parse2::<crate::function::Function>(out.clone()).map(drop).unwrap();
    let out = normal(&out.to_string());
    assert!(out.contains(&normal(signature)), "{out}");
}

#[test]
fn wrong_lists_count_as_lists() {
    let signature = "(x: &::local_map::DTensor) -> Result<::local_map::DTensor> {";
    for args in ["out = [Srd(0)]", "", "out = 3", "out = [Shard(0)], in = [[Wrong]]", "out", "out = [[Shard(0)], _]"] {
        still_has(args, "fn f(x: &Tensor) -> Result<Tensor> { x }", signature);
    }
}

#[test]
fn wrong_counts_are_guessed_by_type() {
    still_has(
        "out = [Shard(0)], in = [[Shard(0)]]",
        "fn f(x: &Tensor, y: &Tensor, n: u8) -> Result<(Tensor, f32)> {}",
        "(x: &::local_map::DTensor, y: &::local_map::DTensor, n: u8) -> Result<(::local_map::DTensor, f32,)>",
    );
}

#[test]
fn the_body_stays_where_it_can_run() {
    still_has("out = [Srd(0)]", "fn f(x: &Tensor) -> Tensor { body }", "{ body } }) }");
    still_has("out = _", "extern \"C\" fn f(x: &Tensor) { body }", "{ body } }) }");
}

#[test]
fn the_body_goes_where_it_cannot() {
    for qualifier in ["async", "const"] {
        still_has(
            "out = [Replicate]",
            &format!("{qualifier} fn f(x: &Tensor) -> Result<Tensor> {{ body }}"),
            "(x: &::local_map::DTensor) -> Result<::local_map::DTensor> { #![allow(unused_variables)] let _: &Tensor; ::core::panic!() }",
        );
    }
}

#[test]
fn other_items_stay_as_they_were() {
    for item in ["struct S;", "impl S { fn f() {} }", "fn f(x: &Tensor) -> Pair { x }"] {
        let (out, errors) = run("out = [[Shard(0)], _]", item);
        assert_eq!(errors.len(), 1);
        assert_eq!(normal(&out.to_string()), normal(item));
    }
}

#[test]
fn declarations_keep_the_wrapper_signature() {
    let (out, _) = run("out = [Replicate], dynamic", "fn f(&self, x: &Tensor) -> Result<Tensor>;");
    let expected = "#[track_caller] fn f(&self, x: &::local_map::DTensor) -> Result<::local_map::DTensor>;";
    assert_eq!(normal(&out.to_string()), normal(expected));
}
