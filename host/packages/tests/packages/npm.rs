//! npm packages from a registry, both well-formed and malicious ones.

use std::fs;
use std::io::Read as _;
use std::sync::Mutex;
use std::time::Duration;

use codebox_core::Progress;
use codebox_packages::{Integrity, Native, NpmError, NpmTree, NpmTreeError, UnpackError};
use serde_json::json;
use tar::EntryType;

use crate::npm_registry::{MockResponse, RegistryBuilder, TestStore, tgz};

fn simple() -> RegistryBuilder {
    RegistryBuilder::default()
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
fn installs_packages_and_reuses_them_offline() {
    let (home, registry) = (TestStore::new(), simple().open());
    let installed = home.install(&registry, &["a"]).expect("it is there");
    let places: Vec<String> = installed.tree.packages.iter().map(|p| format!("{} {}", p.place, p.version)).collect();
    assert_eq!(places, ["@s/c 0.1.0", "@s/c/node_modules/b 2.0.0", "a 1.0.0", "b 1.5.0"]);
    let read = |path: &str| fs::read_to_string(installed.dir.join(path)).expect("a file");
    assert_eq!(read("b/index.js"), "exports.b = 15");
    assert_eq!(read("@s/c/node_modules/b/index.js"), "exports.b = 2");
    assert!(fs::metadata(installed.dir.join("a/index.js")).expect("a file").permissions().readonly());
    assert!(installed.native.is_empty());
    let request_count = registry.request_heads().len();
    // Metadata of three names, and archives of four packages.
    assert_eq!(request_count, 7, "{:?}", registry.request_heads());
    assert_eq!(home.install(&registry, &["a"]).expect("it is there"), installed);
    let offline = registry.settings("offline=true\n", home.dir.path());
    assert_eq!(home.install_with(&offline, &["a"], None).expect("it is there"), installed);
    assert_eq!(registry.request_heads().len(), request_count);
    assert!(matches!(home.install_with(&offline, &["other"], None), Err(NpmError::Offline { .. })));
}

#[test]
fn resolves_wildcard_versions() {
    let open = json!({"dependencies": {"b": "~*", "c": "=x || ~ *", "d": "<=1.x.9"}, "engines": {"node": "~*"}});
    let mut builder = RegistryBuilder::default().with("a", "1.0.0", open, &[]);
    for name in ["b", "c", "d"] {
        for version in ["1.2.0", "2.0.0"] {
            builder = builder.with(name, version, json!({"engines": {"node": "=\t*"}}), &[]);
        }
    }
    let (home, registry) = (TestStore::new(), builder.open());
    let installed = home.install(&registry, &["a"]).expect("it is there");
    let places: Vec<String> = installed.tree.packages.iter().map(|p| format!("{} {}", p.place, p.version)).collect();
    assert_eq!(places, ["a 1.0.0", "b 2.0.0", "c 2.0.0", "d 1.2.0"]);
}

/// Progress receiver that records the started steps.
#[derive(Default)]
struct RecordingProgress(Mutex<Vec<String>>);

impl Progress for RecordingProgress {
    fn started(&self, what: &str, _total: Option<u64>) {
        self.0.lock().expect("one thread").push(what.to_owned());
    }
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
}

#[test]
fn reports_names_of_downloaded_packages() {
    let (home, registry, recorded) = (TestStore::new(), simple().open(), RecordingProgress::default());
    let settings = registry.settings("", home.dir.path());
    for _ in 0..2 {
        home.install_with_progress(&settings, &["a"], None, &recorded).expect("it is there");
    }
    let recorded = recorded.0.into_inner().expect("one thread");
    assert_eq!(recorded, ["installing @s/c 0.1.0, a 1.0.0, b 1.5.0, b 2.0.0"]);
    let (home, recorded) = (TestStore::new(), RecordingProgress::default());
    let all = (0..12).map(|at| format!("n{at:02}")).collect::<Vec<_>>();
    let registry =
        all.iter().fold(RegistryBuilder::default(), |builder, name| builder.with(name, "1.0.0", json!({}), &[])).open();
    let settings = registry.settings("", home.dir.path());
    let specs: Vec<&str> = all.iter().map(String::as_str).collect();
    home.install_with_progress(&settings, &specs, None, &recorded).expect("it is there");
    let recorded = recorded.0.into_inner().expect("one thread");
    assert!(recorded.len() == 1 && recorded[0].ends_with(", n08 1.0.0, n09 1.0.0 and 2 more"), "{recorded:?}");
}

#[test]
fn prune_keeps_locked_environments() {
    let (home, registry) = (TestStore::new(), simple().open());
    let installed = home.install(&registry, &["a"]).expect("it is there");
    let names: Vec<String> =
        home.store.entries().into_iter().map(|one| format!("{}@{}", one.name, one.version)).collect();
    assert_eq!(names, ["@s/c@0.1.0", "a@1.0.0", "b@1.5.0", "b@2.0.0"]);
    let lock_guard = home.store.lock_environment(&installed.dir).expect("it can be held").expect("it is there");
    let pruned = home.store.prune(&|| ()).expect("it can be pruned");
    assert_eq!((pruned.environments, pruned.wheels), (0, 4));
    assert_eq!(fs::read_to_string(installed.dir.join("b/index.js")).expect("a file"), "exports.b = 15");
    drop(lock_guard);
    assert_eq!(home.store.prune(&|| ()).expect("it can be pruned").environments, 1);
    assert!(
        !installed.dir.exists()
            && home.store.lock_environment(&installed.dir).expect("the lock can be checked").is_none()
            && home.store.entries().is_empty()
    );
    assert_eq!(home.install(&registry, &["a"]).expect("it is there"), installed);
}

#[test]
fn installs_locked_versions_and_validates_lock() {
    let (home, registry) = (TestStore::new(), simple().open());
    let settings = registry.settings("", home.dir.path());
    let installed = home.install_with(&settings, &["b@^1"], None).expect("it is there");
    let mut locked = installed.tree.clone();
    let other = TestStore::new();
    let again = other.install_with(&settings, &["b@^1"], Some(&locked)).expect("it is there");
    assert_eq!(again.tree, locked);
    let wanted = other.install_with(&settings, &["b@^2"], Some(&locked));
    assert!(matches!(wanted, Err(NpmError::Lock(NpmTreeError::SpecsChanged { .. }))));
    locked.packages[0].integrity = Integrity::of(b"something else");
    let error = TestStore::new().install_with(&settings, &["b@^1"], Some(&locked)).expect_err("other bytes");
    assert!(matches!(error, NpmError::WrongIntegrity { .. }), "{error}");
    locked.packages[0].place = "../../b".to_owned();
    let error = TestStore::new().install_with(&settings, &["b@^1"], Some(&locked)).expect_err("a place outside");
    assert!(matches!(error, NpmError::Lock(NpmTreeError::InvalidPlace(_))), "{error}");
    let text = serde_json::to_string(&installed.tree).expect("a text");
    assert_eq!(serde_json::from_str::<NpmTree>(&text).expect("the tree"), installed.tree);
}

#[test]
fn runs_no_install_scripts() {
    let home = TestStore::new();
    let mark = home.dir.path().join("ran");
    let script = format!("touch {}", mark.display());
    let scripts = json!({"scripts": {"preinstall": script, "install": script, "postinstall": script, "prepare": script},
        "hasInstallScript": true});
    let registry = RegistryBuilder::default().with("a", "1.0.0", scripts, &[("index.js", "")]).open();
    home.install(&registry, &["a"]).expect("it is there");
    assert!(!mark.exists());
}

#[test]
fn rejects_wrong_or_missing_integrity() {
    for dist in [
        json!({"tarball": "/a/-/1.0.0.tgz", "integrity": Integrity::of(b"x").to_string()}),
        json!({"tarball": "/a/-/1.0.0.tgz", "shasum": "da39a3ee5e6b4b0d3255bfef95601890afd80709"}),
    ] {
        let (home, registry) =
            (TestStore::new(), RegistryBuilder::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open());
        let error = home.install(&registry, &["a"]).expect_err("other bytes");
        assert!(matches!(error, NpmError::WrongIntegrity { .. }), "{error}");
        assert!(home.entries().is_empty(), "{:?}", home.entries());
    }
    for dist in [json!({"tarball": "/a/-/1.0.0.tgz"}), json!({"tarball": "/a/-/1.0.0.tgz", "integrity": "md5-xx"})] {
        let (home, registry) =
            (TestStore::new(), RegistryBuilder::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open());
        let error = home.install(&registry, &["a"]).expect_err("the integrity is missing");
        assert!(matches!(error, NpmError::NoIntegrity { .. }), "{error}");
        assert!(!registry.request_heads().iter().any(|head| head.contains(".tgz")));
    }
}

/// Returns the error from installing a package with this archive.
fn rejection_of_members(members: &[(&str, &[u8], EntryType)]) -> UnpackError {
    let manifest = ("package/package.json", b"{}".as_slice(), EntryType::Regular);
    let all = [manifest].into_iter().chain(members.iter().copied());
    rejection(tgz(all.map(|(name, data, kind)| (name.to_owned(), data, kind))))
}

fn rejection(archive: Vec<u8>) -> UnpackError {
    let (home, registry) =
        (TestStore::new(), RegistryBuilder::default().with_archive("a", "1.0.0", json!({}), archive).open());
    let outside = home.dir.path().join("npm/packages/evil");
    let error = home.install(&registry, &["a"]).expect_err("it is refused");
    assert!(home.entries().is_empty() && !outside.exists(), "{:?}", home.entries());
    match error {
        NpmError::Archive { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn rejects_malicious_archives() {
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
        let error = rejection_of_members(&[(name, b"x", file)]);
        assert!(matches!(error, UnpackError::Name(_)), "{name}: {error}");
    }
    for kind in [EntryType::Symlink, EntryType::Link, EntryType::Fifo, EntryType::Char, EntryType::Block] {
        let error = rejection_of_members(&[("package/x", b"", kind)]);
        assert!(matches!(error, UnpackError::Kind(_)), "{kind:?}: {error}");
    }
    let twice = rejection_of_members(&[("package/x", b"1", file), ("package/X", b"2", file)]);
    assert!(matches!(twice, UnpackError::Duplicate(_)), "{twice}");
    let twice = rejection_of_members(&[("package/x", b"1", file), ("other/x", b"2", file)]);
    assert!(matches!(twice, UnpackError::Duplicate(_)), "{twice}");
    assert!(matches!(rejection(b"no archive".to_vec()), UnpackError::Archive { .. }));
    let none = tgz([("package/x".to_owned(), b"x".as_slice(), file)].into_iter());
    assert!(matches!(rejection(none), UnpackError::Missing(_)));
}

#[test]
fn rejects_oversized_archives() {
    let zeros = vec![0; 64 << 20];
    let members: Vec<_> = (0..9).map(|at| (format!("package/{at}"), zeros.as_slice(), EntryType::Regular)).collect();
    let error = rejection(tgz(members.into_iter()));
    assert!(matches!(error, UnpackError::TooLarge { .. }), "{error}");
    let many = (0..50_001).map(|at| (format!("package/{at}"), b"".as_slice(), EntryType::Regular));
    assert!(matches!(rejection(tgz(many)), UnpackError::TooMany { .. }));
}

#[test]
fn rejects_redirects_to_nearby_hosts() {
    for to in
        ["http://169.254.169.254/latest/meta-data", "http://127.0.0.2:1/x", "http://[::1]:1/", "file:///etc/passwd"]
    {
        let (home, registry) = (TestStore::new(), simple().with_response("/a", MockResponse::redirect(to)).open());
        let error = home.install(&registry, &["a"]).expect_err("the address is forbidden");
        assert!(matches!(error, NpmError::ForbiddenAddress { .. }), "{to}: {error}");
        let dist = json!({"tarball": to, "integrity": Integrity::of(b"").to_string()});
        let registry = RegistryBuilder::default().with("a", "1.0.0", json!({"dist": dist}), &[]).open();
        let error = TestStore::new().install(&registry, &["a"]).expect_err("the address is forbidden");
        assert!(matches!(error, NpmError::ForbiddenAddress { .. }), "{to}: {error}");
    }
    let (home, registry) = (TestStore::new(), simple().with_response("/a", MockResponse::redirect("/a")).open());
    assert!(matches!(home.install(&registry, &["a"]), Err(NpmError::InvalidResponse { .. })));
}

#[test]
fn sends_token_only_to_its_registry() {
    let far = RegistryBuilder::default().with("b", "1.0.0", json!({}), &[]).open();
    // The same machine with another port is another registry for tokens.
    let elsewhere = format!("{}b", far.address);
    let (home, own_registry) =
        (TestStore::new(), simple().with_response("/b", MockResponse::redirect(&elsewhere)).open());
    let host = own_registry.address.trim_start_matches("http:").to_owned();
    let settings = own_registry.settings(&format!("{host}:_authToken=secret-word\n"), home.dir.path());
    let error = home.install_with(&settings, &["b@1.0.0"], None).expect_err("the archive is missing");
    assert!(!format!("{error:?}").contains("secret-word"));
    assert!(
        own_registry
            .request_heads()
            .iter()
            .all(|head| head.to_lowercase().contains("authorization: bearer secret-word"))
    );
    assert!(
        !far.request_heads().is_empty()
            && far.request_heads().iter().all(|head| !head.to_lowercase().contains("authorization"))
    );
}

#[test]
fn aborts_endless_responses() {
    let (home, registry) = (
        TestStore::new(),
        simple().with_response("/a", MockResponse { never_ends: true, ..MockResponse::ok("") }).open(),
    );
    let settings = registry.settings("", home.dir.path()).timeout(Duration::from_millis(300));
    assert!(matches!(home.install_with(&settings, &["a"], None), Err(NpmError::Timeout(_))));
    let registry =
        simple().with_response("/a/-/1.0.0.tgz", MockResponse { never_ends: true, ..MockResponse::ok("") }).open();
    let settings = registry.settings("", home.dir.path()).timeout(Duration::from_millis(600));
    assert!(matches!(home.install_with(&settings, &["a"], None), Err(NpmError::Timeout(_))));
    assert!(home.entries().iter().all(|name| !name.starts_with(".new-")));
}

#[test]
fn reports_unavailable_packages() {
    let (home, registry) =
        (TestStore::new(), simple().with("git", "1.0.0", json!({"dependencies": {"x": "github:y/x"}}), &[]).open());
    let error_text =
        |specs: &[&str]| home.install(&registry, specs).expect_err("the package is unavailable").to_string();
    let text = error_text(&["lodahs"]);
    assert!(text.contains("npm package lodahs is not in registry") && text.contains("similar names: lodash"), "{text}");
    assert_eq!(error_text(&["b@^9"]), "npm package b has no version ^9 (its latest is 2.0.0)");
    assert_eq!(
        error_text(&["git"]),
        "npm package git@1.0.0 requires x from \"github:y/x\": only names and versions are supported"
    );
    for body in ["{}", "{\"name\": \"lodahs\", \"time\": {\"unpublished\": {}}, \"versions\": {}}"] {
        let home = TestStore::new();
        let registry = simple().with_response("/lodahs", MockResponse::ok(body)).open();
        // The second request is served from the cache.
        for _ in 0..2 {
            let error = home.install(&registry, &["lodahs"]).expect_err("it has no versions");
            assert!(
                matches!(&error, NpmError::NotFound { similar_names, .. } if similar_names[0] == "lodash"),
                "{body}: {error}"
            );
        }
        assert_eq!(registry.request_heads().len(), 1);
    }
    for (body, what) in [("{", "EOF"), ("7", "invalid type")] {
        let registry = simple().with_response("/a", MockResponse::ok(body)).open();
        let error = TestStore::new().install(&registry, &["a"]).expect_err("the response is invalid").to_string();
        assert!(
            error.contains("unusable response from npm registry") && error.contains("for a:") && error.contains(what),
            "{error}"
        );
    }
    let registry = simple().with_response("/a", MockResponse { status: 401, ..MockResponse::default() }).open();
    assert!(matches!(TestStore::new().install(&registry, &["a"]), Err(NpmError::Denied { .. })));
}

#[test]
fn reports_native_packages_and_skips_failed_optional_dependencies() {
    let cpu = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let registry = RegistryBuilder::default()
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
    let home = TestStore::new();
    let native = |spec: &str| {
        let installed = home.install(&registry, &[spec]).unwrap_or_else(|e| panic!("{spec}: {e}"));
        let native: Vec<_> = installed.native.into_iter().map(|one| (one.package, one.native)).collect();
        (installed.tree.packages.into_iter().map(|package| package.place).collect::<Vec<_>>(), native)
    };
    assert_eq!(native("addon").1, [("addon@1.0.0".to_owned(), Native::Addon)]);
    assert_eq!(native("builds").1, [("builds@1.0.0".to_owned(), Native::Script)]);
    let tool = (vec!["tool".to_owned(), "tool-here".to_owned()], vec![("tool-here@1.0.0".to_owned(), Native::System)]);
    assert_eq!(native("tool"), tool);
    assert!(matches!(home.install(&registry, &["mac"]), Err(NpmError::System { .. })));
}

#[test]
fn installs_peers_and_rejects_conflicting_ones() {
    let registry = RegistryBuilder::default()
        .with("host", "1.0.0", json!({}), &[])
        .with("host", "2.0.0", json!({}), &[])
        .with("plugin", "1.0.0", json!({"peerDependencies": {"host": "^1", "maybe": "*"}, "peerDependenciesMeta": {"maybe": {"optional": true}}}), &[])
        .open();
    let home = TestStore::new();
    let installed = home.install(&registry, &["plugin"]).expect("both");
    assert_eq!(installed.tree.packages.iter().map(|one| one.version.as_str()).collect::<Vec<_>>(), ["1.0.0", "1.0.0"]);
    let error = home.install(&registry, &["host@2", "plugin"]).expect_err("the peer conflicts").to_string();
    assert_eq!(error, "npm package plugin@1.0.0 requires peer host ^1, but host@2.0.0 is requested");
    let error =
        home.install(&registry, &["host@^1", "plugin", "host@^2"]).expect_err("the versions conflict").to_string();
    assert_eq!(error, "npm package host is requested as ^1 and as ^2: only one version can be installed");
}

#[test]
fn revalidates_cached_metadata_with_etag() {
    let (home, registry) = (TestStore::new(), simple().open());
    home.install(&registry, &["b@1.0.0"]).expect("it is there");
    // The cached responses are made older than their validity of five minutes.
    let entries = fs::read_dir(home.dir.path().join("npm/metadata")).expect("a folder").flatten();
    for entry in entries {
        let file = fs::File::options().write(true).open(entry.path()).expect("a file");
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).expect("a time");
    }
    home.install(&registry, &["b@^1"]).expect("it is there");
    let heads: Vec<String> = registry.request_heads().into_iter().filter(|head| head.starts_with("GET /b ")).collect();
    assert_eq!(heads.len(), 2);
    assert!(heads[1].to_lowercase().contains("if-none-match: "), "{}", heads[1]);
    assert!(heads[0].contains("application/vnd.npm.install-v1+json"), "{}", heads[0]);
}

#[test]
fn keeps_only_execute_permission() {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, mode) in [("package/package.json", 0o4777), ("package/bin/tool", 0o755), ("package/plain", 0o600)] {
        let mut header = tar::Header::new_ustar();
        header.set_mode(mode);
        header.set_mtime(1);
        header.set_size(2);
        tar.append_data(&mut header, name, b"{}".as_slice()).expect("a member");
    }
    let archive = tar.into_inner().and_then(flate2::write::GzEncoder::finish).expect("an archive");
    let (home, registry) =
        (TestStore::new(), RegistryBuilder::default().with_archive("a", "1.0.0", json!({}), archive).open());
    let installed = home.install(&registry, &["a"]).expect("it is there");
    #[cfg(unix)]
    for (name, mode) in [("package.json", 0o555), ("bin/tool", 0o555), ("plain", 0o444)] {
        let found = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(installed.dir.join("a").join(name)).expect("a file").permissions(),
        );
        assert_eq!(found & 0o7777, mode, "{name}");
    }
    let mut text = String::new();
    fs::File::open(installed.dir.join("a/plain")).and_then(|mut file| file.read_to_string(&mut text)).expect("a text");
    assert_eq!(text, "{}");
}
