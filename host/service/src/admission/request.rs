use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use codebox_core::{
    DirGrantSpec, EnvName, Isolation, IsolationSet, Language, LimitOverrides, NameError, NetGrant, Stdin,
};
use thiserror::Error;

use super::image::is_a_containers;

/// What a front end asks for, parsed but not yet looked up on the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The program.
    pub program: Program,
    /// Its language; `None` goes by the file's extension and takes Python without one.
    pub language: Option<Language>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Directories to grant.
    pub dirs: Vec<DirGrantSpec>,
    /// Hosts to grant.
    pub net: Vec<NetGrant>,
    /// Variables of its environment.
    pub env: Vec<EnvRequest>,
    /// Limits that were set by name.
    pub limits: LimitOverrides,
    /// What must stand between guest and host.
    pub isolation: Preference,
    /// The image to start from, of WebAssembly or of a container; `None` takes the policy's, or the one that fits.
    pub image: Option<String>,
    /// Where files that the guest creates are copied to; made if it is missing.
    pub out: Option<PathBuf>,
    /// What the program finds on its standard input.
    pub stdin: Stdin,
    /// How many containers like the one it runs in are to be ready for later runs; `None` takes the policy's number.
    pub warm: Option<u32>,
    /// Packages to have, as the language's package manager names them.
    pub packages: Vec<String>,
    /// Files that list packages.
    pub requirements: Vec<PathBuf>,
    /// Whether packages without wheels are to be built from their sources.
    pub build: bool,
}

impl Request {
    /// A request for `program` with nothing granted and everything else left at its default.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            language: None,
            args: Vec::new(),
            dirs: Vec::new(),
            net: Vec::new(),
            env: Vec::new(),
            limits: LimitOverrides::default(),
            isolation: Preference::Auto,
            image: None,
            out: None,
            stdin: Stdin::Empty,
            warm: None,
            packages: Vec::new(),
            requirements: Vec::new(),
            build: false,
        }
    }

    /// The same request, which accepted WebAssembly, for a container; an image of WebAssembly's is none of that.
    #[must_use]
    pub fn in_container(self) -> Self {
        let image = self.image.filter(|name| is_a_containers(name));
        Self { isolation: Preference::Only(Isolation::Container), image, ..self }
    }
}

/// The program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Text from the command line.
    Inline(String),
    /// Text that was read from standard input.
    Stdin(String),
    /// A file of the host, exactly as the user typed it.
    File(PathBuf),
    /// A command line, which is looked for in the container.
    Command(Vec<String>),
}

/// The isolation that a user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Whichever fits, the lightest first.
    #[default]
    Auto,
    /// This one, and never another.
    Only(Isolation),
}

impl Preference {
    /// The isolations it accepts.
    #[must_use]
    pub fn acceptable(self) -> IsolationSet {
        match self {
            Self::Auto => IsolationSet::auto(),
            Self::Only(isolation) => IsolationSet::only(isolation),
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(isolation) => isolation.fmt(f),
        }
    }
}

impl FromStr for Preference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text {
            "auto" => Ok(Self::Auto),
            name => name.parse().map(Self::Only),
        }
    }
}

/// One variable of the guest's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvRequest {
    /// The host's variable of this name, with its value.
    FromHost(EnvName),
    /// This name with this value.
    Set(EnvName, String),
}

/// Why a text is no [`EnvRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvRequestError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The value cannot be an environment variable's. The value is left out: it may be a secret.
    #[error("the value of environment variable {0} holds a NUL")]
    Nul(EnvName),
}

impl FromStr for EnvRequest {
    type Err = EnvRequestError;

    /// Reads `NAME`, which takes the host's value, or `NAME=VALUE`.
    fn from_str(text: &str) -> Result<Self, EnvRequestError> {
        let Some((name, value)) = text.split_once('=') else {
            return Ok(Self::FromHost(EnvName::new(text)?));
        };
        let name = EnvName::new(name)?;
        if value.contains('\0') {
            return Err(EnvRequestError::Nul(name));
        }
        Ok(Self::Set(name, value.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_parse_and_print() {
        for text in ["auto", "wasm", "container", "vm"] {
            assert_eq!(text.parse().map(|p: Preference| p.to_string()), Ok(text.to_owned()));
        }
        assert!("docker".parse::<Preference>().is_err());
        assert_eq!(Preference::Auto.acceptable(), IsolationSet::auto());
    }

    #[test]
    fn variables_parse() {
        let name = |text| EnvName::new(text).expect("a name");
        assert_eq!("A".parse(), Ok(EnvRequest::FromHost(name("A"))));
        assert_eq!("A=b=c".parse(), Ok(EnvRequest::Set(name("A"), "b=c".to_owned())));
        assert_eq!("A=".parse(), Ok(EnvRequest::Set(name("A"), String::new())));
        assert!("=x".parse::<EnvRequest>().is_err());
        assert!("".parse::<EnvRequest>().is_err());
        assert_eq!("A=\0".parse::<EnvRequest>(), Err(EnvRequestError::Nul(name("A"))));
    }
}
