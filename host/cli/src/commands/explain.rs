//! `codebox explain`: shows where a program would run and why, without running any of it.

use codebox_core::RunnerError;
use codebox_runner::Runner;
use codebox_service::Program;

use crate::answer;
use crate::args::RunArgs;
use crate::commands::run::request;
use crate::commands::server_runner;
use crate::commands::tools::{CommandTools, Questions};
use crate::messages::Messages;
use crate::render::Explained;
use crate::{CallLevel, Host};

/// Prints the explanation. If the program could not run, the status is that of the refused run.
pub(super) fn explain(args: RunArgs, messages: Messages, runner: &Runner, host: Host<'_>) -> Result<u8, RunnerError> {
    let json = args.json;
    let explained = match explain_request(args, messages, runner, host) {
        Ok(explained) => explained,
        Err(failure) if json => return Ok(answer::print_failure(&failure)),
        Err(failure) => return Err(failure),
    };
    let Explained { failure, .. } = &explained;
    match (json, failure) {
        (true, None) => answer::print_json(&explained),
        (true, Some(failure)) => answer::print_json(&explained).map(|_| failure.exit_status()),
        (false, None) => answer::print(&explained.to_string()),
        (false, Some(failure)) => {
            answer::print(&explained.to_string())?;
            Err(failure.clone())
        }
    }
}

fn explain_request(
    mut args: RunArgs,
    messages: Messages,
    runner: &Runner,
    host: Host<'_>,
) -> Result<Explained, RunnerError> {
    let has_program = args.code.is_some() || !args.words.is_empty();
    if let ([name], false) = (args.tools.tools.as_slice(), has_program) {
        let level = CallLevel { isolation: args.isolation, prefers: args.prefer };
        let request = (host.tool_request)(name, level)?;
        return Ok(Explained::new(format!("the tool {name}"), runner.explain(request)?));
    }
    // Servers are not started: their tools do not change the choice.
    args.tools.mcp.clear();
    let tools = CommandTools::connect(&args.tools, Questions::Refused, messages, host)?;
    args.tool_names = tools.as_ref().map(CommandTools::names).unwrap_or_default();
    let with_tools = tools.is_some().then(|| server_runner(messages, host, tools.as_ref()));
    let runner = with_tools.as_deref().unwrap_or(runner);
    let request = request(args, None)?;
    let subject = match &request.program {
        Program::File(path) => path.display().to_string(),
        Program::Inline(_) | Program::Source(_) => "the program text".to_owned(),
        Program::Stdin(_) => "the program on standard input".to_owned(),
        Program::Module(name) => format!("the module {name}"),
        Program::Command(words) => words.join(" "),
    };
    Ok(Explained::new(subject, runner.explain(request)?))
}
