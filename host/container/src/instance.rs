//! One container, from its creation to its removal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use codebox_agent::{CgroupStats, JobExit, QueryPermission, Run, Status};
use codebox_analysis::Analyzer;
use codebox_core::path::MappedPath as _;
use codebox_core::{
    BackendError, BackendId, BoxFuture, CapturedOutput, Effects, Enforcement, ExecIo, FileChanges, Grants, GuestError,
    GuestPath, InputMode, Instance, Job, LimitKind, Limits, Missing, NetRules, NetworkUsage, Outcome, PackageManager,
    Provenance, ReturnedFile, RunReport, Usage,
};
use codebox_egress::{Dialer, Egress, EgressLimits};
use codebox_files::{
    Budget, Dir, InputManifest, InstanceScratch, JobWorkDir, Owner, collect, file_time, make_input_dir,
    open_dir_without_symlinks, read_inner_file, write_input_file,
};
use codebox_streams::{Sinks, Stdin};
use tokio::time::timeout;

use crate::agent_connection::AgentConnection;
use crate::caller::JobUser;
use crate::classify::{HostStop, outcome};
use crate::command;
use crate::enforcement::{limit_enforcement, sandbox_layers};
use crate::engine::{CALL_TIMEOUT, Engine};
use crate::engine_machine::Guard;
use crate::error::ContainerError;
use crate::exec::{ExecResult, Streams, run};
use crate::guest_modules;
use crate::images::ImageFacts;
use crate::last_state::last_state;
use crate::mounts::{Granted, PROGRAM_DIR};
use crate::port_forwards::{JobConnections, PortForwards};
use crate::queries::Stripper;
use crate::watch::Watch;

mod leased;
mod make;
mod places;
mod removal;
mod session;

use places::{PRIVATE_DIRS, own};
use removal::ContainerGuard;
pub(crate) use removal::remove;

/// Variables of the image that a job inherits: the search path for programs, and the locale.
pub(crate) const INHERITED_VARIABLES: [&str; 3] = ["PATH", "LANG", "LC_ALL"];

/// A container that is ready for a job.
pub(crate) struct ContainerInstance {
    pub(crate) engine: Engine,
    backend: BackendId,
    pub(crate) container: ContainerGuard,
    agent_connection: AgentConnection,
    image: ImageFacts,
    user: JobUser,
    pub(crate) granted: Granted,
    /// Directories in which the language finds its packages.
    packages: Vec<GuestPath>,
    scratch: InstanceScratch,
    /// Port forwards with which the container was created.
    pub(crate) port_forwards: PortForwards,
    /// Guest path of the certificate authorities.
    pub(crate) ca_bundle: Option<&'static str>,
    startup: Duration,
    /// Background work, which `close` waits for.
    background: Option<tokio::task::JoinHandle<()>>,
    /// Work to do once the job is over.
    on_close: Option<Box<dyn FnOnce() + Send>>,
    /// Parser for the job's TypeScript.
    analyzer: Option<Analyzer>,
    /// Use of the directories in the virtual machine of the engine, until the container is removed.
    placed: Option<Guard>,
    /// The interpreter, if the jobs are cells of a session.
    session: Option<Box<session::KeptInterpreter>>,
}

impl ContainerInstance {
    /// Sets background work that may continue beside the job.
    pub(crate) fn set_background(&mut self, work: tokio::task::JoinHandle<()>) {
        self.background = Some(work);
    }

    /// Sets work to do once the job is over.
    pub(crate) fn on_close(&mut self, work: impl FnOnce() + Send + 'static) {
        self.on_close = Some(Box::new(work));
    }

    /// Sets the analyzer that parses the job's TypeScript.
    pub(crate) fn set_analyzer(&mut self, analyzer: Analyzer) {
        self.analyzer = Some(analyzer);
    }

    /// Takes the connection to the agent out of the instance, which only removes its container from then on.
    pub(crate) fn take_agent_connection(&mut self) -> AgentConnection {
        std::mem::replace(&mut self.agent_connection, AgentConnection::closed())
    }

