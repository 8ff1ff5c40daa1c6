//! Limits as text for users, in the syntax of the command line.

use std::time::Duration;

use codebox_core::{ByteSize, Limit, LimitKind, Limits};

/// Returns a line with the limit that ended a run, its value, and the option that raises it.
#[must_use]
pub fn limit_hit(kind: LimitKind, limits: &Limits) -> String {
    let (name, flag) = name_and_flag(kind);
    let value = limit_value(kind, limits);
    let value = value.map(|value| format!(" of {value}")).unwrap_or_default();
    let raise = flag.map(|flag| format!("; raise it with {flag}"));
    format!("ended by the {name} limit{value}{}", raise.unwrap_or_default())
}

/// Returns the name of a limit, and the option that sets it if there is one.
#[must_use]
pub const fn name_and_flag(kind: LimitKind) -> (&'static str, Option<&'static str>) {
    match kind {
        LimitKind::Wall => ("wall time", Some("--timeout")),
        LimitKind::Cpu => ("processor time", Some("--cpu-time")),
        LimitKind::Memory => ("memory", Some("--memory")),
        LimitKind::Output => ("output", Some("--max-output")),
        LimitKind::Disk => ("disk", Some("--max-disk")),
        LimitKind::Files => ("file", Some("--max-files")),
        LimitKind::OpenFiles => ("open file", Some("--max-open-files")),
        LimitKind::Processes => ("process", Some("--max-processes")),
        LimitKind::Fuel => ("fuel", None),
        LimitKind::NetBytes => ("network traffic", Some("--max-net-bytes")),
        LimitKind::NetConnections => ("connection", Some("--max-net-connections")),
    }
}

/// Returns the value of a limit in the syntax of the command line; `None` if it is unlimited.
#[must_use]
pub fn limit_value(kind: LimitKind, limits: &Limits) -> Option<String> {
    let size = |limit: Limit<ByteSize>| limit.at().map(|size| size.to_string());
    let time = |limit: Limit<Duration>| {
        let time = limit.at()?;
        Some(humantime::format_duration(time).to_string())
    };
    match kind {
        LimitKind::Wall => time(limits.wall),
        LimitKind::Cpu => time(limits.cpu),
        LimitKind::Memory => size(limits.memory),
        LimitKind::Output => size(limits.output),
        LimitKind::Disk => size(limits.disk),
        LimitKind::Files => limits.files.at().map(|n| n.to_string()),
        LimitKind::OpenFiles => limits.open_files.at().map(|n| n.to_string()),
        LimitKind::Processes => limits.processes.at().map(|n| n.to_string()),
        LimitKind::Fuel => limits.fuel.at().map(|n| n.to_string()),
        LimitKind::NetBytes => size(limits.net_bytes),
        LimitKind::NetConnections => limits.net_connections.at().map(|n| n.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_that_is_set_has_a_value() {
        let limits = Limits::default();
        for kind in LimitKind::ALL {
            assert_eq!(limit_value(kind, &limits).is_some(), limits.is_limited(kind));
        }
        assert_eq!(limit_value(LimitKind::Wall, &limits).as_deref(), Some("1m"));
    }
}
