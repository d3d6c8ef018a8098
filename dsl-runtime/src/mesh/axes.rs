//! The axes of a mesh: names and sizes.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Report, Result};

/// At least one axis; names are unique and not empty, sizes are not zero, and their product does not overflow.
pub(super) struct Axes {
    names: SmallVec<[Arc<str>; 4]>,
    sizes: SmallVec<[usize; 4]>,
}

impl Axes {
    pub(super) fn new<'a>(axes: impl IntoIterator<Item = (&'a str, usize)>) -> Result<Axes> {
        let (names, sizes) = axes.into_iter().map(|(name, size)| (Arc::from(name), size)).unzip();
        Axes { names, sizes }.checked()
    }

    /// The axes with these indices, in this order.
    pub(super) fn pick(&self, axes: &[usize]) -> Result<Axes> {
        Axes {
            names: axes.iter().map(|&a| self.names[a].clone()).collect(),
            sizes: axes.iter().map(|&a| self.sizes[a]).collect(),
        }
        .checked()
    }

    fn checked(self) -> Result<Axes> {
        match self.fault() {
            None => Ok(self),
            Some(fault) => {
                let report = Report::new("a mesh cannot be built").offender(fault);
                Err(Error::Mesh(
                    report.advice("give at least one axis, each with a name of its own and a size of at least 1"),
                ))
            }
        }
    }

    fn fault(&self) -> Option<String> {
        if self.sizes.is_empty() {
            return Some("it has no axis".to_owned());
        }
        let mut seen: SmallVec<[&str; 4]> = SmallVec::new();
        for (name, size) in self.names.iter().zip(&self.sizes) {
            if name.is_empty() {
                return Some("an axis has an empty name".to_owned());
            }
            if *size == 0 {
                return Some(format!("axis `{name}` has size 0"));
            }
            if seen.contains(&&**name) {
                return Some(format!("axis `{name}` is given twice"));
            }
            seen.push(name);
        }
        let product = self.sizes.iter().try_fold(1, |p: usize, &s| p.checked_mul(s));
        let too_large = product.is_none_or(|p| p > isize::MAX as usize);
        too_large.then(|| format!("({self}) has more ranks than can be counted"))
    }

    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    pub(super) fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|n| &**n)
    }

    pub(super) fn product(&self) -> usize {
        self.sizes.iter().product()
    }
}

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, size)) in self.names().zip(&self.sizes).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={size}")?;
        }
        Ok(())
    }
}
