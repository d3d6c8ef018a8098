//! Reductions of runs of elements, in rank order. Floats of 16 bits or fewer are accumulated in f32 and rounded once.

use std::mem::MaybeUninit;

use float8::F8E4M3;
use half::slice::HalfFloatSliceExt;
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

/// Small floats, which are converted in blocks and reduced in f32.
pub(super) trait Widen: Copy {
    fn widen(block: &[Self], wide: &mut [f32]);
    fn narrow(wide: &[f32], block: &mut [MaybeUninit<Self>]);
}

impl Widen for bf16 {
    fn widen(block: &[Self], wide: &mut [f32]) {
        widen_bf16(block, wide);
    }

    fn narrow(wide: &[f32], block: &mut [MaybeUninit<Self>]) {
        narrow_bf16(wide, block);
    }
}

#[multiversion::multiversion(targets("x86_64+avx2"))]
fn widen_bf16(block: &[bf16], wide: &mut [f32]) {
    let pairs = wide.iter_mut().zip(block);
    pairs.for_each(|(w, x)| *w = f32::from_bits(u32::from(x.to_bits()) << 16));
}

/// Rounds half to even, as `bf16::from_f32`, without its branch, so that several are done at a time.
#[multiversion::multiversion(targets("x86_64+avx2"))]
fn narrow_bf16(wide: &[f32], block: &mut [MaybeUninit<bf16>]) {
    for (slot, w) in block.iter_mut().zip(wide) {
        let bits = w.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        // A NaN keeps its sign and becomes quiet; rounding might have made it an infinity.
        let quiet = (bits >> 16) | 0x40;
        let bits = if w.is_nan() { quiet } else { rounded };
        slot.write(bf16::from_bits(bits as u16));
    }
}

impl Widen for f16 {
    fn widen(block: &[Self], wide: &mut [f32]) {
        block.convert_to_f32_slice(wide);
    }

    fn narrow(wide: &[f32], block: &mut [MaybeUninit<Self>]) {
        block.fill(MaybeUninit::new(f16::ZERO));
        // SAFETY: the line above has written every element.
        unsafe { block.assume_init_mut() }.convert_from_f32_slice(wide);
    }
}

impl Widen for F8E4M3 {
    fn widen(block: &[Self], wide: &mut [f32]) {
        wide.iter_mut().zip(block).for_each(|(w, x)| *w = x.to_f32());
    }

    fn narrow(wide: &[f32], block: &mut [MaybeUninit<Self>]) {
        block.iter_mut().zip(wide).for_each(|(slot, w)| {
            slot.write(F8E4M3::from_f32(*w));
        });
    }
}

/// Reduces elements in their own type.
pub(super) fn fold_native<T: Arithmetic>(reduction: Reduction, sources: &[&[T]], out: &mut [MaybeUninit<T>]) {
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
pub(super) fn fold_through_f32<T: Widen>(reduction: Reduction, sources: &[&[T]], out: &mut [MaybeUninit<T>]) {
    let [first, rest @ ..] = sources else { return };
    if rest.is_empty() {
        out.write_copy_of_slice(first);
        return;
    }
    let mut acc = [0f32; BLOCK];
    let mut next = [0f32; BLOCK];
    for (i, block) in out.chunks_mut(BLOCK).enumerate() {
        let range = i * BLOCK..i * BLOCK + block.len();
        let (acc, next) = (&mut acc[..block.len()], &mut next[..block.len()]);
        T::widen(&first[range.clone()], acc);
        for source in rest {
            T::widen(&source[range.clone()], next);
            accumulate(reduction.fold, acc, next);
        }
        if reduction.divisor != 1 {
            acc.iter_mut().for_each(|a| *a = a.over(reduction.divisor));
        }
        T::narrow(acc, block);
    }
}

fn accumulate(fold: Fold, acc: &mut [f32], next: &[f32]) {
    let pairs = acc.iter_mut().zip(next);
    match fold {
        Fold::Sum => pairs.for_each(|(a, x)| *a += x),
        Fold::Prod => pairs.for_each(|(a, x)| *a *= x),
        Fold::Max => pairs.for_each(|(a, x)| *a = a.larger(*x)),
        Fold::Min => pairs.for_each(|(a, x)| *a = a.smaller(*x)),
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
    fn narrowing_to_bf16_rounds_as_the_library_does() {
        let bits = (0..=u16::MAX).map(|high| u32::from(high) << 16);
        let wide: Vec<f32> =
            bits.flat_map(|b| [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff].map(|low| f32::from_bits(b | low))).collect();
        let mut out = vec![MaybeUninit::new(bf16::ZERO); wide.len()];
        bf16::narrow(&wide, &mut out);
        for (w, x) in wide.iter().zip(out) {
            // SAFETY: all elements were initialised above.
            let x = unsafe { x.assume_init() };
            assert_eq!(x.to_bits(), bf16::from_f32(*w).to_bits(), "{w:e}");
        }
    }

    #[test]
    fn integers_wrap_and_averages_divide() {
        assert_eq!(reduced(fold_native, Fold::Sum, 1, &[&[250u8], &[10]]), [4]);
        assert_eq!(reduced(fold_native, Fold::Sum, 2, &[&[3f64], &[4.0]]), [3.5]);
        assert_eq!(reduced(fold_native, Fold::Prod, 1, &[&[-1i64], &[-2], &[3]]), [6]);
    }
}
