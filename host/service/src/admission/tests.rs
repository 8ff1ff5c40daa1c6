use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_core::path::{ProtectedDir, ProtectionScope};
use codebox_core::{Isolation, Language, LimitKind, LimitOverrides, Stdin};
use tempfile::TempDir;

use super::*;

/// Host environment whose working directory is a temporary directory.
struct Host {
    dir: TempDir,
    mounts: Vec<PathBuf>,
}

impl HostEnvironment for Host {
    fn env_var(&self, name: &str) -> Option<OsString> {
        (name == "TOKEN").then(|| OsString::from("secret"))
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok(self.root())
    }

    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.mounts.clone())
    }
}

impl Host {
    fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let host = Self { dir, mounts: Vec::new() };
        host.write("script.py", b"import os\n");
        fs::create_dir_all(host.root().join("data/inner")).expect("a writable temporary directory");
        host
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("it exists")
    }

    fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.root().join(name), content).expect("a writable temporary directory");
    }

    fn admit(&self, request: Request) -> Result<Admitted, Denied> {
        admit(request, &Policy::default(), self)
    }

    fn denied(&self, request: Request) -> Denied {
        let denied = self.admit(request).expect_err("it is not allowed");
        assert!(!denied.to_string().contains('\n') && !denied.fix.is_empty(), "{denied:?}");
        denied
    }
}

fn file(path: &str) -> Request {
    Request::new(Program::File(PathBuf::from(path)))
}

fn granting(path: &str, dirs: &[&str]) -> Request {
    Request { dirs: dirs.iter().map(|text| text.parse().expect("a grant")).collect(), ..file(path) }
}

fn place_of(admitted: &Admitted) -> (&str, Vec<&str>) {
    let files = &admitted.job().files;
    let files = files.iter().map(|file| file.path.as_str()).collect();
    (admitted.job().source.file_name(), files)
}

#[test]
fn places_script_outside_working_directory() {
    let host = Host::new();
    let admitted = host.admit(file("./script.py")).expect("it is there");
    assert_eq!(place_of(&admitted), ("/run/codebox/script.py", vec!["/run/codebox/script.py"]));
    assert_eq!(admitted.job().source.argv0(), "./script.py");
    assert_eq!(admitted.job().files[0].content, b"import os\n");
    assert_eq!(admitted.job().language, Language::Python);
    assert!(admitted.job().grants.is_none());
}

#[test]
fn keeps_mapped_path_of_granted_script() {
    let host = Host::new();
    host.write("data/inner/job.py", b"");
    for (path, dirs, place, files) in [
        ("script.py", vec![".:/work:rw"], "/work/script.py", vec![]),
        ("script.py", vec![".:/src"], "/src/script.py", vec![]),
        ("data/inner/job.py", vec![".:/src", "data/inner:/in"], "/in/job.py", vec![]),
        ("script.py", vec!["data:/data"], "/run/codebox/script.py", vec!["/run/codebox/script.py"]),
        ("script.py", vec!["data:/work"], "/run/codebox/script.py", vec!["/run/codebox/script.py"]),
        ("script.py", vec!["data:/work/script.py"], "/run/codebox/script.py", vec!["/run/codebox/script.py"]),
    ] {
        let admitted = host.admit(granting(path, &dirs)).expect("all of it exists");
        assert_eq!(place_of(&admitted), (place, files), "{path} {dirs:?}");
    }
}

#[test]
fn rejects_invalid_scripts() {
    let host = Host::new();
    host.write("latin.py", b"x = 'caf\xe9'\n");
    host.write("wrong.py", b"# coding: utf-8\nx = 'caf\xe9'\n");
    host.write("cookie.py", b"# coding: latin-1\nx = 'caf\xe9'\n");
    host.write("latin.js", b"// coding: latin-1\nx = 'caf\xe9'\n");
    host.write("large.py", &vec![b'#'; (16 << 20) + 1]);
    for (path, message) in [
        ("gone.py", "cannot run gone.py: no such file"),
        ("data", "cannot run data: it is a directory"),
        ("script.py/x", "cannot run script.py/x: part of its path is not a directory"),
        ("latin.py", "cannot run latin.py: line 1 is not UTF-8"),
        ("wrong.py", "cannot run wrong.py: line 2 is not UTF-8"),
        ("latin.js", "cannot run latin.js: line 2 is not UTF-8"),
        ("large.py", "cannot run large.py: it is larger than 16 MiB"),
    ] {
        let denied = host.denied(file(path));
        assert!(denied.to_string().starts_with(message), "{denied}");
        assert_eq!(denied.exit_status(), 125);
    }
    assert!(host.admit(file("cookie.py")).is_ok());
    host.write("exact.py", &vec![b'#'; 16 << 20]);
    assert!(host.admit(file("exact.py")).is_ok());
    let unreadable = script::unreadable("x.py", &io::ErrorKind::PermissionDenied.into());
    assert_eq!(unreadable.to_string(), "cannot run x.py: permission denied");
}

