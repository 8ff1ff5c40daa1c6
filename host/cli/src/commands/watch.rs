//! `codebox run --watch`: runs a program again when its files change.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use codebox_core::path::Access;
use codebox_core::{ResultKind, RunnerError};
use notify::{Event, EventKind, RecursiveMode, Watcher};

use crate::args::{ProgramLocation, RunArgs};
use crate::messages::Messages;

/// Time without another change after which the program runs again, because an editor changes a file in several steps.
const QUIET: Duration = Duration::from_millis(100);

/// Interval at which the end of a run is noticed.
const POLL: Duration = Duration::from_millis(50);

/// Directories whose changes do not count.
const IGNORED: [&str; 6] = [".git", "node_modules", "__pycache__", ".venv", "venv", ".pytest_cache"];

/// Files and directories whose changes count.
#[derive(Debug, Default, PartialEq, Eq)]
struct Watched {
    files: BTreeSet<PathBuf>,
    dirs: BTreeSet<PathBuf>,
    /// Directory that the program writes to.
    out: Option<PathBuf>,
}

/// Runs the program again after each change, until a signal ends the process.
pub(super) fn watch(args: &RunArgs, line: &[OsString], messages: Messages) -> Result<u8, RunnerError> {
    let watched = Watched::of(args)?;
    let (changed, changes) = channel();
    let send = move |event: notify::Result<Event>| {
        // The receiver lives as long as the process.
        let _ = changed.send(event);
    };
    let failed = |error: &notify::Error| {
        let line = format!("cannot watch the files of the program: {error}");
        RunnerError::new(ResultKind::EngineUnavailable, line)
            .with_fix("raise fs.inotify.max_user_watches, or name fewer directories")
    };
    let mut watcher = notify::recommended_watcher(send).map_err(|error| failed(&error))?;
    for (path, mode) in watched.places() {
        watcher.watch(&path, mode).map_err(|error| failed(&error))?;
    }
    loop {
        let mut child = start(line)?;
        let path = loop {
            if let Some(path) = next_change(&changes, &watched, POLL)? {
                break path;
            }
            // Without this, an ended run would stay as a process until the next change.
            let _ = child.try_wait();
        };
        while next_change(&changes, &watched, QUIET)?.is_some() {}
        stop(&mut child);
        messages.note(format_args!("{} has changed; running again", path.display()));
    }
}

/// Returns the path of a change that counts, if there is one within the time.
fn next_change(
    changes: &Receiver<notify::Result<Event>>,
    watched: &Watched,
    time: Duration,
) -> Result<Option<PathBuf>, RunnerError> {
    match changes.recv_timeout(time) {
        Ok(Ok(event)) if !matches!(event.kind, EventKind::Access(_)) => {
            Ok(event.paths.into_iter().find(|path| watched.counts(path)))
        }
        Ok(_) | Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => {
            Err(RunnerError::new(ResultKind::InternalError, "the watch of the files has ended"))
        }
    }
}

