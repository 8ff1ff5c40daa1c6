use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::NameError;
use crate::text_form::serialize_as_text;

/// Isolation between guest and host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Isolation {
    /// A WebAssembly sandbox inside a confined process.
    Wasm,
    /// A container on the host's kernel.
    Container,
    /// A container inside a virtual machine.
    Vm,
}

impl Isolation {
    /// All isolations, the lightest first.
    pub const ALL: [Self; 3] = [Self::Wasm, Self::Container, Self::Vm];

    /// Returns the name used on the command line and in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Container => "container",
            Self::Vm => "vm",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Wasm => 1,
            Self::Container => 2,
            Self::Vm => 4,
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Isolation {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::ALL
            .into_iter()
            .find(|isolation| isolation.as_str() == text)
            .ok_or_else(|| NameError::new("isolation", text, "use auto, wasm, container or vm"))
    }
}

/// Set of the isolations that a caller accepts; never empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct IsolationSet(u8);

impl IsolationSet {
    /// Returns the set of all isolations, which is the default.
    #[must_use]
    pub const fn auto() -> Self {
        Self(7)
    }

    /// Returns the set with exactly one isolation.
    #[must_use]
    pub const fn only(isolation: Isolation) -> Self {
        Self(isolation.bit())
    }

    /// Returns the set of the given isolations, or `None` if `isolations` is empty.
    pub fn of(isolations: impl IntoIterator<Item = Isolation>) -> Option<Self> {
        let bits = isolations.into_iter().fold(0, |bits, isolation| bits | isolation.bit());
        (bits != 0).then_some(Self(bits))
    }

    /// Returns true if `isolation` is accepted.
    #[must_use]
    pub const fn contains(self, isolation: Isolation) -> bool {
        self.0 & isolation.bit() != 0
    }

    /// Iterates over the members, the lightest first.
    pub fn iter(self) -> impl Iterator<Item = Isolation> {
        Isolation::ALL.into_iter().filter(move |isolation| self.contains(*isolation))
    }
}

impl Default for IsolationSet {
    fn default() -> Self {
        Self::auto()
    }
}

impl fmt::Debug for IsolationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl fmt::Display for IsolationSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::auto() {
            return f.write_str("auto");
        }
        let names: Vec<&str> = self.iter().map(Isolation::as_str).collect();
        f.write_str(&names.join(","))
    }
}

serialize_as_text!(IsolationSet);

impl FromStr for IsolationSet {
    type Err = NameError;

    /// Parses `auto` or a comma-separated list of names.
    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "auto" {
            return Ok(Self::auto());
        }
        let members = text.split(',').map(Isolation::from_str).collect::<Result<Vec<_>, _>>()?;
        // `split` yields at least one part, and an empty part is not an isolation, so the set has a member.
        Self::of(members).ok_or_else(|| NameError::new("isolation", text, "expected at least one"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_displays_isolation_sets() {
        assert_eq!("auto".parse(), Ok(IsolationSet::auto()));
        assert_eq!("wasm".parse(), Ok(IsolationSet::only(Isolation::Wasm)));
        let both: IsolationSet = "vm,wasm".parse().expect("two known names");
        assert_eq!(both.to_string(), "wasm,vm");
        assert!(!both.contains(Isolation::Container));
        for bad in ["", "wasm,", "docker", "auto,wasm", "Wasm"] {
            assert!(bad.parse::<IsolationSet>().is_err(), "{bad:?}");
        }
        assert_eq!(IsolationSet::of([]), None);
    }
}
