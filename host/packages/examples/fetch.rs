//! Fetches one pinned wheel from the user's package index, and unpacks members of it:
//! `fetch NAME VERSION SHA256 SIZE FILE [DIRECTORY MEMBER...]`.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use codebox_core::Progress;
use codebox_packages::{ConfigFiles, IndexSettings, Pin, fetch_wheel, unpack_wheel};

/// Progress output with one line for each tenth of the transfer.
#[derive(Default)]
struct Lines {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress for Lines {
    fn started(&self, what: &str, total: Option<u64>) {
        eprintln!("{what}, {total:?} bytes");
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
    }

    fn advanced(&self, bytes: u64) {
        let total = self.total.load(Ordering::Relaxed);
        let before = self.done.fetch_add(bytes, Ordering::Relaxed);
        let tenth = |done: u64| (done * 10).checked_div(total);
        if tenth(before) != tenth(before + bytes) {
            eprintln!("{} bytes", before + bytes);
        }
    }

    fn finished(&self) {
        eprintln!("done");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, version, sha256, size, file, unpacking @ ..] = arguments.as_slice() else {
        return Err("usage: fetch NAME VERSION SHA256 SIZE FILE [DIRECTORY MEMBER...]".into());
    };
    let pin = Pin { name: name.clone(), version: version.clone(), sha256: sha256.parse()?, size: Some(size.parse()?) };
    let settings = IndexSettings::from_user(&|name| std::env::var(name).ok(), &ConfigFiles::User)?;
    eprintln!("searching {:?}", settings.sources());
    let start = Instant::now();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let fetched = runtime.block_on(fetch_wheel(&pin, &settings, Path::new(file), &Lines::default()));
    if let Err(error) = fetched {
        let mut cause = error.source();
        while let Some(error) = cause {
            eprintln!("because: {error}");
            cause = error.source();
        }
        return Err(error.into());
    }
    eprintln!("fetched in {:.1} s", start.elapsed().as_secs_f64());
    if let [directory, members @ ..] = unpacking {
        let start = Instant::now();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        unpack_wheel(Path::new(file), &members, Path::new(directory), &Lines::default())?;
        eprintln!("unpacked in {:.1} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}
