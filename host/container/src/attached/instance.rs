//! A job in a running container, started by the agent.

use std::collections::BTreeMap;
use std::time::Duration;

use codebox_agent::{CgroupStats, QueryPermission, Run};
use codebox_analysis::Analyzer;
use codebox_core::{
    Attachment, BackendError, BackendId, BoxFuture, Effects, Enforcement, ExecIo, GuestPath, Instance, Isolation, Job,
    Limits, Outcome, Provenance, RunReport, Source, Usage,
};
use codebox_streams::{Sinks, Stdin};
use tokio::time::sleep;

use super::agent::AgentDir;
use super::{layers, limits};
use crate::classify::{HostStop, outcome};
use crate::command::{self, HOOK_FILES, HOOKS_DIR};
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::exec::{ExecResult, Streams, run};
use crate::instance::describe_end;
use crate::mounts::PROGRAM_DIR;
use crate::queries::Stripper;

/// Directory of codebox in containers that it makes. In others the [`AgentDir`] takes its place.
const OWN_DIR: &str = "/.codebox/";

/// Number of queries for the state of a container whose agent has ended.
const STATE_QUERIES: usize = 5;

/// Pause between them.
const STATE_INTERVAL: Duration = Duration::from_millis(200);

/// A running container with the agent in it.
pub(super) struct AttachedInstance {
    engine: Engine,
    attachment: Attachment,
    agent: AgentDir,
    analyzer: Analyzer,
    startup: Duration,
}

impl AttachedInstance {
    pub(super) fn new(
        engine: Engine,
        attachment: &Attachment,
        agent: AgentDir,
        analyzer: Analyzer,
        startup: Duration,
    ) -> Self {
        Self { engine, attachment: attachment.clone(), agent, analyzer, startup }
    }

    async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, ContainerError> {
        if io.tools.is_some() {
            return Err(unsupported("host tools"));
        }
        let program_dir = format!("{}/run", self.agent.path);
        let job = relocated(job, &program_dir)?;
        let stripper = Stripper::new(Some(self.analyzer.clone()), &job.limits);
        let started = command::of(&job, &stripper).await?;
        let has_hook = started.query_permission == QueryPermission::Allowed;
        self.put_files(&job, has_hook).await?;
        let own_dir = format!("{}/", self.agent.path);
        let own = |text: String| text.replace(OWN_DIR, &own_dir);
        let argv = started.argv.iter().cloned();
        let argv: Vec<String> = if has_hook { argv.map(own).collect() } else { argv.collect() };
        let request = Run {
            argv,
            env: environment(&self.agent.env, &self.attachment, &job),
            from_image: Vec::new(),
            cwd: self.attachment.directory().as_str().to_owned(),
            query_permission: started.query_permission,
            port_forwards: Vec::new(),
            terminal: None,
            terminal_edits: false,
            wall_ms: job.limits.wall.at().map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            cpu_ms: None,
        };
        let stdin = match &started.program {
            Some(program) => Stdin::bytes(program.clone().into_bytes()),
            None => Stdin::of(&job.stdin, io),
        };
        let streams = Streams { stdin, sinks: Sinks::take(io), cancel: io.cancel.clone(), tools: None, resizes: None };
        let done = run(&mut self.agent.connection, request, &job.limits, streams, &stripper, None, None).await?;
        let ExecResult { ended, stop, captured, began } = done;
        let mut ended = match ended {
            Ok(ended) => ended,
            Err(error) => return Err(ContainerError::mid_job(captured)(error)),
        };
        if let Some(ended) = &mut ended {
            // The counters include all other processes of the container.
            ended.evidence = CgroupStats::default();
        }
        let job_outcome = match &ended {
            Some(ended) => outcome(ended, stop, None),
            None => match self.outcome_without_report(stop).await {
                Ok(outcome) => outcome,
                Err(error) => return Err(ContainerError::mid_job(captured)(error)),
            },
        };
        let is_container_over = ended.is_none() && job_outcome == Outcome::Signalled(9);
        let wall = ended.as_ref().map_or(began.elapsed(), |ended| Duration::from_micros(ended.wall_us));
        let mut report = report(&self.engine, &self.attachment, job_outcome, &job.limits, Ok(()));
        report.usage = Usage { wall, startup: Some(self.startup), ..Usage::default() };
        report.provenance.reason = match self.agent.is_exposed {
            true => format!("the job runs in {}, as the user of the agent there", self.attachment.origin),
            false => format!("the job runs in {}", self.attachment.origin),
        };
        if is_container_over {
            report.provenance.reason.push_str(", which ended before the job");
        }
        describe_end(
            &job,
            started.argv.first(),
            Some(self.attachment.directory().as_str()),
            ended.map(|ended| ended.status),
            captured,
            &mut report,
        );
        Ok(report)
    }

