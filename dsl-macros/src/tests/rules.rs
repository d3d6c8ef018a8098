//! The message of every rule, and the token that it stands on.

use super::{ONE, PAIR, TWO, refused, run};

#[test]
fn lists_against_each_other() {
    refused(
        "out = [Partial(Max), Shard(0), Partial(Sum)]",
        ONE,
        "Sum",
        "`Partial(Sum)` cannot stand beside `Partial(Max)`: which axis is reduced first would change the value; \
         use one op, or `Sum` and `Avg`",
    );
    refused(
        "out = [Replicate], in = [[Shard(0), Replicate]]",
        ONE,
        "[Replicate]",
        "this list has 1 placement, but the other has 2: every list needs one per mesh axis",
    );
    refused(
        "out = [Replicate], in = [[Shard(0), Replicate], [Shard(1)], [Partial]]",
        "fn f(x: &Tensor, y: &Tensor, z: &Tensor) -> Result<Tensor> {}",
        "[Shard(0), Replicate]",
        "this list has 2 placements, but every other has 1: every list needs one per mesh axis",
    );
    refused("out = _, in = [[]]", ONE, "[]", "an empty list places nothing: write one placement per mesh axis, or `_`");
}

#[test]
fn counts_of_inputs() {
    refused(
        "out = [Replicate], in = [[Shard(0)]]",
        TWO,
        "[[Shard(0)]]",
        "`f` has 2 parameters, but `in` has 1 entry: `n` has none; write `_` for a parameter that is not distributed",
    );
    refused(
        "out = [Replicate], in = []",
        TWO,
        "[]",
        "`f` has 2 parameters, but `in` has 0 entries: `x` and `n` have none; write `_` for a parameter that is not distributed",
    );
    refused(
        "out = [Replicate], in = [_, [Shard(0)], _]",
        "fn f(&self, x: &Tensor) -> Result<Tensor> {}",
        "[Shard(0)]",
        "`f` has 1 parameter beside `self`, but `in` has 3 entries: this one is left over",
    );
}

#[test]
fn types_of_inputs() {
    refused(
        "out = [Replicate], in = [[Shard(0)], [Shard(0)]]",
        TWO,
        "[Shard(0)]",
        "parameter `n` of type `f32` cannot be distributed: only a `Tensor` has placements, write `_`",
    );
    refused(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: &Vec<Tensor>) {}",
        "[Shard(0)]",
        "parameter `x` of type `&Vec<Tensor>` cannot be distributed: take `&[Tensor]`",
    );
    refused(
        "out = _",
        "fn f(x: &Vec<Tensor>) {}",
        "&Vec<Tensor>",
        "parameter `x` of type `&Vec<Tensor>` cannot be distributed: take `&[Tensor]`, or give it `_` in `in`",
    );
    refused(
        "out = _",
        "fn f(x: Option<&Vec<Tensor>>) {}",
        "Option<&Vec<Tensor>>",
        "parameter `x` of type `Option<&Vec<Tensor>>` cannot be distributed: take `&[Tensor]`, or give it `_` in `in`",
    );
    for ty in ["Vec<&Tensor>", "&[&Tensor]", "&[Tensor; 2]", "Vec<Option<Tensor>>"] {
        let message = format!("parameter `x` of type `{ty}` cannot be distributed: take `&[Tensor]`");
        let item = format!("fn f(x: {ty}) {{}}");
        refused("out = _, in = [[Shard(0)]]", &item, "[Shard(0)]", &message);
    }
    refused(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: &Option<Tensor>) {}",
        "[Shard(0)]",
        "parameter `x` of type `&Option<Tensor>` cannot be distributed: take `Option<&Tensor>`",
    );
    refused(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: Box<Tensor>) {}",
        "[Shard(0)]",
        "parameter `x` of type `Box<Tensor>` cannot be distributed: only `Tensor`, `&Tensor`, structs of them that \
         derive `Distribute`, and `Option`, `Vec`, slices and arrays of these have placements, write `_`",
    );
    refused(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: &mut Tensor) {}",
        "[Shard(0)]",
        "parameter `x` of type `&mut Tensor` cannot be distributed: a body must not write its inputs, \
         take `&Tensor` and return the new value",
    );
    refused(
        "out = _, in = [[Shard(0)]]",
        "fn f(x: (Tensor, f32)) {}",
        "[Shard(0)]",
        "`x` of type `(Tensor, f32)` is a tuple: write one entry per element, as in `([Shard(0)], _)`",
    );
}