    /// Returns the host path of a private directory of the instance.
    pub(crate) fn scratch_path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path(name)
    }

    async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, ContainerError> {
        let before = self.put_files(job)?;
        let stripper = Stripper::new(self.analyzer.clone(), &job.limits);
        let started = command::of(job, &stripper).await?;
        let Limits {
            wall,
            cpu,
            memory: _,
            output: _,
            disk,
            files: _,
            open_files: _,
            processes: _,
            fuel: _,
            net_bytes: _,
            net_connections: _,
        } = job.limits;
        // The program that is passed on standard input needs a pipe.
        let terminal = job.terminal.filter(|_| started.program.is_none());
        // The terminal of the container edits lines, so that a program can change its modes.
        let terminal_edits = terminal.is_some() && io.input_modes.is_some();
        // An earlier attempt may have changed the mode.
        let mode = if terminal_edits { InputMode::Keys } else { InputMode::Lines };
        io.input_modes.iter().for_each(|modes| modes.set(mode));
        let request = Run {
            argv: started.argv.clone(),
            env: environment(
                job,
                io.tools.is_some(),
                &self.packages,
                self.port_forwards.environment(job, self.ca_bundle),
            ),
            from_image: INHERITED_VARIABLES.map(str::to_owned).to_vec(),
            cwd: job.work_dir.as_str().to_owned(),
            query_permission: if io.tools.is_some() { QueryPermission::Allowed } else { started.query_permission },
            port_forwards: self.port_forwards.places(),
            terminal,
            terminal_edits,
            wall_ms: wall.at().map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            cpu_ms: cpu
                .at()
                .filter(|_| self.engine.facts.own_groups)
                .map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
        };
        let stdin = match &started.program {
            Some(program) => Stdin::bytes(program.clone().into_bytes()),
            None => Stdin::of(&job.stdin, io),
        };
        let resizes = io.resizes.take();
        let streams =
            Streams { stdin, sinks: Sinks::take(io), cancel: io.cancel.clone(), tools: io.tools.clone(), resizes };
        let mut watch = Watch::over(self.private_dirs()?, &job.limits).map(Watch::without_inputs);
        let mut job_connections = self.job_connections(job);
        let since = file_time();
        let done = run(
            &mut self.agent_connection,
            request,
            &job.limits,
            streams,
            &stripper,
            watch.as_mut(),
            job_connections.as_mut(),
        );
        let done = done.await;
        let network = match job_connections {
            Some(job_connections) => {
                let by_itself = matches!(&done, Ok(ExecResult { stop: None, ended: Ok(Some(_)), .. }));
                job_connections.finish(by_itself).await
            }
            None => NetworkUsage::default(),
        };
        // Also for a job whose outcome is unknown, so that no measurement runs on directories that are being removed.
        let final_usage = match &mut watch {
            Some(watch) => Some(watch.final_usage().await),
            None => None,
        };
        let ExecResult { ended, stop, captured, began } = done?;
        let full = final_usage.as_ref().and_then(|final_usage| final_usage.full);
        let reported = match ended {
            Ok(mut ended) => {
                if let (Some(ended), false) = (&mut ended, self.engine.facts.own_groups) {
                    // The counters include all other processes in the shared cgroup.
                    ended.evidence = CgroupStats::default();
                }
                self.report(job, ended.as_ref(), stop, began, full).await.map(|report| (report, ended))
            }
            Err(error) => Err(error),
        };
        let (mut report, ended) = match reported {
            Ok(reported) => reported,
            Err(error) => return Err(ContainerError::mid_job(captured)(error)),
        };
        report.denials.extend(network.denials());
        report.network = network;
        report.usage.cpu = report.usage.cpu.map(|cpu| cpu + stripper.used());
        report.usage.disk_written = final_usage.and_then(|final_usage| final_usage.bytes);
        report.denials.extend(watch.and_then(|watch| watch.denial()));
        let budget = Budget::new(disk.at().map(|size| size.get()), io.cancel.clone());
        report.files = self.collect(job, since, &before, budget);
        describe_end(job, started.argv.first(), None, ended.map(|ended| ended.status), captured, &mut report);
        Ok(report)
    }

    /// Creates the connections through the port forwards, if there are port forwards.
    fn job_connections(&self, job: &Job) -> Option<JobConnections> {
        self.connections(&job.grants, &job.limits)
    }

    /// Creates the connections through the port forwards with these grants and limits, if there are port forwards.
    pub(crate) fn connections(&self, grants: &Grants, limits: &Limits) -> Option<JobConnections> {
        let rules = NetRules(grants.net.clone());
        let egress = Egress::new(rules, EgressLimits::of(limits), Dialer::Direct);
        (!self.port_forwards.is_none()).then(|| JobConnections::new(egress, self.port_forwards.targets()))
    }

    /// Creates the report of a job, from the agent's report of the end or, without one, from the engine's.
    async fn report(
        &mut self,
        job: &Job,
        ended: Option<&JobExit>,
        stop: Option<HostStop>,
        began: Instant,
        full: Option<LimitKind>,
    ) -> Result<RunReport, ContainerError> {
        let job_outcome = match ended {
            Some(ended) => outcome(ended, stop, full),
            None => self.outcome_by_engine(stop).await?,
        };
        let evidence = ended.map(|ended| ended.evidence).unwrap_or_default();
        let usage = Usage {
            wall: ended.map_or(began.elapsed(), |ended| Duration::from_micros(ended.wall_us)),
            cpu: evidence.cpu_us.map(Duration::from_micros),
            peak_memory: evidence.peak_memory,
            startup: Some(self.startup),
            disk_written: None,
            fuel: None,
        };
        Ok(self.report_of(job_outcome, job, usage))
    }

    /// Creates a report with the facts of the container.
    fn report_of(&self, outcome: Outcome, job: &Job, usage: Usage) -> RunReport {
        let mut report = RunReport::new(outcome, self.provenance(), job.limits);
        report.provenance.directory = Some(job.work_dir.clone());
        report.usage = usage;
        report.effects = Effects::Possible;
        report.enforcement = Enforcement {
            limits: limit_enforcement(&self.engine.facts),
            uncovered: self.granted.uncovered(),
            layers: sandbox_layers(&self.engine.facts, &self.port_forwards, job.cpus),
        };
        report
    }

    /// Returns the outcome of a job whose agent is gone, from the engine's state of the container.
    async fn outcome_by_engine(&mut self, stop: Option<HostStop>) -> Result<Outcome, ContainerError> {
        use crate::classify::HostStop::{Cancelled, Limit};
        if let Some(stop) = stop {
            // The host has stopped the job. If the engine does not confirm that the container is dead, the outcome is
            // unknown.
            self.container.kill().await?;
            return Ok(match stop {
                Cancelled => Outcome::Cancelled,
                Limit(kind) => Outcome::LimitHit(kind),
            });
        }
        // A container that no longer exists was removed by another process, which kills its processes.
        let is_leased = self.container.is_leased();
        let no_status = if is_leased { None } else { Some(0) };
        let Some(state) = last_state(&self.engine.client, self.container.id(), no_status).await? else {
            return Ok(Outcome::Signalled(9));
        };
        match (state.oom_killed, state.exit_code) {
            (Some(true), _) => Ok(Outcome::LimitHit(LimitKind::Memory)),
            // The container was killed from outside: by a user of the engine, or by the kernel without the engine's
            // notice.
            (_, Some(137)) => Ok(Outcome::Signalled(9)),
            // The agent's connection to its host has ended, and the host is another process.
            (_, Some(0)) if is_leased => Err(ContainerError::Lost {
                doing: "forward the container's streams",
                source: "the container pool daemon has exited; run it again".into(),
            }),
            (_, code) => {
                let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
                Err(self
                    .agent_connection
                    .early_end_error("forward the container's streams", &format!("exited with {code}")))
            }
        }
    }

    pub(crate) fn provenance(&self) -> Provenance {
        let mut provenance = Provenance::new(self.backend.clone(), self.engine.isolation());
        provenance.image = Some(self.image.name.to_string());
        provenance.image_digest = Some(self.image.id.clone());
        provenance.engine = Some(self.engine.facts.summary());
        provenance.container_id = Some(self.container.id().to_owned());
        provenance.directory = Some(GuestPath::work());
        provenance
    }

    pub(crate) fn private_dirs(&mut self) -> Result<Vec<Dir>, ContainerError> {
        let mut dirs = Vec::new();
        for (name, guest) in PRIVATE_DIRS {
            if GuestPath::new(guest).is_ok_and(|guest| !self.granted.covers(&guest)) {
                let path = self.scratch.path(name);
                dirs.push(self.scratch.open(name).map_err(ContainerError::io("open", &path))?);
            }
        }
        Ok(dirs)
    }

    /// Writes a job's files into the private directories. The files must not replace a file of the user.
    fn put_files(&mut self, job: &Job) -> Result<InputManifest, ContainerError> {
        let mut before = InputManifest::new();
        for file in &job.files {
            let parts: Vec<&str> = file.path.components().collect();
            let Some((name, above)) = self.private_place(&file.path) else {
                let why = "it is not in a private directory of the job".to_owned();
                return Err(ContainerError::Input { subject: file.path.to_string(), why });
            };
            let path = self.scratch.path(name);
            let dir = self.scratch.open(name).map_err(ContainerError::io("open", &path))?;
            let put = write_input_file(&dir, &parts[above..], &file.content, file.executable);
            put.and_then(|digest| {
                own(&dir, &parts[above..], &self.user)?;
                Ok(digest)
            })
            .map(|digest| before.insert(file.path.as_str().to_owned(), digest))
            .map_err(ContainerError::io("write", file.path.as_str().as_ref()))?;
        }
        self.make_work_dir(&job.work_dir)?;
        Ok(before)
    }

    /// Creates the working directory of a job if it is missing in a private directory.
    fn make_work_dir(&mut self, path: &GuestPath) -> Result<(), ContainerError> {
        let Some((name, above)) = self.private_place(path) else { return Ok(()) };
        let parts: Vec<&str> = path.components().skip(above).collect();
        let dir = self.scratch.open(name).map_err(ContainerError::io("open", &self.scratch.path(name)))?;
        make_input_dir(&dir, &parts)
            .and_then(|()| own(&dir, &parts, &self.user))
            .map_err(ContainerError::io("create", path.as_str().as_ref()))
    }

    /// Returns the private directory that contains a path, and the number of components of the path above it.
    fn private_place(&self, path: &GuestPath) -> Option<(&'static str, usize)> {
        PRIVATE_DIRS.into_iter().chain([("run", PROGRAM_DIR)]).find_map(|(name, guest)| {
            let guest = GuestPath::new(guest).ok()?;
            let ours = path.is_within(&guest) && !self.granted.covers(&guest);
            ours.then(|| (name, guest.components().count()))
        })
    }

    /// Reads the files that a cell returns.
    fn returned(&mut self, job: &Job) -> Vec<ReturnedFile> {
        let mut left = ReturnedFile::MAX_BYTES;
        let mut read = |path: &GuestPath| {
            let parts: Vec<&str> = path.components().collect();
            let (name, above) = self.private_place(path).ok_or("it is not in a private directory of the job")?;
            let dir = self.scratch.open(name).map_err(|error| error.to_string())?;
            let bytes = read_inner_file(&dir, &parts[above..], left).map_err(|error| error.to_string())?;
            left -= bytes.len() as u64;
            Ok(bytes.into())
        };
        job.returns.iter().map(|path| ReturnedFile { path: path.clone(), content: read(path) }).collect()
    }

    /// Returns the files that the job has changed in its working directory, and copies them to the job's output
    /// directory if it has one.
    fn collect(
        &mut self,
        job: &Job,
        since: std::time::SystemTime,
        before: &InputManifest,
        budget: Budget,
    ) -> FileChanges {
        let at = GuestPath::work();
        let (dir, owner) = match self.granted.binds.iter().find(|bind| bind.guest == at.as_str()) {
            Some(bind) => (open_dir_without_symlinks(&bind.host), Owner::User),
            None => (self.scratch.open("work"), Owner::Job),
        };
        let Ok(dir) = dir else { return FileChanges::default() };
        collect(
            &JobWorkDir { dir: &dir, at: &at, owner, since, before, guard: job.out_guard },
            job.out.as_ref(),
            budget,
        )
    }
}