#[test]
fn rejects_unusable_grants() {
    let host = Host::new();
    for (grant, part) in [
        ("gone:/data", "no such directory"),
        ("script.py:/data", "it is not a directory"),
        ("/:/data", "it is the root of a file system"),
        ("/proc:/data", "kernel"),
        ("/proc/self/root:/data", "it is the root of a file system"),
        ("/sys:/data", "kernel"),
        ("/dev:/data", "kernel"),
        ("data:/", "the guest's root"),
        ("data:/usr/local/lib", "reserved for the runtime"),
        ("data:/run/codebox", "reserved for the runtime"),
    ] {
        let denied = host.denied(granting("script.py", &[grant]));
        assert_eq!((denied.kind, denied.exit_status()), (ResultKind::PathRejected, 126));
        assert!(denied.to_string().contains(part), "{grant}: {denied}");
    }
    for dirs in [["data:/a", "data:/b"], ["data:/a", "data/inner:/a"], ["data:/a", "./data/../data:/b"]] {
        let denied = host.denied(granting("script.py", &dirs));
        assert_eq!(denied.kind, ResultKind::PathRejected);
        assert!(denied.to_string().contains("granted twice"), "{denied}");
    }
}

#[test]
fn rejects_grant_at_package_path() {
    let host = Host::new();
    host.write("p.js", b"");
    host.write("p.ts", b"");
    let asks = |path: &str, grant: &str, isolation, packages: &[&str]| {
        let packages = packages.iter().map(|&name| name.to_owned()).collect();
        Request { packages, isolation: Preference::Only(isolation), ..granting(path, &[grant]) }
    };
    for (path, grant) in
        [("p.js", "data:/node_modules"), ("p.ts", "data:/node_modules:rw"), ("p.js", "data:/node_modules/lodash")]
    {
        for isolation in [Isolation::Wasm, Isolation::Container] {
            let denied = host.denied(asks(path, grant, isolation, &["lodash"]));
            assert_eq!((denied.kind, denied.exit_status()), (ResultKind::PathRejected, 126), "{path} {grant}");
            assert!(denied.to_string().contains("reserved for packages"), "{grant}: {denied}");
            assert!(host.admit(asks(path, grant, isolation, &[])).is_ok(), "{path} {grant}");
        }
    }
    for (path, grant) in
        [("p.js", "data:/work/node_modules"), ("p.js", "data:/data"), ("script.py", "data:/node_modules")]
    {
        assert!(host.admit(asks(path, grant, Isolation::Wasm, &["lodash"])).is_ok(), "{path} {grant}");
    }
}

#[test]
fn rejects_mount_below_grant() {
    let mut host = Host::new();
    host.mounts = vec![PathBuf::from("/"), host.root(), host.root().join("data/inner")];
    let denied = host.denied(granting("script.py", &["data:/data"]));
    assert_eq!(denied.kind, ResultKind::PathRejected);
    assert!(denied.detail.contains("data/inner"), "{denied}");
    assert!(host.admit(granting("script.py", &["data/inner:/data"])).is_ok());
}

