use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use codebox_core::{
    Attachment, ContainerPower, Cpus, DirGrant, DirGrantSpec, EnvName, Grants, GuestPath, InputFile, Isolation,
    IsolationSet, Job, Language, LimitOverrides, Limits, NameError, NetGrant, OutputShape, ResultKind, Source, Stdin,
    ToolName, WindowSize,
};
use thiserror::Error;

use super::denied::Denied;
use super::image::is_container_image_name;
use super::secrets::SecretRequest;
use crate::levels::LevelSetting;

/// A front end's request, parsed but not yet resolved on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Program to run.
    pub program: Program,
    /// Language of the program; `None` detects it from the file's extension, its shebang or its content.
    pub language: Option<Language>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Directories to grant.
    pub dirs: Vec<DirGrantSpec>,
    /// Hosts to grant.
    pub net: Vec<NetGrant>,
    /// Environment variables of the program.
    pub env: Vec<EnvRequest>,
    /// Secrets that the program uses by placeholders, in requests to granted hosts. In WebAssembly only.
    pub secrets: Vec<SecretRequest>,
    /// Limits that the request sets.
    pub limits: LimitOverrides,
    /// Processors that the program may keep busy; `None` for all.
    pub cpus: Option<Cpus>,
    /// Isolation between guest and host.
    pub isolation: Preference,
    /// Image to start from, a memory image or a container image; `None` takes the policy's image, or the one that fits
    /// the program.
    pub image: Option<String>,
    /// Directory that files of the guest are copied to; created if it is missing.
    pub out: Option<PathBuf>,
    /// Standard input of the program.
    pub stdin: Stdin,
    /// Number of containers like the job's own to keep ready for later runs; `None` takes the policy's number.
    pub warm: Option<u32>,
    /// Packages to install, as the language's package manager names them.
    pub packages: Vec<String>,
    /// Files that list packages.
    pub requirements: Vec<PathBuf>,
    /// Permission to build packages without wheels from their sources.
    pub build: bool,
    /// Files to create in the guest before the program starts.
    pub files: Vec<InputFile>,
    /// Directory whose files the program gets in `/work`, as copies. The files that list packages there give the packages. A program that
    /// is a directory is its own project.
    pub project: Option<PathBuf>,
    /// Working directory of the program; `None` takes `/work`, or the directory of the project that is the current one.
    pub work_dir: Option<GuestPath>,
    /// Size of the terminal that the streams of the program are; `None` for pipes. A program in a container that codebox has not made has
    /// pipes.
    pub terminal: Option<WindowSize>,
    /// Files to return in the report, which only cells of sessions do.
    pub returns: Vec<GuestPath>,
    /// Number of the program in error reports, which only cells of sessions have.
    pub cell_number: Option<u32>,
    /// Container engine to use; `None` accepts every engine, the policy's preferred one first.
    pub engine: Option<String>,
    /// True to collect rich results: the objects that the program displays, and in Python the value of its last expression. In
    /// WebAssembly only.
    pub results: bool,
    /// Limits on the output that the sinks and the report get. The report names the files that have all of it. `None` passes all
    /// output. Not for cells of sessions.
    pub output_shape: Option<OutputShape>,
    /// Host tools of the runner that the program may call.
    pub tools: Vec<ToolName>,
    /// Running container, or dev container, in which the program runs; `None` makes a container if one is needed.
    pub container: Option<ContainerTarget>,
    /// Powers over this machine that the container may have, in addition to those of the policy.
    pub powers: Vec<ContainerPower>,
    /// Isolation that the request prefers among those that it accepts.
    pub prefers: Option<Preference>,
    /// Settings of other levels that the front end knows, such as those of a tool.
    pub levels: Vec<LevelSetting>,
    /// Tool that the program implements, which the audit log names.
    pub tool: Option<ToolName>,
}

