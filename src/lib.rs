//! Write a function over plain tensors, annotate it, and call it on distributed tensors.
//!
//! A [`DTensor`] is a tensor that is spread over the ranks of a mesh: along each mesh axis it is cut
//! ([`Shard`](Placement::Shard)), whole on every rank ([`Replicate`](Placement::Replicate)), or made up of partial values
//! ([`Partial`](Placement::Partial)). The attribute [`local_map`] turns a function over plain [candle] tensors into a *region*
//! over distributed ones: it checks how the arguments are placed, hands each rank's local pieces to the body, and labels
//! what the body returns.
//!
//! [candle]: https://docs.rs/candle-core
//!
//! ```
//! use candle_core::{DType, Device, Result, Tensor};
//! use local_map::prelude::*;
//!
//! /// Rows of `x` are spread over the ranks, `w` is whole on each: no communication.
//! #[local_map(in = [[Shard(0)], [Replicate]], out = [Shard(0)])]
//! fn project(x: &Tensor, w: &Tensor) -> Result<Tensor> {
//!     x.matmul(w)
//! }
//!
//! /// Each rank squares and adds up its rows; the addends make up the sum.
//! #[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
//! fn energy(x: &Tensor) -> Result<Tensor> {
//!     x.sqr()?.sum_all()
//! }
//!
//! let energies = launch(3, |world| -> Result<f32> {
//!     let mesh = world.mesh([("dp", 3)])?;
//!     let x = Tensor::ones((7, 4), DType::F32, &Device::Cpu)?; // 3, 3 and 1 rows
//!     let w = Tensor::ones((4, 2), DType::F32, &Device::Cpu)?;
//!     let x = DTensor::shard(&x, &mesh, &[Shard(0)])?;
//!     let w = DTensor::from_local(w, &mesh, &[Replicate])?;
//!     energy(&project(&x, &w)?)?.full()?.to_scalar()
//! })?;
//! assert_eq!(energies, [224.0; 3]); // 14 elements of 4 squared, on every rank
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! # Where things are
//!
//! * [`launch`] runs a program on several ranks, as threads of one process; each gets its [`World`]. [`Launch`] has settings:
//!   the deadline of waits, the stack, the [`seed`](Launch::seed) of what regions draw.
//! * [`World::mesh`] arranges ranks in a named grid, a [`DeviceMesh`], which is a [`Mesh`] with its communicators.
//! * [`DTensor`] has the constructors, [`reshard`](DTensor::reshard), [`full`](DTensor::full) and
//!   [`backward`](DTensor::backward). Its [`Spec`] is the mesh, the placements, the global shape and the element type.
//! * [`Placement`] and [`ReduceOp`] are values; [`Shard`], [`Replicate`], [`Partial`] are the same as [types](#placements-that-the-compiler-knows).
//! * [`Param`] is a tensor to be trained, [`Gradients`] what backward gives, [`no_grad`] runs code that needs none.
//! * [`Region`] is the context of a body: its place in the mesh, collectives that are differentiated, seeds.
//! * [`Sources`] label what plain code computed from local pieces, so that gradients flow back through it.
//! * [`Distribute`] is for structs of tensors, [`local_layer`] for their methods.
//! * [`Communicator`] has collectives on plain tensors, for code beside regions.
//! * [`Plan`] is what a reshard will do; [`DTensor::explain`] prints it.
//! * [`ops`] has functions for bodies that must also run on an empty shard.
//! * [`messages`] explains what the compiler says of wrong attributes.
//! * [`Error`] says what was being done, on which mesh, who offends and what to do.
//!
//! # The attribute
//!
//! [`local_map`] is the reference of the language: every key, what is written where, the expansion and the errors; [`messages`] explains
//! what the compiler says. Three examples:
//!
//! ```
//! use candle_core::{DType, Device, Result, Tensor};
//! use local_map::prelude::*;
//!
//! /// How many elements a rank keeps depends on the data, so the ranks exchange their lengths: `ragged`.
//! #[local_map(in = [[Shard(0)]], out = [Shard(0, ragged)])]
//! fn positive(x: &Tensor) -> Result<Tensor> {
//!     let kept: Vec<f32> = x.to_vec1::<f32>()?.into_iter().filter(|value| *value > 0.0).collect();
//!     Tensor::new(kept, x.device())
//! }
//!
//! /// No parameter is distributed, so `mesh` says where the result lives. Every rank makes as many rows: `Shard(0)` will do.
//! #[local_map(out = [Shard(0)], mesh = mesh)]
//! fn own_rank(mesh: &DeviceMesh, rows: usize) -> Result<Tensor> {
//!     Tensor::full(mesh.world().rank() as f32, rows, &Device::Cpu)
//! }
//!
//! /// The context communicates within the body: here every rank learns how many elements are masked, whatever it has itself.
//! #[local_map(in = [[Shard(0)], [Shard(0)]], out = [Partial(Sum)])]
//! fn masked_mean(x: &Tensor, mask: &Tensor, ctx: &Region) -> Result<Tensor> {
//!     let count = ctx.all_reduce(&mask.sum_all()?, "dp", Sum)?;
//!     (x * mask)?.sum_all()? / count
//! }
//!
//! launch(2, |world| -> Result<()> {
//!     let mesh = world.mesh([("dp", 2)])?;
//!     let x = DTensor::shard(&Tensor::new(&[1f32, -2.0, 3.0, 4.0], &Device::Cpu)?, &mesh, &[Shard(0)])?;
//!     let positive = positive(&x)?; // 1 element on rank 0, 2 on rank 1
//!     assert_eq!(positive.full()?.to_vec1::<f32>()?, [1.0, 3.0, 4.0]);
//!     assert_eq!(own_rank(&mesh, 2)?.full()?.to_vec1::<f32>()?, [0.0, 0.0, 1.0, 1.0]);
//!     let mask = DTensor::shard(&Tensor::new(&[1f32, 0.0, 1.0, 1.0], &Device::Cpu)?, &mesh, &[Shard(0)])?;
//!     let mean: f32 = masked_mean(&x, &mask)?.full()?.to_scalar()?;
//!     assert!((mean - 8.0 / 3.0).abs() < 1e-6);
//!     Ok(())
//! })?;
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! In the attribute, `Partial` alone is short for `Partial(Sum)`; as a value, in calls such as
//! [`reshard`](DTensor::reshard), it is always written with its op. Generated code names this crate `::local_map`: where it is
//! renamed in `Cargo.toml`, or only reached through another crate, every attribute needs `crate = name`.
//!
//! # Placements that the compiler knows
//!
//! A [`DTensor`] has a *layout* as its argument: what the compiler knows of its placements. `DTensor<(Shard<0>, Replicate)>` is cut
//! into rows along the first mesh axis and whole along the second; `DTensor` alone is [`DTensor<Dyn>`](Dyn), of which nothing is
//! known. The results of annotated functions have the layout that `out` says, and arguments must have the one that `in` says: a chain
//! `f(&g(&x)?)?` whose placements clash does not compile, unless `f` says `reshard`. An argument without a layout is checked when
//! the function is called.
//!
//! ```
//! # use candle_core::{DType, Device, Result, Tensor};
//! # use local_map::prelude::*;
//! /// Rows of samples, on meshes of one axis.
//! type Batch = DTensor<(Shard<0>,)>;
//!
//! #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
//! fn squared(x: &Tensor) -> Result<Tensor> {
//!     x.sqr()
//! }
//!
//! #[local_map(in = [[Shard(0)]], out = [Partial(Sum)])]
//! fn total(x: &Tensor) -> Result<Tensor> {
//!     x.sum_all()
//! }
//!
//! launch(2, |world| -> Result<()> {
//!     let ones = Tensor::ones(4, DType::F32, &Device::Cpu)?;
//!     let x = DTensor::shard(&ones, &world.mesh([("dp", 2)])?, &[Shard(0)])?; // `DTensor<Dyn>`
//!     let x: Batch = x.cast()?; // checked here, and known from here on
//!     let y: Batch = squared(&x)?;
//!     let sum: DTensor<(Partial,)> = total(&y)?;
//!     let whole = sum.reshard_to::<(Replicate,)>()?;
//!     assert_eq!(whole.full()?.to_scalar::<f32>()?, 4.0);
//!     Ok(())
//! })?;
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! Here `squared(&sum)` would be an error of the compiler:
//!
//! ```compile_fail
//! # use candle_core::{Result, Tensor};
//! # use local_map::prelude::*;
//! # #[local_map(in = [[Shard(0)]], out = [Shard(0)])]
//! # fn squared(x: &Tensor) -> Result<Tensor> { x.sqr() }
//! # fn wrong(sum: &DTensor<(Partial,)>) -> Result<()> {
//! squared(&sum)?;
//! # Ok(()) }
//! ```
//!
//! ```text
//! error[E0277]: this argument is placed as `local_map::Partial` on mesh axis `Axis<'0'>`, where `local_map::Shard<0>` is required
//! ```
//!
//! Where layouts are in the way, there are ways out of them:
//!
//! | in the way of | write |
//! |---|---|
//! | a collection, or a variable that is assigned in a loop | [`y.erase()`](DTensor::erase), or `y.into()`, which give a `DTensor` |
//! | a function that takes `&DTensor` | `let y = f(&x)?; show(&y)`, as a reference to a known layout becomes one to an unknown; or `show(f(&x)?.as_dyn())` |
//! | a function for all layouts | `fn show<L>(x: &DTensor<L>)`, with [`x.as_dyn()`](DTensor::as_dyn) inside, or `x: impl AsRef<DTensor>` |
//! | `x + y.reshard_to()?`, of which the compiler cannot tell the layout | it: `y.reshard_to::<(Replicate,)>()?`; an alias is of the tuple, `type Whole = (Replicate,)` |
//! | a trait's method, `dyn Layer`, a function pointer | the flag `dynamic`: the signature then has `DTensor` alone |
//!
//! Layouts have up to four axes. Dims from the end and ragged ones, `Shard(-1)` and `Shard(0, ragged)`, are `Dyn` on their axis; tensors
//! within `Option`, `Vec`, arrays and slices have no layout.
//!
//! # Results and errors
//!
//! Methods of this crate return [`local_map::Result`](Result); candle's functions, and annotated functions that say so, return
//! candle's. `?` converts in both directions and keeps the typed error: [`Error::from`] of candle's gives ours back. Only where
//! a function *ends* in a result of the other kind it needs `Ok(..?)`:
//!
//! ```
//! # use local_map::prelude::*;
//! fn largest(x: &DTensor) -> candle_core::Result<candle_core::Tensor> {
//!     Ok(x.reshard(&[Replicate])?.to_local()?)
//! }
//! ```
//!
//! Iterators convert nothing: collect results in the kind that their items have, `collect::<local_map::Result<Vec<_>>>()?`.
//!
//! A closure given to [`launch`] needs its type, `|world| -> Result<T> { .. }`: `launch` takes any error, and `?` converts to
//! any, so the compiler could not tell which is meant. A named function has its type anyway: `launch(2, program)`.
//!
//! Errors of one's own work on both sides: a program may fail with anything that converts into
//! `Box<dyn std::error::Error + Send + Sync>`, and an annotated function with any `E: From<local_map::Error>`. That
//! box is both (without `Send + Sync` it is not, as errors leave their thread), and so are anyhow's errors.
//!
//! # Gradients
//!
//! [`backward`](DTensor::backward) gives the gradient of the *global* function: what one device would compute, whatever the
//! placements. Leaves are [`Param`]s, and tensors that [`requires_grad`](DTensor::requires_grad) returned; a gradient has the
//! placements of its leaf.
//!
//! ```
//! use candle_core::{DType, Device, Result, Tensor};
//! use candle_nn::{Optimizer, SGD};
//! use local_map::prelude::*;
//!
//! #[local_map(in = [[Shard(0)], [Shard(0)], [Replicate], _], out = [Partial(Sum)])]
//! fn squared_error(x: &Tensor, y: &Tensor, w: &Tensor, rows: usize) -> Result<Tensor> {
//!     (x.matmul(w)? - y)?.sqr()?.sum_all()? / rows as f64
//! }
//!
//! let slopes = launch(2, |world| -> Result<f32> {
//!     let mesh = world.mesh([("dp", 2)])?;
//!     let x = Tensor::new(&[[1f32], [2.0], [3.0]], &Device::Cpu)?; // 2 rows and 1
//!     let y = DTensor::shard(&(&x * 5.0)?, &mesh, &[Shard(0)])?;
//!     let x = DTensor::shard(&x, &mesh, &[Shard(0)])?;
//!     let w = Param::new(&DTensor::from_local(Tensor::zeros((1, 1), DType::F32, &Device::Cpu)?, &mesh, &[Replicate])?)?;
//!     let mut optimizer = SGD::new(vec![w.var()?], 0.1)?;
//!     for _ in 0..20 {
//!         let gradients = squared_error(&x, &y, &w, 3)?.backward()?;
//!         optimizer.step(&gradients.to_store([&w])?)?;
//!     }
//!     w.to_local()?.flatten_all()?.get(0)?.to_scalar()
//! })?;
//! assert!(slopes.iter().all(|slope| (slope - 5.0).abs() < 1e-3), "{slopes:?}");
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! * [`Gradients::get`] gives the gradient of one leaf, [`Gradients::clip_global_norm`] bounds them together,
//!   [`Gradients::add`] accumulates over micro-batches, which [`Param::defer_reduction`] lets communicate once.
//! * Plain code between [`to_local`](DTensor::to_local) and [`from_local`](Sources::from_local) is differentiated where
//!   [`Sources`] name what it computes from.
//! * A candle `Var` that a body reaches beside its arguments has this rank's own gradient: [`Gradients::local`].
//! * The tape is used up by backward: each pass has a forward of its own.
//! * The tables of how a body's gradients are labelled, and `grad` to say otherwise, are at [`local_map`](macro@local_map#gradients);
//!   `recompute` there trades time for memory.
//! * What cannot be differentiated (`Partial` of `Prod`, `Any` or `All`) is an error when it is recorded, not in backward.
//!
//! # Layers
//!
//! A struct of tensors with `#[derive(Distribute)]` can be given a method that is a region, by [`local_layer`]: the struct's own
//! tensors are inputs, too, whose placements are checked when it is called. [`local_map`](local_map#structs) takes and returns such
//! structs. Structs nest; [`parameters`](Distribute::parameters) lists by name what is trained, and
//! [`variables`](Distribute::variables) gives it to candle's optimizers.
//!
//! ```
//! use candle_core::{DType, Device, Result, Tensor};
//! use local_map::prelude::*;
//!
//! /// The columns of `up` and the rows of `down` are spread over the ranks.
//! #[derive(Distribute)]
//! struct Mlp<T = DTensor> {
//!     #[place(Shard(1))]
//!     up: T,
//!     #[place(Shard(0))]
//!     down: T,
//!     scale: f64,
//! }
//!
//! #[local_layer(in = [[Replicate]], out = [Partial(Sum)])]
//! impl Mlp<Tensor> {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         x.matmul(&self.up)?.sqr()?.matmul(&self.down)? * self.scale
//!     }
//! }
//!
//! /// Structs are parameters and results of functions, too; `{..}`: the fields say how they are placed.
//! #[local_map(in = [{..}], out = [Partial(Sum)])]
//! fn weight_decay(mlp: &Mlp<Tensor>) -> Result<Tensor> {
//!     mlp.up.sqr()?.sum_all()? + mlp.down.sqr()?.sum_all()?
//! }
//!
//! launch(2, |world| -> Result<()> {
//!     let mesh = world.mesh([("tp", 2)])?;
//!     let ones = |shape, placement| DTensor::shard(&Tensor::ones(shape, DType::F32, &Device::Cpu)?, &mesh, &[placement]);
//!     let up = Param::new(&ones((3, 4), Shard(1))?)?.into();
//!     let down = Param::new(&ones((4, 1), Shard(0))?)?.into();
//!     let mlp: Mlp = Mlp { up, down, scale: 0.5 }; // the type says what `into` makes: tensors
//!     let y = mlp.forward(&ones((1, 3), Replicate)?)?.reshard(&[Replicate])?;
//!     assert_eq!(y.full()?.flatten_all()?.to_vec1::<f32>()?, [18.0]); // 4 columns of 3 squared, by a half
//!     assert_eq!(weight_decay(&mlp)?.full()?.to_scalar::<f32>()?, 16.0);
//!     let gradients = y.backward()?;
//!     for (name, parameter) in mlp.parameters() {
//!         assert!(gradients.get(parameter).is_some(), "{name}"); // `up` and `down`
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), local_map::Error>(())
//! ```
//!
//! # Environment
//!
//! | variable | meaning |
//! |---|---|
//! | `RAYON_NUM_THREADS=1` | one compute thread per rank; without it candle detects the cores anew in every matrix product |
//! | `LOCAL_MAP_TIMEOUT` | the longest that a rank waits for others, in seconds (600) |
//! | `LOCAL_MAP_CHECK=1` | verify after every region that replicas are bitwise equal and shapes fit |

