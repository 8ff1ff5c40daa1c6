//! A job as a command line inside a container.

use codebox_agent::Asks;
use codebox_core::{GuestPath, Job, Language, Source};

use crate::error::ContainerError;
use crate::questions::Stripper;

/// Where the hook stands that takes types out of modules as they are loaded.
pub(crate) const HOOKS: &str = "/.codebox/hooks";

/// What Node loads of it first.
const PRELOAD: &str = "/.codebox/hooks/preload.cjs";

/// The hook's files. It asks the host, through the agent.
pub(crate) const HOOK_FILES: [(&str, &str); 2] =
    [("preload.cjs", include_str!("preload.cjs")), ("typescript.js", include_str!("typescript.js"))];

/// The longest text that a kernel takes as one word of a command line.
const LONGEST_WORD: usize = 128 << 10;

/// How a job is started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub argv: Vec<String>,
    pub asks: Asks,
    /// What stands before the job's own input: a program that is read from there.
    pub program: Option<String>,
}

/// The command line of a job.
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
        // Unbuffered, so that nothing printed is lost when it is stopped; without leaving compiled files behind.
        Language::Python => &["python3", "-u", "-B"],
        Language::JavaScript => &["node"],
        Language::TypeScript => &["node", "--enable-source-maps", "--require", PRELOAD],
        Language::Command | Language::Named(_) => {
            let why = "no image runs it; use --isolation wasm, or give a command after --".to_owned();
            return Err(ContainerError::Input { subject: format!("language {language}"), why });
        }
    };
    let asks = if *language == Language::TypeScript { Asks::Questions } else { Asks::Nothing };
    Ok(Started { argv: words.iter().map(|word| (*word).to_owned()).collect(), asks, program: None })
}

fn flag(language: &Language) -> &'static str {
    if *language == Language::Python { "-c" } else { "-e" }
}

/// A program's text as one word.
fn inline(text: String) -> Result<String, ContainerError> {
    if text.len() >= LONGEST_WORD {
        let why = format!("a container takes at most {LONGEST_WORD} bytes of it on a command line; put it in a file");
        return Err(ContainerError::Input { subject: "the program text".to_owned(), why });
    }
    Ok(text)
}

/// A program's text without types.
async fn plain(language: &Language, text: &str, stripper: &Stripper) -> Result<String, ContainerError> {
    if *language != Language::TypeScript {
        return Ok(text.to_owned());
    }
    let stripped = stripper.program("[eval].mts", text).await;
    stripped.map_err(|why| ContainerError::Input { subject: "the program text".to_owned(), why })
}

/// What the program is called: what the user typed where that leads to it from the working directory.
fn program_name(argv0: &str, file: &GuestPath) -> String {
    let work = GuestPath::work();
    let leads = argv0 == file.as_str()
        || file.as_str().strip_prefix(work.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(argv0);
    if leads { argv0.to_owned() } else { file.as_str().to_owned() }
}
