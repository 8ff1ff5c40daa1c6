//! npm packages from a registry, both well-formed and malicious ones.

use std::fs;
use std::io::Read as _;
use std::sync::Mutex;
use std::time::Duration;

use codebox_core::Progress;
use codebox_packages::{BadTree, Integrity, Native, NpmError, NpmTree, UnpackError};
use serde_json::json;
use tar::EntryType;

use crate::npm_registry::{Answer, Home, Shelf, tgz};

fn simple() -> Shelf {
    Shelf::default()
        .with(
            "a",
            "1.0.0",
            json!({"dependencies": {"b": "^1", "@s/c": "*"}}),
            &[("index.js", "exports.a = require('b')")],
        )
        .with("b", "1.0.0", json!({}), &[("index.js", "exports.b = 1")])
        .with("b", "1.5.0", json!({}), &[("index.js", "exports.b = 15")])
        .with("b", "2.0.0", json!({}), &[("index.js", "exports.b = 2")])
        .with("@s/c", "0.1.0", json!({"dependencies": {"b": "2"}}), &[("lib/c.js", "")])
}

#[test]
fn packages_are_laid_out_and_found_again_without_the_network() {
    let (home, registry) = (Home::new(), simple().open());
    let made = home.install(&registry, &["a"]).expect("it is there");
    let places: Vec<String> = made.tree.packages.iter().map(|p| format!("{} {}", p.place, p.version)).collect();
    assert_eq!(places, ["@s/c 0.1.0", "@s/c/node_modules/b 2.0.0", "a 1.0.0", "b 1.5.0"]);
    let read = |path: &str| fs::read_to_string(made.dir.join(path)).expect("a file");
    assert_eq!(read("b/index.js"), "exports.b = 15");
    assert_eq!(read("@s/c/node_modules/b/index.js"), "exports.b = 2");
    assert!(fs::metadata(made.dir.join("a/index.js")).expect("a file").permissions().readonly());
    assert!(made.native.is_empty());
    let asked = registry.seen().len();
    // Metadata of three names, and archives of four packages.
    assert_eq!(asked, 7, "{:?}", registry.seen());
    assert_eq!(home.install(&registry, &["a"]).expect("it is there"), made);
    let offline = registry.settings("offline=true\n", home.dir.path());
    assert_eq!(home.install_with(&offline, &["a"], None).expect("it is there"), made);
    assert_eq!(registry.seen().len(), asked);
    assert!(matches!(home.install_with(&offline, &["other"], None), Err(NpmError::Offline { .. })));
}

#[test]
fn versions_that_a_package_leaves_open_are_read() {
    let open = json!({"dependencies": {"b": "~*", "c": "=x || ~ *", "d": "<=1.x.9"}, "engines": {"node": "~*"}});
    let mut shelf = Shelf::default().with("a", "1.0.0", open, &[]);
    for name in ["b", "c", "d"] {
        for version in ["1.2.0", "2.0.0"] {
            shelf = shelf.with(name, version, json!({"engines": {"node": "=\t*"}}), &[]);
        }
    }
    let (home, registry) = (Home::new(), shelf.open());
    let made = home.install(&registry, &["a"]).expect("it is there");
    let places: Vec<String> = made.tree.packages.iter().map(|p| format!("{} {}", p.place, p.version)).collect();
    assert_eq!(places, ["a 1.0.0", "b 2.0.0", "c 2.0.0", "d 1.2.0"]);
}

/// Progress receiver that records the started steps.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Progress for Heard {
    fn started(&self, what: &str, _total: Option<u64>) {
        self.0.lock().expect("one thread").push(what.to_owned());
    }
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
}

#[test]
fn what_is_brought_here_is_named() {
    let (home, registry, heard) = (Home::new(), simple().open(), Heard::default());
    let settings = registry.settings("", home.dir.path());
    for _ in 0..2 {
        home.install_heard(&settings, &["a"], None, &heard).expect("it is there");
    }
    let heard = heard.0.into_inner().expect("one thread");
    assert_eq!(heard, ["installing @s/c 0.1.0, a 1.0.0, b 1.5.0, b 2.0.0"]);
    let (home, heard) = (Home::new(), Heard::default());
    let all = (0..12).map(|at| format!("n{at:02}")).collect::<Vec<_>>();
    let registry = all.iter().fold(Shelf::default(), |shelf, name| shelf.with(name, "1.0.0", json!({}), &[])).open();
    let settings = registry.settings("", home.dir.path());
    let specs: Vec<&str> = all.iter().map(String::as_str).collect();
    home.install_heard(&settings, &specs, None, &heard).expect("it is there");
    let heard = heard.0.into_inner().expect("one thread");
    assert!(heard.len() == 1 && heard[0].ends_with(", n08 1.0.0, n09 1.0.0 and 2 more"), "{heard:?}");
}