/// Container that codebox has not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerTarget {
    /// A running container, by its id or name.
    Running(String),
    /// The dev container that the project in the working directory describes.
    Dev {
        /// The description, a file or the name of its directory; `None` for the usual one.
        config: Option<PathBuf>,
    },
    /// A container that has been found.
    Found(Box<Attachment>),
}

impl Request {
    /// Creates a request for `program` with no grants and every option at its default.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self {
            program,
            language: None,
            args: Vec::new(),
            dirs: Vec::new(),
            net: Vec::new(),
            env: Vec::new(),
            secrets: Vec::new(),
            limits: LimitOverrides::default(),
            cpus: None,
            isolation: Preference::Auto,
            image: None,
            out: None,
            stdin: Stdin::Empty,
            warm: None,
            packages: Vec::new(),
            requirements: Vec::new(),
            build: false,
            files: Vec::new(),
            project: None,
            work_dir: None,
            terminal: None,
            returns: Vec::new(),
            cell_number: None,
            engine: None,
            results: false,
            output_shape: None,
            tools: Vec::new(),
            container: None,
            powers: Vec::new(),
            prefers: None,
            levels: Vec::new(),
            tool: None,
        }
    }

    /// Creates a request for a Python program given as text.
    #[must_use]
    pub fn python(text: impl Into<String>) -> Self {
        Self { language: Some(Language::Python), ..Self::new(Program::Inline(text.into())) }
    }

    /// Creates a request for a JavaScript program given as text.
    #[must_use]
    pub fn javascript(text: impl Into<String>) -> Self {
        Self { language: Some(Language::JavaScript), ..Self::new(Program::Inline(text.into())) }
    }

    /// Creates a request for a TypeScript program given as text.
    #[must_use]
    pub fn typescript(text: impl Into<String>) -> Self {
        Self { language: Some(Language::TypeScript), ..Self::new(Program::Inline(text.into())) }
    }

    /// Returns the container in which the program runs, if codebox does not make it.
    #[must_use]
    pub fn target(&self) -> Option<ContainerTarget> {
        let dev = (self.isolation == Preference::DevContainer).then_some(ContainerTarget::Dev { config: None });
        self.container.clone().or(dev)
    }

    /// Returns true if a running container can run the program: if the request names nothing that only a new container gets.
    #[must_use]
    pub fn fits_running_container(&self) -> bool {
        super::attached::check(self).is_ok()
    }

    /// Restricts a request that accepts WebAssembly to containers, on this machine or in a virtual one. A memory image is dropped.
    #[must_use]
    pub fn in_container(self) -> Self {
        let image = self.image.filter(|name| is_container_image_name(name));
        let containers: Vec<Isolation> =
            self.isolation.acceptable().iter().filter(|isolation| *isolation != Isolation::Wasm).collect();
        let isolation = match (containers.as_slice(), IsolationSet::of(containers.iter().copied())) {
            ([_, _, ..], Some(containers)) => Preference::Among(containers),
            ([only], _) => Preference::Only(*only),
            _ => Preference::Only(Isolation::Container),
        };
        Self { isolation, image, ..self }
    }
}

impl TryFrom<Job> for Request {
    type Error = Denied;

