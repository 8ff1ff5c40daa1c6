//! What calls and imports of Python show.
//!
//! Only what the WebAssembly runtime lacks is here: what it has compiled in, such as numpy or lxml, never is. Modules that
//! load there and fail when they are used (`subprocess`, `socket`, `threading`) count by their calls.

use crate::needs::power::Power;

/// The power that a call of this function or class takes.
pub(super) fn of_call(path: &str) -> Option<Power> {
    let (module, name) = path.rsplit_once('.')?;
    Some(match (module, name) {
        ("threading", "Thread" | "Timer")
        | ("_thread", "start_new_thread" | "start_new" | "start_joinable_thread")
        | ("concurrent.futures" | "concurrent.futures.thread", "ThreadPoolExecutor")
        | ("asyncio" | "asyncio.threads", "to_thread")
        | ("multiprocessing.pool", "ThreadPool")
        | ("multiprocessing.dummy", "Pool" | "Process") => Power::Threads,
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
        ) => Power::Processes,
        ("os", name) if starts_process(name) => Power::Processes,
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
        ) => Power::Sockets,
        ("socketserver", name) if name.ends_with("Server") => Power::Sockets,
        ("ctypes", "CDLL" | "PyDLL") | ("ctypes.cdll", "LoadLibrary") => Power::Module("ctypes".to_owned()),
        ("mmap", "mmap") => Power::Module("mmap".to_owned()),
        _ => return None,
    })
}

/// The functions of `os` that have many forms.
fn starts_process(name: &str) -> bool {
    let rest = name.strip_prefix("exec").or_else(|| name.strip_prefix("spawn"));
    rest.is_some_and(|rest| matches!(rest, "l" | "le" | "lp" | "lpe" | "v" | "ve" | "vp" | "vpe"))
}

/// The power that a method of an event loop takes, by its name alone: nothing in a text tells an object's type.
pub(super) fn of_loop_method(name: &str) -> Option<(Power, &'static str)> {
    Some(match name {
        "run_in_executor" => (Power::Threads, "loop.run_in_executor"),
        "subprocess_exec" => (Power::Processes, "loop.subprocess_exec"),
        "subprocess_shell" => (Power::Processes, "loop.subprocess_shell"),
        _ => return None,
    })
}

/// Modules whose calls are looked at: the expressions of a program that imports none of them are not visited.
pub(super) const CALLED: [&str; 20] = [
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

/// The power that an import takes; nothing if the runtime has the module, or it is not known.
pub(super) fn of_import(module: &str) -> Option<Power> {
    let top = module.split('.').next().unwrap_or(module);
    let named = |name: &str| Some(Power::Module(name.to_owned()));
    match module {
        "dbm.gnu" | "dbm.ndbm" | "compression.zstd" | "concurrent.interpreters" => return named(module),
        _ => {}
    }
    if NATIVE.binary_search(&top).is_ok() {
        named(top)
    } else if FOR_SOCKETS.binary_search(&top).is_ok() {
        Some(Power::Sockets)
    } else if FOR_PROCESSES.binary_search(&top).is_ok() {
        Some(Power::Processes)
    } else {
        None
    }
}

/// Packages that do nothing without the network, and are not in the runtime. Sorted.
const FOR_SOCKETS: [&str; 31] = [
    "aiobotocore",
    "aiohttp",
    "aiosmtplib",
    "amqp",
    "boto3",
    "botocore",
    "docker",
    "elasticsearch",
    "fabric",
    "httpcore",
    "httplib2",
    "httpx",
    "hypercorn",
    "kafka",
    "kubernetes",
    "ldap3",
    "minio",
    "paramiko",
    "pika",
    "playwright",
    "pymongo",
    "pymysql",
    "redis",
    "requests",
    "selenium",
    "slack_sdk",
    "tornado",
    "urllib3",
    "uvicorn",
    "websocket",
    "websockets",
];

/// Packages that do nothing without processes. Sorted.
const FOR_PROCESSES: [&str; 4] = ["execnet", "pexpect", "plumbum", "sh"];

/// Modules with native code, or made for something native, that the runtime lacks. Sorted.
pub(super) const NATIVE: [&str; 130] = [
    "MySQLdb",
    "OpenGL",
    "OpenSSL",
    "PyQt5",
    "PyQt6",
    "PySide2",
    "PySide6",
    "_cffi_backend",
    "annoy",
    "apsw",
    "argon2",
    "asyncpg",
    "av",
    "bcrypt",
    "blake3",
    "blosc",
    "bottleneck",
    "brotli",
    "cairo",
    "cartopy",
    "catboost",
    "cffi",
    "confluent_kafka",
    "cryptography",
    "cupy",
    "curses",
    "cv2",
    "cvxopt",
    "cvxpy",
    "cx_Oracle",
    "cytoolz",
    "dlib",
    "duckdb",
    "ensurepip",
    "faiss",
    "fastparquet",
    "fcntl",
    "fiona",
    "fitz",
    "gensim",
    "geopandas",
    "gevent",
    "gi",
    "gmpy2",
    "greenlet",
    "grp",
    "grpc",
    "h5py",
    "hdbscan",
    "hiredis",
    "httptools",
    "igraph",
    "jax",
    "jaxlib",
    "keras",
    "librosa",
    "lightgbm",
    "llama_cpp",
    "llvmlite",
    "lz4",
    "mediapipe",
    "msgspec",
    "nacl",
    "netCDF4",
    "numba",
    "numexpr",
    "onnx",
    "onnxruntime",
    "open3d",
    "oracledb",
    "orjson",
    "osgeo",
    "polars",
    "psutil",
    "psycopg2",
    "pty",
    "pwd",
    "pyarrow",
    "pyaudio",
    "pycurl",
    "pydantic",
    "pydantic_core",
    "pygame",
    "pygit2",
    "pymssql",
    "pynvml",
    "pyodbc",
    "pyproj",
    "pysqlite3",
    "pytesseract",
    "rapidfuzz",
    "rasterio",
    "ray",
    "readline",
    "resource",
    "rocksdb",
    "rpds",
    "rtree",
    "safetensors",
    "sentence_transformers",
    "setproctitle",
    "shapely",
    "skimage",
    "snappy",
    "soundfile",
    "spacy",
    "ssl",
    "syslog",
    "tables",
    "tensorflow",
    "termios",
    "tiktoken",
    "tkinter",
    "tokenizers",
    "torch",
    "torchaudio",
    "torchvision",
    "transformers",
    "tty",
    "turtle",
    "ujson",
    "uvloop",
    "venv",
    "watchfiles",
    "xgboost",
    "xmlsec",
    "xxhash",
    "yarl",
    "zmq",
    "zstandard",
];
