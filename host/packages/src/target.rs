//! Targets of resolutions: an interpreter and its platform.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uv_distribution_filename::WheelFilename;
use uv_pep508::{MarkerEnvironment, MarkerEnvironmentBuilder};
use uv_platform_tags::{Arch, Os, Platform, Tags, TagsOptions};

use crate::error::UnpackError;

/// Interpreter that packages are resolved for. The serialized form contains every property that affects a resolution,
/// and so distinguishes the resolutions for different targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) enum Target {
    /// CPython in WebAssembly: pure wheels only.
    Wasm {
        /// The interpreter's version, such as `3.15.0`.
        python: String,
        /// The packages that the runtime has built in.
        built_in: Vec<BuiltIn>,
    },
    /// CPython in a Linux container.
    Container(ImageInterpreter),
}

/// Properties of an image's interpreter, as the image reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageInterpreter {
    /// The interpreter's version, such as `3.11.2`.
    pub(crate) python: String,
    /// The machine: `x86_64` or `aarch64`.
    pub(crate) machine: String,
    /// The C library: `glibc` or `musl`.
    pub(crate) libc: String,
    /// The C library's version.
    pub(crate) libc_version: (u16, u16),
    /// The names of the interpreter's own modules, which packages cannot replace.
    pub(crate) library: Vec<String>,
    /// The packages that the image has installed, by their normalized names.
    #[serde(default)]
    pub(crate) installed: Vec<String>,
}

/// Error for a platform without known wheels.
#[derive(Debug, thiserror::Error)]
#[error("no wheels are available for platform {0}")]
pub(crate) struct UnsupportedPlatformError(String);

/// A package that a runtime has built in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BuiltIn {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The package's METADATA.
    pub metadata: String,
}

/// Maximum number of bytes that are read of a METADATA.
const MAX_METADATA_SIZE: u64 = 1 << 20;

/// Lists the packages that a runtime's library archive has built in.
///
/// # Errors
/// When the archive cannot be read.
pub fn read_built_in_packages(library: &Path) -> Result<Vec<BuiltIn>, UnpackError> {
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
        let read = archive.by_name(&member).map_err(unsound)?.take(MAX_METADATA_SIZE).read_to_string(&mut metadata);
        read.map_err(|source| UnpackError::Member { member, source })?;
        let name = name.replace('_', "-").to_lowercase();
        built_in.insert(name.clone(), BuiltIn { name, version: version.to_owned(), metadata });
    }
    Ok(built_in.into_values().collect())
}

impl Target {
    /// Returns the target that represents any container before an image is chosen. Most indexes have wheels for it.
    #[must_use]
    pub(crate) fn default_container() -> Self {
        Self::any("3.13.0")
    }

    /// Returns the same target with an older interpreter, for which older wheels exist.
    pub(crate) fn older_container() -> Self {
        Self::any("3.11.0")
    }

    fn any(python: &str) -> Self {
        Self::Container(ImageInterpreter {
            python: python.to_owned(),
            machine: if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" }.to_owned(),
            libc: "glibc".to_owned(),
            libc_version: (2, 36),
            library: Vec::new(),
            installed: Vec::new(),
        })
    }

    /// Returns the interpreter's version.
    #[must_use]
    pub(crate) fn python(&self) -> &str {
        match self {
            Self::Wasm { python, .. } => python,
            Self::Container(image) => &image.python,
        }
    }

    /// Returns the target's name for locks and messages: `wasm-3.15`, `linux-x86_64-glibc-3.11`. Images that differ
    /// only in other properties, such as the version of their C library, have the same name.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        let (major, minor) = self.minor_version();
        match self {
            Self::Wasm { .. } => format!("wasm-{major}.{minor}"),
            Self::Container(ImageInterpreter { machine, libc, .. }) => {
                format!("linux-{machine}-{libc}-{major}.{minor}")
            }
        }
    }

    /// Returns true if an image has the package installed, whatever its version.
    #[must_use]
    pub(crate) fn has_installed(&self, name: &str) -> bool {
        match self {
            Self::Wasm { .. } => false,
            Self::Container(image) => image.installed.iter().any(|installed| installed == name),
        }
    }

    /// Returns the packages that the target has built in.
    #[must_use]
    pub(crate) fn built_in(&self) -> &[BuiltIn] {
        match self {
            Self::Wasm { built_in, .. } => built_in,
            Self::Container(_) => &[],
        }
    }

    /// Returns the names of the interpreter's own modules, if packages precede them in the search path.
    #[must_use]
    pub(crate) fn library(&self) -> &[String] {
        match self {
            Self::Wasm { .. } => &[],
            Self::Container(image) => &image.library,
        }
    }

    fn minor_version(&self) -> (u8, u8) {
        let mut parts = self.python().split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(3), parts.next().unwrap_or(0))
    }

    /// Returns true if a wheel with this file name is compatible with the target.
    #[must_use]
    pub(crate) fn supports_wheel(&self, file: &str) -> bool {
        let named = file.parse::<WheelFilename>();
        named.is_ok_and(|named| self.tags().is_ok_and(|tags| named.is_compatible(&tags)))
    }

    pub(crate) fn tags(&self) -> Result<Tags, UnsupportedPlatformError> {
        let platform = match self {
            // No wheels exist for this platform, so only those for any platform are compatible.
            Self::Wasm { .. } => Platform::new(Os::Haiku { release: "0".to_owned() }, Arch::Wasm32),
            Self::Container(ImageInterpreter { machine, libc, libc_version: (major, minor), .. }) => {
                let (major, minor) = (*major, *minor);
                let os = if libc == "musl" { Os::Musllinux { major, minor } } else { Os::Manylinux { major, minor } };
                let arch = match machine.as_str() {
                    "x86_64" => Arch::X86_64,
                    "aarch64" => Arch::Aarch64,
                    other => return Err(UnsupportedPlatformError(other.to_owned())),
                };
                Platform::new(os, arch)
            }
        };
        let options =
            TagsOptions { manylinux_compatible: true, gil_disabled: false, debug_enabled: false, is_cross: true };
        let version = self.minor_version();
        Tags::from_env(platform, version, "cpython", version, options)
            .map_err(|error| UnsupportedPlatformError(error.to_string()))
    }

    pub(crate) fn markers(&self) -> Result<MarkerEnvironment, UnsupportedPlatformError> {
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
        .map_err(|error| UnsupportedPlatformError(error.to_string()))
    }
}
