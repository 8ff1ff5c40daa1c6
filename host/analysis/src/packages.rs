//! Modules of Python that WebAssembly lacks, and the packages that bring them.

use crate::power::Power;

/// The power that an import takes; nothing if the runtime has the module, or it is not known.
#[must_use]
pub fn of_import(module: &str) -> Option<Power> {
    let top = module.split('.').next().unwrap_or(module);
    let named = |name: &str| Some(Power::Module(name.to_owned()));
    match module {
        "dbm.gnu" | "dbm.ndbm" | "compression.zstd" | "concurrent.interpreters" => return named(module),
        _ => {}
    }
    if among(&NATIVE, top) || among(&LIBRARY, top) {
        named(top)
    } else if among(&CLIENTS, top) || among(&SERVERS, top) {
        Some(Power::Sockets)
    } else if among(&FOR_PROCESSES, top) {
        Some(Power::Processes)
    } else {
        None
    }
}

/// The package, by its name as indexes compare it, that brings a module which takes a power; nothing if it is the library's.
pub(crate) fn package_of(module: &str) -> Option<String> {
    let known = [&NATIVE[..], &CLIENTS, &SERVERS, &FOR_PROCESSES].iter().any(|some| among(some, module));
    let other = OTHERWISE.iter().find(|(has, _)| *has == module).map(|(_, package)| (*package).to_owned());
    known.then(|| other.unwrap_or_else(|| module.to_ascii_lowercase().replace('_', "-")))
}

/// Whether a module is of use in WebAssembly wherever the package that brings it can be had there.
pub(crate) fn is_served(module: &str) -> bool {
    among(&NATIVE, module) || among(&CLIENTS, module)
}

fn among(sorted: &[&str], module: &str) -> bool {
    sorted.binary_search(&module).is_ok()
}

/// Modules whose package has another name.
const OTHERWISE: [(&str, &str); 23] = [
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

/// Packages that do nothing without connections to others, and are not in the runtime. Sorted.
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

/// Packages that serve others, or want more of sockets than connections. Sorted.
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

/// Packages that do nothing without processes. Sorted.
const FOR_PROCESSES: [&str; 4] = ["execnet", "pexpect", "plumbum", "sh"];

/// Modules of Python's own library that are native, or made for something native, and that the runtime lacks. Sorted.
const LIBRARY: [&str; 15] = [
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
    "termios",
    "tkinter",
    "tty",
    "turtle",
    "venv",
];

/// Modules of packages with native code, or made for something native, that the runtime lacks. Sorted.
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
    fn the_tables_can_be_searched() {
        for table in [&NATIVE[..], &LIBRARY, &CLIENTS, &SERVERS, &FOR_PROCESSES] {
            assert!(table.is_sorted(), "{table:?}");
        }
        assert!(OTHERWISE.iter().all(|(module, package)| package_of(module).as_deref() == Some(*package)));
    }
}
