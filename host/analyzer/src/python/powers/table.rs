//! Needs that calls and imports of Python show.
//!
//! The table contains only what the WebAssembly runtime lacks, and no modules that are compiled into it, such as numpy
//! or lxml. Modules that can be loaded there but fail on use (`subprocess`, `socket`, `threading`) count by their
//! calls.

use codebox_analysis::Capability;

/// Returns the capability that a call of this function or class needs.
pub(super) fn capability_of_call(path: &str) -> Option<Capability> {
    let (module, name) = path.rsplit_once('.')?;
    Some(match (module, name) {
        ("threading", "Thread" | "Timer")
        | ("_thread", "start_new_thread" | "start_new" | "start_joinable_thread")
        | ("concurrent.futures" | "concurrent.futures.thread", "ThreadPoolExecutor")
        | ("asyncio" | "asyncio.threads", "to_thread")
        | ("multiprocessing.pool", "ThreadPool")
        | ("multiprocessing.dummy", "Pool" | "Process") => Capability::Threads,
        ("subprocess", "run" | "call" | "check_call" | "check_output" | "Popen" | "getoutput" | "getstatusoutput")
        | ("os", "system" | "popen" | "fork" | "forkpty" | "posix_spawn" | "posix_spawnp")
        | ("pty", "fork" | "spawn")
        | ("concurrent.futures" | "concurrent.futures.process", "ProcessPoolExecutor")
        | ("asyncio" | "asyncio.subprocess", "create_subprocess_exec" | "create_subprocess_shell")
        | ("multiprocessing.shared_memory", "SharedMemory" | "ShareableList")
        | ("multiprocessing.managers", "SharedMemoryManager" | "SyncManager" | "BaseManager")
        | ("multiprocessing.pool", "Pool")
        | (
            "multiprocessing" | "multiprocessing.context",
            "Process" | "Pool" | "Manager" | "Queue" | "SimpleQueue" | "JoinableQueue" | "Pipe" | "Event" | "Lock"
            | "RLock" | "Semaphore" | "BoundedSemaphore" | "Condition" | "Barrier" | "Value" | "Array" | "get_context",
        ) => Capability::Processes,
        ("os", name) if starts_process(name) => Capability::Processes,
        ("socket", "socket" | "create_connection" | "create_server" | "socketpair" | "fromfd")
        | ("socket", "getaddrinfo" | "gethostbyname" | "gethostbyname_ex" | "gethostbyaddr" | "getnameinfo")
        | ("urllib.request", "urlopen" | "urlretrieve" | "URLopener")
        | ("http.client", "HTTPConnection" | "HTTPSConnection")
        | ("http.server", "HTTPServer" | "ThreadingHTTPServer" | "HTTPSServer" | "ThreadingHTTPSServer")
        | ("wsgiref.simple_server", "make_server" | "WSGIServer")
        | ("xmlrpc.server", "SimpleXMLRPCServer" | "DocXMLRPCServer")
        | ("xmlrpc.client", "ServerProxy" | "Server")
        | ("smtplib", "SMTP" | "SMTP_SSL" | "LMTP")
        | ("ftplib", "FTP" | "FTP_TLS")
        | ("imaplib", "IMAP4" | "IMAP4_SSL")
        | ("poplib", "POP3" | "POP3_SSL")
        | ("logging.handlers", "SocketHandler" | "DatagramHandler" | "SMTPHandler" | "HTTPHandler")
        | (
            "asyncio" | "asyncio.streams",
            "open_connection" | "start_server" | "open_unix_connection" | "start_unix_server",
        ) => Capability::Sockets,
        ("socketserver", name) if name.ends_with("Server") => Capability::Sockets,
        ("ctypes", "CDLL" | "PyDLL") | ("ctypes.cdll", "LoadLibrary") => Capability::Module("ctypes".to_owned()),
        ("mmap", "mmap") => Capability::Module("mmap".to_owned()),
        _ => return None,
    })
}

/// Returns true for the variants of `exec` and `spawn` in `os`.
fn starts_process(name: &str) -> bool {
    let rest = name.strip_prefix("exec").or_else(|| name.strip_prefix("spawn"));
    rest.is_some_and(|rest| matches!(rest, "l" | "le" | "lp" | "lpe" | "v" | "ve" | "vp" | "vpe"))
}

/// Returns the capability that a method of an event loop needs, by its name alone, because types of objects are
/// unknown.
pub(super) fn capability_of_loop_method(name: &str) -> Option<(Capability, &'static str)> {
    Some(match name {
        "run_in_executor" => (Capability::Threads, "loop.run_in_executor"),
        "subprocess_exec" => (Capability::Processes, "loop.subprocess_exec"),
        "subprocess_shell" => (Capability::Processes, "loop.subprocess_shell"),
        _ => return None,
    })
}

/// Modules whose calls are relevant. Expressions are not visited in a program that imports none of them.
pub(super) const CALLABLE_MODULES: [&str; 20] = [
    "_thread",
    "asyncio",
    "concurrent",
    "ctypes",
    "ftplib",
    "http",
    "imaplib",
    "logging.handlers",
    "mmap",
    "multiprocessing",
    "poplib",
    "pty",
    "smtplib",
    "socket",
    "socketserver",
    "subprocess",
    "threading",
    "urllib",
    "wsgiref",
    "xmlrpc",
];
