//! What can go wrong, said in four parts: what was being done, on which mesh, who offends, what to do.

use std::fmt;
use std::panic::Location;

/// The result of every fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of a distributed operation.
///
/// Every variant prints as a message of up to four parts: what was being done and to what, and where; the mesh; one line per
/// offender with what was expected and what was given; what to do about it. No tensor data is ever printed. The debug form
/// is the same text, so that a program whose `main` returns the error shows it readably.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A placement is not what is required here, or cannot be used this way.
    #[error("{0}")]
    Placement(Report),
    /// A mesh cannot be built, differs from another one, or is missing.
    #[error("{0}")]
    Mesh(Report),
    /// A shape or a length does not fit.
    #[error("{0}")]
    Shape(Report),
    /// An element type does not fit the operation.
    #[error("{0}")]
    DType(Report),
    /// The ranks of a group called different operations, or the same one with different arguments.
    #[error("{0}")]
    Mismatch(Report),
    /// The engine or the device cannot do this.
    #[error("{0}")]
    Unsupported(Report),
    /// This rank is outside the mesh, so it has no part of the value.
    #[error("{0}")]
    Absent(Report),
    /// Another rank failed first; this one could not go on without it.
    #[error("{doing}: rank {rank} failed\n  - rank {rank}: {}", Indented(cause))]
    PeerFailed {
        /// What this rank was doing.
        doing: String,
        /// The rank that failed first.
        rank: usize,
        /// Its message.
        cause: String,
    },
    /// A peer has returned from its program and can never take part again.
    #[error(
        "{doing}: rank {rank} has already returned and can never arrive\n  \
         make sure that every rank makes the same calls in the same order"
    )]
    PeerReturned {
        /// What this rank was doing.
        doing: String,
        /// The rank that has returned.
        rank: usize,
    },
    /// Somebody did not arrive before the deadline.
    #[error("{0}")]
    TimedOut(Report),
    /// A rank of a [`launch`](crate::comm::launch) failed: the root cause, and what the others saw.
    ///
    /// The message holds that of the cause and of all its sources, so there is no
    /// [`source`](std::error::Error::source), which reporters would print once more; match the variant for the typed error.
    #[error("rank {rank} failed: {}{}", Indented(Chained(&**cause)), Seen(seen))]
    Rank {
        /// The rank that failed first.
        rank: usize,
        /// Why it failed.
        cause: Box<dyn std::error::Error + Send + Sync>,
        /// What every other failed rank reported, as (rank, message).
        seen: Vec<(usize, String)>,
    },
    /// candle refused an operation on local tensors.
    #[error(transparent)]
    Tensor(candle_core::Error),
}

impl Error {
    /// The same error with a message that begins by saying what was being done around it; candle's errors and those of a
    /// launch stay as they are.
    pub(crate) fn within(mut self, doing: impl fmt::Display) -> Error {
        match &mut self {
            Error::PeerFailed { doing: inner, .. } | Error::PeerReturned { doing: inner, .. } => {
                *inner = format!("{doing}: {inner}");
            }
            other => {
                if let Some(report) = other.report() {
                    report.doing = format!("{doing}: {}", report.doing);
                }
            }
        }
        self
    }

    /// The same error with the author's line, unless it names one already. Errors about other ranks have the lines of all.
    pub(crate) fn called_at(mut self, site: &'static Location<'static>) -> Error {
        if !matches!(self, Error::Mismatch(_) | Error::TimedOut(_))
            && let Some(report) = self.report()
        {
            report.site.get_or_insert(site);
        }
        self
    }

    fn report(&mut self) -> Option<&mut Report> {
        match self {
            Error::Placement(report)
            | Error::Mesh(report)
            | Error::Shape(report)
            | Error::DType(report)
            | Error::Mismatch(report)
            | Error::Unsupported(report)
            | Error::Absent(report)
            | Error::TimedOut(report) => Some(report),
            Error::PeerFailed { .. } | Error::PeerReturned { .. } | Error::Rank { .. } | Error::Tensor(_) => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text of an [`Error`], part by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    doing: String,
    /// The author's line.
    site: Option<&'static Location<'static>>,
    mesh: Option<String>,
    offenders: Vec<String>,
    advice: Option<String>,
}

impl Report {
    /// Starts a report with what was being done, to which function and argument.
    pub fn new(doing: impl Into<String>) -> Self {
        Report { doing: doing.into(), ..Report::default() }
    }

    /// Adds the mesh, as it prints itself.
    #[must_use]
    pub fn on(mut self, mesh: &impl fmt::Display) -> Self {
        self.mesh = Some(mesh.to_string());
        self
    }

    /// Adds one offender: what it is, what was expected, what was given.
    #[must_use]
    pub fn offender(mut self, line: impl Into<String>) -> Self {
        self.offenders.push(line.into());
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn advice(mut self, line: impl Into<String>) -> Self {
        self.advice = Some(line.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.doing)?;
        if let Some(site) = &self.site {
            write!(f, "\n  called at {site}")?;
        }
        if let Some(mesh) = &self.mesh {
            write!(f, "\n  {mesh}")?;
        }
        for line in &self.offenders {
            write!(f, "\n  - {}", Indented(line))?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  {advice}")?;
        }
        Ok(())
    }
}

/// A message within another one: its lines after the first are indented.
struct Indented<T>(T);

impl<T: fmt::Display> fmt::Display for Indented<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_string().replace('\n', "\n    "))
    }
}

