//! The message for everything that the attribute cannot be read as, and the token that it stands on.

use super::{ONE, PAIR, TWO, refused, run};

#[test]
fn unknown_words() {
    refused("out = [Sharded(0)]", ONE, "Sharded", "unknown placement `Sharded`: did you mean `Shard`?");
    refused("out = [Blob]", ONE, "Blob", "unknown placement `Blob`: known are `Shard`, `Replicate` and `Partial`");
    refused("out = [Partial(sum)]", ONE, "sum", "unknown op `sum`: did you mean `Sum`?");
    refused("out = [Partial(Mean)]", ONE, "Mean", "unknown op `Mean`: did you mean `Avg`?");
    refused("out = _, reshrad", ONE, "reshrad", "unknown key `reshrad`: did you mean `reshard`?");
    refused(
        "out = _, zebra = 1",
        ONE,
        "zebra",
        "unknown key `zebra`: known are `in`, `out`, `grad`, `axes`, `mesh`, `reshard`, `recompute`, `check`, `dynamic` and `crate`",
    );
    refused(
        "out = _, Shard(0)",
        ONE,
        "Shard",
        "`Shard` is a placement: write it in `in` or `out`, as in `out = [Shard(0)]`",
    );
    refused(
        "out = _, 7",
        ONE,
        "7",
        "expected one of `in`, `out`, `grad`, `axes`, `mesh`, `reshard`, `recompute`, `check`, `dynamic` or `crate`",
    );
}

#[test]
fn shard() {
    let needs = "`Shard` needs the tensor dim that it splits: `Shard(0)`, or `Shard(-1)` for the last";
    refused("out = [Shard]", ONE, "Shard", needs);
    refused("out = [Shard()]", ONE, "()", needs);
    refused(
        "out = [Shard(\"a\")]",
        ONE,
        "\"a\"",
        "`Shard` needs the number of a tensor dim, as in `Shard(0)`, not `\"a\"`",
    );
    refused("out = [Shard(1.5)]", ONE, "1.5", "`Shard` needs the number of a tensor dim, as in `Shard(0)`, not `1.5`");
    refused(
        "out = [Shard(x)]",
        ONE,
        "x",
        "`Shard` needs an integer literal, as in `Shard(0)`: `x` has no value when the attribute is read",
    );
    refused("out = [Shard(2usize)]", ONE, "2usize", "write the dim without a suffix: `2`");
    refused(
        "out = [Shard(9223372036854775808)]",
        ONE,
        "9223372036854775808",
        "`9223372036854775808` is no tensor dim: it does not fit in 64 bits",
    );
    refused("out = [Shard(ragged)]", ONE, "ragged", "`ragged` comes after the dim: `Shard(0, ragged)`");
    refused("out = [Shard(0, raged)]", ONE, "raged", "unknown option `raged` of `Shard`: did you mean `ragged`?");
    refused("out = [Shard(0, 1)]", ONE, "1", "after the dim, `Shard` takes only `ragged`: one `Shard` per mesh axis");
    refused(
        "out = [Shard(0, ragged, 2)]",
        ONE,
        "2",
        "`Shard` takes a dim and at most `ragged`: one `Shard` per mesh axis",
    );
    refused("out = [Shard[0]]", ONE, "[0]", "`Shard` takes its argument in parentheses");
    refused("out = [Shard<0>]", ONE, "<", "`Shard<..>` is a type: here the placement is a value, `Shard(..)`");
    refused(
        "out = _, in = [[Shard(0, ragged)]]",
        ONE,
        "ragged",
        "`ragged` is for `out`: an input brings its lengths along, write `Shard(0)`",
    );
}

