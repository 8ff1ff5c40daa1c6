use std::fmt::{Debug, Display};
use std::hash::Hash;

use thiserror::Error;

pub(super) mod sealed {
    /// Parts of [`MappedPath`](super::MappedPath) that no other crate uses.
    pub trait Sealed {
        /// Returns true for `/`-separated paths whose names follow the rules of POSIX and no others.
        fn is_posix(&self) -> bool;

        /// Returns the path with `rest` appended: components of another path for which `is_posix` is true, and `/`
        /// between them.
        fn with_posix_rest(&self, rest: &str) -> Self;
    }
}

/// Error for text that is not a valid path of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid {kind} path {text:?}: {rule}")]
pub struct PathError {
    /// Kind of the path: "host", "guest" or "vm".
    pub kind: &'static str,
    /// The original text.
    pub text: String,
    /// Violated rule.
    pub rule: &'static str,
}

/// Absolute path type that a [`PathMap`](super::PathMap) can have on either side.
///
/// The trait is sealed; its implementations are [`HostPath`](super::HostPath), [`VmPath`](super::VmPath) and
/// [`GuestPath`](super::GuestPath).
pub trait MappedPath: sealed::Sealed + Clone + Eq + Ord + Hash + Debug + Display + Send + Sync + 'static {
    /// Returns the path as text.
    fn as_str(&self) -> &str;

    /// Returns the components below the root, in order; a root has no components.
    fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone;

    /// Adds a component, if it is a valid name; otherwise the path stays as it is.
    fn append(&mut self, component: &str) -> Result<(), PathError>;

    /// Returns the path one component further down, if `component` is a valid name.
    fn child(&self, component: &str) -> Result<Self, PathError> {
        let mut path = self.clone();
        path.append(component)?;
        Ok(path)
    }

    /// Returns the text of the path.
    fn into_string(self) -> String;

    /// Returns the text of the components of `self` below `ancestor`, which is the empty text if both are the same, or
    /// `None` if `self` is not within `ancestor`.
    ///
    /// The comparison uses whole components: `/ws/s1-evil` is not below `/ws/s1`.
    fn rest_below<'a>(&'a self, ancestor: &Self) -> Option<&'a str>;

    /// Parses `text` by the rules of this path, so that Windows paths stay Windows paths.
    fn parse_with_same_rules(&self, text: &str) -> Result<Self, PathError>;

    /// Returns true if two components name the same entry under the rules of this path.
    fn same_component(&self, one: &str, other: &str) -> bool;

    /// Returns the separator between components.
    fn separator(&self) -> char;

    /// Returns the components of `self` below `ancestor`, as [`rest_below`](Self::rest_below) does.
    fn below<'a>(&'a self, ancestor: &Self) -> Option<impl Iterator<Item = &'a str> + Clone> {
        let rest = self.rest_below(ancestor)?;
        Some(rest.split(self.separator()).filter(|part| !part.is_empty()))
    }

    /// Returns true if `self` is `ancestor` or lies below it.
    fn is_within(&self, ancestor: &Self) -> bool {
        self.rest_below(ancestor).is_some()
    }

    /// Returns true if both paths name the same directory under their rules.
    fn is_equivalent(&self, other: &Self) -> bool {
        self.is_within(other) && other.is_within(self)
    }

    /// Returns the path with `components` appended.
    fn descend<'a>(&self, components: impl IntoIterator<Item = &'a str>) -> Result<Self, PathError> {
        let mut path = self.clone();
        components.into_iter().try_for_each(|component| path.append(component))?;
        Ok(path)
    }
}

