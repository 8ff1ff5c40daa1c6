//! Package index on the loopback interface, and utilities that the tests share.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use codebox_packages::{Pin, Sha256};
use sha2::Digest;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub const WHEEL: &str = "tiny_runtime-1.2.0-py3-none-any.whl";

/// Response for one path.
#[derive(Clone)]
pub struct Reply {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
    /// Number of bytes of the body to send before closing the connection.
    pub disconnect_after: Option<usize>,
}

impl Reply {
    pub fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, kind, body: body.into(), disconnect_after: None }
    }

    pub fn status(status: u16) -> Self {
        Self { status, ..Self::ok("text/plain", "") }
    }
}

/// HTTP server with a list of replies for each path, the last of which is repeated.
pub struct Server {
    pub address: String,
    request_heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(mut replies: HashMap<String, Vec<Reply>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("127.0.0.1:{}", listener.local_addr().expect("an address").port());
        let request_heads = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&request_heads);
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some((path, head)) = request(&stream) else {
                    continue;
                };
                log.lock().expect("no panic while the log is locked").push(head);
                let reply = match replies.get_mut(&path) {
                    Some(queue) if queue.len() > 1 => queue.remove(0),
                    Some(queue) => queue[0].clone(),
                    None => Reply::status(404),
                };
                // The client may disconnect before the response is complete.
                drop(answer(stream, &reply));
            }
        });
        Self { address, request_heads }
    }

    /// Returns the heads of all requests so far.
    pub fn request_heads(&self) -> Vec<String> {
        self.request_heads.lock().expect("no panic while the log is locked").clone()
    }

    pub fn index(&self) -> String {
        format!("http://{}/simple", self.address)
    }
}

fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let before = head.len();
        reader.read_line(&mut head).ok()?;
        match head.len() - before {
            0 => return None,
            2 => break,
            _ => {}
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    Some((path, head))
}

fn answer(mut stream: TcpStream, reply: &Reply) -> std::io::Result<()> {
    let Reply { status, kind, body, disconnect_after } = reply;
    write!(
        stream,
        "HTTP/1.1 {status} Some\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body[..disconnect_after.unwrap_or(body.len())])
}

/// Creates a wheel of a few kilobytes.
pub fn wheel() -> Vec<u8> {
    let long = "x".repeat(100_000);
    archive(&[
        ("tiny_runtime/artifacts/MANIFEST", "manifest"),
        ("tiny_runtime/artifacts/LICENSES/one", "first licence"),
        ("tiny_runtime/artifacts/LICENSES/deep/two", "second licence"),
        ("tiny_runtime/artifacts/other", &long),
        ("tiny_runtime-1.2.0.dist-info/METADATA", "Name: tiny-runtime"),
    ])
}

/// Creates a zip archive with these members.
pub fn archive(members: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, data) in members {
        zip.start_file(*name, SimpleFileOptions::default()).expect("a member");
        zip.write_all(data.as_bytes()).expect("its data");
    }
    zip.finish().expect("an archive").into_inner()
}

pub fn pin(content: &[u8]) -> Pin {
    Pin {
        name: "Tiny.Runtime".to_owned(),
        version: "1.2".to_owned(),
        sha256: Sha256::from_bytes(sha2::Sha256::digest(content).into()),
        size: Some(content.len() as u64),
    }
}

/// Returns the index page in JSON, which lists the wheel with this hash.
pub fn json_page(hash: &str) -> Reply {
    let page = format!(
        r#"{{"meta": {{"api-version": "1.0"}}, "name": "tiny-runtime", "files": [
            {{"filename": "tiny_runtime-1.1.0-py3-none-any.whl", "url": "../../files/old", "hashes": {{}}}},
            {{"filename": "{WHEEL}", "url": "../../files/{WHEEL}", "hashes": {{"sha256": "{hash}"}}}}
        ]}}"#
    );
    Reply::ok("application/vnd.pypi.simple.v1+json", page)
}

pub fn html_page() -> Reply {
    let mut page = String::from("<!DOCTYPE html><html><body>");
    write!(page, r#"<a href="../../files/{WHEEL}">{WHEEL}</a></body></html>"#).expect("a text");
    Reply::ok("text/html", page)
}

pub const PAGE: &str = "/simple/tiny-runtime/";

pub fn file_path() -> String {
    format!("/files/{WHEEL}")
}

pub fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("a directory").next().is_none()
}