#[test]
fn counts_of_outputs() {
    refused(
        "out = [[Replicate]]",
        PAIR,
        "[[Replicate]]",
        "`f` returns 2 values, but `out` has 1 entry: `f32` has none; write `_` for a plain value",
    );
    refused(
        "out = [[Replicate], _, _]",
        PAIR,
        "_",
        "`f` returns 2 values, but `out` has 3 entries: this one is left over",
    );
    refused("out = [[Replicate], _]", ONE, "_", "`f` returns 1 value, but `out` has 2 entries: this one is left over");
    refused(
        "out = [Shard(0), Replicate]",
        PAIR,
        "[Shard(0), Replicate]",
        "`f` returns 2 values, but `out` has 1 entry: write one list per value, as in `[[Shard(0)], _]`",
    );
    refused(
        "out = [Shard(0)]",
        PAIR,
        "[Shard(0)]",
        "`f` returns 2 values, but `out` has 1 entry: write `_` for a plain value",
    );
    refused(
        "out = [[Replicate], [Replicate]]",
        "fn f(x: &Tensor) -> Pair {}",
        "Pair",
        "`out` has 2 entries, but `Pair` hides the values that it stands for: write the tuple out, \
         as in `Result<(Tensor, Tensor)>`",
    );
}

#[test]
fn types_of_outputs() {
    let nothing = "`f` returns no value to label: write `out = _`";
    refused("out = [Replicate]", "fn f(x: &Tensor) {}", "[Replicate]", nothing);
    refused("out = [_]", "fn f(x: &Tensor) -> Result<()> {}", "[_]", nothing);
    refused(
        "out = [[Replicate], [Shard(0)]]",
        PAIR,
        "[Shard(0)]",
        "an output of type `f32` cannot be labelled: it shows no `Tensor`, write `_`",
    );
    refused(
        "out = [Replicate]",
        "fn f(x: &Tensor) -> Result<&Tensor> {}",
        "[Replicate]",
        "an output of type `&Tensor` cannot be labelled: return an owned `Tensor`",
    );
    refused(
        "out = [[Replicate], _]",
        "fn f(x: &Tensor) -> ((Tensor, u8), u8) {}",
        "[Replicate]",
        "an output of type `(Tensor, u8)` is a tuple: write one entry per element, as in `([Shard(0)], _)`",
    );
}

#[test]
fn the_number_of_outputs() {
    let item = |count: usize| format!("fn f(x: &Tensor) -> ({}) {{}}", "Tensor,".repeat(count));
    for out in ["out = _".to_owned(), format!("out = [{}]", "[Replicate],".repeat(9))] {
        let (_, errors) = run(&out, &item(9));
        assert_eq!(errors.len(), 1);
        assert_eq!(
            errors[0].0,
            "`f` returns 9 values, but a region can return 8: return those that are placed alike as a `Vec<Tensor>`"
        );
    }
    assert_eq!(run("out = _", &item(8)).1, []);
}

#[test]
fn mesh_is_needed() {
    let message = "no parameter of `f` is distributed, so nothing gives the mesh of this output: \
                   add `mesh = ..`, as in `mesh = mesh` for a parameter `mesh: &DeviceMesh`";
    refused("out = [Shard(0)]", "fn f(n: usize) -> Tensor {}", "[Shard(0)]", message);
    refused("out = [_, [Replicate]], in = [_]", "fn f(x: &Tensor) -> (u8, Tensor) {}", "[Replicate]", message);
    refused(
        "out = _",
        "fn f(n: usize) {}",
        "f",
        "no parameter of `f` is distributed, so nothing gives the mesh of `f`: \
         add `mesh = ..`, as in `mesh = mesh` for a parameter `mesh: &DeviceMesh`",
    );
    // Not where it is unknown what was meant.
    assert_eq!(run("out = [Shard(0)], in = [[Shard(0)]]", "fn f(n: u8) -> Tensor {}").1.len(), 1);
}

