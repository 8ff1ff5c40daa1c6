//! One instance: its directories and the jobs that run in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use codebox_analysis::Analyzer;
use codebox_core::path::{MappedPath, resolve_overlaps};
use codebox_core::{
    Access, Adapter, BackendError, BoxFuture, CancelToken, CodeScope, Denial, DenialKind, Effects, Enforcement,
    ErrorFrame, ExecIo, FileChanges, Grants, GuestError, GuestPath, Instance, InstanceSpec, Isolation, Job, LimitKind,
    Limits, NetRules, NetworkUsage, Outcome, Provenance, ReturnedFile, RunReport, SessionState, TrapKind, Usage,
};
use codebox_egress::{Egress, EgressLimits, Secrets};
use codebox_files::{
    Budget, InputManifest, InstanceScratch, JobWorkDir, Owner, collect, make_input_dir, read_inner_file,
    write_input_file,
};
use codebox_streams::{Output, Sinks, Stdin};

use crate::error::WasmError;
use crate::guest::{Channel, GuestResult, JobKind, JobStreams, Net, Quota, SentFrame, Stripper, message};
use crate::interrupt::{CpuClock, HostCpuTime, Interrupt};
use crate::launch::Setup;
use crate::mounts::Mount;
use crate::run::backend::{ENGINE, GuestSource, ID, LoadedRuntime, backend_error, limit_enforcement};
use crate::run::connector::Connector;
use crate::run::execution::{self, Execution};
use crate::run::missing::describe;
use crate::run::session::{KeptGuest, Session};
use crate::store::{ROOT_MOUNT_POINTS, Store};

/// Guest directory of a program outside of the granted directories, for jobs whose /work belongs to the user.
const PROGRAM_DIR: &str = "/run/codebox";

/// Name of the private directory that is a job's own root.
const ROOT: &str = "root";

/// The network of an instance.
pub(crate) struct GrantedNetwork {
    pub rules: NetRules,
    pub connector: Connector,
    pub secrets: Secrets,
}

/// An environment for jobs: an image or component to start from, and directories.
pub(crate) struct WasmInstance {
    /// Store of the language's runtime; `None` for a program that is WebAssembly itself.
    store: Option<Store>,
    loaded: Arc<LoadedRuntime>,
    /// The host directory that the guest sees as `/`.
    root: PathBuf,
    mounts: Vec<Mount>,
    /// Guest directories of the language's packages.
    packages: Vec<GuestPath>,
    scratch: InstanceScratch,
    network: Option<GrantedNetwork>,
    code: CodeScope,
    clock: CpuClock,
    analyzer: Option<Analyzer>,
    /// `None` if each job has a guest of its own.
    session: Option<Session>,
}

impl WasmInstance {
    pub(crate) fn new(
        store: Option<Store>,
        loaded: Arc<LoadedRuntime>,
        mut scratch: InstanceScratch,
        spec: InstanceSpec,
        network: Option<GrantedNetwork>,
        clock: CpuClock,
        analyzer: Option<Analyzer>,
    ) -> Result<Self, WasmError> {
        // The environment comes with each job as values, and tools and the network with the instance.
        let Grants { dirs, project: _, net: _, env: _, secrets: _, tools: _ } = spec.grants;
        let settled =
            resolve_overlaps(&dirs).map_err(|e| WasmError::input("the granted directories", e.to_string()))?;
        let mut mounts = store.as_ref().map_or(Ok(Vec::new()), Store::library_mounts)?;
        for (name, guest) in [("work", GuestPath::work()), ("tmp", GuestPath::tmp())] {
            if !settled.iter().any(|grant| grant.guest == guest) {
                mounts.push(Mount { guest, host: scratch.path(name), access: Access::ReadWrite });
            }
        }
        let mount_points: Vec<_> = settled.iter().map(|grant| grant.guest.clone()).collect();
        let root = root(store.as_ref(), &mut scratch, &mount_points)?;
        mounts.extend(settled.into_iter().map(|grant| Mount {
            guest: grant.guest,
            host: grant.host.to_path_buf(),
            access: grant.access,
        }));
        let packages = spec.layers.iter().map(|layer| layer.guest.clone()).collect();
        mounts.extend(spec.layers.into_iter().map(|layer| Mount {
            guest: layer.guest,
            host: layer.host,
            access: Access::ReadOnly,
        }));
        let session = match spec.session.zip(store.as_ref()) {
            Some((session, store)) => Some(Session::open(
                session,
                spec.limits.memory.at().map(|size| size.get()),
                store,
                &loaded,
                &mut scratch,
                &mounts,
            )?),
            None => None,
        };
        Ok(Self { store, loaded, root, mounts, packages, scratch, network, code: spec.code, clock, analyzer, session })
    }