#[test]
fn what_is_held_is_not_pruned() {
    let (home, registry) = (Home::new(), simple().open());
    let made = home.install(&registry, &["a"]).expect("it is there");
    let names: Vec<String> = home.store.kept().into_iter().map(|one| format!("{}@{}", one.name, one.version)).collect();
    assert_eq!(names, ["@s/c@0.1.0", "a@1.0.0", "b@1.5.0", "b@2.0.0"]);
    let held = home.store.hold(&made.dir).expect("it can be held").expect("it is there");
    let pruned = home.store.prune(&|| ()).expect("it can be pruned");
    assert_eq!((pruned.environments, pruned.wheels), (0, 4));
    assert_eq!(fs::read_to_string(made.dir.join("b/index.js")).expect("a file"), "exports.b = 15");
    drop(held);
    assert_eq!(home.store.prune(&|| ()).expect("it can be pruned").environments, 1);
    assert!(
        !made.dir.exists() && home.store.hold(&made.dir).expect("it is told").is_none() && home.store.kept().is_empty()
    );
    assert_eq!(home.install(&registry, &["a"]).expect("it is there"), made);
}

#[test]
fn a_lock_is_kept_to_and_checked() {
    let (home, registry) = (Home::new(), simple().open());
    let settings = registry.settings("", home.dir.path());
    let made = home.install_with(&settings, &["b@^1"], None).expect("it is there");
    let mut locked = made.tree.clone();
    let other = Home::new();
    let again = other.install_with(&settings, &["b@^1"], Some(&locked)).expect("it is there");
    assert_eq!(again.tree, locked);
    let wanted = other.install_with(&settings, &["b@^2"], Some(&locked));
    assert!(matches!(wanted, Err(NpmError::Lock(BadTree::Asked { .. }))));
    locked.packages[0].integrity = Integrity::of(b"something else");
    let error = Home::new().install_with(&settings, &["b@^1"], Some(&locked)).expect_err("other bytes");
    assert!(matches!(error, NpmError::WrongIntegrity { .. }), "{error}");
    locked.packages[0].place = "../../b".to_owned();
    let error = Home::new().install_with(&settings, &["b@^1"], Some(&locked)).expect_err("a place outside");
    assert!(matches!(error, NpmError::Lock(BadTree::Place(_))), "{error}");
    let text = serde_json::to_string(&made.tree).expect("a text");
    assert_eq!(serde_json::from_str::<NpmTree>(&text).expect("the tree"), made.tree);
}

#[test]
fn no_script_of_a_package_runs() {
    let home = Home::new();
    let mark = home.dir.path().join("ran");
    let script = format!("touch {}", mark.display());
    let scripts = json!({"scripts": {"preinstall": script, "install": script, "postinstall": script, "prepare": script},
        "hasInstallScript": true});
    let registry = Shelf::default().with("a", "1.0.0", scripts, &[("index.js", "")]).open();
    home.install(&registry, &["a"]).expect("it is there");
    assert!(!mark.exists());
}

#[test]
fn bytes_that_were_not_announced_are_refused() {
    for dist in [
        json!({"tarball": "/a/-/1.0.0.tgz", "integrity": Integrity::of(b"x").to_string()}),
        json!({"tarball": "/a/-/1.0.0.tgz", "shasum": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}),
    ] {
        let (home, registry) = (Home::new(), Shelf::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open());
        let error = home.install(&registry, &["a"]).expect_err("other bytes");
        assert!(matches!(error, NpmError::WrongIntegrity { .. }), "{error}");
        assert!(home.kept().is_empty(), "{:?}", home.kept());
    }
    for dist in [json!({"tarball": "/a/-/1.0.0.tgz"}), json!({"tarball": "/a/-/1.0.0.tgz", "integrity": "md5-xx"})] {
        let (home, registry) = (Home::new(), Shelf::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open());
        let error = home.install(&registry, &["a"]).expect_err("nothing to check");
        assert!(matches!(error, NpmError::NoIntegrity { .. }), "{error}");
        assert!(!registry.seen().iter().any(|head| head.contains(".tgz")));
    }
}

