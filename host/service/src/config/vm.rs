//! The virtual machine of the user in a configuration file.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codebox_core::{ByteSize, Limit, parse_duration, parse_size};
use serde::Deserialize;
use toml::Value;

use super::ConfigError;
use super::limits::Place;

/// Lowest amount of memory with which Podman starts containers.
const MIN_MEMORY: ByteSize = ByteSize::mib(512);

/// Size of the file system of the image, which the disk cannot be smaller than.
const MIN_DISK: ByteSize = ByteSize::gib(6);

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    cpus: Option<NonZeroU32>,
    memory: Option<Value>,
    disk: Option<Value>,
    idle: Option<Value>,
    image: Option<PathBuf>,
}

/// Settings of the virtual machine; `None` for the default of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VirtualMachine {
    /// Number of processors.
    pub cpus: Option<NonZeroU32>,
    /// Memory.
    pub memory: Option<ByteSize>,
    /// Size of the disk.
    pub disk: Option<ByteSize>,
    /// Time without use after which it is turned off.
    pub idle: Option<Limit<Duration>>,
    /// Directory of the image.
    pub image: Option<PathBuf>,
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<VirtualMachine, ConfigError> {
        let at = |key| Place { file, table: "vm", key };
        let size = |key: &'static str, value, least: ByteSize| match at(key).read(value, parse_size)? {
            Some(Limit::At(size)) if size < least => Err(ConfigError::new(
                file,
                format!("vm.{key}"),
                format!("{size} is too small"),
                &format!("use at least {least}"),
            )),
            Some(Limit::At(size)) => Ok(Some(size)),
            Some(Limit::Unlimited) => {
                Err(ConfigError::new(file, format!("vm.{key}"), "a machine has a size", "write a size such as 4G"))
            }
            None => Ok(None),
        };
        Ok(VirtualMachine {
            cpus: self.cpus,
            memory: size("memory", self.memory, MIN_MEMORY)?,
            disk: size("disk", self.disk, MIN_DISK)?,
            idle: at("idle").read(self.idle, parse_duration)?,
            // A relative path is one from the directory of the file.
            image: self.image.map(|image| file.parent().unwrap_or(Path::new("")).join(image)),
        })
    }
}

impl VirtualMachine {
    /// Returns the user's settings. A project cannot change them, because the machine serves all projects.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        if *project != Self::default() {
            let fix = "remove it, or put it into your own configuration";
            return Err(ConfigError::new(file, "vm", "a project cannot configure the virtual machine", fix));
        }
        Ok(self.clone())
    }
}