    async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, WasmError> {
        let startup = Instant::now();
        let kept = self.session.as_mut().and_then(|session| session.kept.take());
        let kind = match (&self.session, &kept) {
            (None, _) => JobKind::Program,
            (Some(session), None) if session.resumes => JobKind::Cell,
            (Some(_), None) => JobKind::FirstCell,
            (Some(_), Some(_)) => JobKind::Cell,
        };
        let text = match &self.loaded.guest_source {
            // It has no function that asks for it.
            GuestSource::Program(_) => Vec::new(),
            GuestSource::Image { .. } | GuestSource::Component(_) => message(job, kind, &self.packages)
                .ok_or_else(|| WasmError::input("the command", "this tier runs programs, not commands"))?,
        };
        let before = self.put_files(job)?;
        let Limits {
            wall,
            cpu,
            memory,
            output,
            disk,
            files,
            open_files,
            processes: _,
            fuel: _,
            net_bytes: _,
            net_connections: _,
        } = job.limits;
        let (kept, egress, network_before) = match kept {
            Some(KeptGuest { guest, egress, network }) => (Some(guest), egress, network),
            None => (None, self.egress(&job.limits), NetworkUsage::default()),
        };
        let host_cpu_time = HostCpuTime::default();
        // No other language loads TypeScript.
        let analyzer = self.analyzer.clone().filter(|_| job.language.adapter() == Some(Adapter::Node));
        let stripper = analyzer.map(|analyzer| Stripper::new(analyzer, &job.limits, host_cpu_time.clone()));
        let setup = Setup {
            root: &self.root,
            mounts: &self.mounts,
            memory: memory.at().map(|size| size.get()),
            quota: Quota::new(
                disk.at().map(|size| size.get()),
                files.at().map(u64::from),
                open_files.at().map(|n| u64::from(n.get())),
            ),
            streams: JobStreams {
                stdin: Stdin::of(&job.stdin, io),
                stdout: Output::new(output),
                stderr: Output::new(output),
                sinks: Sinks::take(io),
                is_terminal: job.terminal.is_some(),
                channel: Channel::new(text)
                    .with_stripper(stripper)
                    .with_results(job.results)
                    .with_input_modes(io.input_modes.clone())
                    .with_tools(io.tools.clone(), self.shares_files()),
            },
            net: egress
                .as_ref()
                .zip(self.network.as_ref())
                .map(|(egress, network)| Net::new(egress.clone(), network.rules.clone(), network.secrets.clone())),
            code: self.code,
            witness: None,
            seed: self.session.as_ref().and_then(|session| session.seed),
        };
        let (wall, cpu, cancel) = (wall.at(), cpu.at(), io.cancel.clone());
        let (clock, abandoned) = (self.clock, CancelToken::new());
        let interrupt = Interrupt { wall, cpu, clock, cancel, abandoned, egress: egress.clone(), host_cpu_time };
        let execution = match (&self.loaded.guest_source, &mut self.session) {
            (GuestSource::Image { code, pool }, Some(session)) => {
                let guest = match kept {
                    Some(guest) => session.continue_in(guest, setup.streams)?,
                    None => session.start(code, pool, setup)?,
                };
                let ran = execution::run_cell(guest, interrupt, io.has_own_thread).await;
                let (guest, mut execution) = ran?;
                let network = execution.result.network.clone();
                // Connections stay open from one cell to the next, and so does the record of them.
                execution.result.network = network.since(&network_before);
                session.kept = execution.end.reusable.then_some(KeptGuest { guest, egress, network });
                execution
            }
            (GuestSource::Image { code, pool }, None) => {
                execution::run_image(code, pool, setup, interrupt, io.has_own_thread).await?
            }
            (GuestSource::Component(code), _) => execution::run_component(code, setup, &interrupt, job).await?,
            (GuestSource::Program(code), _) => execution::run_program(code, setup, &interrupt, job).await?,
        };
        let session = self.session.as_ref();
        let session =
            session.map(|session| SessionState { is_kept: session.kept.is_some(), ..SessionState::default() });
        let Execution { end, result: guest, started, started_at, wall_time, cpu_time } = execution;
        // A guest that was stopped during a change may have made the change before it was counted.
        if guest.quota.touched_disk() || !end.reusable {
            self.scratch.mark_dirty();
        }
        let mut report = RunReport::new(end.outcome, self.provenance(), job.limits);
        report.session = session;
        report.usage = Usage {
            wall: wall_time,
            cpu: Some(cpu_time),
            peak_memory: Some(guest.limiter.peak()),
            startup: Some(started - startup),
            disk_written: Some(guest.quota.written()),
            fuel: None,
        };
        report.enforcement = Enforcement { limits: limit_enforcement(self.clock), ..Enforcement::default() };
        // The lack of code ends a guest in a call of the host, and no change is in progress. The job may be run again.
        let lacks_code = report.outcome == Outcome::Trapped(TrapKind::MissingCode);
        let changed = guest.quota.touched_disk() || !(end.reusable || lacks_code);
        if changed && self.shares_files() {
            report.effects = Effects::Possible;
        }
        if !lacks_code && (changed || job.out.is_some()) {
            let budget = Budget::new(disk.at().map(|size| size.get()), io.cancel.clone());
            report.files = self.collect(job, started_at, &before, budget);
            let FileChanges { created, modified, .. } = &report.files;
            if created.iter().chain(modified).any(|file| file.host.is_some()) {
                report.effects = Effects::Possible;
            }
        }
        fill_report(&mut report, guest);
        report.returned = self.returned(job);
        if io.cancel.is_cancelled() && matches!(report.outcome, Outcome::Exited(_)) {
            // The job's files were not all examined, or not all brought out.
            report.outcome = Outcome::Cancelled;
        }
        Ok(report)
    }

