//! Sessions in files.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};

use codebox::{ByteSize, Limit, LimitOverrides, Request, ResultKind, RunnerError, Session};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Home, PLACES, Place, TestSession};

/// File in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("a lock").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn exported(session: &TestSession<'_>) -> Vec<u8> {
    let file = File::default();
    session.home.wait(session.session.export(file.clone())).expect("it is exported");
    let bytes = file.0.lock().expect("a lock");
    bytes.clone()
}

fn import(home: &Home, place: Place, request: Request, file: Vec<u8>) -> Result<Session, RunnerError> {
    home.wait(home.runner(place).import(request, io::Cursor::new(file)))
}

#[test]
fn sessions_are_exported_and_imported() {
    let home = Home::new();
    for place in PLACES {
        let session = home.session(place, Request::python(""));
        session.ok("import random, collections, uuid\nimport numpy as np\nx = 41\nrandom.seed(1); np.random.seed(1)");
        session.ok("class A:\n    def f(self): return x + 1\na = A(); open('/work/kept', 'w').write('text')");
        let file = exported(&session);
        // The session goes on, and the file has the state of its export.
        session.ok("x = 0; open('/work/kept', 'w').write('')");
        let other = Home::new();
        let mut drawn = Vec::new();
        for _ in 0..2 {
            // The language is that of the file.
            let request = Request { language: None, ..Request::python("") };
            let session = import(&other, place, request, file.clone()).expect("it is imported");
            let imported = TestSession { home: &other, session };
            assert_eq!(
                imported.value("a.f(), open('/work/kept').read(), collections.Counter('aab')['a']"),
                "(42, 'text', 2)"
            );
            // Code that the session did not use before.
            assert_eq!(imported.value("import scipy.stats\nfloat(scipy.stats.norm.cdf(0))"), "0.5");
            drawn.push(imported.value("random.random(), float(np.random.rand()), uuid.uuid1().hex"));
            // It has checkpoints as every session, and can be exported again.
            let checkpoint = other.wait(imported.session.checkpoint("later")).expect("a checkpoint");
            imported.ok("del a");
            other.wait(imported.session.restore(&checkpoint)).expect("it is restored");
            assert_eq!(imported.value("a.f()"), "42");
            let again = import(&home, place, Request::python(""), exported(&imported)).expect("it is imported");
            assert_eq!(TestSession { home: &home, session: again }.value("a.f()"), "42");
        }
        assert_ne!(drawn[0], drawn[1]);
    }
}

#[test]
fn sessions_in_javascript_are_exported_and_imported() {
    let home = Home::new();
    let session = home.session(Place::ThisProcess, Request::javascript(""));
    session.ok("let x = 41; class A { f() { return x + 1; } }");
    let other = Home::new();
    let imported = import(&other, Place::ThisProcess, Request::javascript(""), exported(&session));
    let imported = TestSession { home: &other, session: imported.expect("it is imported") };
    assert_eq!(imported.value("new A().f()"), "42");
}

#[test]
fn exports_of_states_that_cannot_be_saved_are_refused() {
    let home = Home::new();
    let session = home.session(Place::ThisProcess, Request::python(""));
    let export = || home.wait(session.session.export(io::sink())).expect_err("it is refused");
    assert!(export().message().contains("no cell has run"), "{}", export());
    session.ok("file = open('/work/open', 'w')");
    assert!(export().message().contains("work/open"), "{}", export());
    session.ok("file.close()");
    home.wait(session.session.export(io::sink())).expect("it is exported");
}

#[test]
fn requests_have_to_match_the_file() {
    let home = Home::new();
    let session = home.session(Place::ThisProcess, Request::python(""));
    session.ok("x = 1");
    let file = exported(&session);
    let error = |request: Request| {
        let refused = import(&home, Place::ThisProcess, request, file.clone()).err().expect("it is refused");
        assert_eq!(refused.kind(), ResultKind::InvalidRequest);
        refused.to_string()
    };
    let language = error(Request::javascript(""));
    assert!(language.contains("its language is python, and the request names javascript"), "{language}");
    let packages = error(Request { packages: vec!["six".to_owned()], ..Request::python("") });
    assert!(packages.contains("with no packages, and the request names the packages six"), "{packages}");
}

