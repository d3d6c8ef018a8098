//! Uses of the macros that a sequence of bytes stands for: some right, most nearly so. The folder `fuzz` has them, too.

use crate::expansion;
use proc_macro2::TokenStream;

/// What is given to a macro, as text.
#[derive(Debug)]
pub(crate) enum Use {
    /// `#[local_map(args)] item`
    Function { args: String, item: String },
    /// `#[local_layer(args)] item`
    Layer { args: String, item: String },
    /// `#[derive(Distribute)] item`
    Struct { item: String },
}

impl Use {
    /// The use that the bytes choose.
    pub(crate) fn of(bytes: &[u8]) -> Use {
        let choices = &mut Choices(bytes.iter());
        match choices.below(8) {
            0 => Use::Layer { args: args(choices), item: block(choices) },
            1 => Use::Struct { item: layer(choices) },
            2 => Use::Function { args: "out = _".to_owned(), item: item(choices) },
            _ => Use::Function { args: args(choices), item: function(choices) },
        }
    }

    /// Expands the use, if its text consists of tokens: no panic, and what comes out is an item wherever one went in.
    pub(crate) fn survives(&self) {
        let parsed = |text: &str| text.parse::<TokenStream>();
        let out = match self {
            Use::Function { args, item } => parsed(args).and_then(|args| Ok(expansion::local_map(args, parsed(item)?))),
            Use::Layer { args, item } => parsed(args).and_then(|args| Ok(expansion::local_layer(args, parsed(item)?))),
            Use::Struct { item } => parsed(item).map(expansion::derive),
        };
        let (Use::Function { item, .. } | Use::Layer { item, .. } | Use::Struct { item }) = self;
        if let Ok(out) = out {
            let is_rust = syn::parse2::<syn::File>(out.clone()).is_ok();
            assert!(is_rust || syn::parse_str::<syn::File>(item).is_err(), "{self:#?}\n{out}");
        }
    }
}

/// Choices that bytes make; always the first one when they have ended.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.0.next().copied().unwrap_or(0)) % limit
    }

    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }
}

fn args(choices: &mut Choices) -> String {
    match choices.below(3) {
        0 => attribute(choices, 3),
        1 => likely_attribute(choices),
        _ => entries_by_axis(choices),
    }
}

/// What need not be a function at all.
fn item(choices: &mut Choices) -> String {
    let first = choices.of(&["", "fn", "pub fn f", "const", "async fn f()", "#[a]"]);
    format!("{first} {}", attribute(choices, 2))
}

fn block(choices: &mut Choices) -> String {
    let of = choices.of(&[
        "impl S<Tensor>",
        "impl<T> S<T, Tensor> where T: Copy",
        "impl S",
        "impl Tr for S<Tensor>",
        "mod m",
    ]);
    format!(
        "{of} {{ {} {} }}",
        function(choices),
        choices.of(&["", "fn g() {}", "const N: u8 = 1;", "#[a] fn h(&self) {}"])
    )
}

fn layer(choices: &mut Choices) -> String {
    let kind = choices.of(&[
        "struct S<T = DTensor>",
        "struct S<'a, const N: usize, T>",
        "struct S",
        "enum S<T>",
        "pub union S<T>",
    ]);
    let fields: Vec<String> =
        (0..choices.below(4)).map(|at| format!("{} f{at}: {}", field(choices), choices.of(&FIELDS))).collect();
    format!("{kind} {{ {} }}", fields.join(", "))
}

fn field(choices: &mut Choices) -> String {
    match choices.below(4) {
        0 => String::new(),
        1 => format!("#[grad({})]", attribute(choices, 1)),
        _ => format!("#[place({})]", entry(choices).trim_matches(|c| "[]{}".contains(c))),
    }
}

const FIELDS: [&str; 9] =
    ["T", "Option<T>", "Vec<T>", "Mlp<T>", "[T; 2]", "(T, u8)", "&'a T", "f64", "Vec<Option<Mlp<T>>>"];
