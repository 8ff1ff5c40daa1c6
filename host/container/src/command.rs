//! Command line of a job inside a container.

use codebox_agent::Asks;
use codebox_core::{GuestPath, Job, Language, Source};

use crate::error::ContainerError;
use crate::questions::Stripper;

/// Directory of the Node hook that strips types from modules as Node loads them.
pub(crate) const HOOKS: &str = "/.codebox/hooks";

/// The hook's file that Node loads first.
const PRELOAD: &str = "/.codebox/hooks/preload.cjs";

/// Files of the hook, which queries the host through the agent.
pub(crate) const HOOK_FILES: [(&str, &str); 2] =
    [("preload.cjs", include_str!("preload.cjs")), ("typescript.js", include_str!("typescript.js"))];

/// Length limit of the kernel for one argument of a command line, in bytes.
const LONGEST_WORD: usize = 128 << 10;

/// Command line and input of a job's program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub argv: Vec<String>,
    pub asks: Asks,
    /// Text of a program that the interpreter reads from standard input, in place of the job's own input.
    pub program: Option<String>,
}

/// Returns the command line of a job.
pub(crate) async fn of(job: &Job, stripper: &Stripper) -> Result<Started, ContainerError> {
    let mut started = match &job.source {
        Source::Command(words) => {
            return Ok(Started { argv: words.clone(), asks: Asks::Nothing, program: None });
        }
        Source::Tool { name, .. } => {
            let why = "containers run programs and commands, not tools".to_owned();
            return Err(ContainerError::Input { subject: format!("tool {name}"), why });
        }
        _ => interpreter(&job.language)?,
    };
    match &job.source {
        Source::Inline(text) => {
            let text = inline(plain(&job.language, text, stripper).await?)?;
            started.argv.extend([flag(&job.language).to_owned(), text]);
        }
        Source::Stdin(text) => {
            started.argv.push("-".to_owned());
            started.program = Some(plain(&job.language, text, stripper).await?);
        }
        Source::File { argv0, name, .. } => started.argv.push(program_name(argv0, name)),
        Source::Command(_) | Source::Tool { .. } => {}
    }
    started.argv.extend(job.args.iter().cloned());
    Ok(started)
}

fn interpreter(language: &Language) -> Result<Started, ContainerError> {
    let words: &[&str] = match language {
        // Unbuffered, so that a job that is stopped loses no output, and without writing bytecode files.
        Language::Python => &["python3", "-u", "-B"],
        Language::JavaScript => &["node"],
        Language::TypeScript => &["node", "--enable-source-maps", "--require", PRELOAD],
        Language::Command | Language::Named(_) => {
            let why =
                "no container image is configured for it; use --isolation wasm, or pass a command after --".to_owned();
            return Err(ContainerError::Input { subject: format!("language {language}"), why });
        }
    };
    let asks = if *language == Language::TypeScript { Asks::Questions } else { Asks::Nothing };
    Ok(Started { argv: words.iter().map(|word| (*word).to_owned()).collect(), asks, program: None })
}

fn flag(language: &Language) -> &'static str {
    if *language == Language::Python { "-c" } else { "-e" }
}

/// Returns a program's text as one argument, or an error if it is too long.
fn inline(text: String) -> Result<String, ContainerError> {
    if text.len() >= LONGEST_WORD {
        let why = format!("longer than the {LONGEST_WORD} bytes that fit on a command line; put it in a file");
        return Err(ContainerError::Input { subject: "the program text".to_owned(), why });
    }
    Ok(text)
}

/// Returns a program's text, without types if the language is TypeScript.
async fn plain(language: &Language, text: &str, stripper: &Stripper) -> Result<String, ContainerError> {
    if *language != Language::TypeScript {
        return Ok(text.to_owned());
    }
    let stripped = stripper.program("[eval].mts", text).await;
    stripped.map_err(|why| ContainerError::Input { subject: "the program text".to_owned(), why })
}

/// Returns the name of the program: the path as the user typed it if it leads to the file from the working directory,
/// otherwise the guest path.
fn program_name(argv0: &str, file: &GuestPath) -> String {
    let work = GuestPath::work();
    let leads = argv0 == file.as_str()
        || file.as_str().strip_prefix(work.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(argv0);
    if leads { argv0.to_owned() } else { file.as_str().to_owned() }
}