/// Parts of a file: the header, and the members of the archive with their data.
struct Parts {
    header: Value,
    members: Vec<(String, tar::EntryType, Vec<u8>)>,
}

const LINE: usize = 18;

impl Parts {
    fn of(file: &[u8]) -> Self {
        let length = u32::from_le_bytes(file[LINE..LINE + 4].try_into().expect("four bytes")) as usize;
        let header = serde_json::from_slice(&file[LINE + 4..][..length]).expect("a header");
        let archive = zstd::decode_all(&file[LINE + 4 + length..file.len() - 32]).expect("an archive");
        let mut archive = tar::Archive::new(archive.as_slice());
        let member = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.expect("a member");
            let name = entry.path().expect("a name").to_str().expect("it is UTF-8").to_owned();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).expect("its data");
            (name, entry.header().entry_type(), data)
        };
        let members = archive.entries().expect("members").map(member).collect();
        Self { header, members }
    }

    /// Returns a file with a valid checksum.
    fn packed(&self) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, kind, data) in &self.members {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            if *kind == tar::EntryType::Symlink {
                let target = std::str::from_utf8(data).expect("a target");
                header.set_size(0);
                archive.append_link(&mut header, name, target).expect("a member");
            } else {
                archive.append_data(&mut header, name, data.as_slice()).expect("a member");
            }
        }
        let archive =
            zstd::encode_all(archive.into_inner().expect("an archive").as_slice(), 1).expect("it is compressed");
        let header = serde_json::to_vec(&self.header).expect("a header");
        let length = u32::try_from(header.len()).expect("it is short").to_le_bytes();
        let mut file = [b"codebox session 1\n", length.as_slice(), &header, &archive].concat();
        file.extend(Sha256::digest(&file));
        file
    }

    fn member(&mut self, name: &str) -> &mut Vec<u8> {
        let found = self.members.iter_mut().find(|member| member.0 == name);
        &mut found.expect("the member exists").2
    }

    fn change_state(&mut self, change: impl FnOnce(&mut Value)) {
        let text = self.member("state.json");
        let mut state = serde_json::from_slice(text).expect("a state");
        change(&mut state);
        *text = serde_json::to_vec(&state).expect("JSON");
    }
}

