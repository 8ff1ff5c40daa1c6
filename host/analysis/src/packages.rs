//! Python modules that WebAssembly lacks, and the packages that provide them.

use crate::capability::Capability;

/// Returns the capability that an import needs, or `None` if the runtime has the module or the module is unknown.
#[must_use]
pub fn capability_of_import(module: &str) -> Option<Capability> {
    let top = module.split('.').next().unwrap_or(module);
    let named = |name: &str| Some(Capability::Module(name.to_owned()));
    match module {
        "dbm.gnu" | "dbm.ndbm" | "compression.zstd" | "concurrent.interpreters" => return named(module),
        _ => {}
    }
    if contains_sorted(&NATIVE, top) || contains_sorted(&STANDARD_LIBRARY, top) {
        named(top)
    } else if contains_sorted(&CLIENTS, top) || contains_sorted(&SERVERS, top) {
        Some(Capability::Sockets)
    } else if contains_sorted(&PROCESS_PACKAGES, top) {
        Some(Capability::Processes)
    } else {
        None
    }
}

/// Returns the package that provides a module with needs, by its normalized name. Returns `None` for a module of the
/// standard library.
pub(crate) fn package_of(module: &str) -> Option<String> {
    let known = [&NATIVE[..], &CLIENTS, &SERVERS, &PROCESS_PACKAGES].iter().any(|some| contains_sorted(some, module));
    let other = PACKAGE_NAMES.iter().find(|(has, _)| *has == module).map(|(_, package)| (*package).to_owned());
    known.then(|| other.unwrap_or_else(|| module.to_ascii_lowercase().replace('_', "-")))
}

/// Returns true if a module works in WebAssembly once the package that provides it is available there.
pub(crate) fn works_once_installed(module: &str) -> bool {
    contains_sorted(&NATIVE, module) || contains_sorted(&CLIENTS, module)
}

fn contains_sorted(sorted: &[&str], module: &str) -> bool {
    sorted.binary_search(&module).is_ok()
}

/// Modules whose package has a different name.
const PACKAGE_NAMES: [(&str, &str); 23] = [
    ("MySQLdb", "mysqlclient"),
    ("OpenGL", "pyopengl"),
    ("OpenSSL", "pyopenssl"),
    ("_cffi_backend", "cffi"),
    ("argon2", "argon2-cffi"),
    ("cairo", "pycairo"),
    ("cv2", "opencv-python"),
    ("faiss", "faiss-cpu"),
    ("fitz", "pymupdf"),
    ("gi", "pygobject"),
    ("grpc", "grpcio"),
    ("kafka", "kafka-python"),
    ("llama_cpp", "llama-cpp-python"),
    ("nacl", "pynacl"),
    ("osgeo", "gdal"),
    ("psycopg2", "psycopg2-binary"),
    ("pysqlite3", "pysqlite3-binary"),
    ("rocksdb", "python-rocksdb"),
    ("rpds", "rpds-py"),
    ("skimage", "scikit-image"),
    ("snappy", "python-snappy"),
    ("websocket", "websocket-client"),
    ("zmq", "pyzmq"),
];

/// Packages that are useless without outgoing connections and are not in the runtime. Sorted.
const CLIENTS: [&str; 19] = [
    "aiohttp",
    "aiosmtplib",
    "amqp",
    "boto3",
    "botocore",
    "elasticsearch",
    "httpcore",
    "httplib2",
    "httpx",
    "kubernetes",
    "ldap3",
    "minio",
    "pymysql",
    "redis",
    "requests",
    "slack_sdk",
    "urllib3",
    "websocket",
    "websockets",
];

/// Packages of servers, or that need more of sockets than connections. Sorted.
const SERVERS: [&str; 12] = [
    "aiobotocore",
    "docker",
    "fabric",
    "hypercorn",
    "kafka",
    "paramiko",
    "pika",
    "playwright",
    "pymongo",
    "selenium",
    "tornado",
    "uvicorn",
];

/// Packages that are useless without processes. Sorted.
const PROCESS_PACKAGES: [&str; 4] = ["execnet", "pexpect", "plumbum", "sh"];

/// Modules of Python's standard library that are native, or depend on native code, and that the runtime lacks. Sorted.
const STANDARD_LIBRARY: [&str; 13] = [
    "curses",
    "ensurepip",
    "fcntl",
    "grp",
    "pty",
    "pwd",
    "readline",
    "resource",
    "ssl",
    "syslog",
    "tkinter",
    "turtle",
    "venv",
];

/// Modules of packages with native code, or dependent on native code, that the runtime lacks. Sorted.
pub const NATIVE: [&str; 115] = [
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
    "cv2",
    "cvxopt",
    "cvxpy",
    "cx_Oracle",
    "cytoolz",
    "dlib",
    "duckdb",
    "faiss",
    "fastparquet",
    "fiona",
    "fitz",
    "gensim",
    "geopandas",
    "gevent",
    "gi",
    "gmpy2",
    "greenlet",
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
    "tables",
    "tensorflow",
    "tiktoken",
    "tokenizers",
    "torch",
    "torchaudio",
    "torchvision",
    "transformers",
    "ujson",
    "uvloop",
    "watchfiles",
    "xgboost",
    "xmlsec",
    "xxhash",
    "yarl",
    "zmq",
    "zstandard",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        for table in [&NATIVE[..], &STANDARD_LIBRARY, &CLIENTS, &SERVERS, &PROCESS_PACKAGES] {
            assert!(table.is_sorted(), "{table:?}");
        }
        assert!(PACKAGE_NAMES.iter().all(|(module, package)| package_of(module).as_deref() == Some(*package)));
    }
}
