//! Memory images for programs that run repeatedly: found for a run, and made by other processes of codebox.
//!
//! Two processes make an image. The first checks the result and adds it to the store. The second runs the imports, which are
//! code of packages, and is confined like the process of a run.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::{AutomaticImage, ImageUse, InstanceSpec, Isolation, Language, ResultKind, RunnerError};
use codebox_runner::AutomaticImages;
use codebox_wasm::{AutomaticState, Drafted, Store, WasmError};

use crate::app_dirs::AppDirs;
use crate::confinement;
use crate::machine::{Machine, Use};
use crate::processes::{BACKGROUND_NICE, input, own_program, start};

/// Command of the process that has an image made and adds it to the store.
pub(crate) const MAKE_COMMAND: &str = "make-image";

/// Command of the process that makes the file of an image. The next argument is the path of the file.
pub(crate) const DRAFT_COMMAND: &str = "draft-image";

/// Maximum time for the imports of an image.
const MAX_TIME: Duration = Duration::from_secs(60);

/// Interval at which the end of the other process is awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum length of the description of an image.
const MAX_DRAFT: u64 = 4 << 20;

/// Environment variable that disables images for programs if its value is `off`.
const VARIABLE: &str = "CODEBOX_AUTOMATIC_IMAGES";

/// The language whose programs get such images.
const LANGUAGE: Language = Language::Python;

/// The images of this machine.
pub(crate) struct Images(pub Arc<Machine>);

impl AutomaticImages for Images {
    fn find(&self, image: &AutomaticImage, job: ImageUse<'_>) -> Option<String> {
        if !is_enabled() || !self.0.settings().ok()?.automatic_images.unwrap_or(true) {
            return None;
        }
        match store(&self.0).ok()?.count_use(image, job) {
            AutomaticState::Ready(name) => Some(name),
            AutomaticState::Due => {
                // Without the other process, this run and the next ones start as before.
                let _ = start_making(image);
                None
            }
            AutomaticState::NotDue => None,
        }
    }
}

/// Returns true unless the environment disables the images.
fn is_enabled() -> bool {
    std::env::var_os(VARIABLE).is_none_or(|value| value != "off")
}

/// Starts to make an image, and does not wait for the end.
fn start_making(image: &AutomaticImage) -> io::Result<()> {
    let mut command = own_program(MAKE_COMMAND)?;
    // A signal to the group of the run does not end it, and the directory of the run may be removed meanwhile.
    command.process_group(0).current_dir("/");
    start(&mut command, &image.to_text()).map(drop)
}

/// Has an image made by another process, and adds it to the store.
pub(crate) fn make() -> Result<(), RunnerError> {
    let failed = |error: io::Error| RunnerError::of(ResultKind::InternalError, &error);
    close_inherited_descriptors();
    let _ = rustix::process::nice(BACKGROUND_NICE);
    let text = input()?;
    let image = parse(&text)?;
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let store = store(&machine)?;
    // Programs count further runs, so another process makes this image later.
    let Some(dir) = store.draft_dir(&image).map_err(wasm_failure)? else { return Ok(()) };
    let file = dir.path().join("image");
    let mut command = own_program(DRAFT_COMMAND).map_err(failed)?;
    command.arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    match run_draft(command, &text).map_err(failed)? {
        Draft::Made(draft) => store.add_automatic_image(&image, &file, &draft).map_err(wasm_failure),
        Draft::Refused => store.refuse_automatic_image(&image).map_err(wasm_failure),
        Draft::Failed => Ok(()),
    }
}

/// Result of the other process.
enum Draft {
    /// The description of the image.
    Made(String),
    /// The imports cannot be in an image.
    Refused,
    /// The process was killed, or lacked compiled code. It may succeed later.
    Failed,
}

/// Exit status of a process whose imports cannot be in an image.
const REFUSED_STATUS: u8 = 3;

