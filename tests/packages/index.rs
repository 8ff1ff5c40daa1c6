//! Package index on the loopback interface, with generated wheels.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Returns a name that no other test of any process uses, because all tests share the package cache.
pub fn unique(stem: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("cbt-{stem}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// File of an index.
#[derive(Clone)]
pub struct IndexFile {
    pub file: String,
    pub content: Vec<u8>,
    /// SHA-256 digest that the index announces.
    pub announced_sha256: String,
    /// Metadata of the wheel that the index serves separately (PEP 658), if any.
    pub core_metadata: Option<String>,
    /// URL that the index announces, if the file is not in the index itself.
    pub external_url: Option<String>,
}

impl IndexFile {
    pub fn new(file: String, content: Vec<u8>) -> Self {
        let announced_sha256 = hex(&content);
        Self { file, content, announced_sha256, core_metadata: None, external_url: None }
    }
}

pub fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a wheel of one package for any platform, with these additional members.
pub fn pure(name: &str, version: &str, requires: &[&str], members: &[(&str, &str)]) -> IndexFile {
    wheel(name, version, "py3-none-any", requires, members)
}

pub fn wheel(name: &str, version: &str, tag: &str, requires: &[&str], members: &[(&str, &str)]) -> IndexFile {
    let stem = format!("{}-{version}", name.replace('-', "_"));
    let dist_info = format!("{stem}.dist-info");
    let needs: String = requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}");
    let wheel_metadata = format!("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n");
    let (metadata_name, wheel_name, record) =
        (format!("{dist_info}/METADATA"), format!("{dist_info}/WHEEL"), format!("{dist_info}/RECORD"));
    let mut all: Vec<(&str, &str)> =
        vec![(&metadata_name, metadata.as_str()), (&wheel_name, wheel_metadata.as_str()), (&record, "")];
    all.extend(members);
    IndexFile::new(format!("{stem}-{tag}.whl"), archive(&all))
}

/// Returns a source distribution with these files.
pub fn sdist(name: &str, version: &str, files: &[(&str, &str)]) -> IndexFile {
    let stem = format!("{}-{version}", name.replace('-', "_"));
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (file, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, format!("{stem}/{file}"), text.as_bytes()).expect("a member");
    }
    let content = tar.into_inner().and_then(GzEncoder::finish).expect("an archive");
    IndexFile::new(format!("{stem}.tar.gz"), content)
}

pub fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in members {
        zip.start_file(*name, SimpleFileOptions::default()).expect("a member");
        zip.write_all(data.as_bytes()).expect("member has data");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Response behaviour of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Correct,
    /// Correct responses, with range requests supported and each file delayed.
    Ranges,
    /// Correct responses with whole files, each delayed.
    Delayed,
    /// Endless responses, one byte at a time.
    Dripping,
    /// Endless responses for files that are requested again after their requirements have been read.
    DrippingFiles,
    /// Endless pages as fast as the client reads; a gibibyte in total.
    EndlessPages,
    /// Redirects of every page to this address.
    RedirectPages(&'static str),
    /// Redirects of every file to this address.
    RedirectFiles(&'static str),
}

/// Index that serves until the value is dropped and then refuses connections.
pub struct Index {
    pub address: String,
    files: Arc<BTreeMap<String, IndexFile>>,
    requests: Arc<Mutex<Vec<String>>>,
    bytes_sent: Arc<AtomicU64>,
    concurrency: Arc<ConcurrencyCounts>,
    open: Arc<Mutex<bool>>,
}

/// Counters of files that are being served concurrently.
#[derive(Default)]
struct ConcurrencyCounts {
    current: AtomicU32,
    max: AtomicU32,
}

impl Index {
    pub fn of(index_files: impl IntoIterator<Item = IndexFile>) -> Result<Self> {
        Self::with_behaviour(index_files, Behaviour::Correct)
    }

    pub fn with_behaviour(index_files: impl IntoIterator<Item = IndexFile>, behaviour: Behaviour) -> Result<Self> {
        let mut files: BTreeMap<String, IndexFile> = BTreeMap::new();
        for one in index_files {
            files.insert(one.file.clone(), one);
        }
        let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
        let address = format!("http://{}/simple", listener.local_addr()?);
        let files = Arc::new(files);
        let (requests, bytes_sent, open) = (Arc::default(), Arc::default(), Arc::new(Mutex::new(true)));
        let (index_files, log, concurrency) =
            (Arc::clone(&files), Arc::clone(&requests), Arc::<ConcurrencyCounts>::default());
        let (sent_counter, is_open, counters) = (Arc::clone(&bytes_sent), Arc::clone(&open), Arc::clone(&concurrency));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !*is_open.lock().unwrap_or_else(PoisonError::into_inner) {
                    break;
                }
                let (index_files, log, sent_counter) =
                    (Arc::clone(&index_files), Arc::clone(&log), Arc::clone(&sent_counter));
                let counters = Arc::clone(&counters);
                std::thread::spawn(move || match behaviour {
                    Behaviour::EndlessPages => flood(stream, &sent_counter),
                    _ => respond(stream, &index_files, &log, behaviour, &sent_counter, &counters),
                });
            }
        });
        Ok(Self { address, files, requests, bytes_sent, concurrency, open })
    }

    /// Returns the SHA-256 digest that the index announces for a package's first file.
    pub fn announced_sha256(&self, name: &str) -> String {
        let stem = format!("{}-", name.replace('-', "_"));
        let found = self.files.values().find(|one| one.file.starts_with(&stem));
        found.map(|one| one.announced_sha256.clone()).unwrap_or_default()
    }

    /// Returns the requested paths.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the maximum number of files, or ranges of files, that were requested concurrently.
    pub fn max_concurrent(&self) -> u32 {
        self.concurrency.max.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes sent of files and floods, including data in flight.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::Relaxed)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
        // The connection wakes the accept loop, which then ends.
        let external_url = self.address.trim_start_matches("http://").trim_end_matches("/simple");
        drop(TcpStream::connect(external_url));
    }
}

