//! Warnings that reach somebody.

use std::fmt::Arguments;

/// Warns through `tracing`, or on standard error where no subscriber listens: a program that hangs at 2 a.m. says why, even if
/// it has no logging.
pub fn warning(text: Arguments<'_>) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{text}");
    } else {
        eprintln!("warning: {text}");
    }
}