#[test]
fn other_placements() {
    refused(
        "out = [Replicate(0)]",
        ONE,
        "(0)",
        "`Replicate` takes no argument, as every rank holds the whole value: write it alone",
    );
    refused("out = [Partial()]", ONE, "()", "`Partial()` lacks its op: write `Partial(Sum)`, or `Partial` for short");
    refused("out = [Partial(Sum, Max)]", ONE, "Max", "`Partial` takes one op: one `Partial` per mesh axis");
    refused(
        "out = [Partial(0)]",
        ONE,
        "0",
        "`Partial` takes an op: `Sum`, `Avg`, `Max`, `Min`, `Prod`, `Any` or `All`",
    );
    refused(
        "out = [Placement::Replicate]",
        ONE,
        "Placement",
        "a placement is written by its name alone: `Shard(n)`, `Replicate`, `Partial` or `Partial(op)`",
    );
    refused(
        "out = [\"Shard\"]",
        ONE,
        "\"Shard\"",
        "expected a placement: `Shard(n)`, `Replicate`, `Partial` or `Partial(op)`",
    );
    refused(
        "out = _, in = [[_]]",
        ONE,
        "_",
        "`_` stands for a whole entry: inside a list every mesh axis needs a placement",
    );
    refused("out = [Shard(0) Replicate]", ONE, "Replicate", "expected `,` before `Replicate`");
    refused("out = [Shard(0),, Replicate]", ONE, ",", "nothing stands before this comma");
    refused("out = [,]", ONE, ",", "nothing stands before this comma");
}

#[test]
fn entries() {
    let wanted = "`in` is a list with one entry per parameter, as in `in = [[Shard(0)], _]`";
    refused("out = _, in = _", ONE, "_", wanted);
    refused("out = _, in = Shard(0)", ONE, "Shard", wanted);
    refused(
        "out = _, in = [Shard(0)]",
        ONE,
        "Shard(0)",
        "this placement needs a list of its own, `[Shard(0)]`: `in` has one entry per parameter",
    );
    refused(
        "out = [Shard(0), _]",
        PAIR,
        "Shard(0)",
        "this placement needs a list of its own, `[Shard(0)]`: `out` has one entry per output",
    );
    refused(
        "out = Shard(0)",
        ONE,
        "Shard",
        "`out` is a list with one placement per mesh axis, as in `out = [Shard(0)]`, or `_`",
    );
    refused("out = ([Shard(0)], _)", ONE, "_", "`f` returns 1 value, but `out` has 2 entries: this one is left over");
    refused(
        "out = _, grad = Shard(0)",
        ONE,
        "Shard",
        "`grad` is a list with one entry per parameter, as in `grad = [[Shard(0)], _]`",
    );
    refused(
        "out = _, grad = [Replicate]",
        ONE,
        "Replicate",
        "this placement needs a list of its own, `[Replicate]`: `grad` has one entry per parameter",
    );
    refused("out = [7, _]", PAIR, "7", "expected an entry of `out`: `_`, or a list of placements such as `[Shard(0)]`");
    refused("out = _, in = [[Shard(0)] [Shard(0)]]", ONE, "[Shard(0)]", "expected `,` before `[..]`");
}

#[test]
fn a_mesh_behind_an_entry() {
    let needs = "`on` needs the mesh that the output lives on, as in `[Shard(0)] on mesh`";
    refused("out = [[Shard(0)] on]", ONE, "on", needs);
    refused("out = [Shard(0)] on", ONE, "on", needs);
    refused("out = [[Shard(0)] on, _]", PAIR, "on", needs);
    let plain = "only an entry with placements can live on a mesh, as in `[Shard(0)] on mesh`";
    refused("out = [[Shard(0)], _ on m]", PAIR, "on", plain);
    refused("out = _ on m", ONE, "on", plain);
    refused("out = [] on m", ONE, "on", plain);
    let one = "`on` belongs to one entry: write `[[Shard(0)] on mesh, [Replicate]]`";
    refused("out = [[Shard(0)], _] on m", PAIR, "on", one);
    let input = "`on` is for `out`: the inputs of a region live on its own mesh";
    refused("out = _, in = [[Shard(0)] on m]", ONE, "on", input);
    refused("out = _, in = [[Shard(0)]] on m", ONE, "on", input);
    refused("out = _, in = [[Shard(0)], _ on m]", TWO, "on", input);
    let gradient = "`entry on expr` is not available in `grad`: a gradient lives on the mesh of its parameter";
    refused("out = _, grad = [[Shard(0)] on m]", ONE, "on", gradient);
    refused("out = _, grad = [[Shard(0)]] on f::<A, B>()", ONE, "on", gradient);
    let map = "on another mesh an output is placed by a list, with one placement per axis of that mesh, as in `[Shard(0)] on mesh`";
    refused("out = {dp: Shard(0)} on m, axes = (dp)", ONE, "on", map);
    refused("out = [{dp: Shard(0)} on m], axes = (dp)", ONE, "on", map);
    refused("out = [[Shard(0)] at m]", ONE, "at", "expected `,` before `at`");
    refused("out = [Shard(0)] on m n", ONE, "n", "expected `,` before `n`");
    refused("out = [[Shard(0)] on m n]", ONE, "n", "expected `,` before `n`");
}

