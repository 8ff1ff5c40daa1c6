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
pub struct Offered {
    pub file: String,
    pub content: Vec<u8>,
    /// SHA-256 digest that the index announces.
    pub announced: String,
    /// Metadata of the wheel that the index serves separately (PEP 658), if any.
    pub told: Option<String>,
    /// URL that the index announces, if the file is not in the index itself.
    pub place: Option<String>,
}

impl Offered {
    pub fn new(file: String, content: Vec<u8>) -> Self {
        let announced = hex(&content);
        Self { file, content, announced, told: None, place: None }
    }
}

pub fn hex(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a wheel of one package for any platform, with these additional members.
pub fn pure(name: &str, version: &str, requires: &[&str], members: &[(&str, &str)]) -> Offered {
    wheel(name, version, "py3-none-any", requires, members)
}

pub fn wheel(name: &str, version: &str, tag: &str, requires: &[&str], members: &[(&str, &str)]) -> Offered {
    let stem = format!("{}-{version}", name.replace('-', "_"));
    let described = format!("{stem}.dist-info");
    let needs: String = requires.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}");
    let tagged = format!("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n");
    let (metadata_name, wheel_name, record) =
        (format!("{described}/METADATA"), format!("{described}/WHEEL"), format!("{described}/RECORD"));
    let mut all: Vec<(&str, &str)> =
        vec![(&metadata_name, metadata.as_str()), (&wheel_name, tagged.as_str()), (&record, "")];
    all.extend(members);
    Offered::new(format!("{stem}-{tag}.whl"), archive(&all))
}

/// Returns a source distribution with these files.
pub fn sdist(name: &str, version: &str, files: &[(&str, &str)]) -> Offered {
    let stem = format!("{}-{version}", name.replace('-', "_"));
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (file, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, format!("{stem}/{file}"), text.as_bytes()).expect("a member");
    }
    let content = tar.into_inner().and_then(GzEncoder::finish).expect("an archive");
    Offered::new(format!("{stem}.tar.gz"), content)
}

pub fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, data) in members {
        zip.start_file(*name, SimpleFileOptions::default()).expect("a member");
        zip.write_all(data.as_bytes()).expect("its data");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Response behaviour of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    Well,
    /// Correct responses, with range requests supported and each file delayed.
    InParts,
    /// Correct responses with whole files, each delayed.
    Leisurely,
    /// Endless responses, one byte at a time.
    Slowly,
    /// Endless responses for files that are requested again after their requirements have been read.
    SlowFiles,
    /// Endless pages as fast as the client reads; a gibibyte in total.
    Endlessly,
    /// Redirects of every page to this address.
    PagesTo(&'static str),
    /// Redirects of every file to this address.
    FilesTo(&'static str),
}

/// Index that serves until the value is dropped and then refuses connections.
pub struct Index {
    pub address: String,
    files: Arc<BTreeMap<String, Offered>>,
    seen: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicU64>,
    crowd: Arc<Crowd>,
    open: Arc<Mutex<bool>>,
}

/// Counters of files that are being served concurrently.
#[derive(Default)]
struct Crowd {
    now: AtomicU32,
    most: AtomicU32,
}

impl Index {
    pub fn of(offered: impl IntoIterator<Item = Offered>) -> Result<Self> {
        Self::answering(offered, Manner::Well)
    }

    pub fn answering(offered: impl IntoIterator<Item = Offered>, manner: Manner) -> Result<Self> {
        let mut files: BTreeMap<String, Offered> = BTreeMap::new();
        for one in offered {
            files.insert(one.file.clone(), one);
        }
        let listener = TcpListener::bind("127.0.0.1:0").context("a port")?;
        let address = format!("http://{}/simple", listener.local_addr()?);
        let files = Arc::new(files);
        let (seen, sent, open) = (Arc::default(), Arc::default(), Arc::new(Mutex::new(true)));
        let (offered, log, crowd) = (Arc::clone(&files), Arc::clone(&seen), Arc::<Crowd>::default());
        let (count, is_open, crowded) = (Arc::clone(&sent), Arc::clone(&open), Arc::clone(&crowd));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !*is_open.lock().unwrap_or_else(PoisonError::into_inner) {
                    break;
                }
                let (offered, log, count) = (Arc::clone(&offered), Arc::clone(&log), Arc::clone(&count));
                let crowded = Arc::clone(&crowded);
                std::thread::spawn(move || match manner {
                    Manner::Endlessly => flood(stream, &count),
                    _ => answer(stream, &offered, &log, (manner, &count, &crowded)),
                });
            }
        });
        Ok(Self { address, files, seen, sent, crowd, open })
    }

    /// Returns the SHA-256 digest that the index announces for a package's first file.
    pub fn announced(&self, name: &str) -> String {
        let stem = format!("{}-", name.replace('-', "_"));
        let found = self.files.values().find(|one| one.file.starts_with(&stem));
        found.map(|one| one.announced.clone()).unwrap_or_default()
    }

    /// Returns the requested paths.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the maximum number of files, or ranges of files, that were requested concurrently.
    pub fn most_at_once(&self) -> u32 {
        self.crowd.most.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes sent of files and floods, including data in flight.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = false;
        // The connection wakes the accept loop, which then ends.
        let place = self.address.trim_start_matches("http://").trim_end_matches("/simple");
        drop(TcpStream::connect(place));
    }
}