fn flood(mut stream: TcpStream, sent_counter: &AtomicU64) {
    static PART: [u8; 1 << 16] = [b' '; 1 << 16];
    let mut alive = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n").is_ok();
    while alive && sent_counter.load(Ordering::Relaxed) < 1 << 30 {
        alive = stream.write_all(&PART).is_ok();
        sent_counter.fetch_add(PART.len() as u64, Ordering::Relaxed);
    }
}

fn respond(
    mut stream: TcpStream,
    files: &BTreeMap<String, IndexFile>,
    log: &Mutex<Vec<String>>,
    behaviour: Behaviour,
    sent_counter: &AtomicU64,
    concurrency: &ConcurrencyCounts,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let is_repeated = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // The first request only checks for range support.
        let previous_requests = log.iter().filter(|one| **one == path).count();
        log.push(path.clone());
        previous_requests > 1
    };
    let is_file = path.starts_with("/files/");
    if let (Behaviour::RedirectPages(external_url), false) | (Behaviour::RedirectFiles(external_url), true) =
        (behaviour, is_file)
    {
        let _ = write!(
            stream,
            "HTTP/1.1 302 Some\r\nlocation: {external_url}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        return;
    }
    if behaviour == Behaviour::Dripping || behaviour == Behaviour::DrippingFiles && is_file && is_repeated {
        let started = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n");
        let mut alive = started.is_ok();
        while alive {
            std::thread::sleep(Duration::from_millis(200));
            alive = stream.write_all(b" ").and_then(|()| stream.flush()).is_ok();
        }
        return;
    }
    let (status, kind, body) = match path.strip_prefix("/files/") {
        Some(file) => {
            let file_content = files.get(file).map(|index_files| index_files.content.clone());
            let core_metadata =
                || files.get(file.strip_suffix(".metadata")?)?.core_metadata.clone().map(String::into_bytes);
            match file_content.or_else(core_metadata) {
                Some(body) => (200, "application/octet-stream", body),
                None => (404, "text/plain", Vec::new()),
            }
        }
        None => page(&path, files),
    };
    let is_head = head.starts_with("HEAD");
    if is_file && !is_head {
        let current = concurrency.current.fetch_add(1, Ordering::Relaxed) + 1;
        concurrency.max.fetch_max(current, Ordering::Relaxed);
        if matches!(behaviour, Behaviour::Ranges | Behaviour::Delayed) {
            std::thread::sleep(Duration::from_millis(30));
        }
        concurrency.current.fetch_sub(1, Ordering::Relaxed);
    }
    let (mut status, mut from, mut to, mut more) = (status, 0, body.len(), String::new());
    if behaviour == Behaviour::Ranges && is_file {
        more.push_str("accept-ranges: bytes\r\n");
        if let Some((first, last)) = range(&head) {
            (status, from, to) = (206, first.min(body.len()), (last + 1).min(body.len()));
            more.push_str(&format!("content-range: bytes {from}-{}/{}\r\n", to - 1, body.len()));
        }
    }
    let length = to - from;
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    if !is_head {
        let _ = stream.write_all(&body[from..to]);
        if is_file {
            sent_counter.fetch_add(length as u64, Ordering::Relaxed);
        }
    }
}

/// Parses the first and the last byte of a range request.
fn range(head: &str) -> Option<(usize, usize)> {
    let previous_requests =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned))?;
    let (first, last) = previous_requests.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Returns the page of a package, if the index has the package.
fn page(path: &str, files: &BTreeMap<String, IndexFile>) -> (u16, &'static str, Vec<u8>) {
    let name = path.trim_start_matches("/simple/").trim_end_matches('/');
    let own = files
        .values()
        .filter(|one| one.file.split_once('-').is_some_and(|(stem, _)| stem.to_lowercase().replace('_', "-") == name));
    let entries: Vec<String> = own
        .map(|IndexFile { file, content, announced_sha256, core_metadata, external_url }| {
            let (size, core_metadata) = (content.len(), core_metadata.is_some());
            let url = external_url.clone().unwrap_or(format!("../../files/{file}"));
            format!(
                r#"{{"filename": "{file}", "url": "{url}", "hashes": {{"sha256": "{announced_sha256}"}}, "size": {size}, "core-metadata": {core_metadata}}}"#
            )
        })
        .collect();
    if entries.is_empty() {
        return (404, "text/plain", Vec::new());
    }
    let page = format!(
        r#"{{"meta": {{"api-version": "1.1"}}, "name": "{name}", "versions": [], "files": [{}]}}"#,
        entries.join(", ")
    );
    (200, "application/vnd.pypi.simple.v1+json", page.into_bytes())
}