#[test]
fn functions_that_cannot_be_regions() {
    let refusals = [
        ("async fn f() {}", "async", "an `async` function cannot be a region: "),
        ("const fn f() {}", "const", "a `const` function cannot be a region: "),
        ("extern \"C\" fn f() {}", "extern", "an `extern` function cannot be a region: "),
        ("unsafe fn f(x: u8, ...) {}", "...", "a variadic function cannot be a region: "),
        ("fn f();", "f", "a region needs a body: "),
        ("pub struct S;", "struct", "`#[local_map]` goes on a function"),
        ("/// docs\nimpl S {}", "impl", "`#[local_map]` goes on a function: put it on the methods inside"),
        ("unsafe trait T {}", "unsafe", "`#[local_map]` goes on a function"),
        ("type F = fn();", "type", "`#[local_map]` goes on a function"),
    ];
    for (item, under, start) in refusals {
        let (_, errors) = run("out = _", item);
        assert_eq!(errors.len(), 1, "{item}: {errors:?}");
        assert!(errors[0].0.starts_with(start), "{errors:?}");
        assert_eq!(errors[0].1, under, "{item}");
    }
}

#[test]
fn many_mistakes_are_reported_at_once() {
    let (_, errors) = run(
        "in = [[Sard(0)], [Shard(x)], [Replicate]], reshrd, mesh =, out = [Replicate(1), Partial(Mxa)], grad = [_, 1]",
        "async fn f(x: &Tensor, y: &Tensor, n: f32) -> Result<Tensor> {}",
    );
    let under: Vec<&str> = errors.iter().map(|(_, under)| under.as_str()).collect();
    let expected = [
        "Sard",
        "x",
        "reshrd",
        "mesh",
        "(1)",
        "Mxa",
        "1",
        "async",
        "[Replicate]",
        "[_, 1]",
        "[Replicate(1), Partial(Mxa)]",
    ];
    assert_eq!(under, expected, "{errors:#?}");
}

#[test]
fn gradients() {
    let no_placements = "so its gradient has no placements: write `_`";
    refused(
        "out = [Replicate], grad = [_, [Shard(0)]]",
        TWO,
        "[Shard(0)]",
        &format!("parameter `n` is not distributed, {no_placements}"),
    );
    refused(
        "out = [Replicate], in = [[Replicate], _], grad = [_, [Shard(0)]]",
        "fn f(x: &Tensor, y: &Tensor) -> Result<Tensor> {}",
        "[Shard(0)]",
        &format!("parameter `y` is `_` in `in`, {no_placements}"),
    );
    refused(
        "out = [Replicate], grad = [[Replicate]]",
        TWO,
        "[[Replicate]]",
        "`f` has 2 parameters, but `grad` has 1 entry: `n` has none; write `_` for the default",
    );
    refused(
        "out = [Replicate], grad = [_, _]",
        "fn f(&self, ctx: &Region, x: &Tensor) -> Result<Tensor> {}",
        "_",
        "`f` has 1 parameter beside `self` and `ctx`, but `grad` has 2 entries: this one is left over",
    );
    refused(
        "out = [Replicate], grad = [[Partial(Max)]]",
        ONE,
        "Max",
        "the ranks' parts of a gradient add up, `Partial(Max)` would not: write `Partial(Sum)`",
    );
    refused(
        "out = [Shard(0)], grad = [[Shard(0, ragged)]]",
        ONE,
        "ragged",
        "`ragged` is for `out`: a gradient is as long as its parameter, write `Shard(0)`",
    );
    refused(
        "out = [Shard(0)], grad = [[Shard(0), Replicate]]",
        ONE,
        "[Shard(0), Replicate]",
        "this list has 2 placements, but the other has 1: every list needs one per mesh axis",
    );
    refused(
        "out = _, grad = [[]]",
        ONE,
        "[]",
        "an empty list places nothing: write one placement per mesh axis, or `_`",
    );
    // Not where it is unknown what is distributed.
    assert_eq!(run("out = _, in = [[Replicate], [Replicate]], grad = [_, [Replicate]]", TWO).1.len(), 1);
}

