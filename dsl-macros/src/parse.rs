//! The attribute's keys and flags.

use crate::ast::{Args, Axes, Mesh, Outputs};
use crate::errors::Errors;
use crate::tokens::visible;
use crate::{axes, entry, placement, suggest};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{LitStr, Token};

const KEYS: [&str; 10] = ["in", "out", "grad", "axes", "mesh", "reshard", "recompute", "check", "dynamic", "crate"];
/// Keys that take a value, so that a misspelt one can be read as what it was meant to be.
const WITH_VALUE: [&str; 6] = ["in", "out", "grad", "axes", "mesh", "crate"];

/// Reads the attribute. What cannot be read is noted in `errors` and left out.
pub(crate) fn args(tokens: TokenStream, errors: &mut Errors) -> Args {
    let mut args = Args::default();
    let parsed = (|input: ParseStream| -> syn::Result<()> {
        let mut reader = Reader { input, args: &mut args, errors, seen: Vec::new() };
        while !input.is_empty() {
            reader.argument();
        }
        Ok(())
    })
    .parse2(tokens);
    errors.take(parsed);
    args
}

/// One pass over the attribute; after every argument it stands behind a comma or at the end.
struct Reader<'a, 'b> {
    input: ParseStream<'b>,
    args: &'a mut Args,
    errors: &'a mut Errors,
    seen: Vec<String>,
}

impl Reader<'_, '_> {
    fn argument(&mut self) {
        match self.input.call(Ident::parse_any) {
            Ok(key) => self.value_of(&key),
            Err(_) => self.no_key(),
        }
        self.rest_of_argument();
    }

    /// What begins otherwise than with a word; a quoted key is read as the key.
    fn no_key(&mut self) {
        if self.input.peek(Token![,]) {
            return self.errors.at(self.input.span(), "nothing stands before this comma");
        }
        let text: Option<LitStr> = self.input.peek(LitStr).then(|| self.input.parse().ok()).flatten();
        match text.as_ref().and_then(|text| Some((text, KEYS.iter().find(|key| **key == text.value())?))) {
            Some((text, name)) => {
                self.errors.at(text.span(), format!("a key is written without quotes: `{name}`"));
                self.value_of(&Ident::new(name, text.span()));
            }
            None => {
                let span = text.map_or_else(|| self.input.span(), |text| text.span());
                self.errors.at(span, format!("expected one of {}", crate::errors::either(&KEYS)));
            }
        }
    }

    fn value_of(&mut self, key: &Ident) {
        let name = key.to_string();
        if self.seen.contains(&name) {
            return self.errors.at(key.span(), format!("`{name}` is given twice"));
        }
        if KEYS.contains(&name.as_str()) {
            self.known(key, &name);
        } else {
            self.unknown(key, &name);
        }
        self.seen.push(name);
    }

    fn known(&mut self, key: &Ident, name: &str) {
        match name {
            "in" => {
                let value = self.value(key, "[[Shard(0)], _]");
                self.args.inputs = Some(entry::inputs(&value, "in", self.errors));
            }
            "grad" => {
                let value = self.value(key, "[[Replicate], _]");
                self.args.grads = Some(entry::inputs(&value, "grad", self.errors));
            }
            "out" => {
                let value = self.value(key, "[Shard(0)]");
                self.args.outputs = Some(entry::outputs(&value, self.errors));
            }
            "axes" => {
                let value = self.value(key, "(dp, tp)");
                self.args.axes = axes::axes(&value, self.errors);
            }
            "mesh" => self.args.mesh = self.mesh(key),
            "crate" => self.args.krate = self.krate(key),
            "reshard" => self.args.reshard = self.flag(key),
            "recompute" => self.args.recompute = self.flag(key).then(|| key.span()),
            "check" => self.args.check = self.flag(key),
            "dynamic" => self.args.dynamic = self.flag(key),
            _ => {}
        }
    }

    /// Reads a misspelt key as the one that it was meant to be: what follows from it would only be reported on top.
    fn unknown(&mut self, key: &Ident, name: &str) {
        self.errors.at(key.span(), unknown(name));
        let Some(meant) = meant(name).filter(|meant| !self.seen.iter().any(|seen| seen == meant)) else {
            return;
        };
        if self.input.peek(Token![=]) {
            self.known(&Ident::new(meant, key.span()), meant);
        } else if meant == "out" {
            self.args.outputs = Some(Outputs::Unreadable);
        } else if meant == "axes" {
            self.args.axes = Axes::Unreadable;
        }
    }

    /// The tokens after `key =`; none if that is reported.
    fn value(&mut self, key: &Ident, example: &str) -> Vec<TokenTree> {
        if !self.equals(key, example) {
            return Vec::new();
        }
        // The first token is the value's, even where it looks like a key.
        let mut value = self
            .list_on_mesh()
            .or_else(|| self.input.parse::<TokenTree>().ok().map(TokenStream::from))
            .unwrap_or_default();
        while let Some(tree) = self.next_tree() {
            value.extend([tree]);
        }
        visible(value)
    }