/// Returns the error from installing a package with this archive.
fn unpacked(members: &[(&str, &[u8], EntryType)]) -> UnpackError {
    let manifest = ("package/package.json", b"{}".as_slice(), EntryType::Regular);
    let all = [manifest].into_iter().chain(members.iter().copied());
    refused(tgz(all.map(|(name, data, kind)| (name.to_owned(), data, kind))))
}

fn refused(archive: Vec<u8>) -> UnpackError {
    let (home, registry) = (Home::new(), Shelf::default().with_archive("a", "1.0.0", json!({}), archive).open());
    let outside = home.dir.path().join("npm/packages/evil");
    let error = home.install(&registry, &["a"]).expect_err("it is refused");
    assert!(home.kept().is_empty() && !outside.exists(), "{:?}", home.kept());
    match error {
        NpmError::Archive { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn hostile_archives_are_refused_as_a_whole() {
    let file = EntryType::Regular;
    for name in [
        "package/../../evil",
        "/etc/evil",
        "../evil",
        "package/a\\b",
        "package/c:evil",
        "package/..",
        "evil",
        "package/x./y",
    ] {
        let error = unpacked(&[(name, b"x", file)]);
        assert!(matches!(error, UnpackError::Name(_)), "{name}: {error}");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char, EntryType::Block] {
        let error = unpacked(&[("package/x", b"", kind)]);
        assert!(matches!(error, UnpackError::Kind(_)), "{kind:?}: {error}");
    }
    let twice = unpacked(&[("package/x", b"1", file), ("package/X", b"2", file)]);
    assert!(matches!(twice, UnpackError::Duplicate(_)), "{twice}");
    let twice = unpacked(&[("package/x", b"1", file), ("other/x", b"2", file)]);
    assert!(matches!(twice, UnpackError::Duplicate(_)), "{twice}");
    assert!(matches!(refused(b"no archive".to_vec()), UnpackError::Archive { .. }));
    let none = tgz([("package/x".to_owned(), b"x".as_slice(), file)].into_iter());
    assert!(matches!(refused(none), UnpackError::Missing(_)));
}

#[test]
fn an_archive_of_more_than_is_allowed_is_refused() {
    let zeros = vec![0; 64 << 20];
    let members: Vec<_> = (0..9).map(|at| (format!("package/{at}"), zeros.as_slice(), EntryType::Regular)).collect();
    let error = refused(tgz(members.into_iter()));
    assert!(matches!(error, UnpackError::TooLarge { .. }), "{error}");
    let many = (0..50_001).map(|at| (format!("package/{at}"), b"".as_slice(), EntryType::Regular));
    assert!(matches!(refused(tgz(many)), UnpackError::TooMany { .. }));
}

#[test]
fn a_registry_leads_nowhere_near_but_to_itself() {
    for to in
        ["http://169.254.169.254/latest/meta-data", "http://127.0.0.2:1/x", "http://[::1]:1/", "file:///etc/passwd"]
    {
        let (home, registry) = (Home::new(), simple().answering("/a", Answer::redirect(to)).open());
        let error = home.install(&registry, &["a"]).expect_err("it leads astray");
        assert!(matches!(error, NpmError::Astray { .. }), "{to}: {error}");
        let dist = json!({"tarball": to, "integrity": Integrity::of(b"").to_string()});
        let registry = Shelf::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open();
        let error = Home::new().install(&registry, &["a"]).expect_err("it leads astray");
        assert!(matches!(error, NpmError::Astray { .. }), "{to}: {error}");
    }
    let (home, registry) = (Home::new(), simple().answering("/a", Answer::redirect("/a")).open());
    assert!(matches!(home.install(&registry, &["a"]), Err(NpmError::Answer { .. })));
}

#[test]
fn a_token_is_shown_to_its_registry_alone() {
    let far = Shelf::default().with("b", "1.0.0", json!({}), &[]).open();
    // The same machine with another port is another registry for tokens.
    let elsewhere = format!("{}b", far.address);
    let (home, near) = (Home::new(), simple().answering("/b", Answer::redirect(&elsewhere)).open());
    let host = near.address.trim_start_matches("http:").to_owned();
    let settings = near.settings(&format!("{host}:_authToken=secret-word\n"), home.dir.path());
    let error = home.install_with(&settings, &["b@1.0.0"], None).expect_err("its archive is not here");
    assert!(!format!("{error:?}").contains("secret-word"));
    assert!(near.seen().iter().all(|head| head.to_lowercase().contains("authorization: bearer secret-word")));
    assert!(!far.seen().is_empty() && far.seen().iter().all(|head| !head.to_lowercase().contains("authorization")));
}

#[test]
fn a_registry_that_never_ends_is_left() {
    let (home, registry) = (Home::new(), simple().answering("/a", Answer { drips: true, ..Answer::ok("") }).open());
    let settings = registry.settings("", home.dir.path()).within(Duration::from_millis(300));
    assert!(matches!(home.install_with(&settings, &["a"], None), Err(NpmError::Late(_))));
    let registry = simple().answering("/a/-/1.0.0.tgz", Answer { drips: true, ..Answer::ok("") }).open();
    let settings = registry.settings("", home.dir.path()).within(Duration::from_millis(600));
    assert!(matches!(home.install_with(&settings, &["a"], None), Err(NpmError::Late(_))));
    assert!(home.kept().iter().all(|name| !name.starts_with(".new-")));
}

#[test]
fn what_cannot_be_had_is_named() {
    let (home, registry) =
        (Home::new(), simple().with("git", "1.0.0", json!({"dependencies": {"x": "github:y/x"}}), &[]).open());
    let said = |specs: &[&str]| home.install(&registry, specs).expect_err("it cannot be had").to_string();
    let text = said(&["lodahs"]);
    assert!(text.contains("npm package lodahs is not in registry") && text.contains("similar names: lodash"), "{text}");
    assert_eq!(said(&["b@^9"]), "npm package b has no version ^9 (its latest is 2.0.0)");
    assert_eq!(
        said(&["git"]),
        "npm package git@1.0.0 requires x from \"github:y/x\": only names and versions are supported"
    );
    for body in ["{}", "{\"name\": \"lodahs\", \"time\": {\"unpublished\": {}}, \"versions\": {}}"] {
        let home = Home::new();
        let registry = simple().answering("/lodahs", Answer::ok(body)).open();
        // The second request is served from the cache.
        for _ in 0..2 {
            let error = home.install(&registry, &["lodahs"]).expect_err("it has no versions");
            assert!(matches!(&error, NpmError::NotFound { near, .. } if near[0] == "lodash"), "{body}: {error}");
        }
        assert_eq!(registry.seen().len(), 1);
    }
    for (body, what) in [("{", "EOF"), ("7", "invalid type")] {
        let registry = simple().answering("/a", Answer::ok(body)).open();
        let error = Home::new().install(&registry, &["a"]).expect_err("nonsense").to_string();
        assert!(
            error.contains("unusable response from npm registry") && error.contains("for a:") && error.contains(what),
            "{error}"
        );
    }
    let registry = simple().answering("/a", Answer { status: 401, ..Answer::default() }).open();
    assert!(matches!(Home::new().install(&registry, &["a"]), Err(NpmError::Denied { .. })));
}

#[test]
fn what_is_native_is_told_and_what_is_optional_may_be_missing() {
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let registry = Shelf::default()
        .with("addon", "1.0.0", json!({}), &[("prebuilds/linux-x64/addon.node", "x")])
        .with("builds", "1.0.0", json!({"hasInstallScript": true}), &[("binding.gyp", "{}")])
        .with(
            "tool",
            "1.0.0",
            json!({"optionalDependencies": {"tool-here": "1", "tool-mac": "1", "gone": "1", "fast": "1"}}),
            &[],
        )
        .with("tool-here", "1.0.0", json!({"os": ["linux"], "cpu": [cpu]}), &[("tool", "x")])
        .with("tool-mac", "1.0.0", json!({"os": ["darwin"]}), &[])
        .with("fast", "1.0.0", json!({"hasInstallScript": true}), &[("binding.gyp", "{}")])
        .with("mac", "1.0.0", json!({"os": ["darwin"]}), &[])
        .open();
    let home = Home::new();
    let native = |spec: &str| {
        let made = home.install(&registry, &[spec]).unwrap_or_else(|e| panic!("{spec}: {e}"));
        let native: Vec<_> = made.native.into_iter().map(|one| (one.package, one.native)).collect();
        (made.tree.packages.into_iter().map(|package| package.place).collect::<Vec<_>>(), native)
    };
    assert_eq!(native("addon").1, [("addon@1.0.0".to_owned(), Native::Addon)]);
    assert_eq!(native("builds").1, [("builds@1.0.0".to_owned(), Native::Script)]);
    let tool = (vec!["tool".to_owned(), "tool-here".to_owned()], vec![("tool-here@1.0.0".to_owned(), Native::System)]);
    assert_eq!(native("tool"), tool);
    assert!(matches!(home.install(&registry, &["mac"]), Err(NpmError::System { .. })));
}

#[test]
fn peers_come_along_and_must_agree() {
    let registry = Shelf::default()
        .with("host", "1.0.0", json!({}), &[])
        .with("host", "2.0.0", json!({}), &[])
        .with("plugin", "1.0.0", json!({"peerDependencies": {"host": "^1", "maybe": "*"}, "peerDependenciesMeta": {"maybe": {"optional": true}}}), &[])
        .open();
    let home = Home::new();
    let made = home.install(&registry, &["plugin"]).expect("both");
    assert_eq!(made.tree.packages.iter().map(|one| one.version.as_str()).collect::<Vec<_>>(), ["1.0.0", "1.0.0"]);
    let error = home.install(&registry, &["host@2", "plugin"]).expect_err("they disagree").to_string();
    assert_eq!(error, "npm package plugin@1.0.0 requires peer host ^1, but host@2.0.0 is requested");
    let error = home.install(&registry, &["host@^1", "plugin", "host@^2"]).expect_err("one of them").to_string();
    assert_eq!(error, "npm package host is requested as ^1 and as ^2: only one version can be installed");
}

#[test]
fn an_answer_is_kept_with_its_mark() {
    let (home, registry) = (Home::new(), simple().open());
    home.install(&registry, &["b@1.0.0"]).expect("it is there");
    // The cached responses are made older than their validity of five minutes.
    let kept = fs::read_dir(home.dir.path().join("npm/metadata")).expect("a folder").flatten();
    for entry in kept {
        let file = fs::File::options().write(true).open(entry.path()).expect("a file");
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).expect("a time");
    }
    home.install(&registry, &["b@^1"]).expect("it is there");
    let asked: Vec<String> = registry.seen().into_iter().filter(|head| head.starts_with("GET /b ")).collect();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].to_lowercase().contains("if-none-match: "), "{}", asked[1]);
    assert!(asked[0].contains("application/vnd.npm.install-v1+json"), "{}", asked[0]);
}

#[test]
fn what_may_run_may_run_and_nothing_else_is_taken_over() {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, mode) in [("package/package.json", 0o4777), ("package/bin/tool", 0o755), ("package/plain", 0o600)] {
        let mut header = tar::Header::new_ustar();
        header.set_mode(mode);
        header.set_mtime(1);
        header.set_size(2);
        tar.append_data(&mut header, name, b"{}".as_slice()).expect("a member");
    }
    let archive = tar.into_inner().and_then(flate2::write::GzEncoder::finish).expect("an archive");
    let (home, registry) = (Home::new(), Shelf::default().with_archive("a", "1.0.0", json!({}), archive).open());
    let made = home.install(&registry, &["a"]).expect("it is there");
    #[cfg(unix)]
    for (name, mode) in [("package.json", 0o555), ("bin/tool", 0o555), ("plain", 0o444)] {
        let found = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(made.dir.join("a").join(name)).expect("a file").permissions(),
        );
        assert_eq!(found & 0o7777, mode, "{name}");
    }
    let mut text = String::new();
    fs::File::open(made.dir.join("a/plain")).and_then(|mut file| file.read_to_string(&mut text)).expect("a text");
    assert_eq!(text, "{}");
}
