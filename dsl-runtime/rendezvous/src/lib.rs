//! How the threads of one process meet: deposits, waits with deadlines, and failures that reach everybody.
//!
//! A [`Roster`] knows the ranks of one world and what became of each. A [`Group`] is some of those ranks in an order; its
//! members [`meet`](Group::meet) (everybody deposits a value, everybody gets all values), [`send`](Group::send) and
//! [`recv`](Group::recv), or [wait for a condition](Group::wait_until). No wait hangs: a rank that fails or returns breaks the
//! waits that still need it at once, and the deadline breaks the rest with a list of who is where ([`Broken`]).
//!
//! The crate knows nothing of tensors or collectives, and is safe code throughout. The protocol, and why it is right, is told
//! in the crate's `README.md`; `tests/loom.rs` checks it under every interleaving of a small model.
//!
//! ```
//! use local_map_rendezvous::{Group, Limits, Roster};
//! use std::thread;
//!
//! let roster = Roster::new(3, Limits::default());
//! let group = Group::new(&roster, vec![0, 1, 2]);
//! thread::scope(|scope| {
//!     for rank in 0..3 {
//!         let group = &group;
//!         scope.spawn(move || {
//!             let values = group.meet(rank, rank * 10, &"an example")?;
//!             assert_eq!(values, [0, 10, 20]);
//!             Ok::<_, local_map_rendezvous::Broken>(())
//!         });
//!     }
//! });
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod arrivals;
mod broken;
mod circle;
mod group;
mod mailbox;
mod padded;
mod roster;
mod seat;
mod signal;
mod sync;
mod wait;
mod warning;

pub use broken::Broken;
pub use group::Group;
pub use roster::{Failure, Limits, Roster};
pub use warning::warning;