    /// Creates the request of a job, whose limits count as set where they differ from the built-in defaults.
    ///
    /// The values of the job's environment are passed on.
    ///
    /// # Errors
    /// Returns an error if the name of an environment variable is invalid.
    fn try_from(job: Job) -> Result<Self, Denied> {
        let Job {
            source,
            language,
            args,
            stdin,
            env,
            packages,
            files,
            work_dir,
            out,
            out_guard: _,
            terminal,
            returns,
            cell_number,
            grants,
            limits,
            cpus,
            results,
            isolations,
        } = job;
        let Grants { dirs, project: _, net, env: _, secrets, tools } = grants;
        let variable = |(name, value): (String, String)| match EnvName::new(&name) {
            Ok(name) => Ok(EnvRequest::Set(name, value)),
            Err(error) => {
                let action = "pass environment variable";
                Err(Denied::new(ResultKind::InvalidRequest, action, name, error.to_string(), "choose another name"))
            }
        };
        let dir = |DirGrant { host, guest, access }: DirGrant| DirGrantSpec {
            host: host.to_path_buf().display().to_string(),
            guest,
            access,
        };
        Ok(Self {
            language: Some(language),
            args,
            dirs: dirs.into_iter().map(dir).collect(),
            net,
            env: env.into_iter().map(variable).collect::<Result<_, _>>()?,
            secrets: secrets.into_iter().map(SecretRequest::from).collect(),
            limits: LimitOverrides::between(&Limits::default(), &limits),
            cpus,
            isolation: Preference::Among(isolations),
            out: out.map(|out| out.to_path_buf()),
            stdin,
            packages,
            files,
            work_dir: Some(work_dir),
            terminal,
            returns,
            cell_number,
            results,
            tools,
            ..Self::new(Program::Source(source))
        })
    }
}

impl TryFrom<&Job> for Request {
    type Error = Denied;

    /// Creates the request of a copy of the job.
    ///
    /// # Errors
    /// As for a job itself.
    fn try_from(job: &Job) -> Result<Self, Denied> {
        job.clone().try_into()
    }
}

/// The program to run.
#[derive(Debug, Clone, PartialEq)]
pub enum Program {
    /// Text from the command line.
    Inline(String),
    /// Text that was read from standard input.
    Stdin(String),
    /// A host file, exactly as the user typed its path, or a directory with a program.
    File(PathBuf),
    /// A Python module, searched for as the modules that a program imports.
    Module(String),
    /// A command line, whose program is searched for in the container.
    Command(Vec<String>),
    /// A source that is complete: nothing is read from the host.
    Source(Source),
}

/// Name of the isolation by the dev container of a project.
const DEV_CONTAINER: &str = "devcontainer";

/// Isolation that a user prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Any isolation that fits, the lightest first.
    #[default]
    Auto,
    /// Only this isolation.
    Only(Isolation),
    /// Only the dev container of the project in the working directory.
    DevContainer,
    /// Any of these isolations, the lightest first.
    Among(IsolationSet),
}

impl Preference {
    /// Returns the isolations that the preference accepts.
    #[must_use]
    pub fn acceptable(self) -> IsolationSet {
        match self {
            Self::Auto => IsolationSet::auto(),
            Self::Only(isolation) => IsolationSet::only(isolation),
            Self::DevContainer => IsolationSet::only(Isolation::Container),
            Self::Among(isolations) => isolations,
        }
    }
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(isolation) => isolation.fmt(f),
            Self::DevContainer => f.write_str(DEV_CONTAINER),
            Self::Among(isolations) => isolations.fmt(f),
        }
    }
}

impl FromStr for Preference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text {
            "auto" => Ok(Self::Auto),
            DEV_CONTAINER => Ok(Self::DevContainer),
            name => name.parse().map(Self::Only),
        }
    }
}

/// One variable of the guest's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvRequest {
    /// The host's variable with this name and its value.
    FromHost(EnvName),
    /// A variable with this name and this value.
    Set(EnvName, String),
}

impl EnvRequest {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &EnvName {
        match self {
            Self::FromHost(name) | Self::Set(name, _) => name,
        }
    }
}

/// Reason that a text is not a valid [`EnvRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EnvRequestError {
    /// The name is not a valid variable name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The value contains a NUL. The message omits the value, because it may be a secret.
    #[error("the value of environment variable {0} contains a NUL")]
    Nul(EnvName),
}

impl FromStr for EnvRequest {
    type Err = EnvRequestError;

    /// Parses `NAME`, which takes the host's value, or `NAME=VALUE`.
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
        for text in ["auto", "wasm", "container", "vm", "devcontainer"] {
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
