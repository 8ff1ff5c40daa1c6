//! Host tools of the configuration files.

use std::io::{self, Read as _};
use std::path::{Component, Path};
use std::sync::Arc;

use codebox_core::{Languages, Outcome, ResultKind, RunnerError, Stdin, ToolFailure, ToolName};
use codebox_files::{open_for_reading, open_inner_dir, open_last_dir};
use codebox_runner::Runner;
use codebox_service::config::{SandboxedTool, ToolAction, ToolProgram, ToolSettings};
use codebox_service::{MAX_PROGRAM, Program, Request};
use codebox_tools::{Tool, ToolError, end_of, output_of};
use serde_json::Value;

use crate::machine::Machine;

/// Returns tools of the configuration: those with these names, and the `others`, which come from MCP servers, with their configured approval.
/// Programs of tools run in `runner`.
pub(crate) fn tools(
    machine: &Machine,
    names: &[ToolName],
    others: Vec<Tool>,
    runner: &dyn Fn() -> Runner,
) -> Result<Vec<Tool>, RunnerError> {
    let configured = &machine.settings()?.tools;
    let others = others.into_iter().map(|tool| match configured.get(tool.name()) {
        Some(settings) => tool.with_approval(settings.approval),
        None => tool,
    });
    let mut tools: Vec<Tool> = others.collect();
    let mut shared = None;
    for name in names {
        let defined = configured.get(name).and_then(|settings| Some((settings, settings.action.as_ref()?)));
        let Some((settings, action)) = defined else {
            // A tool of a server is granted by naming it as well.
            if tools.iter().any(|tool| tool.name() == name) {
                continue;
            }
            return Err(unknown(
                name,
                configured.iter().filter(|(_, tool)| tool.action.is_some()).map(|(name, _)| name),
            ));
        };
        let failed = |error: &dyn std::fmt::Display| {
            RunnerError::new(ResultKind::InvalidRequest, format!("cannot use the tool {name}: {error}"))
                .with_fix("correct it in the configuration file")
        };
        let ToolSettings { description, input, output, approval, timeout, .. } = settings;
        let tool = match action {
            ToolAction::Command(words) => Tool::command(name.as_str(), description, input.clone(), words.clone()),
            ToolAction::Run(program) => {
                let request = request_of(program, &machine.languages()?).map_err(|error| failed(&error))?;
                let runner = shared.get_or_insert_with(|| Arc::new(runner()));
                sandboxed(settings, name, request, Arc::clone(runner))
            }
        };
        let with_output = |tool: Tool| match output {
            Some(output) => tool.with_output(output.clone()),
            None => Ok(tool),
        };
        let tool = tool.and_then(with_output).map_err(|error| failed(&error))?.with_approval(*approval);
        tools.push(match timeout {
            Some(time) => tool.with_timeout(*time),
            None => tool,
        });
    }
    Ok(tools)
}

fn unknown<'n>(name: &ToolName, known: impl Iterator<Item = &'n ToolName>) -> RunnerError {
    let known: Vec<&str> = known.map(ToolName::as_str).collect();
    let fix = match known.is_empty() {
        true => format!("define [tools.{name}] in config.toml or codebox.toml"),
        false => format!("use one of {}", known.join(", ")),
    };
    RunnerError::new(ResultKind::InvalidRequest, format!("there is no tool {name} in the configuration")).with_fix(fix)
}

/// Returns the request of a tool without its input.
fn request_of(tool: &SandboxedTool, languages: &Languages) -> io::Result<Request> {
    let SandboxedTool { program, dirs, net, env, packages, isolation, image } = tool;
    let (program, language) = match program {
        ToolProgram::Words(words) => (Program::Command(words.clone()), None),
        ToolProgram::File { dir, path } => {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let language = extension.and_then(|extension| languages.of_extension(extension)).ok_or_else(|| {
                io::Error::other(format!("the extension of {} is that of no language", path.display()))
            })?;
            let text = read_below(dir, path)
                .map_err(|error| io::Error::other(format!("cannot read {}: {error}", dir.join(path).display())))?;
            (Program::Inline(text), Some(language))
        }
    };
    Ok(Request {
        language,
        dirs: dirs.clone(),
        net: net.clone(),
        env: env.clone(),
        packages: packages.clone(),
        isolation: *isolation,
        image: image.clone(),
        ..Request::new(program)
    })
}

/// Reads a program below a directory, without following links.
fn read_below(dir: &Path, path: &Path) -> io::Result<String> {
    let names: Option<Vec<&str>> = path
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_str())
        .collect();
    let names = names.ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
    let (file, dirs) = names.split_last().ok_or_else(|| io::Error::other("it is not a file"))?;
    let dir =
        dirs.iter().try_fold(open_last_dir(&std::fs::canonicalize(dir)?)?, |dir, name| open_inner_dir(&dir, name))?;
    let mut text = String::new();
    open_for_reading(&dir, file)?.take(MAX_PROGRAM.get() + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_PROGRAM.get() {
        return Err(io::Error::other(format!("it is larger than {MAX_PROGRAM}")));
    }
    Ok(text)
}

/// Returns a tool whose calls are runs of a program.
fn sandboxed(
    settings: &ToolSettings,
    name: &ToolName,
    request: Request,
    runner: Arc<Runner>,
) -> Result<Tool, ToolError> {
    let shown = name.to_string();
    Tool::new(name.as_str(), &settings.description, settings.input.clone(), move |input| {
        let stdin = Stdin::Bytes(input.to_string().into_bytes());
        let (request, runner, shown) = (Request { stdin, ..request.clone() }, Arc::clone(&runner), shown.clone());
        async move { run(&runner, request, &shown).await }
    })
}

async fn run(runner: &Runner, request: Request, name: &str) -> Result<Value, ToolFailure> {
    let failed = |why: String| ToolFailure::new(ToolFailure::FAILED, format!("the program of {name} {why}"));
    let unavailable = |error: RunnerError| {
        ToolFailure::new(ToolFailure::UNAVAILABLE, format!("the program of {name} cannot run: {}", error.message()))
    };
    let report = runner.run_async(request).await.map_err(unavailable)?;
    if !report.is_success() {
        let how = match &report.outcome {
            Outcome::Exited(status) => format!("exit status: {status}"),
            other => other.result_kind().to_string(),
        };
        return Err(failed(format!("failed ({how})")).with_stderr(&end_of(report.stderr.bytes().as_ref())));
    }
    output_of(report.stdout.bytes().as_ref(), name)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn programs_are_read_without_following_links() {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("project");
        std::fs::create_dir_all(dir.join("tools")).expect("a directory");
        std::fs::write(dir.join("tools/a.py"), "text").expect("it is ours");
        std::fs::write(home.path().join("secret.py"), "secret").expect("it is ours");
        std::os::unix::fs::symlink("../secret.py", dir.join("link.py")).expect("it is ours");
        std::os::unix::fs::symlink("..", dir.join("up")).expect("it is ours");
        assert_eq!(read_below(&dir, Path::new("./tools/a.py")).expect("it is read"), "text");
        for path in ["link.py", "up/secret.py", "tools", "missing.py"] {
            assert!(read_below(&dir, Path::new(path)).is_err(), "{path}");
        }
    }
}
