//! The macros of the crate `local-map`, which re-exports them: depend on that one.
//!
//! One expansion of `#[local_map]` goes through five steps, each in files of its own: the attribute is read (`parse`, `entry`,
//! `placement`, `place`, `own`, `axes`, into `ast`), put beside the function (`function`, `types`, `structs`, into `model`), held against every rule
//! (`check`), and written as a wrapper (`binding`, `expand`, `signature`, `table`). A step never stops at a mistake: it notes it and
//! goes on with its best guess, so that all mistakes appear at once and the rest of the file still compiles.
//!
//! `#[local_layer]` (`layer`) makes a function of a method (`forward`) and sends it the same way; `#[derive(Distribute)]`
//! (`distribute`) reads placements, checks and writes them by the same code.

mod ast;
mod axes;
mod binding;
mod check;
mod distribute;
mod entry;
mod errors;
mod expand;
mod forward;
mod function;
mod layer;
mod layout;
mod model;
mod own;
mod parse;
mod place;
mod placement;
mod signature;
mod structs;
mod suggest;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod types;

use errors::Errors;
use proc_macro2::TokenStream;
use quote::quote;

/// Turns a function over plain tensors into a *region*: a function over distributed tensors.
///
/// A call takes each rank's local piece of every distributed argument, runs the body on these locals, and labels what
/// the body returns as one distributed tensor. The attribute says how arguments must be placed and how results are.
///
/// ```text
/// #[local_map(out = [Partial(Sum)], in = [[Shard(0)], _], reshard)]
/// fn mean(x: &Tensor, count: usize) -> Result<Tensor> {
///     x.sum_all()? / count as f64      // the global count, so that the ranks' addends make up the mean
/// }
/// ```
///
/// Callers see `fn mean(x: &DTensor, count: usize) -> Result<DTensor>`. Programs that run are in
/// [the documentation of `local_map`](../local_map/index.html#the-attribute).
///
/// # Keys and flags
///
/// In any order, separated by commas:
///
/// | written | meaning |
/// |---|---|
/// | `out = ..` | required: how the results are placed |
/// | `in = [entry, ..]` | one entry per parameter, in order, `self` and the context not counted; omitted: every tensor is distributed, with any placements |
/// | `in = { x: entry, .. }` | entries by parameter name; tensors that are not named are distributed, with any placements |
/// | `grad = [entry, ..]`, `grad = { x: entry, .. }` | how the gradients that the body computes are placed: entries as in `in`; omitted: all by default |
/// | `axes = (dp, tp)` | the names and the order of the mesh axes that the entries speak of, 4 at most; needed for entries by axis |
/// | `mesh = expr` | the mesh, required where no parameter is distributed; an expression over the wrapper's parameters, such as `mesh` or `self.mesh` |
/// | `reshard` | arguments that are placed otherwise are resharded; without the flag they are an error |
/// | `recompute` | what the body keeps for its gradient is dropped when it has returned, and backward runs the body again: less memory, more time |
/// | `check` | the results are verified, by communication: shapes fit and replicas are bitwise equal |
/// | `dynamic` | placements are checked when the function is called, never by the types of tensors |
/// | `crate = path` | where `local_map` is found, when it is renamed |
///
/// # Entries
///
/// | written | meaning |
/// |---|---|
/// | `_` | not distributed |
/// | `[placement, ..]` | one placement per mesh axis, in order; all lists of one attribute have the same length |
/// | `{ axis: placement }` | by axis name, in any order; `Replicate` on the axes that are not named |
/// | `{ axis: placement, .. }` | by axis name; what is not named stays as it is, see [below](#other-axes) |
/// | `{..}` | of a tensor, the last with no name; of a [struct](#structs), as its own fields say |
///
/// In `in`, `_` passes the argument through as it is. A list needs a parameter that can be distributed: `Tensor`,
/// `&Tensor`, `&[Tensor]`, `Vec<Tensor>`, or `Option<T>` or `[T; N]` of one of these. `Tensor` is any path that ends so.
/// Every tensor of one parameter must be placed as its list says; `{..}` accepts any placements, as all parameters do where `in`
/// is omitted.
///
/// By parameter name, and on the parameters themselves (`#[place(..)]` holds an entry without its brackets, or `_`), entries say the
/// same. A parameter has one entry: in `in`, or on it.
///
/// ```text
/// #[local_map(in = { w: [Replicate], scale: _ }, out = [Shard(0)])]       // `x` may have any placements
/// fn scaled(x: &Tensor, w: &Tensor, scale: &Tensor) -> Result<Tensor>
///
/// #[local_map(axes = (dp, tp), out = { dp: Shard(0), tp: Partial })]
/// fn product(#[place(dp: Shard(0), tp: Shard(1))] x: &Tensor, #[place(tp: Shard(0))] w: &Tensor) -> Result<Tensor>
/// ```
///
/// `out` is one list, or entries in a list, one per element of a returned tuple (of 8 at most):
///
/// ```text
/// out = [Shard(0)]                 // -> Result<Tensor>
/// out = [[Shard(0)], _]            // -> Result<(Tensor, f32)>
/// out = _                          // nothing is labelled; `[]` says the same
/// ```
///
/// A list needs a `Tensor`, or an `Option`, `Vec` or array of them, or a [struct](#structs). In `out`, `_` returns the value as it is, except that
/// a `Tensor`, by itself or as an element of the tuple, is detached from the graph.
///
/// A list in `out` may be followed by `on` and a mesh: see [below](#results-on-another-mesh).
///
/// In `grad`, `_` stands for the default, and for a parameter that is not distributed. A list says what the ranks' gradients
/// of a distributed parameter are: `Shard(n)`, `Replicate` or `Partial(Sum)` along each axis, and nothing else. It is for
/// bodies whose gradients are not what the default takes them for, such as one that already adds them up over the ranks:
///
/// | `in` | default in `grad` |
/// |---|---|
/// | `Shard(n)` | `Shard(n)` |
/// | `Replicate` | `Partial(Sum)`; `Replicate` on an axis where all inputs and outputs are `Replicate`, if there is no context |
/// | `Partial(Sum)`, `Partial(Avg)` | `Replicate` |
///
/// # Other axes
///
/// With `axes` and without `..`, the mesh of a call has exactly these axes, in this order. With `..` in any entry, the function is
/// for every mesh that has the axes of `axes`, in any order and among any others. So a function is written once, for the axis that
/// it is about:
///
/// ```text
/// #[local_map(
///     axes = (tp),
///     in = { x: { tp: Replicate, .. }, up: [Shard(1)], down: [Shard(0)] },
///     out = { tp: Partial, .. },
/// )]
/// fn mlp(x: &Tensor, up: &Tensor, down: &Tensor) -> Result<Tensor>   // on meshes (tp), (dp, tp), (pp, dp, tp), ..
/// ```
///
/// | entry | on the axes that it does not name |
/// |---|---|
/// | with `..` in `in` | any placements, but the same as those of all other arguments with `..`; `reshard` leaves them as they are |
/// | with `..` in `out` | the placements of the arguments with `..` |
/// | with `..` in `grad` | as by default |
/// | without `..`, or a list (in the order of `axes`) | `Replicate` |
///
/// # Placements
///
/// | written | the value is |
/// |---|---|
/// | `Shard(n)`, `Shard(-n)` | split along tensor dim `n`, or along the `n`-th from the end; `n` is an integer literal |
/// | `Shard(n, ragged)` | split into pieces of any lengths, which the ranks exchange; only in `out` |
/// | `Replicate` | the same on every rank of the axis |
/// | `Partial(op)` | what the ranks' values reduce to: `Sum`, `Avg`, `Max`, `Min`, `Prod`, `Any` or `All`; `Partial` alone sums |
///
/// One list may be `Partial` over several axes with a single op, or with `Sum` and `Avg`, which commute.
///
/// # `Shard(n)` or `Shard(n, ragged)` in `out`
///
/// `Shard(n)` communicates nothing: how long dim `n` of the global result is, follows from the local result and from the
/// inputs that the same mesh axes cut.
///
/// | these inputs | `Shard(n)` |
/// |---|---|
/// | one is cut unevenly, and the local result is as long as its piece | the result is cut like it |
/// | one is cut unevenly, and the local result has another length, or another input is cut differently | an error, which asks for `ragged` |
/// | all are cut into equal pieces, or there are none | **trusted**: the local length times the number of ranks along the axes |
///
/// So `Shard(n)` is right where the length follows from the shapes, as in element-wise functions, products and a fixed number
/// of rows per rank. Write `Shard(n, ragged)` where it depends on the data, such as in a filter, or on the rank: the ranks
/// exchange their lengths, in one small collective, and the result carries them. With equal pieces going in, a length that
/// depends on data is not noticed without it, unless `check` or `LOCAL_MAP_CHECK=1` asks for verification.
///
/// ```text
/// #[local_map(in = [[Shard(0)]], out = [Shard(0, ragged)])]
/// fn kept(x: &Tensor) -> Result<Tensor>                    // some of the rows of `x`
///
/// #[local_map(out = [Shard(0)], mesh = mesh)]
/// fn noise(mesh: &DeviceMesh, rows: usize) -> Result<Tensor>   // `rows` rows per rank: no distributed input gives the mesh
/// ```
///
/// # Structs
///
/// A struct that derives [`Distribute`](macro@Distribute), over plain tensors, is a parameter or a result as a tensor is. Callers give
/// and get it over distributed ones:
///
/// ```text
/// #[local_map(in = [{..}, [Replicate]], out = [Partial(Sum)])]
/// fn apply(mlp: &Mlp<Tensor>, x: &Tensor) -> Result<Tensor>    // callers: `mlp: &Mlp`, which is an `Mlp<DTensor>`
///
/// #[local_map(in = [{..}, _], out = {..})]
/// fn scaled(mlp: &Mlp<Tensor>, by: f64) -> Result<Mlp<Tensor>>
/// ```
///
/// | written | in `in` | in `out` |
/// |---|---|---|
/// | `{..}` | its tensors are placed as their own `#[place(..)]`s say, the others anyhow | as their own `#[place(..)]`s say, which all of them have |
/// | a list | the same, but the list holds for the others | the same, and the list holds for those without their own |
/// | `_` | a struct of plain tensors is passed through | the struct is returned as it is |
///
/// For such a struct is taken, in a parameter, every path whose last type argument is a `Tensor`, such as `Mlp<Tensor>` and
/// `m::Pair<f32, Tensor>`, but not the containers of the standard library. It may be given as `S`, `&S`, `&[S]`, `Vec<S>`, `[S; N]`, or
/// an `Option` of one of these. A list in `grad` holds for the tensors without their own `#[grad(..)]`. Messages name fields: "argument
/// `mlp.blocks.1.up` is not placed".
///
/// # Results
///
/// The wrapper's result type is the written one with `DTensor` for `Tensor` in the labelled elements:
///
/// | written | the wrapper returns |
/// |---|---|
/// | `Result<T, ..>`, by any path | the same `Result` of the labelled `T`; the error type needs `E: From<local_map::Error>` |
/// | another tensor, tuple, array, `Option`, `Vec`, number, `bool` or `String` | `local_map::Result` of it, labelled |
/// | nothing | `local_map::Result<()>` |
/// | an alias, such as `type Loss = Result<Tensor>` | what it stands for, labelled as a single `Tensor`, or as its first argument shows: `Res<Vec<Tensor>>` |
///
/// # Results on another mesh
///
/// ```text
/// #[local_map(in = [[Shard(0), Replicate], _], out = [[Shard(0), Replicate], [Partial(Sum)] on home])]
/// fn forward(x: &Tensor, home: &DeviceMesh) -> Result<(Tensor, Tensor)>
///
/// #[local_layer(in = [[Shard(0)]], out = [Replicate] on self.loss_mesh)]
/// ```
///
/// `entry on expr`: all ranks of the region's mesh run the body, and this result lives on the mesh `expr`, of which the entry
/// speaks. The expression is over the wrapper's parameters, as in `mesh = expr`, gives a `DeviceMesh` or a reference to one, and is
/// evaluated once per call. All ranks of that mesh must run the region: anything else is an error on every rank, before the body
/// runs. A rank that is not on it drops what its body returned there, and gets an absent `DTensor`.
///
/// The inputs do not say how long a dim of such a result is: `Shard(n)` takes the local length times the number of ranks along the
/// axes, and `Shard(n, ragged)` exchanges the lengths among the ranks of its mesh. `check` verifies it there.
///
/// Gradients come back to all ranks of the region. So `backward` of what was computed from the result is called on every one of
/// them, also where the loss is absent, and so is every region and reshard on the way. A tensor that needs a
/// gradient and lives on the smaller mesh has one on its ranks; elsewhere `Gradients::get` gives `None`.
///
/// # The context
///
/// One parameter, anywhere, may be of type `&Region`. The wrapper does not have it: it supplies the value, with which the body
/// asks for its place in the mesh and communicates. It takes no entry in `in` and `grad`.
///
/// ```text
/// #[local_map(out = [Replicate], in = [[Shard(0)]])]
/// fn total(x: &Tensor, ctx: &Region) -> Result<Tensor>     // callers write `total(&x)`
/// ```
///
/// # Running again
///
/// With `recompute` the body runs again in backward, after the call has returned. So parameters that are not distributed
/// are taken by value and are `Clone + Send + 'static`, and the result has a type with a name. Of structs, and of `self`, a clone
/// is kept: they are `Clone + Send + 'static`, too, and may be borrowed, as `&S`, `&[S]` and `&self`, but not as `&mut self`.
///
/// The body of a method moves into a hidden method beside it, `__recompute_name`, which the wrapper calls on the clone. Nothing can
/// stand beside in a trait's `impl`, where the compiler says that this method is not a member of the trait: write the method into an
/// `impl` of the type's own, and call it from the trait's.
///
/// # Outside the mesh
///
/// A mesh need not have all ranks. A rank outside it may call the function too: the body does not run there, nothing is
/// communicated, and each `DTensor` of the result is *absent*: it knows its mesh and its placements, has no local piece, and may
/// be given to further regions on that mesh. Where the result has a value that cannot be made up (a plain one, or an `Option` or
/// `Vec`, whose length is known only inside; a struct with an ordinary field has one, too), the call is an error there.
///
/// # Functions
///
/// Functions and methods with a body, also those of a trait's `impl`; generics, lifetimes, `where`, `impl Trait`, `unsafe`,
/// patterns, `mut` and attributes (`#[cfg]` too) on parameters all work. Attributes, docs and visibility are kept. The
/// body may use `?`, `return` and `Self` as ever, must not write its inputs, and calls itself by the wrapper's
/// signature. `async`, `const`, `extern` and variadic functions are refused.
///
/// # Expansion
///
/// The function at the top becomes about this, where `run` hands the locals to the body and labels what it returns:
///
/// ```text
/// #[track_caller]
/// fn mean(x: &DTensor, count: usize) -> Result<DTensor> {
///     static REGION: RegionSpec = RegionSpec::new(
///         "mean",
///         &[Param::placed("x", &[Want::Shard(0)])],
///         &[Out::Placed(&[Want::Partial(Op::Sum)])],
///     ).reshard();
///     let mut call = REGION.call();       // with `mesh = expr`: `REGION.call_on(&(expr))`
///     let input = call.input(0, x);
///     call.ready()?;                      // one mesh; every input placed as required, or resharded
///     call.run(|locals| -> Result<Tensor> {
///         let x: &Tensor = locals.take(input);
///         { x.sum_all()? / count as f64 }
///     })
/// }
/// ```
///
/// # Errors
///
/// When the program is compiled, all at once and each on the token that is wrong:
///
/// * words: unknown keys, placements, ops; flags with a value; keys without one or given twice; what is not available yet;
/// * names: axes that `axes` does not have, parameters that the function does not have, either of them twice;
/// * lists: lengths that differ, `..` in `out` that no argument explains, ops that do not commute, `ragged` outside `out`, a `grad` that is no sum;
/// * `in` and `grad` against the parameters: too few entries or too many, a list for what cannot be distributed;
/// * `out` against the result: missing, too few entries or too many, a list for what is no tensor; no mesh to be had;
/// * the function: not a function, `async`, a second context, or borrowing what `recompute` must keep;
/// * structs: in a type that is not taken apart; `{..}` in `out` for one whose tensors do not all have their own placements.
///
/// What the body says is the compiler's business, on the author's own tokens; so are callers that give a `Tensor` where a
/// `DTensor` is due.
///
/// When it is called, as a `local_map::Error` (in the function's own error type, by `From`):
///
/// | variant | what happened |
/// |---|---|
/// | `Mesh` | the arguments live on different meshes, or nothing gives one, or it does not have the axes of `axes`, or a result's has ranks outside; before anything is communicated |
/// | `Placement` | arguments are not placed as `in` says, or not alike where `..` leaves axes open, all of them in one message; a result cannot be placed, or differentiated, as `out` says; `check` found a difference |
/// | `Shape` | the length of a result is not decided by the inputs: write `ragged`; a gradient does not fit |
/// | `Absent` | a plain value is asked for outside the mesh |
/// | `Unsupported` | what needs a gradient has none, or the body failed when it ran again |
/// | `Mismatch`, `PeerFailed`, `PeerReturned`, `TimedOut` | another rank did something else, failed, or does not come |
///
/// An error of the body itself is returned as it is. If the rank's program then fails, the other ranks end, too.
#[proc_macro_attribute]
pub fn local_map(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    attribute(args.into(), item.into()).into()
}