/// Defines an absolute, `/`-separated, UTF-8 path type without `.`, `..`, NUL or empty components.
macro_rules! posix_path {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Creates a path from `text`.
            ///
            /// # Errors
            /// Returns an error if `text` is relative or empty, ends in `/` without being the root, or contains a NUL
            /// or a `.`, `..` or empty component.
            pub fn new(text: impl Into<String>) -> Result<Self, PathError> {
                let text = text.into();
                match $crate::path::kind::posix_fault(&text) {
                    None => Ok(Self(text)),
                    Some(rule) => Err(PathError { kind: $kind, text, rule }),
                }
            }

            /// Returns the root, `/`.
            #[must_use]
            pub fn root() -> Self {
                Self("/".to_owned())
            }

            /// Returns the path as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns true if the path is `/`.
            #[must_use]
            pub fn is_root(&self) -> bool {
                self.0 == "/"
            }

            /// Returns the last component; `None` for the root.
            #[must_use]
            pub fn file_name(&self) -> Option<&str> {
                MappedPath::components(self).next_back()
            }

            /// Returns the parent directory; `None` for the root.
            #[must_use]
            pub fn parent(&self) -> Option<Self> {
                let cut = self.0.rfind('/')?;
                (!self.is_root()).then(|| Self(self.0[..cut.max(1)].to_owned()))
            }

            /// Appends a relative path of plain components, such as `a/b.txt`.
            ///
            /// # Errors
            /// Returns an error if `relative` is absolute or contains an invalid component.
            pub fn join(&self, relative: &str) -> Result<Self, PathError> {
                self.descend(relative.split('/'))
            }
        }

        impl sealed::Sealed for $name {
            fn is_posix(&self) -> bool {
                true
            }

            fn with_posix_rest(&self, rest: &str) -> Self {
                Self($crate::path::kind::with_posix_rest(&self.0, rest))
            }
        }

        impl MappedPath for $name {
            fn as_str(&self) -> &str {
                &self.0
            }

            fn components(&self) -> impl DoubleEndedIterator<Item = &str> + Clone {
                // The leading `/` yields an empty part, and the root yields two.
                self.0.split('/').filter(|part| !part.is_empty())
            }

            fn append(&mut self, component: &str) -> Result<(), PathError> {
                if let Some(rule) = $crate::path::kind::posix_component_fault(component) {
                    return Err(PathError { kind: $kind, text: component.to_owned(), rule });
                }
                if !self.is_root() {
                    self.0.push('/');
                }
                self.0.push_str(component);
                Ok(())
            }

            fn into_string(self) -> String {
                self.0
            }

            fn rest_below<'a>(&'a self, ancestor: &Self) -> Option<&'a str> {
                $crate::path::kind::posix_rest_below(&self.0, &ancestor.0)
            }

            fn parse_with_same_rules(&self, text: &str) -> Result<Self, PathError> {
                Self::new(text)
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

        $crate::text_form::serialize_as_text!($name);

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

const EMPTY_COMPONENT: &str = "it has an empty component";
const DOTS: &str = "'.' and '..' are not allowed";
const NUL: &str = "it contains a NUL";

pub(super) fn posix_component_fault(component: &str) -> Option<&'static str> {
    match component {
        "" => Some(EMPTY_COMPONENT),
        "." | ".." => Some(DOTS),
        name => name.bytes().find_map(|byte| match byte {
            b'/' => Some("a component must not contain '/'"),
            0 => Some(NUL),
            _ => None,
        }),
    }
}

#[expect(clippy::needless_bitwise_bool, reason = "lazy operators keep the loop from using vector instructions")]
pub(super) fn posix_fault(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let below_root = match bytes {
        [b'/'] => return None,
        [b'/', below_root @ ..] => below_root,
        _ => return Some("it is not absolute"),
    };
    // Without branches, so that it takes vector instructions: a document has thousands of paths, and few of them have names that
    // begin with a dot.
    let pairs = bytes.iter().zip(below_root);
    let is_doubtful = pairs.fold(false, |found, (&byte, &next)| {
        found | (next == 0) | ((byte == b'/') & ((next == b'/') | (next == b'.')))
    });
    if !is_doubtful && !text.ends_with('/') {
        return None;
    }
    bytes.iter().enumerate().find_map(|(index, byte)| match byte {
        0 => Some(NUL),
        b'/' => match &bytes[index + 1..] {
            [] | [b'/', ..] => Some(EMPTY_COMPONENT),
            [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..] => Some(DOTS),
            _ => None,
        },
        _ => None,
    })
}

/// [`MappedPath::rest_below`] of `/`-separated paths.
pub(super) fn posix_rest_below<'a>(path: &'a str, ancestor: &str) -> Option<&'a str> {
    let last = ancestor.len().checked_sub(1)?;
    // The last byte is compared first, because the directories of a map often have one parent.
    if path.as_bytes().get(last) != ancestor.as_bytes().get(last) {
        return None;
    }
    let rest = path.strip_prefix(ancestor)?;
    // Of the ancestors, only the root ends with a separator.
    if rest.is_empty() || ancestor.ends_with('/') { Some(rest) } else { rest.strip_prefix('/') }
}

/// [`Sealed::with_posix_rest`](sealed::Sealed::with_posix_rest) of the text of a path.
pub(super) fn with_posix_rest(path: &str, rest: &str) -> String {
    let mut text = String::with_capacity(path.len() + 1 + rest.len());
    text.push_str(path);
    if !rest.is_empty() && !path.ends_with('/') {
        text.push('/');
    }
    text.push_str(rest);
    text
}