/// Returns the whole environment of a job.
pub(crate) fn environment(
    job: &Job,
    has_tools: bool,
    packages: &[GuestPath],
    port_forwards: impl IntoIterator<Item = (String, String)>,
) -> Vec<(String, String)> {
    let home = [("HOME".to_owned(), "/tmp".to_owned())];
    // The job's own variables take precedence over the defaults.
    let own = job.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let mut all: BTreeMap<String, String> = home.into_iter().chain(port_forwards).chain(own).collect();
    let packages = packages.iter().map(GuestPath::as_str);
    let packages = packages.filter(|_| job.language.package_manager() == Some(PackageManager::Pip));
    // The module of the host tools is found after the packages of the program.
    for place in packages.chain(has_tools.then_some(guest_modules::PYTHON_DIR)) {
        append(&mut all, "PYTHONPATH", ':', place);
    }
    if has_tools {
        append(&mut all, "NODE_OPTIONS", ' ', guest_modules::NODE_OPTION);
    }
    all.into_iter().collect()
}

/// Appends a part to a variable.
fn append(variables: &mut BTreeMap<String, String>, name: &str, separator: char, part: &str) {
    let value = variables.entry(name.to_owned()).or_default();
    // An empty part of a search path would mean the working directory.
    if !value.is_empty() {
        value.push(separator);
    }
    value.push_str(part);
}