const WORDS: [&str; 67] = [
    "{..}",
    "..",
    "c\"x\"",
    "b\"x\"",
    "'c'",
    "1e999",
    "0x10",
    "1_0i64",
    "1f32",
    "true",
    "in",
    "out",
    "mesh",
    "crate",
    "reshard",
    "check",
    "recompute",
    "grad",
    "axes",
    "axes = (dp, tp),",
    "dynamic",
    "..",
    "..",
    "dp:",
    "tp:",
    "p0:",
    "dp",
    "=",
    "=",
    "=",
    ",",
    ",",
    ",",
    ",",
    "_",
    "Shard",
    "Shard",
    "Replicate",
    "Partial",
    "Sum",
    "Max",
    "Avg",
    "ragged",
    "0",
    "1",
    "-",
    "-1",
    "2.5",
    "\"a\"",
    "on",
    "x",
    "Placement",
    "::",
    "<",
    ">",
    "on",
    ".",
    "&",
    "'a",
    "#",
    "!",
    "r#in",
    "self",
    "fn",
    "99999999999999999999",
    "|",
    "?",
];
const TYPES: [&str; 22] = [
    "&Mlp<Tensor>",
    "Vec<m::Mlp<f32, Tensor>>",
    "Option<&[Mlp<Tensor>]>",
    "[&Mlp<Tensor>; 2]",
    "Tensor",
    "&Tensor",
    "&mut Tensor",
    "Vec<Tensor>",
    "&Vec<Tensor>",
    "(Tensor, f32)",
    "(&Tensor, (Tensor, u8))",
    "((),)",
    "Option<&Tensor>",
    "f32",
    "&[Tensor]",
    "[Tensor; 2]",
    "impl Fn()",
    "()",
    "&Region",
    "Region",
    "&'static str",
    "Vec<f32>",
];
const RESULTS: [&str; 12] = [
    "-> Result<Mlp<Tensor>>",
    "-> Result<(Mlp<Tensor>, Tensor)>",
    "",
    "-> Tensor",
    "-> Result<Tensor>",
    "-> Result<(Tensor, f32)>",
    "-> Result<((Tensor, u8), Tensor)>",
    "-> (Tensor,)",
    "-> Loss",
    "-> Result",
    "-> ()",
    "-> Result<impl Copy, E>",
];
const QUALIFIERS: [&str; 7] = ["", "", "pub", "async", "const", "unsafe", "extern \"C\""];

fn attribute(choices: &mut Choices, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..choices.below(8) {
        let (open, close) = [("(", ")"), ("[", "]"), ("{", "}")][choices.below(3)];
        match choices.below(4) {
            0 if depth > 0 => text.push_str(&format!("{open}{}{close} ", attribute(choices, depth - 1))),
            1 if depth > 0 => text.push_str(&format!("[Shard(0), {}] ", attribute(choices, depth - 1))),
            _ => text.push_str(&format!("{} ", choices.of(&WORDS))),
        }
    }
    text
}

fn likely_attribute(choices: &mut Choices) -> String {
    let (first, second) = (attribute(choices, 2), attribute(choices, 3));
    let recompute = choices.of(&["", "recompute,"]);
    format!("in = [[{first}]], out = [{second}], grad = [[{first}], _], {recompute} {}", attribute(choices, 1))
}

/// An entry that is mostly right.
fn entry(choices: &mut Choices) -> String {
    let [first, second] = [(); 2].map(|()| choices.of(&["Shard(0)", "Replicate", "Partial", "Partial(Max)", "Shard"]));
    let rest = choices.of(&["", "", "..", ".., ", "..,..", "..x"]);
    let [dp, tp] = [(); 2].map(|()| choices.of(&["dp", "tp", "tp", "r#tp", "pp"]));
    match choices.below(8) {
        0 => "_".to_owned(),
        7 if choices.below(2) == 0 => format!("({}, {})", entry(choices), entry(choices)),
        1 => format!("[{first}]"),
        2 => format!("[{first}, {second}]"),
        3 => format!("{{ {rest} }}"),
        4 => format!("[{tp}: {first}]"),
        5 => format!("{{ {dp}: {first}, {tp}: {second}, {rest} }}"),
        _ => format!("{{ {tp}: {first}, {rest} }}"),
    }
}

fn entries_by_axis(choices: &mut Choices) -> String {
    let axes = choices.of(&["axes = (dp, tp),", "axes = (tp),", "axes = (tp, tp),", "axes = tp,", "axes = (),", ""]);
    let [first, second, third] = [(); 3].map(|()| entry(choices));
    let [a, b] = [(); 2].map(|()| choices.of(&["p0", "p1", "p0", "tp", "self", "_p2"]));
    let inputs = match choices.below(4) {
        0 => format!("in = [{first}, {second}],"),
        1 => format!("in = {{ {a}: {first}, {b}: {second} }}, grad = {{ {b}: {third} }},"),
        2 => format!("in = {{ {a}: {first}, {} }},", attribute(choices, 1)),
        _ => String::new(),
    };
    format!("{axes} {inputs} out = {third}, {}", choices.of(&["", "dynamic", "reshard", "check,"]))
}

fn function(choices: &mut Choices) -> String {
    let parameters: Vec<String> = (0..choices.below(4))
        .map(|at| {
            let place = match choices.below(4) {
                0 => format!("#[place({})] ", entry(choices).trim_matches(|c| "[]{}".contains(c))),
                _ => String::new(),
            };
            format!("{place}{}p{at}: {}", choices.of(&["", "mut ", "_"]), choices.of(&TYPES))
        })
        .collect();
    let receiver = choices.of(&["", "", "", "&self, ", "self, ", "&mut self, ", "self: &Arc<Self>, "]);
    let (qualifier, result) = (choices.of(&QUALIFIERS), choices.of(&RESULTS));
    format!("{qualifier} fn f({receiver}{}) {result} {{ body }}", parameters.join(", "))
}
