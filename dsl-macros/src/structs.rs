//! Types of structs over plain tensors: `Mlp<Tensor>`.

use crate::types::{self, argument_of, bare, is_tensor};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, PathArguments, Type, TypePath};

/// How a parameter shows structs over plain tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Structs {
    /// `Mlp<Tensor>`, and `Option`, `Vec` or an array of it.
    Owned,
    /// `&Mlp<Tensor>`
    Lent,
    /// `&[Mlp<Tensor>]`
    Slice,
    /// `Option<&Mlp<Tensor>>`
    OptionLent,
    /// `Option<&[Mlp<Tensor>]>`
    OptionSlice,
}

/// Tells how `ty` shows structs over plain tensors, if it does.
pub(crate) fn structs(ty: &Type) -> Option<Structs> {
    match bare(ty) {
        Type::Reference(reference) if reference.mutability.is_some() => None,
        Type::Reference(reference) => match bare(&reference.elem) {
            Type::Slice(slice) => is_struct(&slice.elem).then_some(Structs::Slice),
            ty => is_struct(ty).then_some(Structs::Lent),
        },
        Type::Array(array) => structs(&array.elem).filter(|inner| *inner == Structs::Owned),
        ty if is_struct(ty) => Some(Structs::Owned),
        ty => match (argument_of(ty, "Option").map(structs), argument_of(ty, "Vec").map(structs)) {
            (Some(Some(Structs::Lent)), _) => Some(Structs::OptionLent),
            (Some(Some(Structs::Slice)), _) => Some(Structs::OptionSlice),
            (Some(inner), _) | (_, Some(inner)) => inner.filter(|inner| *inner == Structs::Owned),
            _ => None,
        },
    }
}

/// Whether `ty` is a path such as `Mlp<Tensor>`, whose last type argument is a tensor, and no container of the standard library.
pub(crate) fn is_struct(ty: &Type) -> bool {
    const CONTAINERS: [&str; 36] = [
        "Option",
        "Vec",
        "Box",
        "Arc",
        "Rc",
        "Weak",
        "Cell",
        "RefCell",
        "OnceCell",
        "LazyCell",
        "UnsafeCell",
        "Mutex",
        "RwLock",
        "OnceLock",
        "LazyLock",
        "HashMap",
        "BTreeMap",
        "HashSet",
        "BTreeSet",
        "VecDeque",
        "LinkedList",
        "BinaryHeap",
        "Result",
        "PhantomData",
        "Cow",
        "Pin",
        "ManuallyDrop",
        "MaybeUninit",
        "NonNull",
        "Ref",
        "RefMut",
        "MutexGuard",
        "Sender",
        "Receiver",
        "Range",
        "Reverse",
    ];
    let Type::Path(TypePath { qself: None, path, .. }) = bare(ty) else {
        return false;
    };
    path.segments.last().is_some_and(|last| {
        let contains = CONTAINERS.iter().any(|name| last.ident == name);
        !contains && last_argument(&last.arguments).is_some_and(is_tensor)
    })
}

/// The last type argument.
fn last_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else {
        return None;
    };
    arguments.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

impl Structs {
    /// What the parameter's type needs of the structs over local tensors, which stand in `local`.
    pub(crate) fn lent(self, local: &Ident) -> TokenStream {
        let here = local.span();
        match self {
            Structs::Owned => quote_spanned!(here=> #local),
            Structs::Lent | Structs::Slice => quote_spanned!(here=> &#local),
            Structs::OptionLent => quote_spanned!(here=> #local.as_ref()),
            Structs::OptionSlice => quote_spanned!(here=> #local.as_deref()),
        }
    }

    /// The distributed structs in the wrapper's parameter, as a reference.
    pub(crate) fn borrowed(self, outer: &Ident, here: Span) -> TokenStream {
        match self {
            Structs::Lent | Structs::Slice => {
                let mut outer = outer.clone();
                outer.set_span(outer.span().located_at(here));
                outer.into_token_stream()
            }
            _ => quote_spanned!(here=> &#outer),
        }
    }

    /// Whether a clone of the distributed structs does not borrow.
    pub(crate) fn can_be_kept(self) -> bool {
        !matches!(self, Structs::OptionLent | Structs::OptionSlice)
    }
}

/// Puts a `DTensor` of `krate` for the tensor of the struct: only the last type argument stands for its tensors.
pub(crate) fn distribute(ty: &mut Type, krate: &TokenStream) {
    if let Type::Path(path) = ty
        && let Some(last) = path.path.segments.last_mut()
        && let PathArguments::AngleBracketed(arguments) = &mut last.arguments
        && let Some(tensor) = arguments.args.iter_mut().rev().find(|it| matches!(it, GenericArgument::Type(_)))
    {
        *tensor = GenericArgument::Type(Type::Verbatim(types::dtensor(krate, tensor.span())));
        // Nothing else in it is visited.
        *ty = Type::Verbatim(path.to_token_stream());
    }
}