/// Adds the output of a job and the error of its program to the report. `dir` is a working directory that may be missing.
pub(crate) fn describe_end(
    job: &Job,
    program: Option<&String>,
    dir: Option<&str>,
    status: Option<Status>,
    [stdout, stderr]: [CapturedOutput; 2],
    report: &mut RunReport,
) {
    if let (Some(Status::NotStarted(number)), Some(program)) = (status, program) {
        report.error = Some(not_started(program, dir, number));
    } else if !report.is_success() {
        // A terminal has one stream.
        describe_error(job, if job.terminal.is_some() { &stdout } else { &stderr }, report);
    }
    (report.stdout, report.stderr) = (stdout, stderr);
}

/// Adds the error of a program to its report. The interpreter in a container is not under our control, so its text is the only source.
fn describe_error(job: &Job, stderr: &CapturedOutput, report: &mut RunReport) {
    let adapter = job.language.adapter();
    let text = String::from_utf8_lossy(stderr.bytes().as_ref()).into_owned();
    report.error = adapter.and_then(|adapter| adapter.parse_error(&text));
    let module = adapter.zip(report.error.as_ref()).and_then(|(adapter, error)| adapter.missing_module(error));
    let is_npm = job.language.package_manager() == Some(PackageManager::Npm);
    // An import can name a file in a package.
    let package = |name: &str| {
        let parts = if name.starts_with('@') { 2 } else { 1 };
        name.split('/').take(parts).collect::<Vec<_>>().join("/")
    };
    report.missing.extend(module.map(|name| {
        let of_npm = is_npm.then(|| Missing::npm_package(&package(&name))).flatten();
        of_npm.unwrap_or_else(|| Missing::module(&name))
    }));
}

