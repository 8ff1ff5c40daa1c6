//! `codebox run` with a Jupyter notebook.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use codebox_blocks::{Block, BlockStatus, BlocksReport, Notebook, Options, ipython_command};
use codebox_core::{ResultKind, RunnerError};
use codebox_service::{Process, leads_out, open_output_file};

use super::blocks::{report_of, started};
use super::run::request;
use crate::Host;
use crate::answer;
use crate::args::{ProgramLocation, RunArgs, is_notebook};
use crate::messages::Messages;
use crate::text_file::read_text;

/// Returns the notebook that is the program of a command, if it is one.
pub(super) fn of(args: &RunArgs) -> Option<PathBuf> {
    match args.program() {
        Ok((ProgramLocation::File(path), _)) if args.lang.is_none() && is_notebook(&path) => Some(path),
        _ => None,
    }
}

/// Runs the cells of a notebook in one session until the first error, and returns the exit status. The notebook with the outputs is
/// written to the file of `--out`.
pub(super) fn run(path: &Path, mut args: RunArgs, messages: Messages, host: Host<'_>) -> Result<u8, RunnerError> {
    if args.project.as_deref().is_some_and(|project| leads_out(project, path)) {
        let line = format!("cannot run {}: a link leads out of the project, whose copy has no links", path.display());
        return Err(RunnerError::new(ResultKind::PathRejected, line).with_fix("name the file that it leads to"));
    }
    let notebook = Notebook::parse(&read_text("the notebook", path)?).map_err(|error| {
        let line = format!("cannot run {}: {}", path.display(), error.message());
        RunnerError::new(error.kind(), line).with_fix(error.fix().unwrap_or_default())
    })?;
    refuse_others(&args)?;
    let (is_json, show, tools) = (args.json, args.show.show, std::mem::take(&mut args.tools));
    let out = args.out.take().map(|out| open(&out).map(|file| (out, file))).transpose()?;
    let (runner, names) = started(&tools, messages, host)?;
    args.tool_names = names;
    let options =
        Options { node_packages: args.with.clone(), request: request(args, None)?, isolated: false, keep_going: false };
    let (report, stopped) = report_of(&runner, notebook.blocks(), &options, !is_json, show, messages)?;
    if let Some((path, file)) = out {
        write(&path, file, &notebook.with_outputs(&report))?;
        messages.note(format!("wrote {}", path.display()));
    }
    if let Some(status) = stopped {
        return Ok(status);
    }
    if is_json {
        let printed = answer::print_json(&report.to_wire())?;
        return Ok(if printed == 0 { report.exit_status() } else { printed });
    }
    print_failure(&report, messages);
    Ok(report.exit_status())
}

/// Refuses options and arguments that notebooks do not have.
fn refuse_others(args: &RunArgs) -> Result<(), RunnerError> {
    if let Ok((_, arguments)) = args.program()
        && let Some(first) = arguments.first()
    {
        let line = format!("cannot pass the argument {first:?} to a notebook: its cells have none");
        let fix = "write options of codebox before the notebook";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
    }
    let is_attached = args.container.is_some() || args.dev_config.is_some();
    if args.image().is_none() && args.engine.is_none() && args.warm.is_none() && !is_attached {
        return Ok(());
    }
    let line = "cannot choose the container of a notebook: its cells run in a session";
    Err(RunnerError::new(ResultKind::InvalidRequest, line)
        .with_fix("remove --image, --python, --node, --engine, --warm, --container and --dev-config"))
}

/// Opens the file for the notebook with the outputs.
fn open(path: &Path) -> Result<File, RunnerError> {
    if !is_notebook(path) {
        let line = format!("cannot write the notebook to {}: it is not the name of a notebook", path.display());
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("name a file that ends with .ipynb"));
    }
    Ok(open_output_file(path, &Process)?)
}

/// Replaces the content of the file.
fn write(path: &Path, mut file: File, text: &str) -> Result<(), RunnerError> {
    let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        RunnerError::new(ResultKind::InternalError, format!("cannot write {}: {error}", path.display()))
    })
}

/// Prints which cell has failed, and which were not run.
fn print_failure(report: &BlocksReport, messages: Messages) {
    let Some(failed) = report.first_failed() else { return };
    let Block { number, code, .. } = &failed.block;
    let left = report.blocks.iter().filter(|one| one.status == BlockStatus::NotRun).count();
    messages.note(format!("cell {number} failed; cells that were not run: {left}"));
    let is_syntax =
        matches!(&failed.result, Some(Ok(report)) if report.error.as_ref().is_some_and(|e| e.name == "SyntaxError"));
    if let Some(line) = ipython_command(code).filter(|_| is_syntax) {
        messages.note(format!(
            "{line:?} is a command of IPython, which codebox does not run; install packages with --with"
        ));
    }
}