/// A file claims a state of its own guest, and nothing about the host. Its checksum is valid.
#[test]
fn hostile_files_are_refused_or_end_their_own_guest() {
    let home = Home::new();
    let session = home.session(Place::Workers, Request::python(""));
    session.ok("x = 41; open('/work/kept', 'w').write('text')");
    let file = exported(&session);
    assert_eq!(Parts::of(&Parts::of(&file).packed()).members, Parts::of(&file).members);
    type Change = fn(&mut Parts);
    let changes: [(&str, Change); 12] = [
        ("language", |parts| parts.header["language"] = json!("../x\u{1b}[2J")),
        ("language", |parts| parts.header["language"] = json!("lua")),
        ("packages", |parts| parts.header["packages"] = json!(["\u{1b}[2J".repeat(1000)])),
        ("header", |parts| parts.header["grants"] = json!({ "net": ["*"] })),
        ("runtime", |parts| parts.change_state(|state| state["runtime"] = json!("python-0-0"))),
        ("image", |parts| parts.change_state(|state| state["image"] = json!("../../../etc/passwd"))),
        ("image_sha256", |parts| parts.change_state(|state| state["image_sha256"] = json!("00"))),
        ("parts", |parts| parts.change_state(|state| state["parts"] = json!(1_000_000))),
        ("memory", |parts| parts.change_state(|state| state["memory"] = json!(u64::from(u32::MAX) + 65_537))),
        ("grants", |parts| parts.change_state(|state| state["grants"] = json!([]))),
        ("pages", |parts| drop(parts.member("pages.bin").split_off(4096))),
        ("link", |parts| {
            parts.members.retain(|member| member.0 != "state.json");
            parts.members.push(("state.json".to_owned(), tar::EntryType::Symlink, b"/etc/passwd".to_vec()));
        }),
    ];
    for (name, change) in changes {
        let mut parts = Parts::of(&file);
        change(&mut parts);
        let error = import(&home, Place::Workers, Request { language: None, ..Request::python("") }, parts.packed());
        let error = error.err().unwrap_or_else(|| panic!("{name} is accepted")).to_string();
        assert!(!error.contains('\u{1b}') && error.lines().count() == 1 && error.len() < 2000, "{name}: {error:?}");
    }
    // The private files are within the limits of the session, and count as written.
    let mut parts = Parts::of(&file);
    parts.members.push(("work/large".to_owned(), tar::EntryType::Regular, vec![0; 2_000_000]));
    let limited = |disk: u64, files: u64| {
        let (disk, files) = (Limit::At(ByteSize::bytes(disk)), Limit::At(files.try_into().expect("it is not zero")));
        let limits = LimitOverrides { disk: Some(disk), files: Some(files), ..LimitOverrides::default() };
        import(&home, Place::Workers, Request { limits, ..Request::python("") }, parts.packed())
    };
    for (disk, files, why) in [(1_000_000, 100, "too large"), (10_000_000, 1, "too many")] {
        let error = limited(disk, files).err().expect("it is refused").to_string();
        assert!(error.contains(why), "{error}");
    }
    let within = TestSession { home: &home, session: limited(2_500_000, 100).expect("it is imported") };
    assert!(!within.exec("open('more', 'wb').write(bytes(1_000_000))").is_success());
    // A member that no checkpoint has.
    let mut parts = Parts::of(&file);
    parts.members.push(("evil".to_owned(), tar::EntryType::Regular, vec![0]));
    let error = import(&home, Place::Workers, Request::python(""), parts.packed()).err().expect("it is refused");
    assert!(error.to_string().contains("evil"), "{error}");
    // A member in the place of the private files that is no directory.
    let mut parts = Parts::of(&file);
    parts.members.retain(|member| !member.0.starts_with("work"));
    parts.members.push(("work".to_owned(), tar::EntryType::Symlink, b"/etc".to_vec()));
    assert!(import(&home, Place::Workers, Request::python(""), parts.packed()).is_err());
    // A link in the private files is one of the guest, which cannot follow it out of them.
    let mut parts = Parts::of(&file);
    parts.members.push(("work/out".to_owned(), tar::EntryType::Symlink, b"/etc/passwd".to_vec()));
    let linked = import(&home, Place::Workers, Request::python(""), parts.packed()).expect("it is imported");
    let linked = TestSession { home: &home, session: linked };
    assert_eq!(linked.value("import os\nx, os.path.islink('out'), os.path.exists('out')"), "(41, True, False)");
    // Memory and globals of any content belong to the guest alone.
    for seed in 1..4_usize {
        let mut parts = Parts::of(&file);
        for (index, byte) in parts.member("pages.bin").iter_mut().enumerate() {
            *byte = (index.wrapping_mul(seed).wrapping_mul(2_654_435_761) >> 7) as u8;
        }
        parts.change_state(|state| state["globals"][0] = json!({ "i32": -(seed as i32) }));
        if let Ok(broken) = import(&home, Place::Workers, Request::python(""), parts.packed()) {
            let ran = home.wait(broken.exec("1 + 1"));
            assert!(!ran.is_ok_and(|report| report.is_success()), "random memory runs a cell");
        }
    }
    // The runner goes on.
    assert_eq!(session.value("x"), "41");
}
