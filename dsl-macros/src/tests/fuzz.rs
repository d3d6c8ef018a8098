//! Random attributes on random functions: never a panic, always tokens that parse.

use proc_macro2::TokenStream;

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

/// Small and deterministic (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

fn attribute(random: &mut Random, depth: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(8) {
        let (open, close) = [("(", ")"), ("[", "]"), ("{", "}")][random.below(3)];
        match random.below(4) {
            0 if depth > 0 => text.push_str(&format!("{open}{}{close} ", attribute(random, depth - 1))),
            1 if depth > 0 => text.push_str(&format!("[Shard(0), {}] ", attribute(random, depth - 1))),
            _ => text.push_str(&format!("{} ", random.of(&WORDS))),
        }
    }
    text
}

fn likely_attribute(random: &mut Random) -> String {
    let (first, second) = (attribute(random, 2), attribute(random, 3));
    let recompute = random.of(&["", "recompute,"]);
    format!("in = [[{first}]], out = [{second}], grad = [[{first}], _], {recompute} {}", attribute(random, 1))
}

/// An entry that is mostly right.
fn entry(random: &mut Random) -> String {
    let [first, second] = [(); 2].map(|()| random.of(&["Shard(0)", "Replicate", "Partial", "Partial(Max)", "Shard"]));
    let rest = random.of(&["", "", "..", ".., ", "..,..", "..x"]);
    let [dp, tp] = [(); 2].map(|()| random.of(&["dp", "tp", "tp", "r#tp", "pp"]));
    match random.below(8) {
        0 => "_".to_owned(),
        7 if random.below(2) == 0 => format!("({}, {})", entry(random), entry(random)),
        1 => format!("[{first}]"),
        2 => format!("[{first}, {second}]"),
        3 => format!("{{ {rest} }}"),
        4 => format!("[{tp}: {first}]"),
        5 => format!("{{ {dp}: {first}, {tp}: {second}, {rest} }}"),
        _ => format!("{{ {tp}: {first}, {rest} }}"),
    }
}

fn entries_by_axis(random: &mut Random) -> String {
    let axes = random.of(&["axes = (dp, tp),", "axes = (tp),", "axes = (tp, tp),", "axes = tp,", "axes = (),", ""]);
    let [first, second, third] = [(); 3].map(|()| entry(random));
    let [a, b] = [(); 2].map(|()| random.of(&["p0", "p1", "p0", "tp", "self", "_p2"]));
    let inputs = match random.below(4) {
        0 => format!("in = [{first}, {second}],"),
        1 => format!("in = {{ {a}: {first}, {b}: {second} }}, grad = {{ {b}: {third} }},"),
        2 => format!("in = {{ {a}: {first}, {} }},", attribute(random, 1)),
        _ => String::new(),
    };
    format!("{axes} {inputs} out = {third}, {}", random.of(&["", "dynamic", "reshard", "check,"]))
}

fn function(random: &mut Random) -> String {
    let parameters: Vec<String> = (0..random.below(4))
        .map(|at| {
            let place = match random.below(4) {
                0 => format!("#[place({})] ", entry(random).trim_matches(|c| "[]{}".contains(c))),
                _ => String::new(),
            };
            format!("{place}{}p{at}: {}", random.of(&["", "mut ", "_"]), random.of(&TYPES))
        })
        .collect();
    let receiver = random.of(&["", "", "", "&self, ", "self, ", "&mut self, ", "self: &Arc<Self>, "]);
    let (qualifier, result) = (random.of(&QUALIFIERS), random.of(&RESULTS));
    format!("{qualifier} fn f({receiver}{}) {result} {{ body }}", parameters.join(", "))
}

#[test]
fn random_attributes_never_panic() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..20_000 {
        let args = match round % 3 {
            0 => attribute(&mut random, 3),
            1 => likely_attribute(&mut random),
            _ => entries_by_axis(&mut random),
        };
        let item = function(&mut random);
        let Ok(tokens) = args.parse::<TokenStream>() else {
            continue;
        };
        let out = crate::attribute(tokens, item.parse().unwrap()).to_string();
        assert!(syn::parse_str::<syn::File>(&out).is_ok(), "{args}\n{item}\n{out}");
    }
}

#[test]
fn random_items_never_panic() {
    let mut random = Random(42);
    for _ in 0..5_000 {
        let item = format!(
            "{} {}",
            random.of(&["", "fn", "pub fn f", "const", "async fn f()", "#[a]"]),
            attribute(&mut random, 2)
        );
        let Ok(tokens) = item.parse::<TokenStream>() else {
            continue;
        };
        crate::attribute("out = _".parse().unwrap(), tokens);
    }
}
