//! Entries by axis name, `..`, entries by parameter name and on parameters: expansions, messages, and what is not said twice.

use super::{ONE, PAIR, TWO, assert_holds, expand, refused, run};

const XW: &str = "fn f(x: &Tensor, w: &Tensor) -> Result<Tensor> {}";

/// What the entries of a function over one tensor come to.
#[track_caller]
fn comes_to(entry: &str, wants: &str) {
    let args = format!("axes = (dp, tp), in = [{entry}], out = {entry}");
    assert_holds(&args, ONE, &format!(r#"&[P::Param::placed("x", &[{wants}])], &[P::Out::Placed(&[{wants}])]"#));
    assert_holds(&args, ONE, r#".axes(&["dp", "tp"]);"#);
}

#[test]
fn without_rest_names_become_positions() {
    comes_to("{ dp: Shard(0), tp: Shard(1) }", "P::Want::Shard(0), P::Want::Shard(1)");
    comes_to("{ tp: Shard(1), dp: Shard(0), }", "P::Want::Shard(0), P::Want::Shard(1)");
    comes_to("{ tp: Partial }", "P::Want::Replicate, P::Want::Partial(P::Op::Sum)");
    comes_to("{ r#dp: Shard(-1) }", "P::Want::Shard(-1), P::Want::Replicate");
    comes_to("[Shard(0), Shard(0)]", "P::Want::Shard(0), P::Want::Shard(0)");
    assert_holds("axes = (tp), in = [{ tp: Replicate }], out = [Shard(0)]", ONE, r#".axes(&["tp"])"#);
    assert_holds("axes = (tp,), in = [[Replicate]], out = [Shard(0)]", ONE, r#".axes(&["tp"])"#);
    assert_holds(
        "axes = (dp, tp), in = [{ dp: Shard(0) }], grad = [{ tp: Partial }], out = _",
        ONE,
        "P::Grad::Placed(&[P::Want::Replicate, P::Want::Partial(P::Op::Sum)])",
    );
    let out = "axes = (dp, tp), out = [{ tp: Shard(0) }, _]";
    assert_holds(out, PAIR, "&[P::Out::Placed(&[P::Want::Replicate, P::Want::Shard(0)]), P::Out::Plain]");
}

#[test]
fn with_rest_every_list_goes_by_name() {
    assert_holds(
        "axes = (dp, tp), in = [{ tp: Shard(1), .. }, [Replicate, Shard(0)]], out = { tp: Partial }",
        XW,
        r#"&[P::Param::named("x", &[("tp", P::Want::Shard(1))], true),
             P::Param::named("w", &[("dp", P::Want::Replicate), ("tp", P::Want::Shard(0))], false)],
           &[P::Out::Named(&[("dp", P::Want::Replicate), ("tp", P::Want::Partial(P::Op::Sum))], false)]
           ).axes_among(&["dp", "tp"])"#,
    );
    assert_holds(
        "in = [{ .. }], out = { .. }",
        ONE,
        r#"P::Param::named("x", &[], true)], &[P::Out::Named(&[], true)]"#,
    );
    assert_holds(
        "axes = (tp), in = [[Shard(0)]], grad = [{ .. }], out = [Shard(0)]",
        ONE,
        r#"&[P::Out::Named(&[("tp", P::Want::Shard(0))], false)]).grad(&[P::Grad::Named(&[], true)]).axes_among(&["tp"])"#,
    );
}

#[test]
fn by_parameter_name() {
    let named = expand("in = { w: [Shard(0)], x: _ }, grad = { w: [Shard(0)] }, out = [Shard(0)]", XW);
    let listed = expand("in = [_, [Shard(0)]], grad = [_, [Shard(0)]], out = [Shard(0)]", XW);
    assert_eq!(named, listed);
    assert_holds(
        "in = { w: [Shard(0)] }, out = _",
        XW,
        r#"&[P::Param::any("x"), P::Param::placed("w", &[P::Want::Shard(0)])]"#,
    );
    assert_holds("in = { x: [Shard(0)] }, out = _", TWO, r#"fn f(x: &::local_map::DTensor, n: f32)"#);
    let raw = "fn f((r#type): &Tensor, W(w): &Tensor) {}";
    assert_holds("in = { type: [Shard(0)] }, out = _", raw, r#"P::Param::placed("type", &[P::Want::Shard(0)])"#);
    assert_eq!(expand("in = {}, out = _", ONE), expand("out = _", ONE));
}

#[test]
fn on_parameters() {
    let listed = expand("in = [[Shard(0)], _], out = [Shard(0)]", XW);
    let placed = "fn f(#[place(Shard(0))] x: &Tensor, #[place(_)] w: &Tensor) -> Result<Tensor> {}";
    assert_eq!(expand("out = [Shard(0)]", placed), listed);
    let beside = "fn f(#[place(Shard(0))] x: &Tensor, w: &Tensor) -> Result<Tensor> {}";
    assert_eq!(expand("in = { w: _ }, out = [Shard(0)]", beside), listed);
    assert_holds(
        "axes = (tp), out = { tp: Shard(0), .. }",
        "fn f(#[place(tp: Shard(1), ..)] x: &Tensor, ctx: &Region, #[place(Shard(0))] w: &Tensor) -> Result<Tensor> {}",
        r#"&[P::Param::named("x", &[("tp", P::Want::Shard(1))], true), P::Param::named("w", &[("tp", P::Want::Shard(0))], false)]"#,
    );
    assert_holds(
        "axes = (dp, tp), out = _",
        "fn f(#[place(tp: Shard(1))] x: &Tensor) {}",
        "&[P::Want::Replicate, P::Want::Shard(1)]",
    );
}

#[test]
fn dynamic_is_a_flag() {
    let (with, _) = super::run("out = [Shard(0)], dynamic", ONE);
    assert_eq!(super::normal(&with.to_string()), expand("out = [Shard(0)]", ONE));
    refused("out = _, dynamic = 1", ONE, "=", "`dynamic` is a flag: write it alone, and a comma after it");
}

#[test]
fn names_of_axes() {
    let list = "`axes` takes the names of the mesh's axes in parentheses, as in `axes = (dp, tp)`";
    refused("out = _, axes = [dp, tp]", ONE, "[dp, tp]", list);
    refused("out = _, axes = tp", ONE, "tp", list);
    let name = "a mesh axis is written by its name alone, as in `axes = (dp, tp)`";
    refused("out = _, axes = (\"dp\", tp)", ONE, "\"dp\"", name);
    refused("out = _, axes = (dp, 2)", ONE, "2", name);
    refused("out = _, axes = (_)", ONE, "_", name);
    refused("out = _, axes = (dp tp)", ONE, "tp", "expected `,` before `tp`");
    refused("out = _, axes = (dp, tp, dp)", ONE, "dp", "axis `dp` is given twice");
    refused("out = _, axes = (a, b, c, d, e, f)", ONE, "e", "`axes` takes 4 names at most: `e` is one too many");
    refused(
        "out = _, axes = ()",
        ONE,
        "()",
        "`axes` names no axis: name the mesh's axes, as in `axes = (dp, tp)`, or leave `axes` out",
    );
    refused("out = _, axes", ONE, "axes", "`axes` needs a value, as in `axes = (dp, tp)`");
    refused("out = _, axis = (dp)", ONE, "axis", "unknown key `axis`: did you mean `axes`?");
    // What the lists say of them is then not held against them.
    for axes in ["axes = (dp, dp)", "axes = tp", "axis", "axes"] {
        assert_eq!(
            run(&format!("{axes}, in = [{{ xx: Shard(0), .. }}], out = {{ yy: Shard(0) }}"), ONE).1.len(),
            1,
            "{axes}"
        );
    }
}

#[test]
fn placements_by_axis_name() {
    let braces = "placements by axis name, and `..`, stand in braces, as in `{ dp: Shard(0), .. }`: brackets hold one placement \
                  per mesh axis";
    refused("axes = (dp, tp), out = [dp: Shard(0), tp: Shrad(1)]", ONE, "dp", braces);
    refused("axes = (dp, tp), out = _, in = [[Replicate, dp: Shard(0)]]", ONE, "dp", braces);
    refused("axes = (tp), out = _, in = [[Shard(0), ..]]", ONE, "..", braces);
    let needs = "in braces every placement has the name of its axis, as in `{ dp: Shard(0) }`: brackets hold one placement per \
                 mesh axis, in order";
    refused("axes = (tp), out = { Shard(0) }", ONE, "Shard(0)", needs);
    refused("axes = (tp), out = { tp::Shard(0) }", ONE, "tp::Shard(0)", needs);
    refused("axes = (tp), out = { tp: }", ONE, "tp", "axis `tp` needs a placement, as in `tp: Shard(0)`");
    refused("axes = (tp), out = { tp: Shard(0), r#tp: Replicate }", ONE, "r#tp", "axis `tp` is given twice");
    refused("axes = (tp), out = { tp: Shrad(0) }", ONE, "Shrad", "unknown placement `Shrad`: did you mean `Shard`?");
    refused("axes = (tp), out = { tp: Shard(0) Replicate }", ONE, "Replicate", "expected `,` before `Replicate`");
    let last = "`..` comes last, and once: it stands for all other axes";
    refused("axes = (tp), in = [{ .., tp: Shard(0) }], out = _", ONE, "..", last);
    refused("axes = (tp), in = [{ tp: Shard(0), .., .. }], out = _", ONE, "..", last);
    refused("axes = (tp), in = [{ tp: Shard(0), ..x }], out = _", ONE, "x", "expected `,` before `x`");
    let empty = "empty braces place nothing: write the axes' placements, as in `{ dp: Shard(0) }`, or `_`";
    refused("axes = (tp), out = {}", ONE, "{}", empty);
    refused("out = _, in = [{}]", ONE, "{}", empty);
}

#[test]
fn axes_that_the_attribute_does_not_know() {
    refused("axes = (dp, tp), out = { pt: Shard(0) }", ONE, "pt", "`axes` has no axis `pt`: did you mean `tp`?");
    refused(
        "axes = (dp, tp), out = { model: Shard(0) }",
        ONE,
        "model",
        "`axes` has no axis `model`: known are `dp` and `tp`",
    );
    let needs = |axes: &str| {
        format!(
            "`dp` names a mesh axis, but the attribute does not say which axes the mesh has: add `axes = ({axes})`, in the \
             mesh's order"
        )
    };
    refused("in = [{ dp: Shard(0), tp: Replicate }], out = { tp: Shard(0) }", ONE, "dp", &needs("dp, tp"));
    refused("out = [Shard(0)]", "fn f(#[place(dp: Shard(0), ..)] x: &Tensor) -> Tensor {}", "dp", &needs("dp"));
    refused(
        "in = [{ .. }], out = [Shard(0)]",
        ONE,
        "[Shard(0)]",
        "with `..` in the attribute nothing says which axes this list is for: add `axes = (..)` with their names, in the list's \
         order",
    );
    refused(
        "axes = (dp, tp), out = [Shard(0)]",
        ONE,
        "[Shard(0)]",
        "this list has 1 placement, but `axes` names 2 axes: every list in brackets needs one per axis",
    );
    refused(
        "axes = (tp), in = [{ .. }], out = [Shard(0), Replicate]",
        ONE,
        "[Shard(0), Replicate]",
        "this list has 2 placements, but `axes` names 1 axis: every list in brackets needs one per axis",
    );
}

#[test]
fn what_rest_stands_for_in_out() {
    refused(
        "axes = (tp), in = [{ tp: Shard(0) }], out = { tp: Shard(0), .. }",
        ONE,
        ".",
        "`..` in `out` places the other axes as the arguments whose entry has `..`, but none has: write `..` in an entry of `in`, \
         too",
    );
    refused(
        "axes = (tp), out = { tp: Shard(0), .. }",
        ONE,
        ".",
        "`..` in `out` places the other axes as the arguments whose entry has `..`, but there are no entries: add `in = [..]`",
    );
    refused(
        "axes = (dp, tp), in = [{ dp: Shard(0), .. }], out = { tp: Shard(0), .. }",
        ONE,
        ".",
        "`..` leaves `dp` open here, but every entry of `in` with `..` names it: write how `dp` is placed",
    );
    // Not where it is unknown what was meant for the inputs.
    assert_eq!(run("axes = (tp), in = [7], out = { .. }", ONE).1.len(), 1);
}

#[test]
fn names_of_parameters() {
    refused("in = { q: [Shard(0)] }, out = _", XW, "q", "`f` has no parameter `q`: known are `x` and `w`");
    let long = "fn f(input: &Tensor) {}";
    refused(
        "in = { inptu: [Shard(0)] }, out = _",
        long,
        "inptu",
        "`f` has no parameter `inptu`: did you mean `input`?",
    );
    refused(
        "grad = { inptu: [Shard(0)] }, out = _",
        long,
        "inptu",
        "`f` has no parameter `inptu`: did you mean `input`?",
    );
    refused("in = { q: [Shard(0)] }, out = _", "fn f(W(w): &Tensor) {}", "q", "`f` has no parameter `q`");
    refused("in = { x: [Shard(0)], x: _ }, out = _", XW, "x", "`x` is given twice in `in`");
    let method = "fn f(&self, x: &Tensor, ctx: &Region) {}";
    refused("in = { self: _ }, out = _", method, "self", "`self` takes no entry: remove it from `in`");
    refused(
        "in = { ctx: _ }, out = _",
        method,
        "ctx",
        "`ctx` is the context, which takes no entry: remove it from `in`",
    );
    refused(
        "in = { x: [Shard(0)], n: [Shard(0)] }, out = _",
        TWO,
        "[Shard(0)]",
        "parameter `n` of type `f32` cannot be distributed: only a `Tensor` has placements, write `_`",
    );
    refused(
        "in = { n: _ }, grad = { n: [Shard(0)] }, out = _",
        TWO,
        "[Shard(0)]",
        "parameter `n` is `_` in `in`, so its gradient has no placements: write `_`",
    );
    refused(
        "axes = (tp), in = { tp: [Shard(0)] }, out = _",
        ONE,
        "tp",
        "`tp` is a mesh axis, but braces behind `in =` hold the names of parameters: write one entry per parameter, as in \
         `in = [{ tp: Shard(0) }]`",
    );
    refused(
        "axes = (tp), in = { tp: Shard(0) }, out = _",
        ONE,
        "Shard(0)",
        "this placement needs a list of its own, `tp: [Shard(0)]` for a parameter `tp`: by axis name, write \
         `in = [{ tp: Shard(0) }]`",
    );
    refused("in = { x: }, out = _", ONE, "x", "`x` needs an entry, as in `x: [Shard(0)]`");
    refused(
        "in = { x: [Shard(0)], .. }, out = _",
        XW,
        "..",
        "`..` is for axes: parameters that are not named here take any placements",
    );
    refused(
        "in = { [Shard(0)] }, out = _",
        ONE,
        "[Shard(0)]",
        "in the braces of `in` every entry has the name of its parameter, as in `in = { x: [Shard(0)] }`",
    );
    refused(
        "in = [x: [Shard(0)], w: _], out = _",
        XW,
        "x",
        "entries by parameter name stand in braces, as in `in = { x: [Shard(0)] }`",
    );
    refused(
        "axes = (dp, tp), in = [dp: Shard(0), tp: Shard(1)], out = _",
        ONE,
        "dp",
        "placements by axis name stand in braces of their own, one for each parameter: `in = [{ dp: Shard(0) }]`",
    );
}

#[test]
fn misuse_on_parameters() {
    let twice = "the entry of `x` is given twice: here, and in `in`; keep one of the two";
    let item = "fn f(#[place(Shard(0))] x: &Tensor) -> Tensor {}";
    refused("in = [[Shard(0)]], out = _", item, "place", twice);
    refused("in = { x: _ }, out = _", item, "place", twice);
    refused(
        "out = _",
        "fn f(#[place(Shard(0))] #[place(_)] x: &Tensor) {}",
        "place",
        "`#[place(..)]` is given twice for `x`",
    );
    refused(
        "out = _",
        "fn f(x: &Tensor, #[place(Shard(0))] ctx: &Region) {}",
        "place",
        "the context has no placements, as the wrapper supplies it: remove `#[place(..)]`",
    );
    let bare = "`#[place(..)]` takes one placement per mesh axis, as in `#[place(Shard(0))]`, or `_`";
    refused("out = _", "fn f(#[place] x: &Tensor) {}", "place", bare);
    refused("out = _", "fn f(#[place()] x: &Tensor) {}", "()", bare);
    refused(
        "out = _",
        "fn f(#[place([Shard(0)])] x: &Tensor) {}",
        "[Shard(0)]",
        "the parentheses are the list: write the placements alone, as in `#[place(Shard(0))]`",
    );
    refused(
        "out = [Replicate]",
        "fn f(#[place(Shard(0), Replicate)] x: &Tensor) -> Tensor {}",
        "[Replicate]",
        "this list has 1 placement, but the other has 2: every list needs one per mesh axis",
    );
    refused(
        "out = _",
        "fn f(#[place(Shard(0))] n: f32, x: &Tensor) {}",
        "(Shard(0))",
        "parameter `n` of type `f32` cannot be distributed: only a `Tensor` has placements, write `_`",
    );
}

#[test]
fn rest_that_is_wrong_is_reported_once() {
    let none = "`..` in `out` places the other axes as the arguments whose entry has `..`, but none has: write `..` in an entry of \
                `in`, too";
    refused("in = [[Replicate]], out = {..}", ONE, ".", none);
    let braces = "placements by axis name, and `..`, stand in braces, as in `{ dp: Shard(0), .. }`: brackets hold one placement \
                  per mesh axis";
    refused("in = [[..]], out = [Shard(0)]", ONE, "..", braces);
    refused("in = [[..]], out = {..}", ONE, "..", braces);
}
