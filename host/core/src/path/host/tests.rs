use super::*;

#[test]
fn normalizes_unix_paths() {
    for (text, want) in [("/", "/"), ("//", "/"), ("/a//b/", "/a/b"), ("/./a/.", "/a")] {
        assert_eq!(HostPath::unix(text).map(|p| p.to_string()), Ok(want.to_owned()));
    }
    for bad in ["", "a", "./a", "~/a", "/a/..", "/../a", "/a\0b", "C:\\a"] {
        assert!(HostPath::unix(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn normalizes_or_rejects_windows_paths() {
    let good = [
        (r"C:\a\b", r"C:\a\b"),
        (r"c:/a\b/", r"C:\a\b"),
        (r"C:\", r"C:\"),
        (r"\\?\C:\a", r"C:\a"),
        (r"\\srv\s", r"\\srv\s\"),
        (r"\\srv\s\x y", r"\\srv\s\x y"),
        (r"\\?\UNC\srv\s\x", r"\\srv\s\x"),
        (r"C:\a\.\b", r"C:\a\b"),
    ];
    for (text, want) in good {
        assert_eq!(HostPath::windows(text).map(|p| p.to_string()), Ok(want.to_owned()));
    }
    let bad = [
        "",
        r"C:",
        r"C:a",
        r"\a",
        "/c/a",
        r"a\b",
        r"\\srv",
        r"\\.\PhysicalDrive0",
        r"\\?\",
        r"C:\a\..\b",
        r"C:\a:stream",
        r"C:\NUL",
        r"C:\aux.txt",
        r"C:\com¹",
        r"C:\LPT9.log",
        r"C:\a.",
        r"C:\a ",
        r"C:\a*b",
        "C:\\a\nb",
        r"1:\a",
        r"\\?\GLOBALROOT\x",
    ];
    for text in bad {
        assert!(HostPath::windows(text).is_err(), "{text:?}");
    }
}

#[test]
fn windows_containment_ignores_case_and_unix_containment_does_not() {
    let windows = |text| HostPath::windows(text).expect("a Windows path");
    assert!(windows(r"c:\Work\É").is_within(&windows(r"C:\WORK")));
    assert!(windows(r"\\SRV\s\a").is_within(&windows(r"\\srv\S")));
    assert!(!windows(r"D:\work").is_within(&windows(r"C:\")));
    let unix = |text| HostPath::unix(text).expect("a Unix path");
    assert!(!unix("/Work/a").is_within(&unix("/work")));
    assert!(!unix("/ws/s1-evil/x").is_within(&unix("/ws/s1")));
    assert!(unix("/ws/s1/x").is_within(&unix("/")));
}

#[test]
fn root_has_no_parent() {
    let path = HostPath::windows(r"C:\a\b").expect("a Windows path");
    let up = path.parent().and_then(|p| p.parent()).expect("two levels");
    assert!(up.is_root());
    assert_eq!(up.to_string(), r"C:\");
    assert_eq!(up.parent(), None);
}
