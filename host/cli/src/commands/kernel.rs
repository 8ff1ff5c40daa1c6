//! `codebox kernel`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use codebox_core::{Language, ResultKind, RunnerError};
use codebox_jupyter::{ConnectionFile, JupyterError, Options, Spec, Stop, serve};
use codebox_runner::Runner;
use codebox_service::Request;

use super::blocks::started;
use crate::Host;
use crate::args::{KernelCommand, KernelInstallArgs, KernelRunArgs};
use crate::interrupt::Signals;
use crate::messages::Messages;
use crate::render::notes;
use crate::text_file::read_text;

/// Name of the program that starts the others.
const PROGRAM: &str = "codebox";

/// Variable with the process of the client, with which a kernel ends.
const PARENT_VARIABLE: &str = "JPY_PARENT_PID";

pub(super) fn kernel(
    command: KernelCommand,
    messages: Messages,
    runner: &Runner,
    host: Host<'_>,
) -> Result<u8, RunnerError> {
    match command {
        KernelCommand::Install(args) => install(*args, messages, runner, host.run.args),
        KernelCommand::Run(args) => run(*args, messages, host),
    }
}

fn install(args: KernelInstallArgs, messages: Messages, runner: &Runner, line: &[OsString]) -> Result<u8, RunnerError> {
    let KernelInstallArgs { name, display_name, prefix, kernel } = args;
    let language = kernel.lang.clone();
    // A kernel that cannot start would fail in the editor, where the reason is hard to find.
    let (request, _) = kernel.place.of(kernel.grants.request(Some(language.clone())));
    drop(runner.prepare_session(request)?);
    let spec = Spec {
        name: name.unwrap_or_else(|| format!("{PROGRAM}-{language}")),
        display_name: display_name.unwrap_or_else(|| format!("{} in a sandbox", shown_name(&language))),
        command: command(line)?,
        env: std::env::var("CODEBOX_HOME").ok().map(|home| ("CODEBOX_HOME".to_owned(), home)).into_iter().collect(),
        language,
    };
    let dir = spec.install(prefix.as_deref())?;
    messages.note(format!("installed the kernel {} in {}", spec.name, dir.display()));
    Ok(0)
}

fn shown_name(language: &Language) -> &str {
    match language {
        Language::Python => "Python",
        Language::JavaScript => "JavaScript",
        Language::TypeScript => "TypeScript",
        other => other.as_str(),
    }
}

/// Returns the command of the kernel: this command line, without the options of `install` itself.
fn command(line: &[OsString]) -> Result<Vec<String>, RunnerError> {
    let failed = |error: &dyn std::fmt::Display| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot write the command of the kernel: {error}"))
    };
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let complete = own.with_file_name(PROGRAM).with_extension(own.extension().unwrap_or_default());
    let program: PathBuf = if complete.is_file() { complete } else { own };
    let mut words = vec![program.into_os_string()];
    let mut is_run = false;
    let mut rest = line.iter().skip(1);
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let is_own = |name: &str| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        if KernelInstallArgs::OWN.into_iter().any(is_own) {
            if !text.contains('=') {
                rest.next();
            }
        } else if text == "install" && !is_run && words.iter().any(|word| word == "kernel") {
            is_run = true;
            words.push("run".into());
        } else {
            words.push(word.clone());
        }
    }
    let texts = words.into_iter().map(|word| word.into_string());
    texts.collect::<Result<_, _>>().map_err(|word| failed(&format!("{} is not UTF-8", word.display())))
}

fn run(args: KernelRunArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    let KernelRunArgs { connection_file, kernel } = args;
    let text = read_text("the connection file", &connection_file)?;
    let connection = ConnectionFile::parse(&text).map_err(|error| failure(&error))?;
    let language = kernel.lang.clone();
    let (runner, names) = started(&kernel.tools, messages, host)?;
    let version = match runner.catalog()?.runtimes()?.into_iter().find(|entry| entry.name == language.as_str()) {
        Some(entry) => entry.language_version.unwrap_or(entry.version),
        None => String::new(),
    };
    let (request, _) = kernel.place.of(kernel.grants.request(Some(language.clone())));
    let request = Request { tools: names, ..request };
    let options = Options { language, version, describe: Box::new(|report| notes(report, None)) };
    let stop = Stop::default();
    let (interrupt, others) = Signals::handled().split();
    let (interrupted, ended) = (stop.clone(), stop.clone());
    interrupt.each(move || interrupted.interrupt());
    others.each(move || ended.end());
    end_with_parent(stop.clone());
    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    executor.block_on(async {
        let session = runner.session(request).await?.named("kernel");
        Box::pin(serve(&connection, session, options, stop)).await.map_err(|error| failure(&error))
    })?;
    Ok(0)
}

fn failure(error: &JupyterError) -> RunnerError {
    RunnerError::new(ResultKind::InvalidRequest, error.to_string())
}

/// Ends the kernel when the client that has started it is gone without a word.
fn end_with_parent(stop: Stop) {
    #[cfg(unix)]
    if std::env::var_os(PARENT_VARIABLE).is_some() {
        let parent = rustix::process::getppid();
        std::thread::spawn(move || {
            while rustix::process::getppid() == parent {
                std::thread::sleep(Duration::from_secs(1));
            }
            stop.end();
        });
    }
    #[cfg(not(unix))]
    drop(stop);
}
