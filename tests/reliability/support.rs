//! Jobs, and resources that this process holds apart from them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox::{
    ByteSize, GuestPath, Isolation, IsolationSet, Job, Language, Limit, Outcome, RunReport, Source, Workbench,
};
use codebox_testkit::{Guest, Kit, ResourceSnapshot};

/// Time limit of a job that ends by itself.
pub const JOB_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns a job with this text and time limit.
pub fn job(guest: Guest, code: &str, wall: Duration) -> Job {
    new_job(guest, Source::Inline(code.to_owned()), wall)
}

/// Returns a job that prints one number and ends.
pub fn printing(guest: Guest, number: usize) -> Job {
    let [.., code] = guest.printing(number);
    job(guest, &code, JOB_TIMEOUT)
}

fn new_job(guest: Guest, source: Source, wall: Duration) -> Job {
    let mut job = Job::new(source, guest.choose(Language::Python, Language::JavaScript));
    job.limits.wall = Limit::At(wall);
    // The trials concern this process, so every job stays in WebAssembly.
    job.isolations = IsolationSet::only(Isolation::Wasm);
    job
}

/// Returns a hostile program as a job.
pub fn hostile(guest: Guest, name: &str, args: &[&str], wall: Duration) -> Result<Job> {
    let path = guest.hostile(name);
    let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let argv0 = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let guest_path = GuestPath::new(format!("/work/{argv0}"))?;
    let mut job = new_job(guest, Source::File { argv0, name: guest_path, text }, wall);
    job.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    Ok(job)
}

/// Sets the memory limit of a job.
pub fn with_memory_limit(mut job: Job, memory: ByteSize) -> Job {
    job.limits.memory = Limit::At(memory);
    job
}

/// Runs a job that must end by itself with status 0.
pub fn run_successfully(runner: &Workbench, job: Job) -> Result<RunReport> {
    let report = runner.run(job)?;
    ensure!(report.outcome == Outcome::Exited(0), "outcome is {:?}: {}", report.outcome, text(&report.stderr.bytes()));
    Ok(report)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `work` and checks that this process holds no more resources afterwards and that no job left a directory.
///
/// Idle threads for file operations end after ten seconds, so the check may take that long.
pub fn check_no_leaks(kit: &Kit, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = ResourceSnapshot::take()?;
    let entries = count_job_entries(kit);
    work()?;
    let mut now = ResourceSnapshot::take()?.check_no_growth_since(&before);
    for _ in 0..120 {
        if now.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        now = ResourceSnapshot::take()?.check_no_growth_since(&before);
    }
    now?;
    let remaining = count_job_entries(kit);
    ensure!(remaining <= entries, "number of job directories changed from {entries} to {remaining}");
    Ok(())
}

/// Counts the entries below this process's job directories; only the lock exists while no job runs.
fn count_job_entries(kit: &Kit) -> usize {
    let scratch = kit.home().join("cache/scratch");
    let inside = |name: &String| std::fs::read_dir(scratch.join(name)).map_or(0, Iterator::count);
    kit.scratch_entries().iter().map(inside).sum()
}