fn not_started(program: &str, dir: Option<&str>, number: i32) -> GuestError {
    let (name, value) = if number == 2 {
        // The kernel reports the same for a program and for its directory.
        let place = match dir {
            Some(dir) => format!("command not found in the container, or its working directory {dir} is missing"),
            None => "command not found in the image".to_owned(),
        };
        (GuestError::NOT_FOUND, format!("{program}: {place}"))
    } else {
        let why = std::io::Error::from_raw_os_error(number);
        (GuestError::NOT_STARTED, format!("{program}: {why}"))
    };
    GuestError { name: name.to_owned(), value, ..GuestError::default() }
}

pub(crate) fn files(error: codebox_files::FilesError) -> ContainerError {
    let codebox_files::FilesError::Io { doing, path, source } = error;
    ContainerError::Io { doing, path, source }
}

impl Instance for ContainerInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let backend = self.backend.clone();
            let ran = match self.session {
                Some(_) => self.run_cell(job, io).await,
                None => self.run(job, io).await,
            };
            ran.map_err(|error| error.of(&backend))
        })
    }

    fn checkpoint<'a>(&'a mut self, _dir: &'a Path, _shared: usize) -> BoxFuture<'a, Result<usize, BackendError>> {
        let why = "sessions in containers cannot be saved, forked, parked or exported".to_owned();
        let refused = BackendError::Input { subject: "the session".to_owned(), detail: why, source: None };
        Box::pin(std::future::ready(Err(refused)))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async move {
            let Self { container, backend, agent_connection, scratch, granted, placed, background, on_close, .. } =
                *self;
            let removed = container.now().await;
            if let Some(background) = background {
                let _ = timeout(CALL_TIMEOUT, background).await;
            }
            drop(agent_connection);
            drop(granted);
            drop(placed);
            drop(scratch);
            if let Some(work) = on_close {
                work();
            }
            removed.map_err(|error| error.of(&backend))
        })
    }
}
