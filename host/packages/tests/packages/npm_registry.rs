//! npm registry on the loopback interface, with custom responses for tests.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codebox_core::{Progress, Silent};
use codebox_packages::{
    ConfigFiles, Integrity, NpmEnvironment, NpmError, NpmFiles, NpmSettings, NpmSpec, NpmStore, NpmTree,
    npm_environment,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

/// Response for one path.
#[derive(Clone, Default)]
pub struct MockResponse {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// True to send spaces after the body, with pauses, until the client disconnects.
    pub never_ends: bool,
}

impl MockResponse {
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, body: body.into(), ..Self::default() }
    }

    pub fn redirect(to: &str) -> Self {
        Self { status: 302, headers: vec![("location", to.to_owned())], ..Self::default() }
    }
}

/// Packages and responses of a registry, as a test defines them.
#[derive(Default)]
pub struct RegistryBuilder {
    answers: HashMap<String, MockResponse>,
    packuments: BTreeMap<String, Map<String, Value>>,
}

impl RegistryBuilder {
    /// Adds a package with these files and additional fields in its manifest.
    pub fn with(self, name: &str, version: &str, extra: Value, files: &[(&str, &str)]) -> Self {
        let mut manifest = json!({"name": name, "version": version});
        merge(&mut manifest, extra);
        let text = manifest.to_string();
        let all: Vec<(&str, &str)> =
            [("package.json", text.as_str())].into_iter().chain(files.iter().copied()).collect();
        let archive =
            tgz(all.iter().map(|(name, data)| (format!("package/{name}"), data.as_bytes(), tar::EntryType::Regular)));
        self.with_archive(name, version, manifest, archive)
    }

    /// Adds a package with a custom archive.
    pub fn with_archive(mut self, name: &str, version: &str, mut manifest: Value, archive: Vec<u8>) -> Self {
        let path = format!("/{name}/-/{version}.tgz");
        if manifest.get("dist").is_none() {
            manifest["dist"] = json!({"tarball": path, "integrity": Integrity::of(&archive).to_string()});
        }
        self.answers.insert(path, MockResponse::ok(archive));
        self.packuments.entry(name.to_owned()).or_default().insert(version.to_owned(), manifest);
        self
    }

    /// Adds a custom response for a path.
    pub fn with_response(mut self, path: &str, answer: MockResponse) -> Self {
        self.answers.insert(path.to_owned(), answer);
        self
    }

    pub fn open(self) -> Registry {
        let mut answers = self.answers;
        for (name, versions) in self.packuments {
            let latest = versions.keys().next_back().cloned();
            let text = json!({"name": name, "dist-tags": {"latest": latest}, "versions": versions}).to_string();
            let headers = vec![("etag", format!("\"{}\"", text.len()))];
            let path = format!("/{}", name.replace('/', "%2f"));
            answers.entry(path).or_insert(MockResponse { headers, ..MockResponse::ok(text) });
        }
        Registry::of(answers)
    }
}

fn merge(into: &mut Value, extra: Value) {
    if let (Value::Object(into), Value::Object(extra)) = (into, extra) {
        into.extend(extra);
    }
}

/// Creates an archive with these members, without checking their names.
pub fn tgz<'m>(members: impl Iterator<Item = (String, &'m [u8], tar::EntryType)>) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, data, kind) in members {
        let mut header = tar::Header::new_gnu();
        // `set_path` would refuse some of the names that tests need.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(data.len() as u64);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/etc/passwd").expect("a target");
        }
        header.set_cksum();
        tar.append(&header, data).expect("a member");
    }
    tar.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

/// A registry that runs until the test process ends.
pub struct Registry {
    pub address: String,
    request_heads: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    fn of(answers: HashMap<String, MockResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}/", listener.local_addr().expect("an address"));
        let (request_heads, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answers));
        let log = Arc::clone(&request_heads);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
                // The client may disconnect before the response is complete.
                std::thread::spawn(move || serve(stream, &log, &answers));
            }
        });
        Self { address, request_heads }
    }

    /// Returns the heads of all requests so far.
    pub fn request_heads(&self) -> Vec<String> {
        self.request_heads.lock().expect("no panic while the log is locked").clone()
    }

    pub fn settings(&self, rc: &str, dir: &Path) -> NpmSettings<'static> {
        let file = dir.join("npmrc");
        std::fs::write(&file, format!("registry={}\nfetch-retries=0\n{rc}", self.address)).expect("a file");
        NpmSettings::from_user(&|_| None, &NpmFiles::Explicit(vec![file]), &ConfigFiles::Explicit(Vec::new()))
            .expect("settings")
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, answers: &HashMap<String, MockResponse>) -> Option<()> {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    while reader.read_line(&mut head).ok()? > 2 {}
    let path = head.split(' ').nth(1)?.to_owned();
    let lower = head.to_lowercase();
    log.lock().ok()?.push(head);
    let none = MockResponse { status: 404, ..MockResponse::default() };
    let answer = answers.get(&path).unwrap_or(&none);
    let known = answer.headers.iter().find(|(name, _)| *name == "etag").map(|(_, etag)| etag.to_lowercase());
    if known.is_some_and(|etag| lower.contains(&format!("if-none-match: {etag}"))) {
        return write!(stream, "HTTP/1.1 304 Same\r\nconnection: close\r\n\r\n").ok();
    }
    let length = if answer.never_ends { 1 << 27 } else { answer.body.len() };
    write!(stream, "HTTP/1.1 {} Some\r\ncontent-length: {length}\r\nconnection: close\r\n", answer.status).ok()?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n").ok()?;
    }
    write!(stream, "\r\n").ok()?;
    stream.write_all(&answer.body).ok()?;
    if !answer.never_ends {
        return Some(());
    }
    loop {
        stream.write_all(b" ").ok()?;
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A temporary directory with a package store.
pub struct TestStore {
    pub dir: tempfile::TempDir,
    pub store: NpmStore,
}

impl TestStore {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = NpmStore::at(&dir.path().join("npm"));
        Self { dir, store }
    }

    pub fn install(&self, registry: &Registry, specs: &[&str]) -> Result<NpmEnvironment, NpmError> {
        self.install_with(&registry.settings("", self.dir.path()), specs, None)
    }

    pub fn install_with(
        &self,
        settings: &NpmSettings<'_>,
        specs: &[&str],
        locked: Option<&NpmTree>,
    ) -> Result<NpmEnvironment, NpmError> {
        self.install_with_progress(settings, specs, locked, &Silent)
    }

    pub fn install_with_progress(
        &self,
        settings: &NpmSettings<'_>,
        specs: &[&str],
        locked: Option<&NpmTree>,
        progress: &dyn Progress,
    ) -> Result<NpmEnvironment, NpmError> {
        let specs: Vec<NpmSpec> = specs.iter().map(|spec| spec.parse().expect("a spec")).collect();
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an executor");
        executor.block_on(npm_environment(&specs, locked, settings, &self.store, progress))
    }

    /// Lists the entries of the store, without the cached responses of registries.
    pub fn entries(&self) -> Vec<String> {
        let mut found = Vec::new();
        for part in ["packages", "environments", "."] {
            let entries = std::fs::read_dir(self.dir.path().join("npm").join(part)).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            found.extend(names.filter(|name| part != "." || name.starts_with(".new-")));
        }
        found
    }
}