    /// Saves the state of the session in a new directory, which can share the first `shared` files of pages with the checkpoint before.
    /// Returns the number of those that it shares.
    #[cfg(target_os = "linux")]
    async fn save(&mut self, dir: &Path, shared: usize) -> Result<usize, WasmError> {
        use crate::run::session::{SavedParts, private_dirs, save};

        let kept = self.session.as_mut().and_then(|session| session.kept.take());
        let Some(KeptGuest { guest, egress, network }) = kept else {
            return Err(WasmError::input("the checkpoint", "the session has no state, because no cell has run in it"));
        };
        let mut guest = guest.close_caches(self.clock).await?;
        let open = guest.guest().describe_open();
        let saved = if open.is_empty() {
            let dirs = private_dirs(&self.scratch, &self.mounts);
            let dirs = dirs.map(|(name, path)| (name, path.to_owned())).collect();
            let Some(store) = self.store.clone() else { return Err(WasmError::GuestLost) };
            let parts = SavedParts { store, loaded: self.loaded.clone(), dirs };
            let dir = dir.to_owned();
            let saving = tokio::task::spawn_blocking(move || {
                let saved = save(&mut guest, &dir, shared, &parts);
                (guest, saved)
            });
            let saved;
            (guest, saved) = saving.await.map_err(|_| WasmError::GuestLost)?;
            saved
        } else {
            let detail = format!("the session has open {}; close it first", open.join(", "));
            Err(WasmError::input("the checkpoint", detail))
        };
        if let Some(session) = &mut self.session {
            session.kept = Some(KeptGuest { guest, egress, network });
        }
        saved
    }

    /// Returns true if the job can change directories that do not belong to it alone.
    fn shares_files(&self) -> bool {
        self.mounts.iter().any(|mount| mount.access == Access::ReadWrite && !self.is_private(&mount.host))
    }

    /// Returns true if a directory belongs to the job alone.
    fn is_private(&self, host: &Path) -> bool {
        host.starts_with(self.scratch.path(""))
    }

