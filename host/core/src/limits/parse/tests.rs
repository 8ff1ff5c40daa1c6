use super::*;

#[test]
fn parses_binary_sizes() {
    for (text, bytes) in [
        ("1", 1_u64),
        ("1000", 1000),
        ("512k", 512 << 10),
        ("512K", 512 << 10),
        ("256M", 256 << 20),
        ("256MB", 256 << 20),
        ("256 MiB", 256 << 20),
        ("1.5GiB", 3 << 29),
        ("0.5k", 512),
        ("2T", 2 << 40),
        ("007b", 7),
    ] {
        assert_eq!(parse_size(text), Ok(Limit::At(ByteSize::bytes(bytes))), "{text}");
    }
    assert_eq!(parse_size("unlimited"), Ok(Limit::Unlimited));
}

#[test]
fn rejects_bad_sizes_in_one_line() {
    let bad = [
        "",
        "0",
        "0M",
        "0.0",
        "-1",
        "-1M",
        "NaN",
        "inf",
        "1e9",
        "1X",
        "1 KiBs",
        "M",
        ".5",
        "1.",
        "1..5",
        "1.2.3",
        "99999999999999999999",
        "9223372036854775808",
        "16777216T",
        "0.0001",
        "+1",
        " 1",
        "1k ",
        "1,5G",
        "Unlimited",
        "99999999999999999999999999999999999999999999",
    ];
    for text in bad {
        let error = parse_size(text).expect_err(text).to_string();
        assert!(error.contains(&format!("{text:?}")) && !error.contains('\n'), "{error}");
    }
    assert_eq!(
        parse_size("12Q").expect_err("an unknown unit").to_string(),
        "invalid size \"12Q\": its unit is unknown; write a number of bytes or one with a unit, such as 512k, 256M \
         or 1.5GiB, or unlimited"
    );
}

#[test]
fn parses_compound_durations() {
    for (text, millis) in [
        ("5", 5_000),
        ("0.25", 250),
        ("500ms", 500),
        ("5s", 5_000),
        ("1.5s", 1_500),
        ("2m", 120_000),
        ("2min", 120_000),
        ("1h", 3_600_000),
        ("1m30s", 90_000),
        ("1h30m", 5_400_000),
        ("1d", 86_400_000),
    ] {
        assert_eq!(parse_duration(text), Ok(Limit::At(Duration::from_millis(millis))), "{text}");
    }
    assert_eq!(parse_duration("unlimited"), Ok(Limit::Unlimited));
}

#[test]
fn rejects_bad_durations_in_one_line() {
    let bad = [
        "",
        "0",
        "0s",
        "0h0m",
        "-1",
        "-5s",
        "NaN",
        "inf",
        "1e18",
        "1000000000000000000",
        "5x",
        "5 s",
        "s",
        "30s1m",
        "1m1m",
        "1m30",
        "1s-1ms",
        "3000000000000h",
        "40000d",
        "5S",
        "1.s",
        "999999999999999999999999999999999999999999h",
    ];
    for text in bad {
        let error = parse_duration(text).expect_err(text).to_string();
        assert!(error.contains(&format!("{text:?}")) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn parses_whole_counts() {
    assert_eq!(parse_count("10000").map(Limit::at).ok().flatten().map(NonZeroU64::get), Some(10_000));
    assert_eq!(parse_count("unlimited"), Ok(Limit::Unlimited));
    for bad in ["", "0", "-1", "1.0", "1k", "18446744073709551616", "x"] {
        assert!(parse_count(bad).is_err(), "{bad}");
    }
}
