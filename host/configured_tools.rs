//! Host tools of the configuration files.

use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codebox_cli::{CallLevel, ToolCaller};
use codebox_core::path::{Direction, MaxDepth, PathMarks};
use codebox_core::{
    Approval, BoxCommand, CancelToken, DirGrant, DirGrantSpec, ExecIo, GuestPath, HostPath, Isolation, Languages,
    Limit, LimitKind, Outcome, PathMap, PathMapError, ResultKind, RunReport, RunnerError, SecretValues, Stdin,
    ToolFailure, ToolName,
};
use codebox_files::{open_for_reading, open_inner_dir, open_last_dir};
use codebox_runner::{BoxControl, BoxIo, Runner, Shaping};
use codebox_service::config::{SandboxedTool, ToolAction, ToolProgram, ToolSettings};
use codebox_service::levels::{Level, LevelSetting};
use codebox_service::{EnvRequest, MAX_PROGRAM, Preference, Program, Request};
use codebox_tools::{CallFacts, Tool, ToolBudgets, ToolError, end_of, output_of};
use serde_json::{Value, json};

use crate::machine::Machine;

/// Returns tools of the configuration: those with these names, and the `others`, which come from MCP servers, with their configured approval.
/// Programs of tools run in `runner`, and commands in `boxes`.
pub(crate) fn tools(
    machine: &Machine,
    names: &[ToolName],
    others: Vec<Tool>,
    caller: ToolCaller,
    runner: &dyn Fn() -> Runner,
    boxes: &Arc<dyn BoxControl + Send + Sync>,
) -> Result<Vec<Tool>, RunnerError> {
    let configured = &machine.settings()?.tools;
    // The time of jobs that name none.
    let of_jobs = [machine.settings()?.ceilings.wall, machine.settings()?.limits.wall];
    let of_jobs = of_jobs.into_iter().flatten().filter_map(Limit::at).min();
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
            ToolAction::InBox { name: in_box, words } => {
                commands_in_box(settings, name, in_box.clone(), words.clone(), Arc::clone(boxes))
            }
            ToolAction::Run(program) => {
                let mut request = request_of(name, program, &machine.languages()?).map_err(|error| failed(&error))?;
                if let ToolCaller::User(level) = caller {
                    request = called_at(level, request)?;
                }
                let runner = shared.get_or_insert_with(|| Arc::new(runner()));
                let paths = match caller {
                    ToolCaller::User(_) => Some(ToolPaths::of(&request, settings).map_err(|error| failed(&error))?),
                    ToolCaller::Program => None,
                };
                sandboxed(settings, name, request, paths.map(Arc::new), Arc::clone(runner), of_jobs)
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

/// Returns the request of a tool of the configuration that runs in the sandbox, without its input.
pub(crate) fn request(machine: &Machine, name: &ToolName, level: CallLevel) -> Result<Request, RunnerError> {
    let configured = &machine.settings()?.tools;
    let settings = configured.get(name).ok_or_else(|| unknown(name, configured.keys()))?;
    if settings.approval == Approval::Deny {
        let line = format!("the tool {name} is denied by the configuration");
        return Err(RunnerError::new(ResultKind::Denied, line).with_fix("change its approval in config.toml"));
    }
    let other = |place: String| {
        let line = format!("no tier is chosen for the tool {name}: {place}");
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("explain tools with run, and without box")
    };
    let program = match &settings.action {
        Some(ToolAction::Run(program)) => program,
        Some(ToolAction::InBox { name: in_box, .. }) => return Err(other(format!("it runs in the box {in_box}"))),
        Some(ToolAction::Command(_)) => {
            return Err(other("its command runs on this machine, in no sandbox".to_owned()));
        }
        None => return Err(other("it is a tool of an MCP server".to_owned())),
    };
    let request = request_of(name, program, &machine.languages()?).map_err(|error| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot use the tool {name}: {error}"))
            .with_fix("correct it in the configuration file")
    })?;
    called_at(level, request)
}

/// Adds what a call requires and prefers to the request of a tool. A requirement must be one that the tool accepts.
fn called_at(call: CallLevel, request: Request) -> Result<Request, RunnerError> {
    use Preference::{Among, Auto, DevContainer, Only};

    let (of_call, of_tool) = (call.isolation, request.isolation);
    let isolation = match (of_call, of_tool) {
        (Auto, other) | (other, Auto) => Some(other),
        (one, other) if one == other => Some(one),
        (Only(one), Among(_)) => of_tool.acceptable().contains(one).then_some(of_call),
        (Among(_), Only(one)) => of_call.acceptable().contains(one).then_some(of_tool),
        (DevContainer, Only(Isolation::Container)) => Some(DevContainer),
        (DevContainer, Among(_)) => of_tool.acceptable().contains(Isolation::Container).then_some(DevContainer),
        _ => None,
    };
    let isolation = isolation.ok_or_else(|| {
        let line = format!("the call requires {of_call}, and the tool requires {of_tool}");
        RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove --isolation")
    })?;
    let mut levels = request.levels;
    let requires = Some(of_call).filter(|of_call| *of_call != Auto);
    if requires.is_some() || call.prefers.is_some() {
        let source = "the request".to_owned();
        levels.push(LevelSetting { level: Level::Call, requires, prefers: call.prefers, source });
    }
    Ok(Request { isolation, levels, ..request })
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
fn request_of(name: &ToolName, tool: &SandboxedTool, languages: &Languages) -> io::Result<Request> {
    let SandboxedTool { program, dirs, net, env, packages, isolation, prefers, image } = tool;
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
    let requires = Some(*isolation).filter(|isolation| *isolation != Preference::Auto);
    let source = format!("tools.{name}");
    let level = LevelSetting { level: Level::Tool, requires, prefers: *prefers, source };
    Ok(Request {
        language,
        levels: vec![level],
        dirs: dirs.clone(),
        net: net.clone(),
        env: env.clone(),
        packages: packages.clone(),
        isolation: *isolation,
        image: image.clone(),
        tool: Some(name.clone()),
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
    mut request: Request,
    paths: Option<Arc<ToolPaths>>,
    runner: Arc<Runner>,
    of_jobs: Option<Duration>,
) -> Result<Tool, ToolError> {
    let shown = name.to_string();
    let time = settings.timeout.or(of_jobs).unwrap_or(MAX_TIME);
    request.limits.wall = Some(Limit::At(time.min(MAX_TIME)));
    let facts = CallFacts::default();
    let written = facts.clone();
    let secrets = values_of(&request.env);
    let masked = secrets.clone();
    let tool = Tool::with_limits(name.as_str(), &settings.description, settings.input.clone(), move |input, limits| {
        let (request, runner, shown) = (request.clone(), Arc::clone(&runner), shown.clone());
        let (paths, facts, secrets) = (paths.clone(), facts.clone(), secrets.clone());
        async move {
            let input = match &paths {
                Some(paths) => paths.to_guest(input)?,
                None => input,
            };
            let request = Request { stdin: Stdin::Bytes(input.to_string().into_bytes()), ..request };
            let output = run(&runner, request, limits.cancel, &shown, &facts, &secrets).await?;
            match &paths {
                Some(paths) => paths.to_host(output),
                None => Ok(output),
            }
        }
    });
    Ok(tool?.with_facts(written).with_secrets(masked).with_start_time(START_TIME))
}

/// Returns the values of variables, which failures must not contain.
fn values_of(env: &[EnvRequest]) -> SecretValues {
    let values = env.iter().filter_map(|variable| match variable {
        EnvRequest::Set(_, value) => Some(value.clone()),
        EnvRequest::FromHost(name) => std::env::var(name.as_str()).ok(),
    });
    // A value in JSON text has escapes.
    let in_json = |value: &String| {
        let text = Value::from(value.as_str()).to_string();
        text[1..text.len() - 1].to_owned()
    };
    SecretValues::new(values.flat_map(|value| [in_json(&value), value]))
}

/// Maximum time of a program that is a tool. Its start does not count, so that a program that takes too long is ended by its limit, which
/// keeps its output.
const MAX_TIME: Duration = ToolBudgets::DEFAULT.time;

/// Maximum time of the start of such a program. A dev container that is made takes most of it.
const START_TIME: Duration = Duration::from_secs(30 * 60);

/// Paths of this machine in the input and the output of a tool, which sees the directories that it is granted at other places.
struct ToolPaths {
    map: PathMap<HostPath, GuestPath>,
    /// The directories on this machine.
    roots: Vec<PathBuf>,
    input: PathMarks,
    output: PathMarks,
}

impl ToolPaths {
    fn of(request: &Request, settings: &ToolSettings) -> Result<Self, PathMapError> {
        let mut names = Vec::new();
        let mut grant = |spec: &DirGrantSpec| {
            let named = std::path::absolute(&spec.host).ok()?;
            let host = HostPath::native(&named.canonicalize().unwrap_or_else(|_| named.clone())).ok()?;
            // The path can go through links. One with `..` is no name: it depends on them.
            names.extend(HostPath::native(&named).ok().filter(|name| *name != host).map(|name| (name, host.clone())));
            Some(DirGrant { host, guest: spec.guest.clone(), access: spec.access })
        };
        let dirs: Vec<DirGrant> = request.dirs.iter().filter_map(&mut grant).collect();
        let map = PathMap::from_grants(&dirs)?;
        let roots = dirs.iter().map(|grant| PathBuf::from(grant.host.as_str())).collect();
        let map = names.into_iter().fold(map, |map, (name, host)| map.with_name(name, host));
        let marks = |schema: Option<&Value>| schema.map(PathMarks::of_schema).unwrap_or_default();
        Ok(Self { map, roots, input: marks(Some(&settings.input)), output: marks(settings.output.as_ref()) })
    }

    fn to_guest(&self, input: Value) -> Result<Value, ToolFailure> {
        let mapped = self.map.map_marked_json(input, Direction::ToGuest, MaxDepth::default(), &self.input);
        mapped.map_err(|error| ToolFailure::new(ToolFailure::INVALID_INPUT, error.to_string()))
    }

    fn to_host(&self, output: Value) -> Result<Value, ToolFailure> {
        let mapped = self.map.map_marked_json(output, Direction::ToHost, MaxDepth::default(), &self.output);
        let mapped = mapped.map_err(|error| ToolFailure::new(ToolFailure::INVALID_OUTPUT, error.to_string()))?;
        match self.outside(&mapped, "") {
            None => Ok(mapped),
            Some(pointer) => {
                let message =
                    format!("the path at {pointer:?} leads through a link out of the directories of the tool");
                Err(ToolFailure::new(ToolFailure::INVALID_OUTPUT, message))
            }
        }
    }

    /// Returns the JSON pointer of a path below one of the directories that is outside of all of them in truth: the tool can make links.
    fn outside(&self, value: &Value, pointer: &str) -> Option<String> {
        match value {
            Value::String(text) => {
                let path = Path::new(text);
                let is_below = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
                let real = is_below(path).then(|| path.canonicalize().ok()).flatten()?;
                (!is_below(&real)).then(|| pointer.to_owned())
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| self.outside(item, &format!("{pointer}/{index}")))
            }
            Value::Object(members) => members.iter().find_map(|(name, member)| {
                let name = name.replace('~', "~0").replace('/', "~1");
                self.outside(member, &format!("{pointer}/{name}"))
            }),
            _ => None,
        }
    }
}

/// Writes the facts about a run that the result of a call has beside its output. No path in them is mapped.
fn write_facts(to: &CallFacts, report: &RunReport, secrets: &SecretValues) {
    let provenance = &report.provenance;
    let mut facts = json!({
        "job": report.id,
        "method": provenance.backend.to_string(),
        "exit_code": report.exit_status(),
        "outcome": report.result_kind().as_str(),
        "exec_ms": report.usage.wall.as_secs_f64() * 1e3,
        "reason": provenance.reason,
    });
    if let Some(id) = &provenance.container_id {
        facts["container"] = json!({
            "id": id,
            "image": provenance.image,
            "image_digest": provenance.image_digest,
            "engine": provenance.engine,
            "directory": provenance.directory.as_ref().map(GuestPath::as_str),
        });
    }
    let [stdout, stderr] = [&report.stdout, &report.stderr].map(|output| end_of(output.bytes().as_ref(), secrets));
    to.set(facts, stdout, stderr);
}

/// Returns a tool whose calls are commands in a box.
fn commands_in_box(
    settings: &ToolSettings,
    name: &ToolName,
    in_box: String,
    words: Vec<String>,
    boxes: Arc<dyn BoxControl + Send + Sync>,
) -> Result<Tool, ToolError> {
    let wall = Some(settings.timeout.unwrap_or(MAX_TIME).min(MAX_TIME));
    let (shown, name, facts) = (name.to_string(), name.clone(), CallFacts::default());
    let written = facts.clone();
    let tool =
        Tool::with_limits(&shown.clone(), &settings.description, settings.input.clone(), move |input, limits| {
            let (name, facts) = (name.clone(), facts.clone());
            let (in_box, words, boxes, shown) = (in_box.clone(), words.clone(), Arc::clone(&boxes), shown.clone());
            async move {
                let cancel = limits.cancel;
                let exec = move || {
                    let command = BoxCommand { wall, ..BoxCommand::new(words) };
                    let stdin =
                        Some(Box::new(io::Cursor::new(input.to_string().into_bytes())) as Box<dyn io::Read + Send>);
                    let output = &mut |_: u8, _: &[u8]| {};
                    let io = BoxIo {
                        stdin,
                        control: None,
                        cancel: &cancel,
                        shaping: Shaping::Off,
                        tool: Some(name),
                        output,
                    };
                    boxes.exec(&in_box, command, io)
                };
                let done = tokio::task::spawn_blocking(exec).await;
                let unavailable = |why: &str| {
                    ToolFailure::new(ToolFailure::UNAVAILABLE, format!("the command of {shown} cannot run: {why}"))
                };
                let report = done.map_err(|error| unavailable(&error.to_string()))?;
                let report = report.map_err(|error| unavailable(error.message()))?;
                // The process of the box has masked the values of its variables in standard error and in the output of a
                // command that has failed.
                let secrets = SecretValues::default();
                write_facts(&facts, &report, &secrets);
                result_of(&report, &shown, &secrets)
            }
        });
    Ok(tool?.with_facts(written).with_start_time(START_TIME))
}

async fn run(
    runner: &Runner,
    request: Request,
    cancel: CancelToken,
    name: &str,
    facts: &CallFacts,
    secrets: &SecretValues,
) -> Result<Value, ToolFailure> {
    let unavailable = |error: RunnerError| {
        ToolFailure::new(ToolFailure::UNAVAILABLE, format!("the program of {name} cannot run: {}", error.message()))
    };
    let io = &mut ExecIo { cancel, ..ExecIo::none() };
    let report = runner.run_async_with(request, io).await.map_err(unavailable)?;
    write_facts(facts, &report, secrets);
    result_of(&report, name, secrets)
}

/// Returns the output of a program that has ended.
fn result_of(report: &RunReport, name: &str, secrets: &SecretValues) -> Result<Value, ToolFailure> {
    let failed = |why: String| ToolFailure::new(ToolFailure::FAILED, format!("the program of {name} {why}"));
    if report.outcome == Outcome::LimitHit(LimitKind::Wall) {
        let message = format!("the program of {name} took longer than its time limit");
        return Err(ToolFailure::new(ToolFailure::BUDGET, message)
            .with_stderr(&end_of(report.stderr.bytes().as_ref(), secrets)));
    }
    if report.outcome == Outcome::Cancelled {
        return Err(ToolFailure::new(ToolFailure::INTERRUPTED, "the call was cancelled")
            .with_stderr(&end_of(report.stderr.bytes().as_ref(), secrets)));
    }
    if let Some(error) = report.error.as_ref().filter(|error| error.is_start_failure()) {
        let message = format!("the program of {name} cannot run: {}", error.value);
        return Err(ToolFailure::new(ToolFailure::UNAVAILABLE, message));
    }
    if !report.is_success() {
        let how = match &report.outcome {
            Outcome::Exited(status) => format!("exit status: {status}"),
            Outcome::Signalled(signal) => format!("signal: {signal}"),
            other => other.result_kind().to_string(),
        };
        return Err(failed(format!("failed ({how})")).with_stderr(&end_of(report.stderr.bytes().as_ref(), secrets)));
    }
    let output = &report.stdout;
    if output.dropped > 0 {
        let most = output.head.len() + output.tail.len();
        let message = format!("the output of {name} has more than {most} bytes, the limit on its output");
        return Err(ToolFailure::new(ToolFailure::INVALID_OUTPUT, message));
    }
    output_of(output.bytes().as_ref(), name)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn outputs_do_not_lead_out_of_the_directories() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("it is there");
        for dir in ["data/sub", "other"] {
            std::fs::create_dir_all(home.join(dir)).expect("a directory");
        }
        std::fs::write(home.join("other/file"), "").expect("it is ours");
        std::os::unix::fs::symlink(home.join("other"), home.join("data/out")).expect("it is ours");
        std::os::unix::fs::symlink("sub", home.join("data/in")).expect("it is ours");
        let roots = vec![home.join("data")];
        let [input, output] = [PathMarks::default(), PathMarks::default()];
        let paths = ToolPaths { map: PathMap::from_grants(&[]).expect("a map"), roots, input, output };
        let at = |name: &str| Value::from(home.join(name).display().to_string());
        for name in ["data/sub", "data/in", "data/missing", "data/out/missing", "other/file"] {
            assert_eq!(paths.outside(&json!([at(name)]), ""), None, "{name}");
        }
        let pointer = paths.outside(&json!({ "a": [1, { "b/c": at("data/out/file") }] }), "");
        assert_eq!(pointer.as_deref(), Some("/a/1/b~1c"));
    }

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