    /// Returns one job's access to the granted network.
    fn egress(&self, limits: &Limits) -> Option<Egress> {
        let GrantedNetwork { rules, connector: Connector { dialer, roots }, secrets: _ } = self.network.as_ref()?;
        let egress = Egress::new(rules.clone(), EgressLimits::of(limits), dialer.clone());
        Some(match roots {
            Some(roots) => egress.with_roots(roots.clone()),
            None => egress,
        })
    }

    fn provenance(&self) -> Provenance {
        let mut provenance = Provenance::new(ID, Isolation::Wasm);
        if let Some(store) = &self.store {
            let spec = store.spec();
            provenance.runtime = Some(format!("{} ({})", spec.name, spec.origin()));
            provenance.image = Some(self.loaded.name.clone());
        }
        provenance.image_digest = self.loaded.digest.as_ref().map(|digest| format!("sha256:{digest}"));
        provenance.engine = Some(ENGINE.to_owned());
        provenance
    }

    /// Writes a job's files into the private directories. The files must not replace any file of the user.
    fn put_files(&mut self, job: &Job) -> Result<InputManifest, WasmError> {
        let mut before = InputManifest::new();
        for file in &job.files {
            let (dir, rest) = self.private_dir_for(&file.path)?;
            if rest.is_empty() {
                return Err(WasmError::input(&file.path, "it is a directory"));
            }
            let put = write_input_file(&dir, &rest, &file.content, file.executable);
            let put = put.map_err(WasmError::io("write", file.path.as_str().as_ref()))?;
            before.insert(file.path.as_str().to_owned(), put);
        }
        let work_dir = &job.work_dir;
        if let Ok((dir, rest)) = self.private_dir_for(work_dir) {
            make_input_dir(&dir, &rest).map_err(WasmError::io("create", work_dir.as_str().as_ref()))?;
        }
        Ok(before)
    }

    /// Returns the private directory that contains a path, and the path's components below that directory.
    fn private_dir_for<'p>(&mut self, path: &'p GuestPath) -> Result<(Dir, Vec<&'p str>), WasmError> {
        let parts: Vec<&str> = path.components().collect();
        let place = |guest: &str| GuestPath::new(guest).ok();
        for (name, guest) in
            [("work", Some(GuestPath::work())), ("tmp", Some(GuestPath::tmp())), ("run", place(PROGRAM_DIR))]
        {
            let Some(guest) = guest else { continue };
            if !path.is_within(&guest) {
                continue;
            }
            let host = self.scratch.path(name);
            if name == "run" && !self.mounts.iter().any(|mount| mount.guest == guest) {
                self.scratch.add(name).map_err(WasmError::io("create", &host))?;
                self.mounts.push(Mount { guest: guest.clone(), host: host.clone(), access: Access::ReadOnly });
            }
            if !self.mounts.iter().any(|mount| mount.guest == guest && mount.host == host) {
                break;
            }
            let dir = self.scratch.open(name).map_err(WasmError::io("open", &host))?;
            return Ok((dir, parts[guest.components().count()..].to_vec()));
        }
        Err(WasmError::input(path, "it is not in a private directory of the job"))
    }

    /// Reads the files that the job returns.
    fn returned(&mut self, job: &Job) -> Vec<ReturnedFile> {
        let mut left = ReturnedFile::MAX_BYTES;
        let mut read = |path: &GuestPath| {
            let (dir, parts) = self.private_dir_for(path).map_err(|error| error.to_string())?;
            let bytes = read_inner_file(&dir, &parts, left).map_err(|error| error.to_string())?;
            left -= bytes.len() as u64;
            Ok(bytes.into())
        };
        job.returns.iter().map(|path| ReturnedFile { path: path.clone(), content: read(path) }).collect()
    }

    /// Collects the job's changes in its working directory, and brings files out as the job requests.
    fn collect(&self, job: &Job, since: SystemTime, before: &InputManifest, budget: Budget) -> FileChanges {
        let at = GuestPath::work();
        let Some(mount) = self.mounts.iter().find(|mount| mount.guest == at) else { return FileChanges::default() };
        let Ok(work) = open(&mount.host) else { return FileChanges::default() };
        let owner = if mount.host == self.scratch.path("work") { Owner::Job } else { Owner::User };
        let left = JobWorkDir { dir: &work, at: &at, owner, since, before, guard: job.out_guard };
        collect(&left, job.out.as_ref(), budget)
    }
}

