//! The capabilities that a program needs beyond computing, and the places that show the needs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::capability::Capability;
use crate::packages::{package_of, works_once_installed};

/// The importance of a need for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The program fails without it, because the failure is not caught around the place.
    Required,
    /// The program works without it, because the failure is caught or the place is unreachable.
    Optional,
}

impl Weight {
    /// Returns the word for the weight.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
        }
    }
}

/// A capability that a program needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// The capability.
    pub power: Capability,
    /// The importance of the need.
    pub weight: Weight,
    /// The line of the place that shows the need, counted from 1.
    pub line: u32,
    /// A description of that place in codebox's own words, never in the program's, such as `subprocess.run` or
    /// `import ssl`.
    pub words: String,
}

/// The descriptions of socket needs of clients, which connections to granted hosts satisfy. Other socket needs are
/// those of servers, or do not concern connections.
const CLIENTS: [&str; 31] = [
    "WebSocket",
    "asyncio.open_connection",
    "asyncio.streams.open_connection",
    "fetch",
    "ftplib.FTP",
    "ftplib.FTP_TLS",
    "http.client.HTTPConnection",
    "http.client.HTTPSConnection",
    "http.get",
    "http.request",
    "https.get",
    "https.request",
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
    /// Returns true if a WebAssembly guest has the capability once it is granted hosts.
    #[must_use]
    pub fn is_satisfied_by_hosts(&self) -> bool {
        let network = matches!(&self.power, Capability::Sockets) || self.power == Capability::Module("ssl".to_owned());
        network && CLIENTS.binary_search(&self.words.as_str()).is_ok()
    }

    /// Returns the Python module of the description, without its submodules. Returns `None` if the description is a
    /// method of an object.
    ///
    /// A module of this name next to the program belongs to the program.
    #[must_use]
    pub fn module(&self) -> Option<&str> {
        let path = self.words.strip_prefix("import ").unwrap_or(&self.words);
        path.split('.').next().filter(|module| *module != "loop")
    }

    /// Returns the package of the described import, if the need is the import of a package's module.
    #[must_use]
    pub fn package(&self) -> Option<String> {
        package_of(self.words.strip_prefix("import ")?)
    }

    /// Returns true if a WebAssembly guest has the capability once these packages are installed, given by their
    /// normalized names.
    ///
    /// A package that is available without native parts satisfies the need, even if other versions of it have native
    /// parts. Packages that are useless without processes, or that are servers, remain useless in WebAssembly.
    #[must_use]
    pub fn is_satisfied_by_packages(&self, installed: &[String]) -> bool {
        let module = self.words.strip_prefix("import ").filter(|module| works_once_installed(module));
        module.and_then(package_of).is_some_and(|package| installed.contains(&package))
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
    fn hosts_satisfy_client_needs_only() {
        assert!(CLIENTS.is_sorted());
        let is_satisfied = |power: Capability, words: &str| {
            Need { power, weight: Weight::Required, line: 1, words: words.to_owned() }.is_satisfied_by_hosts()
        };
        assert!(CLIENTS.iter().all(|words| is_satisfied(Capability::Sockets, words)));
        assert!(is_satisfied(Capability::Module("ssl".to_owned()), "import ssl"));
        for words in
            ["http.server.HTTPServer", "socketserver.TCPServer", "socket.create_server", "asyncio.start_server"]
        {
            assert!(!is_satisfied(Capability::Sockets, words), "{words}");
        }
        assert!(
            !is_satisfied(Capability::Module("numba".to_owned()), "import numba")
                && !is_satisfied(Capability::Threads, "fetch")
        );
    }

    #[test]
    fn installed_packages_satisfy_needs() {
        let need = |words: &str| Need {
            power: Capability::Sockets,
            weight: Weight::Required,
            line: 1,
            words: words.to_owned(),
        };
        let installed = ["requests", "websocket-client", "yarl", "pexpect", "uvicorn"].map(str::to_owned);
        for words in ["import requests", "import websocket", "import yarl"] {
            assert!(
                need(words).is_satisfied_by_packages(&installed) && !need(words).is_satisfied_by_packages(&[]),
                "{words}"
            );
        }
        // One package starts processes and one is a server; the other modules are missing or not part of a package.
        for words in ["import pexpect", "import uvicorn", "import httpx", "import ssl", "requests", "socket.socket"] {
            assert!(!need(words).is_satisfied_by_packages(&installed), "{words}");
        }
        assert_eq!(need("import cv2").package().as_deref(), Some("opencv-python"));
        assert_eq!(need("import slack_sdk").package().as_deref(), Some("slack-sdk"));
        assert_eq!(need("import ssl").package(), None);
        assert_eq!(need("threading.Thread").package(), None);
    }
}
