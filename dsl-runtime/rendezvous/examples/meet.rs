//! How long a meeting takes: `cargo run --release -p local-map-rendezvous --example meet`.
//!
//! Prints, per number of threads and type of value, the median and the quartiles over batches of rounds, in nanoseconds a round.

use local_map_rendezvous::{Broken, Group, Limits, Roster};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use std::{array, thread};

const BATCHES: usize = 101;
const ROUNDS: usize = 1000;

fn main() -> Result<(), Broken> {
    println!("threads  value      ns a round: median (quartiles)");
    for threads in [1, 2, 4, 8] {
        report(threads, "u64", measure(threads, || 7_u64)?);
        let shared: Arc<[f32]> = Arc::new([0.0; 16]);
        report(threads, "Arc", measure(threads, || shared.clone())?);
    }
    Ok(())
}

fn report(threads: usize, value: &str, mut batches: Vec<f64>) {
    batches.sort_by(f64::total_cmp);
    let [low, median, high] = array::from_fn(|quarter| batches[(quarter + 1) * BATCHES / 4]);
    println!("{threads:7}  {value:5} {median:20.0} ({low:.0} to {high:.0})");
}

/// Nanoseconds a round, by batch, as seen by the first member.
fn measure<T: Clone + Send>(threads: usize, value: impl Fn() -> T + Sync) -> Result<Vec<f64>, Broken> {
    let roster = Roster::new(threads, Limits::default());
    let group = Group::new(&roster, (0..threads).collect());
    let run = |me| (0..BATCHES).map(|_| batch(&group, me, &value)).collect::<Result<Vec<f64>, Broken>>();
    thread::scope(|scope| {
        for me in 1..threads {
            scope.spawn(move || run(me));
        }
        run(0)
    })
}

fn batch<T: Clone + Send>(group: &Group<T>, me: usize, value: &impl Fn() -> T) -> Result<f64, Broken> {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(group.meet(me, value(), &"a measurement")?);
    }
    Ok(start.elapsed().as_nanos() as f64 / ROUNDS as f64)
}