/// Creates the mount points of granted directories and returns the guest's root. Mount points in private directories
/// become empty directories there. For mount points outside of the private directories, the job gets a root of its own.
/// No mount point is created in another granted directory.
fn root(
    store: Option<&Store>,
    scratch: &mut InstanceScratch,
    mount_points: &[GuestPath],
) -> Result<PathBuf, WasmError> {
    let mut own_root = false;
    for point in mount_points {
        if mount_points.iter().any(|other| other != point && point.is_within(other)) {
            continue;
        }
        match [("work", GuestPath::work()), ("tmp", GuestPath::tmp())].iter().find(|(_, place)| point.is_within(place))
        {
            Some((_, place)) if point == place => {}
            Some((name, place)) => {
                let rest: PathBuf = point.components().skip(place.components().count()).collect();
                let made = scratch.create_mount_point(&Path::new(name).join(rest));
                made.map_err(WasmError::io("create a mount point in", &scratch.path(name)))?;
            }
            None => own_root = true,
        }
    }
    if let Some(store) = store.filter(|_| !own_root) {
        return Ok(store.root_dir());
    }
    let places = ROOT_MOUNT_POINTS.iter().map(PathBuf::from);
    let mount_points = mount_points.iter().map(|point| point.components().collect::<PathBuf>());
    for place in places.chain(mount_points) {
        let made = scratch.create_mount_point(&Path::new(ROOT).join(place));
        made.map_err(WasmError::io("create a mount point in", &scratch.path(ROOT)))?;
    }
    Ok(scratch.path(ROOT))
}

fn open(path: &PathBuf) -> std::io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Identifier of figures that have no receiver, which is no missing feature.
const FIGURES: &str = "figures";

/// Moves the guest's results into the report.
fn fill_report(report: &mut RunReport, guest: GuestResult) {
    let GuestResult { channel, quota, missed, captured: [stdout, stderr], limiter: _, network } = guest;
    report.missed = missed;
    report.stdout = stdout;
    report.stderr = stderr;
    report.error = channel.error.map(|error| GuestError {
        name: error.name,
        value: error.value,
        traceback: error.traceback.lines().map(str::to_owned).collect(),
        line: error.line,
        frames: error.frames.into_iter().map(frame).collect(),
    });
    if let Some(results) = channel.results {
        (report.results, report.results_dropped) = (results.bundles, results.dropped);
    }
    let (figures, missing): (Vec<_>, Vec<_>) = channel.missing.into_iter().partition(|missing| missing.what == FIGURES);
    report.missed.shows_figures = !figures.is_empty();
    report.missing = missing.into_iter().map(|missing| describe(&missing.what)).collect();
    report.denials = quota
        .denied()
        .iter()
        .map(|kind| Denial {
            what: DenialKind::Fs,
            detail: format!("access: the limit on {kind} was reached"),
            hint: match kind {
                LimitKind::OpenFiles => "raise the limit, or change the program to close files".to_owned(),
                _ => "raise the limit, or change the program to write less".to_owned(),
            },
        })
        .chain(network.denials())
        .collect();
    if network.may_have_connected() {
        report.effects = Effects::Possible;
    }
    report.network = network;
}

fn frame(SentFrame { file, line, function, code }: SentFrame) -> ErrorFrame {
    ErrorFrame { file, line, column: None, function, code }
}

impl Instance for WasmInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let name = job.language.runtime_language().as_str();
            self.run(job, io).await.map_err(|e| backend_error(name, e))
        })
    }

    #[cfg(target_os = "linux")]
    fn checkpoint<'a>(&'a mut self, dir: &'a Path, shared: usize) -> BoxFuture<'a, Result<usize, BackendError>> {
        Box::pin(async move {
            let name = self.loaded.name.clone();
            self.save(dir, shared).await.map_err(|e| backend_error(&name, e))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}
