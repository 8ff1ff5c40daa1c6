//! Cells of a session in a container.

use codebox_agent::{CgroupStats, QueryPermission, Run};
use codebox_core::{
    EnforcementLevel, ExecIo, GuestPath, Job, LimitKind, Outcome, RunReport, SessionState, Source, Usage,
};
use codebox_files::{Budget, InputManifest, file_time};
use codebox_streams::{DRAIN_TIMEOUT, Delivery, Output, Sinks, Stdin};
use tokio::time::timeout;

use super::{ContainerInstance, INHERITED_VARIABLES, describe_error, environment};
use crate::cell::Cell;
use crate::classify::HostStop;
use crate::command;
use crate::error::ContainerError;
use crate::exec::{CellResult, Streams, run_cell};
use crate::guest_modules;
use crate::port_forwards::JobConnections;
use crate::queries::Stripper;
use crate::watch::Watch;

/// The interpreter of a session, which is started with the first cell.
#[derive(Default)]
pub(super) struct KeptInterpreter {
    is_started: bool,
    /// True if the interpreter has ended, or its state is unknown.
    is_lost: bool,
    cell: Cell,
    /// Connections of the programs, which cells may leave open.
    connections: Option<JobConnections>,
}

impl ContainerInstance {
    /// Runs a cell.
    pub(super) async fn run_cell(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, ContainerError> {
        let refused =
            |subject: &str, why: &str| ContainerError::Input { subject: subject.to_owned(), why: why.to_owned() };
        let Source::Inline(text) = &job.source else { return Err(refused("the cell", "it has to be a text")) };
        if job.limits.cpu.at().is_some() {
            return Err(ContainerError::Limit(LimitKind::Cpu));
        }
        let Some(mut kept) = self.session.take().filter(|kept| !kept.is_lost) else {
            return Err(refused("the session", "its interpreter has ended"));
        };
        self.put_files(job)?;
        let stripper = Stripper::new(self.analyzer.clone(), &job.limits);
        let text = match command::strip_types(&job.language, text, &stripper).await {
            Ok(text) => text,
            // A text that cannot be compiled is an error of its cell alone.
            Err(error) => {
                self.session = Some(kept);
                let (report, text) = self.not_compiled(job, &error);
                deliver_error(io, &text).await;
                return Ok(report);
            }
        };
        let start = match kept.is_started {
            true => None,
            false => Some(self.interpreter(job)?),
        };
        if start.is_some() {
            kept.connections = self.job_connections(job);
        }
        kept.cell.set(&text, job.cell_number, start);
        (kept.is_started, kept.is_lost) = (true, true);
        let streams = Streams {
            stdin: Stdin::bytes(Vec::new()),
            sinks: Sinks::take(io),
            cancel: io.cancel.clone(),
            tools: io.tools.clone(),
            resizes: None,
        };
        let mut watch = Watch::over(self.private_dirs()?, &job.limits);
        let since = file_time();
        let ran = run_cell(
            &mut self.agent_connection,
            &job.limits,
            streams,
            &stripper,
            watch.as_mut(),
            kept.connections.as_mut(),
            &mut kept.cell,
        );
        let ran = ran.await;
        let final_usage = match &mut watch {
            Some(watch) => Some(watch.final_usage().await),
            None => None,
        };
        let CellResult { mut ended, stop, captured, began } = ran?;
        let full = final_usage.as_ref().and_then(|usage| usage.full.or(usage.exceeded));
        let status = kept.cell.status().filter(|_| ended.is_none());
        let mut report = match status {
            Some(status) => {
                let outcome = match (stop, full) {
                    (Some(HostStop::Limit(kind)), _) | (None, Some(kind)) => Outcome::LimitHit(kind),
                    (Some(HostStop::Cancelled), _) => Outcome::Cancelled,
                    (None, None) => Outcome::Exited(status),
                };
                self.report_of(outcome, job, Usage { wall: began.elapsed(), ..Usage::default() })
            }
            None => {
                if let Some(ended) = &mut ended {
                    // The counters and the time are those of all cells.
                    ended.evidence = CgroupStats { oom_kills: ended.evidence.oom_kills, ..CgroupStats::default() };
                    ended.wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                }
                let reported = self.report(job, ended.as_ref(), stop, began, full).await;
                reported.map_err(ContainerError::mid_job(captured.clone()))?
            }
        };
        report.enforcement.limits.insert(LimitKind::Cpu, EnforcementLevel::Unsupported);
        // Limits on the private files end the interpreter, as they do in other runs.
        let is_kept = status.is_some() && !matches!(report.outcome, Outcome::LimitHit(_));
        let results = kept.cell.take_results();
        (report.results, report.results_dropped) = (results.bundles, results.dropped);
        if let Some(connections) = &kept.connections {
            report.network = connections.used();
            report.denials.extend(report.network.denials());
        }
        report.usage.disk_written = final_usage.and_then(|usage| usage.bytes);
        report.denials.extend(watch.and_then(|watch| watch.denial()));
        let budget = Budget::new(job.limits.disk.at().map(|size| size.get()), io.cancel.clone());
        report.files = self.collect(job, since, &InputManifest::new(), budget);
        report.returned = self.returned(job);
        let [stdout, stderr] = captured;
        if !report.is_success() {
            describe_error(job, &stderr, &mut report);
        }
        (report.stdout, report.stderr) = (stdout, stderr);
        report.session = Some(SessionState { is_kept, ..SessionState::default() });
        kept.is_lost = !is_kept;
        self.session = Some(kept);
        Ok(report)
    }

    /// Returns the report of a cell whose types cannot be stripped, and its error.
    fn not_compiled(&self, job: &Job, error: &ContainerError) -> (RunReport, String) {
        let text = match error {
            ContainerError::Input { why, .. } => format!("SyntaxError: {why}\n"),
            error => format!("Error: {error}\n"),
        };
        let mut stderr = Output::new(job.limits.output);
        // The rest of a text above the limit is counted.
        let _ = stderr.write(text.as_bytes());
        let mut report = self.report_of(Outcome::Exited(1), job, Usage::default());
        let stderr = stderr.finish();
        describe_error(job, &stderr, &mut report);
        report.stderr = stderr;
        report.session = Some(SessionState { is_kept: true, ..SessionState::default() });
        (report, text)
    }

    /// Returns the start of the interpreter.
    fn interpreter(&self, job: &Job) -> Result<Run, ContainerError> {
        let language = &job.language;
        let interpreter = language.spec().container.as_ref().zip(guest_modules::session_file(language));
        let Some((interpreter, file)) = interpreter else {
            let why = "it has no sessions in containers".to_owned();
            return Err(ContainerError::Input { subject: format!("language {language}"), why });
        };
        let mut argv = interpreter.command.clone();
        argv.push(file.to_owned());
        Ok(Run {
            argv,
            // The tools come with each cell.
            env: environment(job, true, &self.packages, self.port_forwards.environment(job, self.ca_bundle)),
            from_image: INHERITED_VARIABLES.map(str::to_owned).to_vec(),
            cwd: GuestPath::work().as_str().to_owned(),
            query_permission: QueryPermission::Allowed,
            port_forwards: self.port_forwards.places(),
            terminal: None,
            terminal_edits: false,
            wall_ms: None,
            cpu_ms: None,
        })
    }
}

/// Delivers an error to the reader of the standard error. A reader that is gone needs nothing.
async fn deliver_error(io: &mut ExecIo, text: &str) {
    let mut delivery = Delivery::new(Sinks::take(io));
    let delivered = async {
        let _ = delivery.send(1, text.as_bytes()).await;
        delivery.finish().await;
    };
    let _ = timeout(DRAIN_TIMEOUT, delivered).await;
}
