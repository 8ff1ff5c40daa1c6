//! npm registry on the loopback interface.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use codebox_packages::Integrity;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// Package: its manifest, with at least a name and a version, and its files other than package.json.
pub type Package<'p> = (Value, &'p [(&'p str, &'p str)]);

pub struct Registry {
    pub address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    /// Starts a registry that serves until the test process ends.
    pub fn of(packages: &[Package<'_>]) -> Result<Self> {
        let mut responses: HashMap<String, Vec<u8>> = HashMap::new();
        let mut names: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (manifest, files) in packages {
            let mut manifest = manifest.clone();
            let archive = archive(&manifest.to_string(), files)?;
            let path = format!("/{}/-/{}.tgz", manifest["name"], manifest["version"]).replace('"', "");
            manifest["dist"] = json!({"tarball": path, "integrity": Integrity::of(&archive).to_string()});
            responses.insert(path, archive);
            names.entry(packages_name(packages, &manifest)).or_default().push(manifest);
        }
        for (name, versions) in names {
            let latest = versions.last().map(|manifest| manifest["version"].clone());
            let versions: serde_json::Map<_, _> = versions
                .into_iter()
                .map(|manifest| (manifest["version"].as_str().unwrap_or_default().to_owned(), manifest))
                .collect();
            let text = json!({"name": name, "dist-tags": {"latest": latest}, "versions": versions}).to_string();
            responses.insert(format!("/{}", name.replace('/', "%2f")), text.into_bytes());
        }
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}/", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // The client may disconnect when it has read enough.
                let _ = respond(stream, &log, &responses);
            }
        });
        Ok(Self { address, requests })
    }

    /// Returns the number of requests so far.
    pub fn request_count(&self) -> usize {
        self.requests.lock().map_or(0, |requests| requests.len())
    }
}

fn packages_name<'p>(packages: &'p [Package<'_>], manifest: &Value) -> &'p str {
    let found = packages.iter().find(|(manifest_of_package, _)| manifest_of_package["name"] == manifest["name"]);
    found.and_then(|(manifest_of_package, _)| manifest_of_package["name"].as_str()).unwrap_or_default()
}

fn archive(manifest: &str, files: &[(&str, &str)]) -> Result<Vec<u8>> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, text) in [("package.json", manifest)].iter().chain(files) {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        tar.append_data(&mut header, format!("package/{name}"), text.as_bytes())?;
    }
    Ok(tar.into_inner()?.finish()?)
}

fn respond(mut stream: TcpStream, log: &Mutex<Vec<String>>, responses: &HashMap<String, Vec<u8>>) -> Option<()> {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    while reader.read_line(&mut head).ok()? > 2 {}
    let path = head.split(' ').nth(1)?.to_owned();
    log.lock().ok()?.push(head);
    let (status, body) = responses.get(&path).map_or((404, [].as_slice()), |body| (200, body.as_slice()));
    write!(stream, "HTTP/1.1 {status} Some\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len()).ok()?;
    stream.write_all(body).ok()
}
