use std::fmt::{Debug, Display};
use std::hash::Hash;

use thiserror::Error;

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Why a text is not a path of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bad {kind} path {text:?}: {rule}")]
pub struct PathError {
    /// "host", "guest" or "vm".
    pub kind: &'static str,
    /// The text as given.
    pub text: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

/// A kind of absolute path that a [`PathMap`](super::PathMap) can have on either side.
///
/// Sealed: the kinds are [`HostPath`](super::HostPath), [`VmPath`](super::VmPath) and
/// [`GuestPath`](super::GuestPath).
pub trait MappedPath: sealed::Sealed + Clone + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static {
    /// The path as text.
    fn as_str(&self) -> &str;

    /// The components below the root, in order; none for a root itself.
    fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone;

    /// The path one component further down, if `component` can be a name there.
    fn child(&self, component: &str) -> Result<Self, PathError>;

    /// Reads `text` by the rules that made this path, so that Windows paths stay Windows paths.
    fn parse_alike(&self, text: &str) -> Result<Self, PathError>;

    /// Whether both paths hang from one root.
    fn same_root(&self, other: &Self) -> bool;

    /// Whether two components name one entry under these rules.
    fn same_component(&self, one: &str, other: &str) -> bool;

    /// The character between components.
    fn separator(&self) -> char;

    /// The components of `self` below `ancestor`, or `None` if it is not at or below it.
    ///
    /// Compares whole components: `/ws/s1-evil` is not below `/ws/s1`.
    fn below<'a>(&'a self, ancestor: &Self) -> Option<impl Iterator<Item = &'a str> + Clone> {
        if !self.same_root(ancestor) {
            return None;
        }
        let mut rest = self.components();
        for wanted in ancestor.components() {
            let here = rest.next()?;
            if !self.same_component(here, wanted) {
                return None;
            }
        }
        Some(rest)
    }

    /// Whether `self` is `ancestor` or lies below it.
    fn is_within(&self, ancestor: &Self) -> bool {
        self.below(ancestor).is_some()
    }

    /// Whether both name the same directory under these rules.
    fn same_place(&self, other: &Self) -> bool {
        self.is_within(other) && other.is_within(self)
    }

    /// The path with `components` added at its end.
    fn descend<'a>(&self, components: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        components.into_iter().try_fold(self.clone(), |path, component| path.child(component))
    }
}

/// Defines an absolute, `/`-separated, UTF-8 path type without `.`, `..`, NUL or empty components.
macro_rules! posix_path {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Accepts `text` if it is such a path.
            ///
            /// # Errors
            /// When it is relative or empty, ends in `/`, or has a `.`, `..`, NUL or an empty component.
            pub fn new(text: impl Into<String>) -> Result<Self, PathError> {
                let text = text.into();
                match $crate::path::kind::posix_fault(&text) {
                    None => Ok(Self(text)),
                    Some(rule) => Err(PathError { kind: $kind, text, rule }),
                }
            }

            /// The root, `/`.
            #[must_use]
            pub fn root() -> Self {
                Self("/".to_owned())
            }

            /// The path as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether this is `/`.
            #[must_use]
            pub fn is_root(&self) -> bool {
                self.0 == "/"
            }

            /// The last component; `None` for the root.
            #[must_use]
            pub fn file_name(&self) -> Option<&str> {
                MappedPath::components(self).next_back()
            }

            /// The directory that holds this; `None` for the root.
            #[must_use]
            pub fn parent(&self) -> Option<Self> {
                let cut = self.0.rfind('/')?;
                (!self.is_root()).then(|| Self(self.0[..cut.max(1)].to_owned()))
            }

            /// The path reached by a relative path of plain components, such as `a/b.txt`.
            ///
            /// # Errors
            /// When `relative` is absolute or has a component that cannot be one.
            pub fn join(&self, relative: &str) -> Result<Self, PathError> {
                self.descend(relative.split('/'))
            }
        }

        impl sealed::Sealed for $name {}

        impl MappedPath for $name {
            fn as_str(&self) -> &str {
                &self.0
            }

            fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
                // Only the root has empty parts.
                self.0.split('/').filter(|part| !part.is_empty())
            }

            fn child(&self, component: &str) -> Result<Self, PathError> {
                if let Some(rule) = $crate::path::kind::posix_component_fault(component) {
                    return Err(PathError { kind: $kind, text: component.to_owned(), rule });
                }
                let stem = if self.is_root() { "" } else { &self.0 };
                Ok(Self(format!("{stem}/{component}")))
            }

            fn parse_alike(&self, text: &str) -> Result<Self, PathError> {
                Self::new(text)
            }

            fn same_root(&self, _other: &Self) -> bool {
                true
            }

            fn same_component(&self, one: &str, other: &str) -> bool {
                one == other
            }

            fn separator(&self) -> char {
                '/'
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = PathError;

            fn from_str(text: &str) -> Result<Self, PathError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}
pub(super) use posix_path;

pub(super) fn posix_component_fault(component: &str) -> Option<&'static str> {
    match component {
        "" => Some("it has an empty component"),
        "." | ".." => Some("'.' and '..' are not allowed"),
        name if name.contains('/') => Some("a component holds no '/'"),
        name if name.contains('\0') => Some("it holds a NUL"),
        _ => None,
    }
}

pub(super) fn posix_fault(text: &str) -> Option<&'static str> {
    let Some(rest) = text.strip_prefix('/') else {
        return Some("it is not absolute");
    };
    if rest.is_empty() {
        return None;
    }
    rest.split('/').find_map(posix_component_fault)
}
