//! What packages are chosen for: an interpreter and its platform.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uv_distribution_filename::WheelFilename;
use uv_pep508::{MarkerEnvironment, MarkerEnvironmentBuilder};
use uv_platform_tags::{Arch, Os, Platform, Tags, TagsOptions};

use super::ResolveError;
use crate::error::UnpackError;

/// An interpreter that packages are chosen for. Written down it has every fact that choices go by, and so tells what was
/// chosen for one from what was chosen for another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Target {
    /// CPython in WebAssembly: pure wheels only.
    Wasm {
        /// Its version, such as `3.15.0`.
        python: String,
        /// What it has built in.
        built_in: Vec<BuiltIn>,
    },
    /// CPython in a container with Linux.
    Container(Image),
}

/// What an image says of its interpreter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its version, such as `3.11.2`.
    pub python: String,
    /// The machine: `x86_64` or `aarch64`.
    pub machine: String,
    /// The C library: `glibc` or `musl`.
    pub libc: String,
    /// That library's version.
    pub libc_version: (u16, u16),
    /// The names of its own modules, in whose place nothing of a package is ever found.
    pub library: Vec<String>,
    /// The packages that it has installed, by their names as indexes spell them.
    #[serde(default)]
    pub installed: Vec<String>,
}

/// A package that a runtime has built in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuiltIn {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its METADATA.
    pub metadata: String,
}

/// The most of a METADATA that is read.
const METADATA: u64 = 1 << 20;

/// What a runtime's library says that it has built in.
///
/// # Errors
/// When it cannot be read.
pub fn built_in_of(library: &Path) -> Result<Vec<BuiltIn>, UnpackError> {
    let unsound = |e: zip::result::ZipError| UnpackError::Archive { path: library.to_owned(), source: e.into() };
    let open = |source| UnpackError::Open { path: library.to_owned(), source };
    let file = std::fs::File::open(library).map_err(open)?;
    let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).map_err(unsound)?;
    let named = |name: &str| name.strip_suffix(".dist-info/METADATA").map(|stem| (name.to_owned(), stem.to_owned()));
    let found: Vec<_> = archive.file_names().filter_map(named).collect();
    let mut built_in = BTreeMap::new();
    for (member, stem) in found {
        let Some((name, version)) = stem.split_once('-') else { continue };
        let mut metadata = String::new();
        let read = archive.by_name(&member).map_err(unsound)?.take(METADATA).read_to_string(&mut metadata);
        read.map_err(|source| UnpackError::Member { member, source })?;
        let name = name.replace('_', "-").to_lowercase();
        built_in.insert(name.clone(), BuiltIn { name, version: version.to_owned(), metadata });
    }
    Ok(built_in.into_values().collect())
}

impl Target {
    /// The image that stands for any container while none was chosen: what most indexes have wheels for.
    #[must_use]
    pub fn usual() -> Self {
        Self::any("3.13.0")
    }

    /// The same with an interpreter that older wheels are for.
    pub(super) fn older() -> Self {
        Self::any("3.11.0")
    }

    fn any(python: &str) -> Self {
        Self::Container(Image {
            python: python.to_owned(),
            machine: if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" }.to_owned(),
            libc: "glibc".to_owned(),
            libc_version: (2, 36),
            library: Vec::new(),
            installed: Vec::new(),
        })
    }

    /// The interpreter's version.
    #[must_use]
    pub fn python(&self) -> &str {
        match self {
            Self::Wasm { python, .. } => python,
            Self::Container(image) => &image.python,
        }
    }

    /// What it is called, in locks and for people: `wasm-3.15`, `linux-x86_64-glibc-3.11`. Images that differ in less than
    /// that, as in the version of their C library, are called the same.
    #[must_use]
    pub fn name(&self) -> String {
        let (major, minor) = self.minor_version();
        match self {
            Self::Wasm { .. } => format!("wasm-{major}.{minor}"),
            Self::Container(Image { machine, libc, .. }) => format!("linux-{machine}-{libc}-{major}.{minor}"),
        }
    }

    /// Returns true if an image has the package installed, whatever its version.
    #[must_use]
    pub fn has_installed(&self, name: &str) -> bool {
        match self {
            Self::Wasm { .. } => false,
            Self::Container(image) => image.installed.iter().any(|installed| installed == name),
        }
    }

    /// What it has built in.
    #[must_use]
    pub fn built_in(&self) -> &[BuiltIn] {
        match self {
            Self::Wasm { built_in, .. } => built_in,
            Self::Container(_) => &[],
        }
    }

    /// The names of its own modules, where packages come before them.
    #[must_use]
    pub fn library(&self) -> &[String] {
        match self {
            Self::Wasm { .. } => &[],
            Self::Container(image) => &image.library,
        }
    }

    fn minor_version(&self) -> (u8, u8) {
        let mut parts = self.python().split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(3), parts.next().unwrap_or(0))
    }

    /// Whether a wheel of this file name serves there.
    #[must_use]
    pub fn takes(&self, file: &str) -> bool {
        let named = file.parse::<WheelFilename>();
        named.is_ok_and(|named| self.tags().is_ok_and(|tags| named.is_compatible(&tags)))
    }

    pub(super) fn tags(&self) -> Result<Tags, ResolveError> {
        let platform = match self {
            // No wheel is made for this one, so that only those for any platform remain.
            Self::Wasm { .. } => Platform::new(Os::Haiku { release: "0".to_owned() }, Arch::Wasm32),
            Self::Container(Image { machine, libc, libc_version: (major, minor), .. }) => {
                let (major, minor) = (*major, *minor);
                let os = if libc == "musl" { Os::Musllinux { major, minor } } else { Os::Manylinux { major, minor } };
                let arch = match machine.as_str() {
                    "x86_64" => Arch::X86_64,
                    "aarch64" => Arch::Aarch64,
                    other => return Err(ResolveError::Platform(other.to_owned())),
                };
                Platform::new(os, arch)
            }
        };
        let options =
            TagsOptions { manylinux_compatible: true, gil_disabled: false, debug_enabled: false, is_cross: true };
        let version = self.minor_version();
        Tags::from_env(platform, version, "cpython", version, options)
            .map_err(|error| ResolveError::Platform(error.to_string()))
    }

    pub(super) fn markers(&self) -> Result<MarkerEnvironment, ResolveError> {
        let (major, minor) = self.minor_version();
        let (sys_platform, machine, system) = match self {
            Self::Wasm { .. } => ("wasi", "wasm32", "WASI"),
            Self::Container(image) => ("linux", image.machine.as_str(), "Linux"),
        };
        let version = format!("{major}.{minor}");
        MarkerEnvironment::try_from(MarkerEnvironmentBuilder {
            implementation_name: "cpython",
            implementation_version: self.python(),
            os_name: "posix",
            platform_machine: machine,
            platform_python_implementation: "CPython",
            platform_release: "",
            platform_system: system,
            platform_version: "",
            python_full_version: self.python(),
            python_version: &version,
            sys_platform,
        })
        .map_err(|error| ResolveError::Platform(error.to_string()))
    }
}