#[cfg(unix)]
#[test]
fn resolves_links_before_checks() {
    let host = Host::new();
    let elsewhere = TempDir::new().expect("a temporary directory");
    let link = |to: &Path, name: &str| {
        let link = elsewhere.path().join(name);
        std::os::unix::fs::symlink(to, &link).expect("links are possible");
        link.display().to_string()
    };
    let all = link(Path::new("/"), "all");
    let alias = link(&host.root().join("data"), "alias");
    let dangling = link(Path::new("/nowhere-at-all/x"), "dangling");
    let denied = host.denied(granting("script.py", &[&format!("{all}:/data")]));
    assert!(denied.to_string().contains("root of a file system"), "{denied}");
    let admitted = host.admit(granting("script.py", &[&format!("{alias}:/data")])).expect("it is a link to data");
    assert_eq!(admitted.dirs()[0].host.to_path_buf(), host.root().join("data"));
    let denied = host.denied(granting("script.py", &["data:/a", &format!("{alias}:/b")]));
    assert!(denied.to_string().contains("granted twice"), "{denied}");
    let out = Request { out: Some(PathBuf::from(dangling)), ..file("script.py") };
    assert!(host.denied(out).to_string().contains("dangling symbolic link"));
}

#[cfg(unix)]
#[test]
fn rejects_links_below_working_directory() {
    use std::os::unix::fs::symlink;
    let host = Host::new();
    let elsewhere = TempDir::new().expect("a temporary directory");
    let secret = elsewhere.path().canonicalize().expect("it exists").join("secret");
    fs::create_dir_all(secret.join("inner")).expect("a writable temporary directory");
    symlink(&secret, host.root().join("planted")).expect("links are possible");
    symlink("../planted/inner", host.root().join("data/deep")).expect("links are possible");
    symlink("/nowhere-at-all/x", host.root().join("dangling")).expect("links are possible");
    // A link of the user's that leads to a link of the job's.
    symlink(host.root().join("planted"), elsewhere.path().join("outer")).expect("links are possible");
    let outer = elsewhere.path().join("outer").display().to_string();
    let absolute = host.root().join("planted").display().to_string();
    for typed in ["planted", "./planted/inner", "data/deep", "data/../planted", "planted/..", &absolute, &outer] {
        let out = Request { out: Some(PathBuf::from(typed)), ..file("script.py") };
        for request in [granting("script.py", &[&format!("{typed}:/data")]), out] {
            let denied = host.denied(request);
            assert_eq!(denied.kind, ResultKind::PathRejected, "{typed}");
            assert!(denied.detail.contains("is a symbolic link"), "{typed}: {denied}");
            assert!(denied.fix.contains(&elsewhere.path().display().to_string()), "{typed}: {}", denied.fix);
        }
    }
    for typed in ["dangling", "planted/new"] {
        let out = Request { out: Some(PathBuf::from(typed)), ..file("script.py") };
        assert!(host.denied(out).detail.contains("is a symbolic link"), "{typed}");
    }
    assert!(!secret.join("new").exists());
    // The real path does not contain the link, so the user has chosen its target.
    let real = secret.display().to_string();
    host.admit(granting("script.py", &[&format!("{real}:/data")])).expect("no link is on the way");
    host.admit(Request { out: Some(secret), ..file("script.py") }).expect("no link is on the way");
}

#[test]
fn rejects_output_in_git_directory() {
    let host = Host::new();
    fs::create_dir_all(host.root().join(".git/hooks")).expect("a writable temporary directory");
    for typed in [".git", ".git/hooks", "new/.git", "new/.GIT/hooks", "data/../.git/x"] {
        let denied = host.denied(Request { out: Some(PathBuf::from(typed)), ..file("script.py") });
        assert_eq!(denied.kind, ResultKind::PathRejected, "{typed}");
        assert!(denied.detail.contains(".git directory"), "{typed}: {denied}");
    }
    assert!(!host.root().join("new").exists() && !host.root().join(".git/x").exists());
    host.admit(granting("script.py", &[".git:/repository"])).expect("a grant is the user's choice");
}

#[test]
fn rejects_protected_directories() {
    let host = Host::new();
    let protected = ProtectedDir {
        path: HostPath::native(&host.root().join("data")).expect("UTF-8"),
        scope: ProtectionScope::Subtree,
        what: "codebox's own state".to_owned(),
    };
    let policy = Policy { protected: vec![protected], ..Policy::default() };
    for grant in ["data:/x", "data/inner:/x", ".:/x"] {
        let denied = admit(granting("script.py", &[grant]), &policy, &host).expect_err("protected");
        assert!(denied.to_string().contains("codebox's own state"), "{denied}");
    }
    for out in ["data/inner", "data/new/deep"] {
        let request = Request { out: Some(PathBuf::from(out)), ..file("script.py") };
        let denied = admit(request, &policy, &host).expect_err("protected");
        assert_eq!(denied.kind, ResultKind::PathRejected);
    }
    assert!(!host.root().join("data/new").exists());
}