/// Turns a method of a struct of plain tensors into a *region* over the struct of distributed ones: a layer, with its
/// parameters.
///
/// The struct derives [`Distribute`](macro@Distribute). A call takes each rank's local piece of every tensor in the struct and of every
/// distributed argument, runs the method on these locals, and labels what it returns.
///
/// ```text
/// #[derive(Distribute)]
/// struct Mlp<T = DTensor> {
///     #[place(Shard(1))]
///     up: T,
///     #[place(Shard(0))]
///     down: T,
/// }
///
/// #[local_layer(in = [[Replicate]], out = [Partial(Sum)])]
/// impl Mlp<Tensor> {
///     pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         x.matmul(&self.up)?.gelu()?.matmul(&self.down)
///     }
/// }
/// ```
///
/// Callers with an `Mlp`, which is an `Mlp<DTensor>`, see `fn forward(&self, x: &DTensor) -> Result<DTensor>`.
///
/// # Keys and flags
///
/// Those of [`local_map`](macro@local_map). `in` and `grad` have one entry per parameter: `self` and the context take none. The
/// tensors of the struct are placed as their own `#[place(..)]` says, resharded if the attribute has `reshard`, and give the region its
/// mesh, so `mesh` is rarely needed. Their gradients are labelled as their own `#[grad(..)]` says, or by default. With `recompute` a
/// clone of the struct is kept, so it is `Clone + Send + 'static`.
///
/// # The block
///
/// An `impl` of the struct itself, not of a trait, in which exactly one function takes `self`, as `&self`. Functions without
/// `self`, constants, generics and `where` are welcome. The last type argument that is a `Tensor` becomes a `DTensor`. The
/// method's parameters and its result may be all that [`local_map`](macro@local_map) takes, but without `#[cfg]` on a parameter.
///
/// Within the block, `self` and `Self` are the struct over plain tensors, also where its method calls another layer's in a field: that
/// is then a plain call. Further methods over plain tensors go into other `impl` blocks, which need no attribute.
///
/// # Expansion
///
/// The block stays as it is. Beside it stands, with the same docs and attributes:
///
/// ```text
/// impl Mlp<DTensor> {
///     #[track_caller]
///     pub fn forward(&self, x: &DTensor) -> Result<DTensor> {
///         static REGION: RegionSpec = RegionSpec::new(
///             "Mlp::forward",
///             &[Param::placed("x", &[Want::Replicate])],
///             &[Out::Placed(&[Want::Partial(Op::Sum)])],
///         );
///         let mut call = REGION.call();
///         let layer = call.layer(self);       // hands over `up` and `down`
///         let input = call.input(0, x);
///         call.ready()?;
///         call.run(|locals| -> Result<Tensor> {
///             let layer = locals.layer(layer);
///             let x: &Tensor = locals.take(input);
///             <Mlp<Tensor>>::forward(&layer, x)
///         })
///     }
/// }
/// ```
///
/// # Errors
///
/// When the program is compiled: what is no `impl` block or one of a trait; no method, several, or one that does not take `&self`;
/// a struct without a `Tensor` among its arguments; and all that [`local_map`](macro@local_map) notes. A
/// struct that does not derive `Distribute` is the compiler's to report, on the struct's name.
///
/// When it is called: as for [`local_map`](macro@local_map). A field that is placed otherwise is named: "Model::forward: argument
/// `blocks.1.up` is not placed as `in` requires".
#[proc_macro_attribute]
pub fn local_layer(args: proc_macro::TokenStream, item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    reported(|errors| layer::expansion(args.into(), item.into(), errors)).into()
}

