//! What an annotated function may return, and what its wrapper returns in its place.

use std::any::Any;

use candle_core::Tensor;

use crate::error::Error;

/// A result type as the author wrote it. The wrapper returns [`With`](Outcome::With) of the labelled value, so that
/// aliases are seen through and the author's error type is kept.
#[diagnostic::on_unimplemented(
    message = "a `#[local_map]` function cannot return `{Self}`",
    label = "not a result that a region can return",
    note = "return a tensor, a tuple, or a `Result` whose error type implements `From<local_map::Error>`"
)]
pub trait Outcome: Sized {
    /// The value on success.
    type Value;
    /// The error.
    type Error: 'static;
    /// The same kind of result with another value.
    type With<U>;

    /// As a `Result`.
    fn split(self) -> Result<Self::Value, Self::Error>;
    /// From a `Result`.
    fn join<U>(result: Result<U, Self::Error>) -> Self::With<U>;
    /// One of our errors as the author's.
    fn lift(error: Error) -> Self::Error;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<Error> + 'static> Outcome for Result<T, E> {
    type Value = T;
    type Error = E;
    type With<U> = Result<U, E>;

    fn split(self) -> Result<T, E> {
        self
    }

    fn join<U>(result: Result<U, E>) -> Result<U, E> {
        result
    }

    fn lift(error: Error) -> E {
        error.into()
    }
}

/// Says, in an error of candle's, in which body it happened, and takes out the backtrace that candle prints inside its messages.
/// One of ours that came through candle says that already.
pub(super) fn located<E: 'static>(mut error: E, place: impl FnOnce() -> String) -> E {
    if let Some(candle) = (&mut error as &mut dyn Any).downcast_mut::<candle_core::Error>() {
        let taken = std::mem::replace(candle, candle_core::Error::Msg(String::new()));
        *candle = match bare(taken) {
            carried @ candle_core::Error::Io(_) => carried,
            own => own.context(place()),
        };
    }
    error
}

fn bare(error: candle_core::Error) -> candle_core::Error {
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => bare(*inner),
        other => other,
    }
}

macro_rules! plain {
    ($([$($generics:tt)*] $ty:ty),* $(,)?) => {
        $(#[diagnostic::do_not_recommend]
        impl<$($generics)*> Outcome for $ty {
            type Value = $ty;
            type Error = Error;
            type With<U> = Result<U, Error>;

            fn split(self) -> Result<$ty, Error> {
                Ok(self)
            }

            fn join<U>(result: Result<U, Error>) -> Result<U, Error> {
                result
            }

            fn lift(error: Error) -> Error {
                error
            }
        })*
    };
}

plain! {
    [] Tensor, [T] Option<T>, [T] Vec<T>, [T] Box<T>, [T, const N: usize] [T; N],
    [] (), [A] (A,), [A, B] (A, B), [A, B, C] (A, B, C), [A, B, C, D] (A, B, C, D),
    [A, B, C, D, E] (A, B, C, D, E), [A, B, C, D, E, F] (A, B, C, D, E, F),
    [A, B, C, D, E, F, G] (A, B, C, D, E, F, G), [A, B, C, D, E, F, G, H] (A, B, C, D, E, F, G, H),
    [] bool, [] char, [] String, [] &'static str,
    [] u8, [] u16, [] u32, [] u64, [] u128, [] usize, [] i8, [] i16, [] i32, [] i64, [] i128, [] isize, [] f32, [] f64,
}
