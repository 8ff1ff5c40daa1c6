//! Limits in a configuration file.

use std::fmt::Display;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;

use codebox_core::{Limit, LimitOverrides, LimitParseError, Limits, parse_count, parse_duration, parse_size};
use serde::Deserialize;
use toml::Value;

use super::ConfigError;

/// Deserialized table, before its values are checked. Values have the syntax of the command line; numbers may be
/// unquoted.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Table {
    timeout: Option<Value>,
    cpu: Option<Value>,
    memory: Option<Value>,
    output: Option<Value>,
    disk: Option<Value>,
    files: Option<Value>,
    open_files: Option<Value>,
    processes: Option<Value>,
    fuel: Option<Value>,
    net_bytes: Option<Value>,
    net_connections: Option<Value>,
}

impl Table {
    /// Returns the limits that the table sets.
    pub(super) fn read(self, table: &str, file: &Path) -> Result<LimitOverrides, ConfigError> {
        let Self { timeout, cpu, memory, output, disk, files, open_files, processes, fuel, net_bytes, net_connections } =
            self;
        let at = |key| Place { file, table, key };
        Ok(LimitOverrides {
            wall: at("timeout").read(timeout, parse_duration)?,
            cpu: at("cpu").read(cpu, parse_duration)?,
            memory: at("memory").read(memory, parse_size)?,
            output: at("output").read(output, parse_size)?,
            disk: at("disk").read(disk, parse_size)?,
            files: at("files").read(files, parse_count)?,
            open_files: at("open-files").small(open_files)?,
            processes: at("processes").small(processes)?,
            fuel: at("fuel").read(fuel, parse_count)?,
            net_bytes: at("net-bytes").read(net_bytes, parse_size)?,
            net_connections: at("net-connections").read(net_connections, parse_count)?,
        })
    }
}

pub(super) struct Place<'a> {
    pub file: &'a Path,
    pub table: &'a str,
    pub key: &'a str,
}

impl Place<'_> {
    pub(super) fn read<T>(
        &self,
        value: Option<Value>,
        parse: fn(&str) -> Result<Limit<T>, LimitParseError>,
    ) -> Result<Option<Limit<T>>, ConfigError> {
        let text = match value {
            None => return Ok(None),
            Some(Value::String(text)) => text,
            Some(Value::Integer(number)) => number.to_string(),
            Some(Value::Float(number)) => number.to_string(),
            Some(other) => {
                let detail = format!("expected a string or a number, found {}", other.type_str());
                return Err(self.fault(detail, "write a string or a number"));
            }
        };
        // The fix is reported separately.
        let fault =
            |LimitParseError { what, text, rule, fix }| self.fault(format!("invalid {what} {text:?}: {rule}"), fix);
        Ok(Some(parse(&text).map_err(fault)?))
    }

    fn small(&self, value: Option<Value>) -> Result<Option<Limit<NonZeroU32>>, ConfigError> {
        let narrow = |count: NonZeroU64| {
            NonZeroU32::try_from(count)
                .map_err(|_| self.fault("it is too large", "write a smaller number, or unlimited"))
        };
        match self.read(value, parse_count)? {
            None => Ok(None),
            Some(Limit::Unlimited) => Ok(Some(Limit::Unlimited)),
            Some(Limit::At(count)) => Ok(Some(Limit::At(narrow(count)?))),
        }
    }

    fn fault(&self, detail: impl Display, fix: &str) -> ConfigError {
        let key = format!("{}.{}", self.table, self.key);
        ConfigError::new(self.file, key, detail, fix)
    }
}

/// Returns the lower of each limit in `ours` and `theirs`; a limit that only `theirs` sets is compared with the default
/// in `unset`.
pub(super) fn lower(ours: &LimitOverrides, theirs: &LimitOverrides, unset: &Limits) -> LimitOverrides {
    fn pick<T: Copy + Ord>(ours: Option<Limit<T>>, theirs: Option<Limit<T>>, unset: Limit<T>) -> Option<Limit<T>> {
        let Some(theirs) = theirs else { return ours };
        Some(ours.unwrap_or(unset).min(theirs))
    }
    let LimitOverrides {
        wall,
        cpu,
        memory,
        output,
        disk,
        files,
        open_files,
        processes,
        fuel,
        net_bytes,
        net_connections,
    } = *ours;
    LimitOverrides {
        wall: pick(wall, theirs.wall, unset.wall),
        cpu: pick(cpu, theirs.cpu, unset.cpu),
        memory: pick(memory, theirs.memory, unset.memory),
        output: pick(output, theirs.output, unset.output),
        disk: pick(disk, theirs.disk, unset.disk),
        files: pick(files, theirs.files, unset.files),
        open_files: pick(open_files, theirs.open_files, unset.open_files),
        processes: pick(processes, theirs.processes, unset.processes),
        fuel: pick(fuel, theirs.fuel, unset.fuel),
        net_bytes: pick(net_bytes, theirs.net_bytes, unset.net_bytes),
        net_connections: pick(net_connections, theirs.net_connections, unset.net_connections),
    }
}
