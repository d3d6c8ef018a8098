//! The macros as a library, which a procedural macro crate cannot be, and what must hold of every use of them.
#![allow(dead_code, missing_docs, unreachable_pub)]

#[path = "../../dsl-macros/src/ast.rs"]
mod ast;
#[path = "../../dsl-macros/src/axes.rs"]
mod axes;
#[path = "../../dsl-macros/src/binding.rs"]
mod binding;
#[path = "../../dsl-macros/src/check/mod.rs"]
mod check;
#[path = "../../dsl-macros/src/distribute/mod.rs"]
mod distribute;
#[path = "../../dsl-macros/src/entry.rs"]
mod entry;
#[path = "../../dsl-macros/src/errors.rs"]
mod errors;
#[path = "../../dsl-macros/src/expand/mod.rs"]
mod expand;
#[path = "../../dsl-macros/src/expansion.rs"]
mod expansion;
#[path = "../../dsl-macros/src/forward.rs"]
mod forward;
#[path = "../../dsl-macros/src/function.rs"]
mod function;
#[path = "../../dsl-macros/src/tests/grammar.rs"]
mod grammar;
#[path = "../../dsl-macros/src/labels.rs"]
mod labels;
#[path = "../../dsl-macros/src/layer.rs"]
mod layer;
#[path = "../../dsl-macros/src/layout.rs"]
mod layout;
#[path = "../../dsl-macros/src/model.rs"]
mod model;
#[path = "../../dsl-macros/src/own.rs"]
mod own;
#[path = "../../dsl-macros/src/parse.rs"]
mod parse;
#[path = "../../dsl-macros/src/place.rs"]
mod place;
#[path = "../../dsl-macros/src/placement.rs"]
mod placement;
#[path = "../../dsl-macros/src/signature.rs"]
mod signature;
#[path = "../../dsl-macros/src/structs.rs"]
mod structs;
#[path = "../../dsl-macros/src/suggest.rs"]
mod suggest;
#[path = "../../dsl-macros/src/table.rs"]
mod table;
#[path = "../../dsl-macros/src/tokens.rs"]
mod tokens;
#[path = "../../dsl-macros/src/tuples/mod.rs"]
mod tuples;
#[path = "../../dsl-macros/src/types.rs"]
mod types;

/// Expands the use of a macro that the bytes stand for; panics where a macro does, or where its result cannot be read.
pub fn attribute(bytes: &[u8]) {
    grammar::Use::of(bytes).survives();
}