fn flood(mut stream: TcpStream, count: &AtomicU64) {
    static PART: [u8; 1 << 16] = [b' '; 1 << 16];
    let mut alive = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n").is_ok();
    while alive && count.load(Ordering::Relaxed) < 1 << 30 {
        alive = stream.write_all(&PART).is_ok();
        count.fetch_add(PART.len() as u64, Ordering::Relaxed);
    }
}

fn answer(
    mut stream: TcpStream,
    files: &BTreeMap<String, Offered>,
    log: &Mutex<Vec<String>>,
    (manner, count, crowd): (Manner, &AtomicU64, &Crowd),
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let is_again = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // The first request only checks for range support.
        let asked = log.iter().filter(|one| **one == path).count();
        log.push(path.clone());
        asked > 1
    };
    let is_file = path.starts_with("/files/");
    if let (Manner::PagesTo(place), false) | (Manner::FilesTo(place), true) = (manner, is_file) {
        let _ =
            write!(stream, "HTTP/1.1 302 Some\r\nlocation: {place}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return;
    }
    if manner == Manner::Slowly || manner == Manner::SlowFiles && is_file && is_again {
        let begun = write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n");
        let mut alive = begun.is_ok();
        while alive {
            std::thread::sleep(Duration::from_millis(200));
            alive = stream.write_all(b" ").and_then(|()| stream.flush()).is_ok();
        }
        return;
    }
    let (status, kind, body) = match path.strip_prefix("/files/") {
        Some(file) => {
            let whole = files.get(file).map(|offered| offered.content.clone());
            let told = || files.get(file.strip_suffix(".metadata")?)?.told.clone().map(String::into_bytes);
            match whole.or_else(told) {
                Some(body) => (200, "application/octet-stream", body),
                None => (404, "text/plain", Vec::new()),
            }
        }
        None => page(&path, files),
    };
    let is_head = head.starts_with("HEAD");
    if is_file && !is_head {
        let now = crowd.now.fetch_add(1, Ordering::Relaxed) + 1;
        crowd.most.fetch_max(now, Ordering::Relaxed);
        if matches!(manner, Manner::InParts | Manner::Leisurely) {
            std::thread::sleep(Duration::from_millis(30));
        }
        crowd.now.fetch_sub(1, Ordering::Relaxed);
    }
    let (mut status, mut from, mut to, mut more) = (status, 0, body.len(), String::new());
    if manner == Manner::InParts && is_file {
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
            count.fetch_add(length as u64, Ordering::Relaxed);
        }
    }
}

/// Parses the first and the last byte of a range request.
fn range(head: &str) -> Option<(usize, usize)> {
    let asked = head.lines().find_map(|line| line.to_lowercase().strip_prefix("range: bytes=").map(str::to_owned))?;
    let (first, last) = asked.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Returns the page of a package, if the index has the package.
fn page(path: &str, files: &BTreeMap<String, Offered>) -> (u16, &'static str, Vec<u8>) {
    let name = path.trim_start_matches("/simple/").trim_end_matches('/');
    let own = files
        .values()
        .filter(|one| one.file.split_once('-').is_some_and(|(stem, _)| stem.to_lowercase().replace('_', "-") == name));
    let entries: Vec<String> = own
        .map(|Offered { file, content, announced, told, place }| {
            let (size, told) = (content.len(), told.is_some());
            let url = place.clone().unwrap_or(format!("../../files/{file}"));
            format!(
                r#"{{"filename": "{file}", "url": "{url}", "hashes": {{"sha256": "{announced}"}}, "size": {size}, "core-metadata": {told}}}"#
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
