//! Memory of an additional live instance that idles.
//!
//! A live instance is a guest that has printed output and sleeps: its memory is mapped, its pages are dirty, and its
//! stack is in use. The result is the proportional set size (PSS) that each instance adds to a process that has one
//! already. PSS counts the image pages that all instances share once; the plain resident size counts them for each
//! instance.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use codebox::{CancelToken, Job, Language, Outcome, OutputSink, Source, Workbench};
use codebox_core::ExecIo;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::table::{Row, Threshold};

/// Guest program that prints a line and then idles.
pub struct IdleGuest {
    label: &'static str,
    language: Language,
    code: &'static str,
    /// Maximum MiB that each instance may add.
    threshold: f64,
}

pub const PYTHON: IdleGuest = IdleGuest {
    label: "extra resident memory per idle live instance",
    language: Language::Python,
    code: "import time; print('up', flush=True); time.sleep(600)",
    threshold: 3.0,
};

pub const JAVASCRIPT: IdleGuest = IdleGuest {
    label: "extra resident memory per idle live JavaScript instance",
    language: Language::JavaScript,
    code: "console.log('up'); setTimeout(() => {}, 600_000)",
    threshold: 1.0,
};

/// Measures the memory that `count` idle guests add to the first, divided by `count`.
pub fn measure(runner: &Arc<Workbench>, idle_guest: &IdleGuest, count: usize) -> Row {
    let IdleGuest { label, language, code, threshold } = idle_guest;
    let row =
        |measured, detail| Row { label, threshold: Threshold::AtMost(*threshold), measured, unit: " MiB", detail };
    if resident().is_none() {
        return row(None, "this system has no /proc/self/smaps_rollup".to_owned());
    }
    let executor =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("an executor");
    let (first, all) = executor.block_on(async {
        let cancel = CancelToken::new();
        let job = Job::new(Source::Inline((*code).to_owned()), language.clone());
        let mut guests = JoinSet::new();
        start(runner, &job, &mut guests, &cancel, 1).await;
        let first = resident();
        start(runner, &job, &mut guests, &cancel, count).await;
        let all = resident();
        cancel.cancel();
        while let Some(ended) = guests.join_next().await {
            assert_eq!(ended.expect("no job panics"), Outcome::Cancelled);
        }
        (first, all)
    });
    let (Some(first), Some(all)) = (first, all) else { return row(None, "the size could not be read".to_owned()) };
    let each = |first: f64, all: f64| (all - first) / count as f64 / 1024.0;
    let (pss, rss) = (each(first.pss, all.pss), each(first.rss, all.rss));
    row(Some(pss), format!("PSS, {count} sleeping guests over one; {rss:.2} MiB with shared pages counted for each"))
}

/// Starts guests and waits until all have printed their line and sleep.
async fn start(runner: &Arc<Workbench>, job: &Job, guests: &mut JoinSet<Outcome>, cancel: &CancelToken, count: usize) {
    let (started, mut start_signals) = unbounded_channel();
    for _ in 0..count {
        let (runner, job, cancel, started) = (runner.clone(), job.clone(), cancel.clone(), started.clone());
        guests.spawn(async move {
            let mut io = ExecIo { stdout: Some(Box::new(Signal(started))), cancel, ..ExecIo::none() };
            runner.run_async_with(&job, &mut io).await.expect("the job runs").outcome
        });
    }
    for _ in 0..count {
        start_signals.recv().await.expect("every guest starts");
    }
    // A guest still runs between its last output and its sleep, and cannot signal that it sleeps.
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// Output sink that signals that a guest has printed its line.
struct Signal(UnboundedSender<()>);

impl OutputSink for Signal {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if bytes.contains(&b'\n') {
            let _ = self.0.send(());
        }
        Ok(())
    }
}

/// Memory sizes of this process in KiB.
struct Resident {
    pss: f64,
    rss: f64,
}

fn resident() -> Option<Resident> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let size = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some(Resident { pss: size("Pss:")?, rss: size("Rss:")? })
}