    /// Copies the job's files, and the hook of its interpreter, to the container.
    async fn put_files(&mut self, job: &Job, has_hook: bool) -> Result<(), ContainerError> {
        let base = format!("{}/", self.agent.path);
        let program = job.files.iter().filter_map(|file| {
            file.path.as_str().strip_prefix(&base).map(|path| (path.to_owned(), file.content.as_slice()))
        });
        let mut files: Vec<(String, &[u8])> = program.collect();
        if files.len() < job.files.len() {
            return Err(unsupported("files of the request"));
        }
        let hook: Vec<(String, String)> = HOOK_FILES
            .iter()
            .map(|(path, text)| {
                (format!("{}/{path}", HOOKS_DIR.trim_start_matches(OWN_DIR)), text.replace(OWN_DIR, &base))
            })
            .collect();
        if has_hook {
            files.extend(hook.iter().map(|(path, text)| (path.clone(), text.as_bytes())));
        }
        if files.is_empty() { Ok(()) } else { self.agent.put(files).await }
    }

    /// Returns the outcome of a job whose agent has ended without a report.
    async fn outcome_without_report(&mut self, stop: Option<HostStop>) -> Result<Outcome, ContainerError> {
        for _ in 0..STATE_QUERIES {
            // An engine may report the container as running for a moment after its end.
            if super::inspect(&self.engine, &self.attachment.container.id).await.is_err() {
                return Ok(match stop {
                    Some(HostStop::Cancelled) => Outcome::Cancelled,
                    Some(HostStop::Limit(kind)) => Outcome::LimitHit(kind),
                    // The container was stopped, which kills its processes.
                    None => Outcome::Signalled(9),
                });
            }
            sleep(STATE_INTERVAL).await;
        }
        self.agent.must_be_removed();
        Err(ContainerError::Lost {
            doing: "run the job in the container",
            source: "its agent no longer answers, and processes of the job may still run there".into(),
        })
    }
}

fn unsupported(what: &str) -> ContainerError {
    let why = "a container that codebox has not made cannot have them".to_owned();
    ContainerError::Input { subject: what.to_owned(), why }
}

/// Returns the job with its program below `program_dir` in place of the directory of containers that codebox makes.
pub(super) fn relocated(job: &Job, program_dir: &str) -> Result<Job, ContainerError> {
    let moved = |path: &GuestPath| match path.as_str().strip_prefix(PROGRAM_DIR) {
        Some(rest) => GuestPath::new(format!("{program_dir}{rest}"))
            .map_err(|error| ContainerError::Input { subject: path.to_string(), why: error.rule.to_owned() }),
        None => Ok(path.clone()),
    };
    let mut job = job.clone();
    if let Source::File { name, .. } = &mut job.source {
        *name = moved(name)?;
    }
    for file in &mut job.files {
        file.path = moved(&file.path)?;
    }
    Ok(job)
}

/// Returns the environment of a job: that of programs of the container, then that of the attachment, then the job's own.
pub(super) fn environment(container: &[(String, String)], attachment: &Attachment, job: &Job) -> Vec<(String, String)> {
    let own = attachment.env.iter().chain(&job.env).map(|(name, value)| (name.clone(), value.clone()));
    let all: BTreeMap<String, String> = container.iter().cloned().chain(own).collect();
    all.into_iter().collect()
}

/// Creates a report with the facts of the container.
pub(super) fn report(
    engine: &Engine,
    attachment: &Attachment,
    outcome: Outcome,
    job_limits: &Limits,
    agent: Result<(), &str>,
) -> RunReport {
    let mut provenance = Provenance::new(backend(engine), Isolation::Container);
    let container = &attachment.container;
    provenance.image = Some(container.image.clone()).filter(|image| !image.is_empty());
    provenance.image_digest.clone_from(&container.image_digest);
    provenance.engine = Some(engine.facts.summary());
    provenance.container_id = Some(container.id.clone());
    provenance.directory = Some(attachment.directory().clone());
    let mut report = RunReport::new(outcome, provenance, *job_limits);
    report.effects = Effects::Possible;
    report.enforcement =
        Enforcement { limits: limits(), uncovered: BTreeMap::new(), layers: layers(attachment, agent) };
    report
}

fn backend(engine: &Engine) -> BackendId {
    engine.facts.flavour.id()
}

impl Instance for AttachedInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let id = backend(&self.engine);
            self.run(job, io).await.map_err(|error| error.of(&id))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async move {
            self.agent.close().await;
            Ok(())
        })
    }
}
