//! Command line of a job inside a container.

use codebox_agent::QueryPermission;
use codebox_core::{GuestPath, Job, Language, Source};

use crate::error::ContainerError;
use crate::queries::Stripper;

/// Directory of the Node hook that strips types from modules as Node loads them.
pub(crate) const HOOKS_DIR: &str = "/.codebox/hooks";

/// Files of the hook, which queries the host through the agent: the ones that Node preloads for a program in TypeScript
/// and for one that can load modules in TypeScript, and the hook itself.
pub(crate) const HOOK_FILES: [(&str, &str); 4] = [
    ("preload.cjs", include_str!("preload.cjs")),
    ("preload-modules.cjs", include_str!("preload-modules.cjs")),
    ("typescript.js", include_str!("typescript.js")),
    ("tsconfig.js", include_str!("../../../guest-runtimes/javascript/prelude/src/loader/tsconfig.js")),
];

/// Length limit of the kernel for one argument of a command line, in bytes.
const MAX_ARGUMENT_SIZE: usize = 128 << 10;

/// Command line and input of a job's program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GuestCommand {
    pub argv: Vec<String>,
    pub query_permission: QueryPermission,
    /// Text of a program that the interpreter reads from standard input, in place of the job's own input.
    pub program: Option<String>,
}

/// Returns the command line of a job.
pub(crate) async fn of(job: &Job, stripper: &Stripper) -> Result<GuestCommand, ContainerError> {
    let mut command = match &job.source {
        Source::Command(words) => {
            return Ok(GuestCommand { argv: words.clone(), query_permission: QueryPermission::Denied, program: None });
        }
        Source::Tool { name, .. } => {
            let why = "containers run programs and commands, not tools".to_owned();
            return Err(ContainerError::Input { subject: format!("tool {name}"), why });
        }
        _ => interpreter(job)?,
    };
    match &job.source {
        Source::Inline(text) => {
            let text = inline_argument(strip_types(&job.language, text, stripper).await?)?;
            let interpreter = job.language.spec().container.as_ref();
            command.argv.extend(interpreter.map(|interpreter| interpreter.inline_arguments(&text)).unwrap_or_default());
        }
        Source::Stdin(text) => {
            command.argv.push("-".to_owned());
            command.program = Some(strip_types(&job.language, text, stripper).await?);
        }
        Source::File { argv0, name, .. } => command.argv.push(program_name(argv0, name, &job.work_dir)),
        Source::Command(_) | Source::Tool { .. } => {}
    }
    command.argv.extend(job.args.iter().cloned());
    Ok(command)
}

fn interpreter(job: &Job) -> Result<GuestCommand, ContainerError> {
    let language = &job.language;
    let Some(interpreter) = &language.spec().container else {
        let why = "it has no interpreter for containers; use --isolation wasm, or pass a command after --".to_owned();
        return Err(ContainerError::Input { subject: format!("language {language}"), why });
    };
    let mut argv = interpreter.command.clone();
    let has_hook = !interpreter.module_hook.is_empty() && can_load_modules(job);
    if has_hook {
        argv.extend(interpreter.module_hook.iter().cloned());
    }
    let query_permission =
        if language.is_typed() || has_hook { QueryPermission::Allowed } else { QueryPermission::Denied };
    Ok(GuestCommand { argv, query_permission, program: None })
}

/// Returns true if a job is given files that its program can load as modules, besides the program itself.
fn can_load_modules(job: &Job) -> bool {
    let is_program = |path: &GuestPath| matches!(&job.source, Source::File { name, .. } if name == path);
    !job.grants.dirs.is_empty() || job.files.iter().any(|file| !is_program(&file.path))
}

/// Returns a program's text as one argument, or an error if it is too long.
fn inline_argument(text: String) -> Result<String, ContainerError> {
    if text.len() >= MAX_ARGUMENT_SIZE {
        let why = format!("longer than the {MAX_ARGUMENT_SIZE} bytes that fit on a command line; put it in a file");
        return Err(ContainerError::Input { subject: "the program text".to_owned(), why });
    }
    Ok(text)
}

/// Returns a program's text, without types if the language has them.
pub(crate) async fn strip_types(
    language: &Language,
    text: &str,
    stripper: &Stripper,
) -> Result<String, ContainerError> {
    if !language.is_typed() {
        return Ok(text.to_owned());
    }
    let stripped = stripper.program("[eval].mts", text).await;
    stripped.map_err(|why| ContainerError::Input { subject: "the program text".to_owned(), why })
}

/// Returns the name of the program: the path as the user typed it if it leads to the file from the working directory,
/// otherwise the guest path.
fn program_name(argv0: &str, file: &GuestPath, work_dir: &GuestPath) -> String {
    let is_direct = argv0 == file.as_str() || work_dir.join(argv0).is_ok_and(|path| path == *file);
    if is_direct { argv0.to_owned() } else { file.as_str().to_owned() }
}

#[cfg(test)]
mod tests {
    use codebox_core::{InputFile, Limits};

    use super::*;

    async fn command(job: &Job) -> GuestCommand {
        of(job, &Stripper::new(None, &Limits::default())).await.expect("a command")
    }

    #[tokio::test]
    async fn only_scripts_with_modules_load_the_hook() {
        let mut job = Job::new(Source::Inline("1".to_owned()), Language::JavaScript);
        let plain = command(&job).await;
        assert_eq!(
            (plain.argv, plain.query_permission),
            (["node", "-e", "1", "--"].map(str::to_owned).to_vec(), QueryPermission::Denied)
        );
        let file = |name: &str| InputFile::new(GuestPath::new(name).expect("a path"), Vec::new());
        job.files.push(file("/work/a.ts"));
        let with_modules = command(&job).await;
        let argv = ["node", "--require", "/.codebox/hooks/preload-modules.cjs", "-e", "1", "--"];
        assert_eq!(
            (with_modules.argv, with_modules.query_permission),
            (argv.map(str::to_owned).to_vec(), QueryPermission::Allowed)
        );
        let script = file("/run/codebox/a.js");
        job.source = Source::File { argv0: "a.js".to_owned(), name: script.path.clone(), text: Vec::new() };
        job.files = vec![script];
        assert_eq!(command(&job).await.query_permission, QueryPermission::Denied);
    }
}
