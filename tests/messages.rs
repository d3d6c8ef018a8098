//! The page of the compiler's messages, `src/messages.md`, has every message that the compile-fail cases show.
//!
//! To add one: write it into a block of the page that begins with three backticks and `text`, as the compiler prints it. Of what stands in
//! backticks, and of numbers, only the place counts, so `..` and `1` will do.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../src/messages.md");

/// The message without what differs from program to program.
fn shape(message: &str) -> String {
    let quoted = message.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "_" });
    let words = without_counts(&quoted.collect::<Vec<_>>().join("`"));
    merged(&words.replace("have none", "has none"))
}

/// A number, and the word that it counts, become `#`.
fn without_counts(text: &str) -> String {
    let mut words = Vec::new();
    let mut counted = false;
    for word in text.split(' ') {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        match counted && word.starts_with(char::is_alphabetic) {
            true => words.push(format!("#{}", word.trim_start_matches(char::is_alphabetic))),
            false if number => words.push(word.replace(|c: char| c.is_ascii_digit(), "#")),
            false => words.push(word.to_owned()),
        }
        counted = number && word.ends_with(|c: char| c.is_ascii_digit());
    }
    words.join(" ")
}

/// A list of quoted words, of any length, is one of them.
fn merged(text: &str) -> String {
    ["`_`, `_`", "`_` and `_`", "`_` or `_`"].into_iter().fold(text.to_owned(), |mut text, list| {
        while text.contains(list) {
            text = text.replace(list, "`_`");
        }
        text
    })
}

/// The first lines of all errors and warnings.
fn headlines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| ["error: ", "error[", "warning: "].iter().any(|start| line.starts_with(start)))
}

fn page() -> BTreeSet<String> {
    headlines(PAGE).map(shape).collect()
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(path.to_str().unwrap(), extension),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|given| given == extension))
        .collect()
}

#[track_caller]
fn assert_none(missing: &BTreeSet<String>) {
    let list: Vec<&str> = missing.iter().map(String::as_str).collect();
    assert!(list.is_empty(), "src/messages.md lacks:\n{}", list.join("\n"));
}

#[test]
fn every_message_of_the_compile_fail_cases_is_on_the_page() {
    let (page, mut missing, mut cases) = (page(), BTreeSet::new(), 0);
    for path in files("ui-tests/cases", "stderr") {
        cases += 1;
        let text = fs::read_to_string(&path).unwrap();
        missing.extend(headlines(&text).filter(|line| !page.contains(&shape(line))).map(str::to_owned));
    }
    assert!(cases > 60, "only {cases} cases were found");
    assert_none(&missing);
}

#[test]
fn every_message_of_a_bound_is_on_the_page() {
    let (page, mut missing, mut bounds) = (page(), BTreeSet::new(), 0);
    for path in files("dsl-runtime/src", "rs") {
        let text = fs::read_to_string(&path).unwrap();
        for notes in text.split("on_unimplemented(").skip(1) {
            let message = notes.split('"').nth(1).unwrap();
            bounds += 1;
            let message = format!("error[E0277]: {}", message.replace("{N}", "1"));
            missing.extend(Some(message).filter(|message| !page.contains(&shape(message))));
        }
    }
    assert!(bounds > 5, "only {bounds} bounds were found");
    assert_none(&missing);
}

#[test]
fn messages_that_differ_in_names_and_counts_are_one() {
    let one = "error: `f` has 1 parameter, but `in` has 2 entries: `a` has none";
    let other = "error: `_` has 3 parameters, but `_` has 1 entry: `a`, `b` and `c` have none";
    assert_eq!(shape(one), shape(other));
    assert_ne!(shape(one), shape("error: `f` has 1 parameter, but `in` has 2 entries: this one is left over"));
}
