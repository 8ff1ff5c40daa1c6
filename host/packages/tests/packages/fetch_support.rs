//! Settings, a progress receiver and an index for the tests of downloads.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;

use codebox_core::Progress;
use codebox_packages::{ConfigFiles, FetchError, IndexSettings, Pin, fetch_wheel};

use crate::support::{PAGE, Reply, Server, file_path};

/// Creates settings from these variables alone.
pub fn settings(variables: &[(&str, &str)]) -> IndexSettings {
    let env = |name: &str| {
        let base = [("UV_HTTP_RETRIES", "0")];
        let mut all = variables.iter().chain(&base);
        all.find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    IndexSettings::from_user(&env, &ConfigFiles::Explicit(Vec::new())).expect("settings")
}

#[derive(Default)]
pub struct Recorder(pub Mutex<Vec<String>>, pub Mutex<u64>);

impl Progress for Recorder {
    fn started(&self, what: &str, total: Option<u64>) {
        self.0.lock().expect("a lock").push(format!("{what} {total:?}"));
        *self.1.lock().expect("a lock") = 0;
    }
    fn advanced(&self, bytes: u64) {
        *self.1.lock().expect("a lock") += bytes;
    }
    fn finished(&self) {
        self.0.lock().expect("a lock").push("finished".to_owned());
    }
}

pub fn fetch(pin: &Pin, settings: &IndexSettings, into: &Path) -> (Result<(), FetchError>, Recorder) {
    let recorder = Recorder::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let fetched = runtime.expect("a runtime").block_on(fetch_wheel(pin, settings, into, &recorder));
    (fetched, recorder)
}

pub fn index(page: Reply, files: Vec<Reply>) -> Server {
    Server::start(HashMap::from([(PAGE.to_owned(), vec![page]), (file_path(), files)]))
}

pub fn binary(body: &[u8]) -> Reply {
    Reply::ok("application/octet-stream", body)
}
