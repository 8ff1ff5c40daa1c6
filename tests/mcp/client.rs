//! A client that sends and receives single messages.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::OnceLock;

use codebox_testkit::Kit;
use serde_json::{Value, json};
use tempfile::TempDir;

pub fn kit() -> &'static Kit {
    static KIT: OnceLock<Kit> = OnceLock::new();
    KIT.get_or_init(|| {
        let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
        kit.prepare().expect("a prepared runtime");
        kit
    })
}

/// Server with a home of its own.
pub struct Client {
    pub folder: TempDir,
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    /// Messages of the server that were received while an answer was waited for.
    pub notifications: Vec<Value>,
    /// Directories that the client answers when the server asks for its roots.
    pub roots: Vec<String>,
}

impl Client {
    /// Starts a server, and initializes the connection.
    pub fn start(args: &[&str]) -> Self {
        Self::start_without_handshake(args).initialized()
    }

    fn initialized(mut self) -> Self {
        let client = &mut self;
        let params = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "roots": {} },
            "clientInfo": { "name": "test", "version": "1" },
        });
        let initialized = client.request("initialize", params);
        assert_eq!(initialized["result"]["serverInfo"]["name"], "codebox", "{initialized}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self
    }

    /// Starts a server in the home of another one.
    pub fn start_in(home: &Path, args: &[&str]) -> Self {
        Self::spawn(kit().folder().expect("a directory"), home, args).initialized()
    }

    pub fn start_without_handshake(args: &[&str]) -> Self {
        let folder = kit().folder().expect("a directory");
        let home = folder.path().join("home");
        std::fs::create_dir(folder.path().join("data")).expect("a directory");
        kit().share_runtimes(&home).expect("shared runtimes");
        Self::spawn(folder, &home, args)
    }

    fn spawn(folder: TempDir, home: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| arg.replace("FOLDER", folder.path().to_str().expect("it is UTF-8")));
        let command = kit().codebox().home(home).arg("mcp").args(args);
        let mut child = command
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("it starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let stdout = BufReader::new(stdout);
        Self { folder, child, stdin, stdout, next_id: 1, notifications: Vec::new(), roots: Vec::new() }
    }

    pub fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    pub fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the server reads");
    }

    /// Receives the next message; `None` at the end of the output.
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line).expect("the server writes UTF-8") {
            0 => None,
            _ => Some(serde_json::from_str(&line).expect("standard output has messages only")),
        }
    }

    /// Sends a request, and returns its id.
    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.receive().expect("the server answers");
            if message["method"] == "roots/list" {
                let roots: Vec<Value> = self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
                self.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "roots": roots } }));
            } else if message["id"] == id && message.get("method").is_none() {
                return message;
            } else {
                self.notifications.push(message);
            }
        }
    }

    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    /// Calls a tool, and returns its result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// Calls a tool, and returns its structured content, which is that of a success.
    pub fn structured(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{result}");
        result["structuredContent"].clone()
    }

    /// Ends the input.
    pub fn close(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let home = self.folder.path().join("home");
        let _ = kit().codebox().home(&home).args(["session", "end"]).run();
    }
}