#[test]
fn a_misspelt_key_is_reported_once() {
    for (word, meant) in [("ouut", "out"), ("out_placements", "out"), ("outputs", "out")] {
        let message = format!("unknown key `{word}`: did you mean `{meant}`?");
        refused(&format!("{word} = [Shard(0)]"), ONE, word, &message);
        refused(word, ONE, word, &message);
        refused(&format!("out = _, {word} = [Shard(0)]"), ONE, word, &message);
    }
    for word in ["inn", "in_placements"] {
        let message = format!("unknown key `{word}`: did you mean `in`?");
        refused(&format!("{word} = [[Shard(0)]], out = _"), ONE, word, &message);
        refused(&format!("{word}, out = _"), ONE, word, &message);
    }
    let plain = "fn f(mesh: &DeviceMesh) -> Result<Tensor> {}";
    refused("out = [Replicate], mehs = mesh", plain, "mehs", "unknown key `mehs`: did you mean `mesh`?");
    // What is wrong in its value is found as well.
    let (_, errors) = run("ouut = [Blob]", ONE);
    assert_eq!(errors.iter().map(|error| &*error.1).collect::<Vec<_>>(), ["ouut", "Blob"]);
}

#[test]
fn keys() {
    refused("out = _, out = _", ONE, "out", "`out` is given twice");
    refused("out = _, reshard, reshard", ONE, "reshard", "`reshard` is given twice");
    refused("out", ONE, "out", "`out` needs a value, as in `out = [Shard(0)]`");
    refused("out = _, grad", ONE, "grad", "`grad` needs a value, as in `grad = [[Replicate], _]`");
    refused("out = _, grad = [_], grad = [_]", ONE, "grad", "`grad` is given twice");
    refused("out = _, recompute = 1", ONE, "=", "`recompute` is a flag: write it alone, and a comma after it");
    refused("out = _, mesh =", ONE, "mesh", "`mesh` needs a value, as in `mesh = mesh`");
    refused("out = _, crate = \"lm\"", ONE, "\"lm\"", "`crate` takes a path, as in `crate = my::local_map`");
    refused("out = _, check = true", ONE, "=", "`check` is a flag: write it alone, and a comma after it");
    refused("out = [Replicate] reshard", ONE, "reshard", "expected `,` before `reshard`");
    refused("out = _, mesh = a b", ONE, "b", "expected `,` after the mesh");
    refused(
        "",
        ONE,
        "",
        "`out` is missing: say how the result of `f` is placed, as in `out = [Shard(0)]`, or `out = _`",
    );
    let (_, errors) = run("out = _, mesh = +", ONE);
    assert!(errors[0].0.starts_with("`mesh` takes an expression"), "{errors:?}");
}

#[test]
fn commas_forgotten_before_keys() {
    let (_, errors) = run("in = [[Shard(0)]] out = [Shard(0)] reshard", ONE);
    let expected = ["out", "reshard"].map(|key| (format!("expected `,` before `{key}`"), key.to_owned()));
    assert_eq!(errors, expected);
    assert_eq!(run("out = _, mesh = check, in = [_]", ONE).1, [], "a variable may have a key's name");
}
