use std::time::{Duration, UNIX_EPOCH};

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

/// Returns a time in milliseconds since 1970, to the second.
pub(crate) fn time(millis: u64) -> String {
    // A time beyond the range of the calendar can only come from a modified file.
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(millis.min(253_402_300_799_000)));
    at.map_or_else(|| "-".to_owned(), |at| humantime::format_rfc3339_seconds(at).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_measures() {
        assert_eq!(bytes(12), "12 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(duration(Duration::from_micros(60)), "60 µs");
        assert_eq!(duration(Duration::from_micros(1240)), "1.2 ms");
        assert_eq!(duration(Duration::from_millis(312)), "312 ms");
        assert_eq!(duration(Duration::from_millis(1500)), "1.50 s");
    }
}