#[test]
fn creates_output_directory() {
    let host = Host::new();
    let out = |path: &str| Request { out: Some(PathBuf::from(path)), ..file("script.py") };
    let admitted = host.admit(out("new/deep")).expect("it can be made");
    let place = admitted.out().map(HostPath::to_path_buf);
    assert_eq!(place, Some(host.root().join("new/deep")));
    assert!(host.root().join("new/deep").is_dir());
    assert!(host.denied(out("script.py")).to_string().contains("not a directory"));
    assert!(host.denied(out("gone/../x")).to_string().contains("after a directory"));
    assert!(host.denied(out("/proc/self/x")).to_string().contains("kernel"));
}

#[test]
fn finds_directory_through_which_job_can_change_file() {
    let host = Host::new();
    fs::create_dir(host.root().join("data-2")).expect("a writable temporary directory");
    let request = Request { out: Some("out".into()), ..granting("script.py", &["data:/data:rw", "data/inner:/in"]) };
    let admitted = host.admit(request).expect("it exists");
    let found = |name: &str| admitted.writable_dir_of(&host.root().join(name)).map(HostPath::to_path_buf);
    for (name, dir) in [
        ("data/log", Some("data")),
        ("data/deep/log", Some("data")),
        ("data/inner/log", Some("data")),
        ("out/log", Some("out")),
        ("data-2/log", None),
        ("log", None),
    ] {
        assert_eq!(found(name), dir.map(|dir| host.root().join(dir)), "{name}");
    }
    let admitted = host.admit(granting("script.py", &[".:/src"])).expect("it exists");
    assert_eq!(admitted.writable_dir_of(&host.root().join("log")), None);
}

#[test]
fn resolves_request_to_complete_job() {
    let host = Host::new();
    let limits = LimitOverrides { wall: codebox_core::parse_duration("5s").ok(), ..LimitOverrides::default() };
    let policy = Policy { image: Some("python-data".to_owned()), ..Policy::default() };
    let request = Request {
        args: vec!["a".to_owned()],
        env: vec!["TOKEN".parse().expect("a name")],
        stdin: Stdin::Streamed,
        isolation: Preference::Only(Isolation::Wasm),
        limits,
        ..Request::new(Program::Inline("print(1)".to_owned()))
    };
    let admitted = admit(request.clone(), &policy, &host).expect("it is allowed");
    let job = admitted.job();
    assert_eq!((job.source.argv0(), job.args.as_slice()), ("-c", ["a".to_owned()].as_slice()));
    assert_eq!(job.env, BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]));
    assert_eq!(job.grants.env.len(), 1);
    assert_eq!(job.stdin, Stdin::Streamed);
    assert_eq!(job.isolations.to_string(), "wasm");
    assert_eq!(admitted.required_limits(), [LimitKind::Wall]);
    assert_eq!((admitted.image(), admitted.default_image()), (None, Some("python-data")));
    let named = Request { image: Some("mine".to_owned()), ..request.clone() };
    let named = admit(named, &policy, &host).expect("it is allowed");
    assert_eq!((named.image(), named.default_image()), (Some("mine"), None));
    assert_eq!(named.in_container().image(), None);
    assert_eq!(admitted.clone().in_container().default_image(), None);
    let nul = Request { args: vec!["a\0b".to_owned()], ..request };
    assert_eq!(host.denied(nul).kind, ResultKind::InvalidRequest);
}

#[test]
fn path_map_excludes_private_directories() {
    let host = Host::new();
    let admitted = host.admit(granting("script.py", &["data:/data:rw"])).expect("it exists");
    let inside = HostPath::native(&host.root().join("data/inner/x")).expect("UTF-8");
    let guest = admitted.path_map().to_guest(&inside).map(|path| path.to_string());
    assert_eq!(guest, Ok("/data/inner/x".to_owned()));
    assert!(admitted.path_map().to_host(&GuestPath::work()).is_err());
}
