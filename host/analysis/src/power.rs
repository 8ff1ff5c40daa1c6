//! What a program needs beyond computing, and where its text shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::packages::{is_served, package_of};

/// Something of an operating system that a WebAssembly guest does not have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Power {
    /// Threads.
    Threads,
    /// Further processes.
    Processes,
    /// Sockets: the network, and servers for others in the same guest.
    Sockets,
    /// A module that the language's WebAssembly runtime lacks, because it is native or stands for something native.
    Module(String),
}

impl Power {
    /// The word that reports use where a program lacked it: `threads`, `module:ssl`.
    #[must_use]
    pub fn as_word(&self) -> String {
        match self {
            Self::Threads => "threads".to_owned(),
            Self::Processes => "processes".to_owned(),
            Self::Sockets => "sockets".to_owned(),
            Self::Module(name) => format!("module:{name}"),
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Module(name) => write!(f, "the module {name}"),
            other => f.write_str(&other.as_word()),
        }
    }
}

/// Whether a program can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// It cannot: nothing around the place catches the failure.
    Required,
    /// It can: the failure is caught, or nothing in the text leads to the place.
    Optional,
}

impl Weight {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// A power that a program needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The power.
    pub power: Power,
    /// Whether the program can do without.
    pub weight: Weight,
    /// The line that shows it, from 1.
    pub line: u32,
    /// What shows it, in codebox's own words and never the program's: `subprocess.run`, `import ssl`.
    pub words: String,
}

/// What shows a need of sockets that is a client's, and is met by connections to granted hosts; the rest serves others, or
/// is no connection.
const CLIENTS: [&str; 26] = [
    "asyncio.open_connection",
    "asyncio.streams.open_connection",
    "fetch",
    "ftplib.FTP",
    "ftplib.FTP_TLS",
    "http.client.HTTPConnection",
    "http.client.HTTPSConnection",
    "imaplib.IMAP4",
    "imaplib.IMAP4_SSL",
    "import httpcore",
    "import httpx",
    "import requests",
    "import ssl",
    "import urllib3",
    "poplib.POP3",
    "poplib.POP3_SSL",
    "smtplib.SMTP",
    "smtplib.SMTP_SSL",
    "socket.create_connection",
    "socket.getaddrinfo",
    "socket.socket",
    "urllib.request.URLopener",
    "urllib.request.urlopen",
    "urllib.request.urlretrieve",
    "xmlrpc.client.Server",
    "xmlrpc.client.ServerProxy",
];

impl Need {
    /// Whether a guest of WebAssembly has it as soon as it was granted hosts.
    #[must_use]
    pub fn is_met_by_hosts(&self) -> bool {
        let network = matches!(&self.power, Power::Sockets) || self.power == Power::Module("ssl".to_owned());
        network && CLIENTS.binary_search(&self.words.as_str()).is_ok()
    }

    /// The module of Python's that shows it, without its submodules; nothing where a method of some object does.
    ///
    /// A module of this name beside the program is the program's own.
    #[must_use]
    pub fn module(&self) -> Option<&str> {
        let path = self.words.strip_prefix("import ").unwrap_or(&self.words);
        path.split('.').next().filter(|module| *module != "loop")
    }

    /// The package that brings what shows it, where that is the import of a package's module.
    #[must_use]
    pub fn package(&self) -> Option<String> {
        package_of(self.words.strip_prefix("import ")?)
    }

    /// Whether a guest of WebAssembly has it as soon as it has these packages, each by its name as indexes compare it.
    ///
    /// A package that is there without native parts is had, whatever other versions of it have. What does nothing without
    /// processes, or serves others, does nothing there all the same.
    #[must_use]
    pub fn is_met_by_packages(&self, had: &[String]) -> bool {
        let module = self.words.strip_prefix("import ").filter(|module| is_served(module));
        module.and_then(package_of).is_some_and(|package| had.contains(&package))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} needs {} ({})", self.line, self.power, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_met_by_hosts_and_servers_are_not() {
        assert!(CLIENTS.is_sorted());
        let met = |power: Power, words: &str| {
            Need { power, weight: Weight::Required, line: 1, words: words.to_owned() }.is_met_by_hosts()
        };
        assert!(CLIENTS.iter().all(|words| met(Power::Sockets, words)));
        assert!(met(Power::Module("ssl".to_owned()), "import ssl"));
        for words in
            ["http.server.HTTPServer", "socketserver.TCPServer", "socket.create_server", "asyncio.start_server"]
        {
            assert!(!met(Power::Sockets, words), "{words}");
        }
        assert!(!met(Power::Module("numba".to_owned()), "import numba") && !met(Power::Threads, "fetch"));
    }

    #[test]
    fn a_package_that_is_there_is_no_need() {
        let need =
            |words: &str| Need { power: Power::Sockets, weight: Weight::Required, line: 1, words: words.to_owned() };
        let had = ["requests", "websocket-client", "yarl", "pexpect", "uvicorn"].map(str::to_owned);
        for words in ["import requests", "import websocket", "import yarl"] {
            assert!(need(words).is_met_by_packages(&had) && !need(words).is_met_by_packages(&[]), "{words}");
        }
        // One starts processes and one serves; the others are not there, or no package's.
        for words in ["import pexpect", "import uvicorn", "import httpx", "import ssl", "requests", "socket.socket"] {
            assert!(!need(words).is_met_by_packages(&had), "{words}");
        }
        assert_eq!(need("import cv2").package().as_deref(), Some("opencv-python"));
        assert_eq!(need("import slack_sdk").package().as_deref(), Some("slack-sdk"));
        assert_eq!(need("import ssl").package(), None);
        assert_eq!(need("threading.Thread").package(), None);
    }
}
