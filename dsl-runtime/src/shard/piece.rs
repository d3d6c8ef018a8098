//! Boxes of a tensor: what one rank holds of the whole.

use smallvec::SmallVec;

/// One number per tensor dimension.
pub type Dims = SmallVec<[usize; 4]>;

/// A run of indices of one dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first index.
    pub start: usize,
    /// How many.
    pub len: usize,
}

impl Span {
    /// One past the last index.
    pub fn end(self) -> usize {
        self.start + self.len
    }

    /// The indices in both spans.
    pub fn intersect(self, other: Span) -> Span {
        let start = self.start.max(other.start);
        let end = self.end().min(other.end());
        Span { start, len: end.saturating_sub(start) }
    }
}

/// A box of a tensor: one span per dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Piece(pub SmallVec<[Span; 4]>);

impl Piece {
    /// The lengths of the box.
    pub fn shape(&self) -> Dims {
        self.0.iter().map(|span| span.len).collect()
    }

    /// The first index on every dimension.
    pub fn offset(&self) -> Dims {
        self.0.iter().map(|span| span.start).collect()
    }

    /// How many elements it holds.
    pub fn elements(&self) -> usize {
        self.0.iter().map(|span| span.len).product()
    }

    /// The box of what is in both.
    pub fn intersect(&self, other: &Piece) -> Piece {
        Piece(self.0.iter().zip(&other.0).map(|(a, b)| a.intersect(*b)).collect())
    }
}
