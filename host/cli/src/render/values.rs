use std::time::Duration;

use codebox_core::{ByteSize, Limit, LimitKind, Limits};

/// Formats a number of bytes with a suitable unit.
pub(crate) fn bytes(n: u64) -> String {
    if n < 1024 {
        return format!("{n} bytes");
    }
    bytesize::ByteSize(n).display().iec().to_string()
}

/// Formats a measured time with about three digits.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_millis() {
        0 => format!("{} µs", time.as_micros()),
        1..100 => format!("{:.1} ms", seconds * 1e3),
        100..1000 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// Returns the name of a limit, and the option that sets it if there is one.
pub(super) const fn name_and_flag(kind: LimitKind) -> (&'static str, Option<&'static str>) {
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
pub(super) fn limit_value(kind: LimitKind, limits: &Limits) -> Option<String> {
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
    fn measures_read_well() {
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(duration(Duration::from_micros(60)), "60 µs");
        assert_eq!(duration(Duration::from_micros(1240)), "1.2 ms");
        assert_eq!(duration(Duration::from_millis(312)), "312 ms");
        assert_eq!(duration(Duration::from_millis(1500)), "1.50 s");
    }

    #[test]
    fn every_limit_that_is_set_has_a_value() {
        let limits = Limits::default();
        for kind in LimitKind::ALL {
            assert_eq!(limit_value(kind, &limits).is_some(), limits.is_limited(kind));
        }
        assert_eq!(limit_value(LimitKind::Wall, &limits).as_deref(), Some("1m"));
    }
}