/// An error and all that caused it, as `outer: inner`; what an outer message says already is not repeated.
pub(crate) struct Chained<'a>(pub(crate) &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes = std::iter::successors(Some(self.0), |error| error.source());
        let text = causes.map(without_backtrace).fold(String::new(), |text, cause| match text.contains(&cause) {
            true => text,
            false if text.is_empty() => cause,
            false => format!("{text}: {cause}"),
        });
        f.write_str(&text)
    }
}

/// candle prints its backtraces within its messages.
fn without_backtrace(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref() {
        Some(candle_core::Error::WithBacktrace { inner, .. }) => without_backtrace(&**inner),
        _ => error.to_string(),
    }
}

/// The tail of a launch error: what the ranks that failed later saw, those that saw the same together.
struct Seen<'a>(&'a [(usize, String)]);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
        for (rank, message) in self.0 {
            let first = message.lines().next().unwrap_or_default();
            match groups.iter_mut().find(|(line, _)| *line == first) {
                Some((_, ranks)) => ranks.push(rank.to_string()),
                None => groups.push((first, vec![rank.to_string()])),
            }
        }
        groups.iter().try_for_each(|(line, ranks)| {
            let plural = if ranks.len() == 1 { "" } else { "s" };
            write!(f, "\n  - then rank{plural} {}: {line}", ranks.join(", "))
        })
    }
}

impl From<candle_core::Error> for Error {
    /// Gives back the typed error if candle's carries one of ours, and drops candle's backtrace otherwise.
    fn from(error: candle_core::Error) -> Self {
        match error {
            candle_core::Error::WithBacktrace { inner, .. } => (*inner).into(),
            candle_core::Error::Io(io) => from_io(io),
            candle_core::Error::Context { inner, context } => match Error::from(*inner) {
                Error::Tensor(inner) => Error::Tensor(candle_core::Error::Context { inner: Box::new(inner), context }),
                ours => ours.within(context),
            },
            other => Error::Tensor(other),
        }
    }
}

fn from_io(io: std::io::Error) -> Error {
    match io.downcast::<Error>() {
        Ok(ours) => ours,
        Err(io) => Error::Tensor(candle_core::Error::Io(io)),
    }
}

impl From<Error> for candle_core::Error {
    /// Keeps the message clean and the typed error recoverable: `Error::from` on the result gives it back.
    fn from(error: Error) -> Self {
        match error {
            Error::Tensor(inner) => inner,
            ours => candle_core::Error::Io(std::io::Error::other(ours)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_parts_print_in_order() {
        let report = Report::new("f: argument `x` is misplaced")
            .on(&"mesh (dp=2)")
            .offender("x: f32[4] is (Replicate), required (Shard(0))")
            .advice("add `reshard` to the attribute");
        let lines = [
            "f: argument `x` is misplaced",
            "  mesh (dp=2)",
            "  - x: f32[4] is (Replicate), required (Shard(0))",
            "  add `reshard` to the attribute",
        ];
        assert_eq!(Error::Placement(report).to_string(), lines.join("\n"));
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn chained(texts: &[&'static str]) -> String {
        let outer = texts.iter().rev().fold(None, |source, text| Some(Box::new(Layer { text, source })));
        outer.map(|error| Chained(&*error).to_string()).unwrap_or_default()
    }

    #[test]
    fn sources_follow_unless_they_are_said_already() {
        assert_eq!(chained(&["no data"]), "no data");
        assert_eq!(chained(&["epoch 2", "cannot read", "no such file"]), "epoch 2: cannot read: no such file");
        assert_eq!(chained(&["cannot read: no such file", "no such file"]), "cannot read: no such file");
    }

    #[test]
    fn candle_errors_print_and_report_their_sources_once() {
        let io = std::io::Error::other(Layer {
            text: "outer",
            source: Some(Box::new(Layer { text: "inner", source: None })),
        });
        let error = Error::from(candle_core::Error::from(io));
        assert_eq!(Chained(&error).to_string(), "outer: inner");
    }

    #[test]
    fn what_is_done_around_an_error_is_said_of_every_kind() {
        let reports =
            [Error::Mismatch, Error::TimedOut, Error::Absent, Error::Shape].map(|kind| kind(Report::new("inner")));
        let peers = [
            Error::PeerFailed { doing: "inner".to_owned(), rank: 1, cause: "no data".to_owned() },
            Error::PeerReturned { doing: "inner".to_owned(), rank: 1 },
        ];
        for error in reports.into_iter().chain(peers) {
            let message = error.within("outer").to_string();
            assert!(message.starts_with("outer: inner"), "{message}");
        }
    }

    #[test]
    fn a_trip_through_candle_keeps_the_type_and_the_message() {
        let there = candle_core::Error::from(Error::Mesh(Report::new("no mesh")));
        assert_eq!(there.to_string(), "no mesh");
        assert!(matches!(Error::from(there), Error::Mesh(_)));
    }
}