fn run_draft(mut command: Command, input: &str) -> io::Result<Draft> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        io::Write::write_all(&mut stdin, input.as_bytes())?;
    }
    let output = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let read = output.map(|output| output.take(MAX_DRAFT).read_to_string(&mut text));
        read.transpose().map(|_| text)
    });
    let status = wait(&mut child)?;
    let text = reader.join().map_err(|_| io::Error::other("the thread that reads the description has failed"))?;
    Ok(match status.map(|status| status.code()) {
        // It did not end in time.
        None => Draft::Refused,
        Some(Some(0)) => Draft::Made(text?),
        Some(Some(code)) if code == i32::from(REFUSED_STATUS) => Draft::Refused,
        Some(_) => Draft::Failed,
    })
}

/// Waits for the end of a process, and kills it after the maximum time.
fn wait(child: &mut Child) -> io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + MAX_TIME;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// Makes the file of an image in this process, which confines itself, and prints its description. Returns the exit status.
pub(crate) fn draft(file: &Path) -> Result<u8, RunnerError> {
    close_inherited_descriptors();
    end_with_parent().map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    let image = parse(&input()?)?;
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let spec = InstanceSpec { layers: image.layers.clone(), ..InstanceSpec::bare(LANGUAGE, Isolation::Wasm) };
    let mut rules = confinement::rules_of(&machine, &spec)?;
    rules.read_write.extend(file.parent().map(|dir| dir.to_owned().into()));
    let confine = || confinement::confine(&rules).map(drop).map_err(DraftError::Runner);
    let drafted = store(&machine)?.draft_automatic_image(&image, file, confine);
    machine.remove_scratch();
    match drafted {
        Ok(Drafted::Made(draft)) => {
            println!("{draft}");
            Ok(0)
        }
        Ok(Drafted::Refused(reason)) => {
            eprintln!("codebox: the imports cannot be in an image: {reason}");
            Ok(REFUSED_STATUS)
        }
        Err(DraftError::Wasm(error)) => Err(wasm_failure(error)),
        Err(DraftError::Runner(error)) => Err(error),
    }
}

/// Ends this process when its parent ends, which would have ended it after the maximum time, and limits its processor time.
fn end_with_parent() -> io::Result<()> {
    // The caller's own limit can be lower.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Cpu).maximum.unwrap_or(u64::MAX);
    let limit = Some(limit.min(MAX_TIME.as_secs()));
    rustix::process::setrlimit(
        rustix::process::Resource::Cpu,
        rustix::process::Rlimit { current: limit, maximum: limit },
    )?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // A parent that has ended already sends no signal. This process belongs to another one then.
        if rustix::process::getppid() == Some(rustix::process::Pid::INIT) {
            return Err(io::Error::other("the process that makes the image has ended"));
        }
    }
    Ok(())
}

/// Closes what the process of a run has inherited from its caller, such as a lock that its caller releases when it ends.
fn close_inherited_descriptors() {
    #[cfg(target_os = "linux")]
    crate::host_process::close_inherited_descriptors();
}

/// Failure of the store or of the confinement.
enum DraftError {
    Wasm(WasmError),
    Runner(RunnerError),
}

impl From<WasmError> for DraftError {
    fn from(error: WasmError) -> Self {
        Self::Wasm(error)
    }
}

fn parse(text: &str) -> Result<AutomaticImage, RunnerError> {
    AutomaticImage::parse(text).map_err(|reason| {
        RunnerError::new(ResultKind::InvalidRequest, format!("invalid description of an image: {reason}"))
    })
}

fn store(machine: &Machine) -> Result<&Store, RunnerError> {
    let missing = || RunnerError::new(ResultKind::InternalError, format!("no runtime for {LANGUAGE}"));
    machine.wasm()?.store(&LANGUAGE).ok_or_else(missing)
}

fn wasm_failure(error: WasmError) -> RunnerError {
    RunnerError::of(ResultKind::InternalError, &error)
}
