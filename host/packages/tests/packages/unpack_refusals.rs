//! Malicious archives, which are refused without writing anything.

use codebox_core::Silent;
use codebox_packages::{UnpackError, UnpackLimits, unpack_wheel, unpack_wheel_within};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::support::{archive, is_empty, wheel};
use crate::unpack_support::{Case, patched};

#[test]
fn rejects_unsafe_names() {
    for name in
        ["../../../x", "/etc/x", "a/../../xx", "a\\..\\..\\x", "C:/windows", "a/./x/y/zz", "a//b//c//d", "nul\0name"]
    {
        let placeholder = "q".repeat(name.len());
        let plain = archive(&[("good", "1"), (&placeholder, "2")]);
        let case = Case::new(&patched(plain, placeholder.as_bytes(), name.as_bytes()));
        let error = case.rejection();
        assert!(matches!(error, UnpackError::Name(_)), "{name:?}: {error}");
        // The archive is refused even if only its valid members are selected.
        assert!(matches!(case.unpack(&["good"]), Err(UnpackError::Name(_))), "{name:?}");
    }
    let case = Case::new(&patched(archive(&[("ab", "1")]), b"ab", b"a\xff"));
    assert!(matches!(case.rejection(), UnpackError::Name(_)));
}

#[test]
fn rejects_duplicates() {
    let twins = archive(&[("same1", "1"), ("same2", "2")]);
    for (from, to) in [(b"same2", b"same1"), (b"same2", b"SAME1")] {
        let error = Case::new(&patched(twins.clone(), from, to)).rejection();
        assert!(matches!(error, UnpackError::Duplicate(_)), "{error}");
    }
    // One member is a file, and another needs a directory with the same name.
    let case = Case::new(&archive(&[("a", "1"), ("a/b", "2")]));
    assert!(matches!(case.rejection(), UnpackError::Write { .. }));
}

#[test]
fn rejects_links_and_devices() {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).expect("a link");
    let link = zip.finish().expect("an archive").into_inner();
    assert!(matches!(Case::new(&link).rejection(), UnpackError::Kind(_)));
    let kind = |mode: u16| {
        let plain = archive(&[("thing", "1")]);
        // The upper half of the external attributes, which start 38 bytes into the directory's only entry.
        let entry = plain.windows(4).position(|four| four == b"PK\x01\x02").expect("an entry");
        let mut content = plain;
        content[entry + 40..entry + 42].copy_from_slice(&mode.to_le_bytes());
        Case::new(&content)
    };
    for mode in [0o120_777, 0o010_644, 0o020_644, 0o060_644, 0o140_644, 0o040_755] {
        let error = kind(mode).rejection();
        assert!(matches!(error, UnpackError::Kind(_)), "{mode:o}: {error}");
    }
    kind(0o104_777).unpack(&["thing"]).expect("a file is a file, whatever its permissions");
}

#[test]
fn rejects_archive_bombs() {
    let zeros = "\0".repeat(1 << 20);
    let content = archive(&[("a", &zeros), ("b", &zeros)]);
    let case = Case::new(&content);
    let limits = UnpackLimits { bytes: 1 << 20, members: 2 };
    let within = |limits| unpack_wheel_within(limits, &case.wheel(), &[""], &case.out(), &Silent);
    let error = within(&limits).expect_err("too large");
    assert!(matches!(&error, UnpackError::TooLarge { member, .. } if member == "b"), "{error}");
    assert!(is_empty(case.target_dir.path()));
    let error = within(&UnpackLimits { members: 1, ..UnpackLimits::default() }).expect_err("too many");
    assert!(matches!(error, UnpackError::TooMany { found: 2, allowed: 1 }), "{error}");

    // Few members in many directories.
    let case = Case::new(&archive(&[("a/b/c/one", "1"), ("a/b/two", "2"), ("x/y/three", "3")]));
    let within = |members| {
        let limits = UnpackLimits { members, ..UnpackLimits::default() };
        unpack_wheel_within(&limits, &case.wheel(), &[""], &case.out(), &Silent)
    };
    let error = within(7).expect_err("too many");
    assert!(matches!(error, UnpackError::TooMany { found: 8, allowed: 7 }), "{error}");
    assert!(is_empty(case.target_dir.path()));
    within(8).expect("the archive is within the limit");

    // The declared size is too small.
    let forged = patched(archive(&[("a", &zeros)]), &(1_u32 << 20).to_le_bytes(), &10_u32.to_le_bytes());
    let error = Case::new(&forged).rejection();
    assert!(matches!(error, UnpackError::TooLarge { allowed: 10, .. } | UnpackError::Member { .. }), "{error}");
    // The declared size is above every limit.
    let forged = patched(archive(&[("a", &zeros)]), &(1_u32 << 20).to_le_bytes(), &(1_u32 << 31).to_le_bytes());
    assert!(matches!(Case::new(&forged).rejection(), UnpackError::TooLarge { .. }));
}

#[test]
fn rejects_damaged_archives() {
    let intact = wheel();
    for content in [&b""[..], b"not a zip archive", &intact[..intact.len() / 2], &intact[..intact.len() - 1]] {
        assert!(matches!(Case::new(content).rejection(), UnpackError::Archive { .. }));
    }
    // Data that does not match its checksum.
    let case = Case::new(&patched(archive(&[("a", "short")]), b"short", b"SHORT"));
    let rejection = case.unpack(&["a"]);
    let stored_plainly = archive(&[("a", "short")]).windows(5).any(|five| five == b"short");
    assert_eq!(rejection.is_err(), stored_plainly);
    let missing = unpack_wheel(&case.files.path().join("none"), &[""], &case.out(), &Silent);
    assert!(matches!(missing, Err(UnpackError::Open { .. })));
}
