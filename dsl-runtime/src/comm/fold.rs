//! Reductions of runs of elements, in rank order. Floats of 16 bits or fewer are accumulated in f32 and rounded once.

use std::mem::MaybeUninit;

use float8::F8E4M3;
use half::{bf16, f16};

use crate::plan::{Fold, Reduction};

/// Elements per block: what is accumulated stays in the first-level cache.
const BLOCK: usize = 1024;

/// Arithmetic that never panics: integers wrap, and NaN wins over any number.
pub(super) trait Arithmetic: Copy {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn larger(self, other: Self) -> Self;
    fn smaller(self, other: Self) -> Self;
    /// Division by a number of ranks; only floats are averaged.
    fn over(self, ranks: usize) -> Self;
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl Arithmetic for $ty {
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn larger(self, other: Self) -> Self { self.max(other) }
            fn smaller(self, other: Self) -> Self { self.min(other) }
            fn over(self, _: usize) -> Self { self }
        })*
    };
}

macro_rules! floats {
    ($($ty:ty)*) => {
        $(impl Arithmetic for $ty {
            fn add(self, other: Self) -> Self { self + other }
            fn mul(self, other: Self) -> Self { self * other }
            // A NaN in `self` is kept by the second test; one in `other` by the failure of both.
            fn larger(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            fn smaller(self, other: Self) -> Self {
                if self < other || self.is_nan() { self } else { other }
            }
            fn over(self, ranks: usize) -> Self { self / ranks as $ty }
        })*
    };
}

integers!(u8 u32 i16 i32 i64);
floats!(f32 f64);

/// Small floats, which are reduced in f32.
pub(super) trait Widen: Copy {
    fn widen(self) -> f32;
    fn narrow(wide: f32) -> Self;
}

macro_rules! small_floats {
    ($($ty:ty)*) => {
        $(impl Widen for $ty {
            fn widen(self) -> f32 { self.to_f32() }
            fn narrow(wide: f32) -> Self { Self::from_f32(wide) }
        })*
    };
}

small_floats!(bf16 f16 F8E4M3);

/// Reduces elements in their own type.
pub(super) fn fold_native<T: Arithmetic>(
    reduction: Reduction,
    sources: &[&[T]],
    out: &mut [MaybeUninit<T>],
) {
    if let [only] = sources {
        out.write_copy_of_slice(only);
        return;
    }
    match reduction.fold {
        Fold::Sum => blocks(sources, out, T::add),
        Fold::Prod => blocks(sources, out, T::mul),
        Fold::Max => blocks(sources, out, T::larger),
        Fold::Min => blocks(sources, out, T::smaller),
    }
    if reduction.divisor != 1 {
        // SAFETY: `blocks` has written every element.
        let out = unsafe { out.assume_init_mut() };
        out.iter_mut().for_each(|x| *x = x.over(reduction.divisor));
    }
}

/// Writes the fold of all sources to `out`, block by block.
fn blocks<T: Copy>(sources: &[&[T]], out: &mut [MaybeUninit<T>], f: impl Fn(T, T) -> T + Copy) {
    let [first, second, rest @ ..] = sources else {
        return;
    };
    for (i, block) in out.chunks_mut(BLOCK).enumerate() {
        let range = i * BLOCK..i * BLOCK + block.len();
        let pairs = first[range.clone()].iter().zip(&second[range.clone()]);
        for (slot, (a, b)) in block.iter_mut().zip(pairs) {
            slot.write(f(*a, *b));
        }
        // SAFETY: the loop above has written every element of the block.
        let block = unsafe { block.assume_init_mut() };
        for source in rest {
            let pairs = block.iter_mut().zip(&source[range.clone()]);
            pairs.for_each(|(acc, x)| *acc = f(*acc, *x));
        }
    }
}

/// Reduces small floats in f32.
pub(super) fn fold_through_f32<T: Widen>(
    reduction: Reduction,
    sources: &[&[T]],
    out: &mut [MaybeUninit<T>],
) {
    let [first, rest @ ..] = sources else { return };
    if rest.is_empty() {
        out.write_copy_of_slice(first);
        return;
    }
    let mut wide = [0f32; BLOCK];
    for (i, block) in out.chunks_mut(BLOCK).enumerate() {
        let range = i * BLOCK..i * BLOCK + block.len();
        let acc = &mut wide[..block.len()];
        acc.iter_mut().zip(&first[range.clone()]).for_each(|(a, x)| *a = x.widen());
        for source in rest {
            accumulate(reduction.fold, acc, &source[range.clone()]);
        }
        if reduction.divisor != 1 {
            acc.iter_mut().for_each(|a| *a = a.over(reduction.divisor));
        }
        block.iter_mut().zip(&*acc).for_each(|(slot, a)| {
            slot.write(T::narrow(*a));
        });
    }
}

fn accumulate<T: Widen>(fold: Fold, acc: &mut [f32], source: &[T]) {
    let each = |acc: &mut [f32], f: fn(f32, f32) -> f32| {
        acc.iter_mut().zip(source).for_each(|(a, x)| *a = f(*a, x.widen()));
    };
    match fold {
        Fold::Sum => acc.iter_mut().zip(source).for_each(|(a, x)| *a += x.widen()),
        Fold::Prod => each(acc, f32::mul),
        Fold::Max => each(acc, f32::larger),
        Fold::Min => each(acc, f32::smaller),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<T: Copy>(
        f: impl Fn(Reduction, &[&[T]], &mut [MaybeUninit<T>]),
        fold: Fold,
        divisor: usize,
        sources: &[&[T]],
    ) -> Vec<T> {
        let mut out = Vec::with_capacity(sources[0].len());
        let len = sources[0].len();
        f(Reduction { fold, divisor }, sources, &mut out.spare_capacity_mut()[..len]);
        // SAFETY: reductions write every element.
        unsafe { out.set_len(len) };
        out
    }

    #[test]
    fn nan_wins_from_either_side() {
        let nan = f32::NAN;
        for fold in [Fold::Max, Fold::Min] {
            let out = reduced(fold_native, fold, 1, &[&[nan, 1.0], &[2.0, nan], &[3.0, 3.0]]);
            assert!(out.iter().all(|x| x.is_nan()));
        }
    }

    #[test]
    fn small_floats_are_rounded_once() {
        let (one, tiny) = (bf16::from_f32(256.0), bf16::from_f32(1.0));
        let sources: Vec<Vec<bf16>> = [one, tiny, tiny].iter().map(|&x| vec![x; 3000]).collect();
        let sources: Vec<&[bf16]> = sources.iter().map(|s| &s[..]).collect();
        let out = reduced(fold_through_f32, Fold::Sum, 1, &sources);
        assert!(out.iter().all(|x| x.to_f32() == 258.0), "a sum in bf16 would stay at 256");
    }

    #[test]
    fn integers_wrap_and_averages_divide() {
        assert_eq!(reduced(fold_native, Fold::Sum, 1, &[&[250u8], &[10]]), [4]);
        assert_eq!(reduced(fold_native, Fold::Sum, 2, &[&[3f64], &[4.0]]), [3.5]);
        assert_eq!(reduced(fold_native, Fold::Prod, 1, &[&[-1i64], &[-2], &[3]]), [6]);
    }
}