/// Makes a struct of tensors one that regions take apart and put together again: a layer with its parameters, or a model
/// of such layers.
///
/// The struct's last type parameter stands for the tensors: it is `DTensor` outside of regions and candle's `Tensor` within.
///
/// ```text
/// #[derive(Distribute)]
/// struct Mlp<T = DTensor> {
///     #[place(Shard(1))]
///     up: T,                  // one placement per mesh axis, as in an entry of `in`
///     #[place(tp: Shard(0))]
///     bias: Option<T>,        // by axis name: `Replicate` on the other axes of the mesh
///     scale: T,               // any placements
///     inner: Block<T>,        // another struct that derives `Distribute`
///     blocks: Vec<Block<T>>,
///     act: Activation,        // does not mention `T`: ordinary, and cloned into the body's struct
/// }
/// ```
///
/// Methods over its distributed tensors come from [`local_layer`](macro@local_layer); functions with
/// [`local_map`](macro@local_map#structs) take and return it. `parameters()`, of the trait, gives the tensors that need a gradient by
/// name: `up`, `inner.weight`, `blocks.0.weight`.
///
/// # Attributes
///
/// | written | meaning |
/// |---|---|
/// | `#[place(placement, ..)]` on a field | regions need its tensors placed so: the field is `T`, or `Option`s and `Vec`s of it |
/// | `#[place(axis: placement, ..)]` | the same by the names of the mesh's axes; others are `Replicate`, or, behind `..`, as those of the arguments with `..` |
/// | `#[grad(placement, ..)]` on such a field | what the ranks' gradients of its tensors are, as in an entry of `grad`: `Shard(n)`, `Replicate` or `Partial(Sum)` along each axis |
/// | `#[local_map(crate = path)]` on the struct, below the derive | where `local_map` is found, when it is renamed |
///
/// `Shard(n, ragged)` in `#[place(..)]` makes a difference where the struct is a result: the ranks then exchange their lengths, as in
/// [`out`](macro@local_map#shardn-or-shardn-ragged-in-out).
///
/// # Structs
///
/// With named fields or a tuple's, whose names are numbers. Other parameters, lifetimes and `where` clauses are kept, and
/// what they say of `T` must hold for `DTensor` and for `Tensor`. Ordinary fields are `Clone`, and so must every other type
/// parameter be, as with `#[derive(Clone)]`.
///
/// A parameter's default counts in types only: where the fields' types are inferred, as with `up: param.into()`, name the struct's,
/// as in `let mlp: Mlp = Mlp { .. }`.
///
/// # Expansion
///
/// ```text
/// static FIELDS: [Param; 5] = [Param::placed("up", &[Want::Shard(1)]), .., Param::any("blocks")];
///
/// impl Distribute for Mlp<DTensor> {
///     type Local = Mlp<Tensor>;
///     fn hand_over<'a>(&'a self, to: &mut HandOver<'_, 'a>, declared: &'static Param) {
///         to.within(declared, |to| {
///             Distribute::hand_over(&self.up, to, &FIELDS[0]);
///             ..
///         });
///     }
///     fn localize(&self, next: &mut dyn FnMut() -> Tensor) -> Mlp<Tensor> {
///         Mlp { up: Distribute::localize(&self.up, next), .., act: Clone::clone(&self.act) }
///     }
///     fn visit<'a>(&'a self, path: &str, each: &mut dyn FnMut(&str, &'a DTensor)) {
///         Distribute::visit(&self.up, &joined(path, "up"), each);
///         ..
///     }
/// }
///
/// impl Distributable for Mlp<Tensor> {     // a result: labels every field
///     type Distributed = Mlp<DTensor>;
///     ..
/// }
/// ```
///
/// # Errors
///
/// When the program is compiled, all at once: an enum or a union; no type parameter; `#[place(..)]` or `#[grad(..)]` on a field that
/// does not mention it, or on one of another struct, or twice; placements that are wrong in `in` or `grad`, too; lists of different
/// lengths; tensors in arrays, tuples or behind references. A field's struct that does not derive `Distribute`, and an ordinary field that is not
/// `Clone`, are the compiler's to report, on the field's type.
#[proc_macro_derive(Distribute, attributes(place, grad, local_map))]
pub fn distribute(item: proc_macro::TokenStream) -> proc_macro::TokenStream {
    reported(|errors| distribute::expansion(item.into(), errors)).into()
}

/// Expands the attribute; mistakes come out as `compile_error!`s beside the item.
fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    reported(|errors| expansion(args, item, errors))
}

/// The expansion, and a `compile_error!` for each mistake that was noted.
fn reported(expansion: impl FnOnce(&mut Errors) -> TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let item = expansion(&mut errors);
    let errors = errors.into_error().map(syn::Error::into_compile_error);
    quote!(#errors #item)
}

fn expansion(args: TokenStream, item: TokenStream, errors: &mut Errors) -> TokenStream {
    let function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            errors.push(function::refusal(item.clone(), error));
            // Behind a `compile_error!`, an expression would be read as the rest of it.
            return if syn::parse2::<syn::Expr>(item.clone()).is_ok() { TokenStream::new() } else { item };
        }
    };
    let mut args = parse::args(args, errors);
    entry::complete(&mut args, &function, errors);
    let region = model::Region::new(&args, &function);
    check::all(&region, errors);
    match region.own_receiver() {
        _ if !expand::is_possible(&region) => item,
        Some(receiver) if region.recomputes() => forward::split(&args, &function, receiver),
        _ => expand::wrapper(&region),
    }
}
