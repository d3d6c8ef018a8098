//! How a tensor dimension is cut among ranks: ceil-chunks, nested over several axes, or given lengths.

mod piece;

pub use piece::{Dims, Piece, Span};

/// The part of `[0, len)` that part `index` of `parts` holds: with `c = ceil(len / parts)`, the span from
/// `min(len, index * c)` to `min(len, (index + 1) * c)`. Trailing parts may be empty; they start at `len`.
///
/// ```
/// use local_map::shard::chunk;
/// let lens: Vec<usize> = (0..4).map(|i| chunk(5, 4, i).len).collect();
/// assert_eq!(lens, [2, 2, 1, 0]);
/// ```
pub fn chunk(len: usize, parts: usize, index: usize) -> Span {
    let size = len.div_ceil(parts.max(1));
    let start = size.saturating_mul(index).min(len);
    let end = start.saturating_add(size).min(len);
    Span { start, len: end - start }
}

/// The part of `[0, len)` that remains after each `(parts, index)` in turn has cut the part before it.
pub fn nested(len: usize, cuts: impl IntoIterator<Item = (usize, usize)>) -> Span {
    let whole = Span { start: 0, len };
    cuts.into_iter().fold(whole, |span, (parts, index)| {
        let inner = chunk(span.len, parts, index);
        Span { start: span.start + inner.start, len: inner.len }
    })
}

/// Whether every part has the same length.
pub fn is_even(len: usize, sizes: &[usize]) -> bool {
    // More parts than can be counted cut nothing but zero evenly.
    let parts = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
    parts.map_or(len == 0, |parts| len.is_multiple_of(parts.max(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lens(len: usize, parts: usize) -> Vec<usize> {
        (0..parts).map(|i| chunk(len, parts, i).len).collect()
    }

    #[test]
    fn the_table_of_the_design() {
        assert_eq!(lens(5, 4), [2, 2, 1, 0]);
        assert_eq!(lens(6, 4), [2, 2, 2, 0]);
        assert_eq!(lens(7, 4), [2, 2, 2, 1]);
        assert_eq!(lens(3, 4), [1, 1, 1, 0]);
        assert_eq!(lens(1, 2), [1, 0]);
        assert_eq!(lens(0, 3), [0, 0, 0]);
        assert_eq!(chunk(3, 4, 3).start, 3);
        let on_2x2 = |a, b| nested(5, [(2, a), (2, b)]).len;
        assert_eq!([on_2x2(0, 0), on_2x2(0, 1), on_2x2(1, 0), on_2x2(1, 1)], [2, 1, 1, 1]);
    }

    #[test]
    fn an_empty_nested_part_starts_at_the_end_of_its_parent() {
        assert_eq!(nested(5, [(4, 2), (2, 1)]), Span { start: 5, len: 0 });
    }

    /// Cuts a list of the actual indices with `slice::chunks`, as the oracle.
    fn oracle(list: &[usize], cuts: &[(usize, usize)]) -> Vec<usize> {
        let mut list = list.to_vec();
        for &(parts, index) in cuts {
            let size = list.len().div_ceil(parts).max(1);
            list = list.chunks(size).nth(index).map(<[usize]>::to_vec).unwrap_or_default();
        }
        list
    }

    proptest! {
        #[test]
        fn nested_cuts_equal_the_list_oracle(
            len in 0usize..40,
            cuts in proptest::collection::vec((1usize..5).prop_flat_map(|p| (Just(p), 0..p)), 0..4),
        ) {
            let list: Vec<usize> = (0..len).collect();
            let span = nested(len, cuts.iter().copied());
            prop_assert_eq!(&list[span.start..span.end()], &oracle(&list, &cuts)[..]);
        }
    }
}
