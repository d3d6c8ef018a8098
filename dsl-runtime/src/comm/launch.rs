//! Launching: one thread per rank, and the root cause where one fails.

use std::any::Any;
use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use local_map_rendezvous::{Limits, Roster};

use super::World;
use super::threads::Threads;
use crate::error::{Chained, Error, Report, Result};

/// The most ranks of one launch: each is a thread with a stack of its own.
const MOST_RANKS: usize = 65_536;

type Cause = Box<dyn StdError + Send + Sync>;

/// Runs `program` on `ranks` threads, one per rank, and returns every rank's value in rank order.
///
/// ```
/// use local_map::prelude::*;
/// use local_map::Result;
/// let squares = launch(3, |world| -> Result<usize> { Ok(world.rank() * world.rank()) })?;
/// assert_eq!(squares, [0, 1, 4]);
/// # Ok::<(), local_map::Error>(())
/// ```
///
/// # Errors
/// [`Error::Rank`] with the message of the rank that failed first, whether it returned an error or panicked. The other
/// ranks end at their next meeting with it; what they saw is listed.
pub fn launch<T, E>(ranks: usize, program: impl Fn(World) -> std::result::Result<T, E> + Sync) -> Result<Vec<T>>
where
    T: Send,
    E: Into<Cause>,
{
    Launch::new(ranks).run(program)
}

/// A launch with settings of its own.
#[derive(Clone, Debug)]
pub struct Launch {
    ranks: usize,
    deadline: Option<Duration>,
    stack: usize,
    seed: u64,
}

impl Launch {
    /// A launch of `ranks` ranks, with stacks of 64 MiB, whose waits end after `LOCAL_MAP_TIMEOUT` seconds, or else
    /// 10 minutes.
    pub fn new(ranks: usize) -> Launch {
        Launch { ranks, deadline: None, stack: 64 << 20, seed: 0 }
    }

    /// How long any wait may last, whatever `LOCAL_MAP_TIMEOUT` says.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Launch {
        self.deadline = Some(deadline);
        self
    }

    /// The stack of each rank's thread, in bytes.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Launch {
        self.stack = bytes;
        self
    }

    /// The seed that all random numbers of regions follow from; 0 unless it is set.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Launch {
        self.seed = seed;
        self
    }

    /// Runs `program` on every rank.
    ///
    /// # Errors
    /// As for [`launch`]; also no ranks, more than 65,536, or a `LOCAL_MAP_TIMEOUT` that is no number of seconds.
    pub fn run<T, E>(&self, program: impl Fn(World) -> std::result::Result<T, E> + Sync) -> Result<Vec<T>>
    where
        T: Send,
        E: Into<Cause>,
    {
        if self.ranks == 0 {
            return Err(Error::Mesh(Report::new("a launch needs at least one rank")));
        }
        if self.ranks > MOST_RANKS {
            return Err(Error::Mesh(
                Report::new(format!("a launch of {} ranks is too large", self.ranks))
                    .offender(format!("every rank is a thread, of which there can be {MOST_RANKS}"))
                    .advice("launch fewer ranks, or plan with `World::fake`, which starts none"),
            ));
        }
        warn_of_many_compute_threads();
        let roster = Roster::new(self.ranks, self.limits()?);
        let threads = Arc::new(Threads::new(roster.clone()));
        let one = |rank| run_rank(&roster, World::threads(rank, self.seed, &roster, &threads), &program);
        let outcomes = self.on_threads(&roster, &one);
        collect(outcomes, &roster)
    }

    fn on_threads<T: Send>(
        &self,
        roster: &Roster,
        one: &(impl Fn(usize) -> std::result::Result<T, Cause> + Sync),
    ) -> Vec<std::result::Result<T, Cause>> {
        thread::scope(|scope| {
            let spawn = |rank| {
                let builder = thread::Builder::new().name(format!("rank {rank}")).stack_size(self.stack);
                let spawned = builder.spawn_scoped(scope, move || one(rank));
                // A rank that could not start must not be waited for.
                spawned.inspect_err(|e| roster.fail(rank, format!("its thread cannot start: {e}")))
            };
            let handles: Vec<_> = (0..self.ranks).map(spawn).collect();
            handles.into_iter().map(|spawned| join(spawned?)).collect()
        })
    }

    fn limits(&self) -> Result<Limits> {
        let mut limits = Limits::default();
        match (self.deadline, std::env::var("LOCAL_MAP_TIMEOUT")) {
            (Some(deadline), _) => limits.deadline = deadline,
            (None, Ok(text)) => limits.deadline = seconds(&text)?,
            (None, Err(_)) => {}
        }
        Ok(limits)
    }
}

fn join<T>(handle: thread::ScopedJoinHandle<'_, std::result::Result<T, Cause>>) -> std::result::Result<T, Cause> {
    handle.join().unwrap_or_else(|panic| Err(message_of(&*panic).into()))
}

fn seconds(text: &str) -> Result<Duration> {
    let parsed = text.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    parsed.ok_or_else(|| {
        Error::Unsupported(
            Report::new(format!("LOCAL_MAP_TIMEOUT is `{text}`, which is no number of seconds"))
                .advice("set it to a number such as 600, or unset it"),
        )
    })
}

/// One rank, from its world to its outcome; the roster learns how it ended.
fn run_rank<T, E: Into<Cause>>(
    roster: &Roster,
    world: World,
    program: &(impl Fn(World) -> std::result::Result<T, E> + Sync),
) -> std::result::Result<T, Cause> {
    let rank = world.rank();
    let outcome = match catch_unwind(AssertUnwindSafe(|| program(world))) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(clean(error.into())),
        Err(panic) => Err(format!("it panicked: {}", message_of(&*panic)).into()),
    };
    match &outcome {
        Ok(_) => roster.leave(rank),
        Err(cause) => roster.fail(rank, Chained(&**cause).to_string()),
    }
    outcome
}

/// candle's errors print a backtrace inside their message, and may carry one of ours.
fn clean(cause: Cause) -> Cause {
    match cause.downcast::<candle_core::Error>() {
        Ok(candle) => Box::new(Error::from(*candle)),
        Err(other) => other,
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a value that is no text".to_owned())
}

/// All values, or the failure that came first with what the others saw.
fn collect<T>(outcomes: Vec<std::result::Result<T, Cause>>, roster: &Roster) -> Result<Vec<T>> {
    let culprit = roster.culprit().map(|failure| failure.rank);
    let (mut values, mut cause, mut seen) = (Vec::new(), None, Vec::new());
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(value) => values.push(value),
            Err(error) if culprit.is_none_or(|c| c == rank) => cause = Some((rank, error)),
            Err(error) => seen.push((rank, Chained(&*error).to_string())),
        }
    }
    match cause {
        None => Ok(values),
        Some((rank, cause)) => Err(Error::Rank { rank, cause, seen }),
    }
}

fn warn_of_many_compute_threads() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if std::env::var_os("RAYON_NUM_THREADS").is_none() {
        ONCE.call_once(|| {
            local_map_rendezvous::warning(format_args!(
                "RAYON_NUM_THREADS is not set: every matrix product of every rank asks for the number of cores anew \
                 and uses them all; set it to 1"
            ));
        });
    }
}