/// The candle of this crate's tensors: a program that takes it from here cannot have another version.
pub use candle_core;
#[doc = include_str!("language/distribute.md")]
#[doc(inline)]
pub use local_map_macros::Distribute;
#[doc = include_str!("language/local_layer.md")]
#[doc(inline)]
pub use local_map_macros::local_layer;
#[doc = include_str!("language/local_map.md")]
#[doc(inline)]
pub use local_map_macros::local_map;
#[doc(inline)]
pub use local_map_runtime::call::{Distribute, Region, Sources};
#[doc(inline)]
pub use local_map_runtime::comm::{DeviceMesh, Launch, World, launch};
#[doc(inline)]
pub use local_map_runtime::error::{Error, Report, Result};
#[doc(inline)]
pub use local_map_runtime::grad::{Gradients, Param};
#[doc(inline)]
pub use local_map_runtime::mesh::Mesh;
#[doc(inline)]
pub use local_map_runtime::ops;
#[doc(inline)]
pub use local_map_runtime::placement::types::{
    All, Any, Avg, Axis, Dyn, Max, Min, Partial, Prod, Replicate, Shard, Sum,
};
#[doc(inline)]
pub use local_map_runtime::placement::{Placement, Placements, ReduceOp, types};
#[doc(inline)]
pub use local_map_runtime::plan::{self, Plan};
#[doc(inline)]
pub use local_map_runtime::shard;
#[doc(inline)]
pub use local_map_runtime::spec::{Ragged, Spec};
#[doc(inline)]
pub use local_map_runtime::tensor::{Communicator, DTensor, no_grad};

/// What programs import: `use local_map::prelude::*;`.
///
/// `Shard(0)` is a value and a pattern, `Shard<0>` a type. Nothing here is called `Result`, `Error`, `Layout` or `Context`,
/// which candle has.
pub mod prelude {
    pub use crate::{
        Communicator, DTensor, DeviceMesh, Distribute, Gradients, Mesh, Param, Region, Sources, Spec, World, launch,
        local_layer, local_map, no_grad,
    };
    pub use local_map_runtime::placement::names::*;
    pub use local_map_runtime::placement::types::{All, Any, Avg, Dyn, Max, Min, Partial, Prod, Replicate, Shard, Sum};
}

#[doc = include_str!("messages.md")]
pub mod messages {}

/// What the attribute's expansion uses. Not for programs.
#[doc(hidden)]
pub mod __private {
    pub use local_map_runtime::call::*;
    pub use local_map_runtime::placement::ReduceOp as Op;
}

/// The README's program runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