#[test]
fn contexts() {
    for ty in ["Region", "&mut Region", "local_map::Region"] {
        let item = format!("fn f(x: &Tensor, ctx: {ty}) -> Result<Tensor> {{}}");
        let message = format!("the context is lent to the body, it cannot take `ctx` as `{ty}`: write `&Region`");
        let (_, errors) = run("out = [Replicate]", &item);
        assert_eq!(errors[0].0, message);
        assert_eq!(errors.len(), 1, "{errors:?}");
    }
    refused(
        "out = _",
        "fn f(x: &Tensor, ctx: &Region, again: &local_map::Region) {}",
        "&local_map::Region",
        "a region has one context, which is `ctx`: use it instead of `again`",
    );
    refused(
        "out = _, in = [[Replicate], _]",
        "fn f(x: &Tensor, ctx: &Region) {}",
        "_",
        "`f` has 1 parameter beside `ctx`, but `in` has 2 entries: this one is left over",
    );
    refused(
        "out = [Replicate]",
        "fn f(ctx: &Region) -> Tensor {}",
        "[Replicate]",
        "no parameter of `f` is distributed, so nothing gives the mesh of this output: \
         add `mesh = ..`, as in `mesh = mesh` for a parameter `mesh: &DeviceMesh`",
    );
}

#[test]
fn what_cannot_run_again() {
    let gone = "with `recompute` the body runs again in backward, when what `y` borrows may be gone: ";
    let by_value = format!("{gone}take it by value, as an `Arc` or another type that is `Clone`");
    let types = [
        "&Linear",
        "&str",
        "&'a str",
        "&mut f32",
        "Option<&Linear>",
        "(u8, &Linear)",
        "&[Linear]",
        "Cow<'a, str>",
        "Cow<'_, str>",
    ];
    for ty in types {
        let item = format!("fn f<'a>(x: &Tensor, y: {ty}) -> Result<Tensor> {{}}");
        refused("out = [Replicate], recompute", &item, ty, &by_value);
    }
    for ty in ["&Tensor", "&mut Tensor"] {
        let item = format!("fn f(x: &Tensor, y: {ty}) -> Result<Tensor> {{}}");
        let message = format!("{gone}take `Tensor`, which is cheap to clone");
        refused("out = [Replicate], in = [[Replicate], _], recompute", &item, ty, &message);
    }
    for receiver in ["&mut self", "&'a mut self", "self: &mut Self"] {
        refused(
            "out = [Replicate], recompute",
            &format!("fn f<'a>({receiver}, x: &Tensor) -> Result<Tensor> {{}}"),
            receiver,
            "with `recompute` the body runs again in backward, on a clone of `self`, so that it must not write it: write \
             `&self`",
        );
    }
    refused(
        "out = [Replicate], recompute",
        "fn f(&self, #[cfg(a)] x: &Tensor) -> Result<Tensor> {}",
        "#[cfg(a)]",
        "`#[cfg]` on a parameter is not available in a method with `recompute`: put it on the method, and write the method \
         twice",
    );
    for ty in ["Option<&Mlp<Tensor>>", "Option<&[Mlp<Tensor>]>"] {
        let message = "with `recompute` the body runs again in backward, when what `y` borrows may be gone: take an `Option` \
                       of the struct itself";
        refused("out = [Replicate], recompute", &format!("fn f(y: {ty}) -> Result<Tensor> {{}}"), ty, message);
    }
    for ty in ["impl Iterator<Item = u8>", "Result<impl Copy>"] {
        let message = format!(
            "with `recompute` the body runs again in backward, so its result needs a type with a name, `{ty}` has none"
        );
        refused("out = _, recompute", &format!("fn f(x: &Tensor) -> {ty} {{}}"), ty, &message);
    }
    // Not where it is unknown what is distributed.
    assert_eq!(run("out = _, in = [[Replicate]], recompute", "fn f(x: &Tensor, y: &str) {}").1.len(), 1);
}