impl Watched {
    fn of(args: &RunArgs) -> Result<Self, RunnerError> {
        let mut watched = Self::default();
        let absolute = |path: &Path| path.canonicalize().ok();
        match args.program()? {
            (ProgramLocation::File(path), _) if path.is_dir() => watched.dirs.extend(absolute(&path)),
            (ProgramLocation::File(path), _) => watched.files.extend(absolute(&path)),
            _ => {}
        }
        watched.dirs.extend(args.project.iter().filter_map(|path| absolute(path)));
        // A program would start itself again by its own changes.
        let read_only = args.dirs.iter().filter(|dir| dir.access == Access::ReadOnly);
        watched.dirs.extend(read_only.filter_map(|dir| absolute(Path::new(&dir.host))));
        watched.files.extend(args.env_files.iter().chain(&args.requirements).filter_map(|path| absolute(path)));
        watched.out = args.out.as_deref().and_then(|out| absolute(out).or_else(|| std::path::absolute(out).ok()));
        if watched.files.is_empty() && watched.dirs.is_empty() {
            let line = "cannot use --watch: the program has no files that could change";
            let fix = "name a file, --project or a directory that is granted read-only";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        if let Some(out) = watched.out.as_ref().filter(|out| watched.dirs.iter().any(|dir| dir.starts_with(out))) {
            let line = format!("cannot use --watch: --out has the watched files of {}", out.display());
            let fix = "name another directory for --out, such as one in it";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        Ok(watched)
    }

    /// Returns the directories to watch. A file is watched through its directory, because editors replace files.
    fn places(&self) -> Vec<(PathBuf, RecursiveMode)> {
        let dirs = self.dirs.iter().map(|dir| (dir.clone(), RecursiveMode::Recursive));
        let parents: BTreeSet<&Path> = self.files.iter().filter_map(|file| file.parent()).collect();
        let parents = parents.into_iter().filter(|parent| !self.dirs.iter().any(|dir| parent.starts_with(dir)));
        dirs.chain(parents.map(|parent| (parent.to_owned(), RecursiveMode::NonRecursive))).collect()
    }

    /// Returns true if a change of this path counts.
    fn counts(&self, path: &Path) -> bool {
        if self.files.contains(path) {
            return true;
        }
        if self.out.as_ref().is_some_and(|out| path.starts_with(out)) {
            return false;
        }
        let below = self.dirs.iter().find_map(|dir| path.strip_prefix(dir).ok());
        let is_ignored =
            |below: &Path| below.components().any(|part| IGNORED.iter().any(|name| part.as_os_str() == *name));
        below.is_some_and(|below| !is_ignored(below))
    }
}

/// Starts the run without the option.
fn start(line: &[OsString]) -> Result<Child, RunnerError> {
    let started = std::env::current_exe().and_then(|program| Command::new(program).args(without_watch(line)).spawn());
    started.map_err(|error| RunnerError::new(ResultKind::InternalError, format!("cannot start the run: {error}")))
}

/// Returns the words of a command line after its first one, without the option `--watch` of codebox.
fn without_watch(line: &[OsString]) -> Vec<OsString> {
    let mut words = line.get(1..).unwrap_or_default().to_vec();
    if let Some(place) = words.iter().position(|word| word == "--watch") {
        words.remove(place);
    }
    words
}

/// Ends a run that has not ended by itself, as a signal from the terminal does.
fn stop(child: &mut Child) {
    if let Ok(Some(_)) = child.try_wait() {
        return;
    }
    #[cfg(unix)]
    if let Ok(id) = i32::try_from(child.id())
        && let Some(id) = rustix::process::Pid::from_raw(id)
    {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
    #[cfg(not(unix))]
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_program_count() {
        let watched = Watched {
            files: BTreeSet::from([PathBuf::from("/a/main.py")]),
            dirs: BTreeSet::from([PathBuf::from("/project")]),
            out: Some(PathBuf::from("/project/out")),
        };
        for (path, counts) in [
            ("/a/main.py", true),
            ("/a/other.py", false),
            ("/project/pkg/a.py", true),
            ("/project/.git/index", false),
            ("/project/pkg/__pycache__/a.pyc", false),
            ("/project/out/a.txt", false),
        ] {
            assert_eq!(watched.counts(Path::new(path)), counts, "{path}");
        }
        let places = watched.places();
        let expected = [("/project", RecursiveMode::Recursive), ("/a", RecursiveMode::NonRecursive)];
        assert_eq!(places, expected.map(|(path, mode)| (PathBuf::from(path), mode)));
    }

    #[test]
    fn the_option_is_removed_once() {
        let words = ["codebox", "run", "--watch", "a.py", "--watch"].map(OsString::from);
        assert_eq!(without_watch(&words), ["run", "a.py", "--watch"].map(OsString::from));
    }
}