    /// `[..] on expr`, in which the expression may hold commas of its own, so syn finds where it ends.
    fn list_on_mesh(&mut self) -> Option<TokenStream> {
        let ahead = self.input.fork();
        let list: Group = ahead.parse().ok()?;
        let on: Ident = ahead.parse().ok().filter(|word| word == "on")?;
        let expr: syn::Expr = ahead.parse().ok()?;
        self.input.advance_to(&ahead);
        Some(quote!(#list #on #expr))
    }

    fn equals(&mut self, key: &Ident, example: &str) -> bool {
        if self.input.peek(Token![==]) || self.input.peek(Token![=>]) || self.input.peek(Token![:]) {
            self.errors.at(self.input.span(), format!("a key's value stands behind `=`, as in `{key} = {example}`"));
            return self.other_equals();
        }
        let equals = self.input.peek(Token![=]) && self.input.parse::<Token![=]>().is_ok();
        let complete = equals && !self.is_complete();
        if !complete {
            self.errors.at(key.span(), format!("`{key}` needs a value, as in `{key} = {example}`"));
        }
        complete
    }

    /// Takes what was reported to stand in the place of `=`; whether a value follows.
    fn other_equals(&mut self) -> bool {
        while self.input.peek(Token![=]) || self.input.peek(Token![>]) || self.input.peek(Token![:]) {
            self.input.parse::<TokenTree>().ok();
        }
        !self.is_complete()
    }

    fn mesh(&mut self, key: &Ident) -> Mesh {
        if !self.equals(key, "mesh") {
            return Mesh::Unreadable;
        }
        // An expression may hold commas of its own (`mesh_of::<A, B>()`), so syn finds where it ends.
        let ahead = self.input.fork();
        match ahead.parse() {
            Ok(expr) => {
                self.input.advance_to(&ahead);
                if !self.at_end() {
                    self.errors.at(self.input.span(), "expected `,` after the mesh");
                }
                Mesh::Given(Box::new(expr))
            }
            Err(_) => {
                self.errors
                    .at(self.input.span(), "`mesh` takes an expression of type `DeviceMesh`, as in `mesh = mesh`");
                Mesh::Unreadable
            }
        }
    }

    fn krate(&mut self, key: &Ident) -> Option<syn::Path> {
        let tokens: TokenStream = self.value(key, "my::local_map").into_iter().collect();
        if tokens.is_empty() {
            return None;
        }
        let path = syn::Path::parse_mod_style.parse2(tokens.clone());
        if path.is_err() {
            self.errors.under(tokens, "`crate` takes a path, as in `crate = my::local_map`");
        }
        path.ok()
    }

    fn flag(&mut self, key: &Ident) -> bool {
        if !self.at_end() {
            self.errors.at(self.input.span(), format!("`{key}` is a flag: write it alone, and a comma after it"));
        }
        true
    }

    /// Finds the next argument. Tokens that are still here belong to one that was reported.
    fn rest_of_argument(&mut self) {
        self.skip();
        if self.input.peek(Token![,]) {
            let _ = self.input.parse::<Token![,]>();
        } else if let Some(key) = self.next_key() {
            self.errors.at(key.span(), format!("expected `,` before `{key}`"));
        }
    }

    fn at_end(&self) -> bool {
        self.is_complete() || self.next_key().is_some()
    }

    fn is_complete(&self) -> bool {
        self.input.is_empty() || self.input.peek(Token![,])
    }

    /// The key of the next argument, where the comma before it is forgotten.
    fn next_key(&self) -> Option<Ident> {
        let ahead = self.input.fork();
        let key = ahead.call(Ident::parse_any).ok()?;
        let name = key.to_string();
        let begins = match WITH_VALUE.contains(&name.as_str()) {
            true => ahead.peek(Token![=]),
            false => KEYS.contains(&name.as_str()) && (ahead.is_empty() || ahead.peek(Token![,])),
        };
        begins.then_some(key)
    }

    fn next_tree(&mut self) -> Option<TokenTree> {
        if self.at_end() { None } else { self.input.parse().ok() }
    }

    fn skip(&mut self) {
        while self.next_tree().is_some() {}
    }
}

fn unknown(name: &str) -> String {
    if placement::NAMES.contains(&name) {
        return format!("`{name}` is a placement: write it in `in` or `out`, as in `out = [Shard(0)]`");
    }
    format!("unknown key `{name}`: {}", suggest::hint(name, &KEYS))
}

/// The key with a value that the unknown `name` was probably meant to be.
fn meant(name: &str) -> Option<&'static str> {
    suggest::closest(name, &KEYS).filter(|meant| WITH_VALUE.contains(meant))
}
