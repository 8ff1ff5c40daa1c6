//! One container, from its making to its removal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder,
};
use codebox_agent::{Run, Status, Word};
use codebox_core::path::MappedPath as _;
use codebox_core::{
    Access, BackendError, BackendId, BoxFuture, Effects, Enforcement, ExecIo, FileChanges, Grants, GuestPath, Instance,
    InstanceSpec, Isolation, Job, Limits, Outcome, Provenance, RunReport, Usage,
};
use codebox_files::{Before, Budget, Dir, InstanceScratch, Left, Owner, collect, file_time, put_file};
use codebox_streams::Stdin;
use tokio::time::timeout;

use crate::backend::{Shared, held, walls};
use crate::caller::JobUser;
use crate::classify::outcome;
use crate::command::{self, HOOK_FILES, HOOKS};
use crate::engine::{Engine, LONG, PATIENCE};
use crate::error::ContainerError;
use crate::exec::{Done, Streams, run};
use crate::harden::{Wanted, container, life, own_binds};
use crate::images::ImageFacts;
use crate::mounts::{Bind, Granted, PROGRAM_DIR};
use crate::talk::Talk;
use crate::uncaught;
use crate::watch::Watch;

/// The image's own variables that a job gets: where its programs are, and what language they speak.
const FROM_IMAGE: [&str; 3] = ["PATH", "LANG", "LC_ALL"];

/// A container that is ready for a job.
pub(crate) struct ContainerInstance {
    engine: Engine,
    backend: BackendId,
    id: Removal,
    talk: Talk,
    image: ImageFacts,
    user: JobUser,
    granted: Granted,
    scratch: InstanceScratch,
    startup: Duration,
    /// What goes on beside the job and is waited for at the end.
    beside: Option<tokio::task::JoinHandle<()>>,
}

/// Removes a container when it is not needed any more, whatever became of who made it.
struct Removal {
    client: Docker,
    id: Option<String>,
}

impl Removal {
    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    async fn now(mut self) -> Result<(), ContainerError> {
        match self.id.take() {
            Some(id) => remove(&self.client, &id).await,
            None => Ok(()),
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let client = self.client.clone();
        // Its line is cut by now, so the agent ends what runs; without a runtime the next start removes the rest.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = remove(&client, &id).await;
            });
        }
    }
}

/// Removes a container and the volumes that it alone has; one that is gone already is no error.
///
/// An engine that is at it by itself, because the container has just ended, says so; it is asked again.
pub(crate) async fn remove(client: &Docker, id: &str) -> Result<(), ContainerError> {
    let mut tries = 0;
    loop {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = match timeout(2 * PATIENCE, client.remove_container(id, Some(options))).await {
            Ok(done) => done.map_err(ContainerError::call("remove a container")),
            Err(late) => Err(ContainerError::Lost { doing: "remove a container", source: Box::new(late) }),
        };
        match removed {
            Err(ContainerError::Gone { .. }) => return Ok(()),
            Err(ContainerError::Refused { .. }) if tries < 10 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => return other,
        }
    }
}

/// A call with the time that making and starting may take.
async fn call<T>(
    doing: &'static str,
    future: impl Future<Output = Result<T, bollard::errors::Error>>,
) -> Result<T, ContainerError> {
    match timeout(LONG, future).await {
        Ok(done) => done.map_err(ContainerError::call(doing)),
        Err(late) => Err(ContainerError::Lost { doing, source: Box::new(late) }),
    }
}

/// Attaches to a container, starts it and waits for its agent.
async fn begin(client: &Docker, id: &str, image: &ImageFacts) -> Result<Talk, ContainerError> {
    let streams = AttachContainerOptionsBuilder::default().stream(true).stdin(true).stdout(true).stderr(true);
    let unstartable = |error| match error {
        ContainerError::Refused { said, .. } => ContainerError::Unstartable { image: image.name.to_string(), said },
        other => other,
    };
    // Podman prepares a container when somebody attaches to it.
    let attached = call("carry its streams", client.attach_container(id, Some(streams.build()))).await;
    let mut talk = Talk::over(attached.map_err(unstartable)?);
    call("start a container", client.start_container(id, None)).await.map_err(unstartable)?;
    match timeout(LONG, talk.word()).await {
        Ok(Ok(Some(Word::Ready))) => Ok(talk),
        Ok(Ok(_)) => Err(talk.broken("start the agent", "it did not start")),
        Ok(Err(error)) => Err(error),
        Err(late) => Err(ContainerError::Lost { doing: "start the agent", source: Box::new(late) }),
    }
}

impl ContainerInstance {
    /// Makes and starts a container with exactly what `spec` says, and waits for its agent.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        engine: Engine,
        image: ImageFacts,
        spec: &InstanceSpec,
    ) -> Result<Self, ContainerError> {
        let began = Instant::now();
        // Environment comes with each job as values; network and tools are granted by nobody yet, which the front end has
        // refused before.
        let Grants { dirs, net: _, env: _, tools: _ } = &spec.grants;
        let agent = shared.agent()?;
        let mut scratch = shared.scratch.instance().map_err(files)?;
        let user = JobUser::pick(&engine.facts, crate::caller::caller());
        let points = shared.points();
        let name = format!("{}-{:08x}", shared.owner.name, rand::random::<u32>());
        let granted = Granted::new(dirs, &user, (&points, &name), &agent)?;
        let mut binds = own_binds(&agent, shared.authorities.as_deref());
        binds.extend(private(&mut scratch, &granted, &user)?);
        binds.push(hook(&mut scratch)?);
        binds.extend(granted.binds.iter().cloned());
        let labels = shared.owner.labels(life(&spec.limits));
        let wanted = Wanted { image: &image, user: &user, limits: &spec.limits, binds: &binds, labels };
        let body = container(wanted, &engine.facts)?;
        let client = engine.client.clone();
        let options = CreateContainerOptionsBuilder::default().name(&format!("codebox-{name}")).build();
        let made = call("make a container", client.create_container(Some(options), body)).await;
        let made = made.map_err(|error| error.needing(image.name.as_str()))?;
        let id = Removal { client: client.clone(), id: Some(made.id) };
        let talk = match begin(&client, id.id(), &image).await {
            Ok(talk) => talk,
            Err(error) => {
                // Here and not later: the process may end with this.
                let _ = id.now().await;
                return Err(error);
            }
        };
        let backend = engine.facts.flavour.id();
        Ok(Self { engine, backend, id, talk, image, user, granted, scratch, startup: began.elapsed(), beside: None })
    }

    /// Lets something go on beside the job, for as long as that takes.
    pub(crate) fn meanwhile(&mut self, work: tokio::task::JoinHandle<()>) {
        self.beside = Some(work);
    }

    async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, ContainerError> {
        let before = self.put_files(job)?;
        let started = command::of(job)?;
        let Limits { wall, cpu, memory: _, output: _, disk, files: _, open_files: _, processes: _, fuel: _ } =
            job.limits;
        let order = Run {
            argv: started.argv.clone(),
            env: environment(job),
            from_image: FROM_IMAGE.map(str::to_owned).to_vec(),
            cwd: GuestPath::work().as_str().to_owned(),
            asks: started.asks,
            wall_ms: wall.at().map(|wall| u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            cpu_ms: cpu.at().map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
        };
        let stdin = match &started.program {
            Some(program) => Stdin::bytes(program.clone().into_bytes()),
            None => Stdin::of(&job.stdin, io),
        };
        let streams = Streams { stdin, sinks: [io.stdout.take(), io.stderr.take()], cancel: io.cancel.clone() };
        let watch = Watch::over(self.private_dirs()?, &job.limits);
        let since = file_time();
        let done = run(&mut self.talk, order, &job.limits, streams, watch.as_ref()).await?;
        let full = watch.as_ref().and_then(Watch::full);
        let mut report = self.report(job, &done, full).await?;
        report.usage.disk_written = watch.as_ref().map(|watch| watch.used().bytes);
        let budget = Budget::new(disk.at().map(|size| size.get()), io.cancel.clone());
        report.files = self.collect(job, since, &before, budget);
        let [stdout, stderr] = done.captured;
        if let (Some(Status::NotStarted(number)), Some(program)) =
            (done.ended.as_ref().map(|ended| ended.status), started.argv.first())
        {
            report.error = Some(not_started(program, number));
        } else if !report.is_success() {
            report.error = uncaught::read(&job.language, stderr.bytes().as_ref());
        }
        (report.stdout, report.stderr) = (stdout, stderr);
        Ok(report)
    }

    /// How it ended, from the agent's word or, where it fell silent, from the engine's.
    async fn report(
        &mut self,
        job: &Job,
        done: &Done,
        full: Option<codebox_core::LimitKind>,
    ) -> Result<RunReport, ContainerError> {
        let ended = match &done.ended {
            Some(ended) => outcome(ended, done.stop, full),
            None => self.outcome_by_engine(done).await?,
        };
        let mut report = RunReport::new(ended, self.provenance(), job.limits);
        let evidence = done.ended.as_ref().map(|ended| ended.evidence).unwrap_or_default();
        report.usage = Usage {
            wall: done.ended.as_ref().map_or(done.began.elapsed(), |ended| Duration::from_micros(ended.wall_us)),
            cpu: evidence.cpu_us.map(Duration::from_micros),
            peak_memory: evidence.peak_memory,
            startup: Some(self.startup),
            disk_written: None,
            fuel: None,
        };
        report.effects = Effects::Possible;
        report.enforcement = Enforcement { limits: held(&self.engine.facts), walls: walls(&self.engine.facts) };
        Ok(report)
    }

    /// The end of a job whose agent is gone: what the engine says of the container.
    async fn outcome_by_engine(&mut self, done: &Done) -> Result<Outcome, ContainerError> {
        use crate::classify::HostStop::{Cancelled, Limit};
        match done.stop {
            Some(Cancelled) => return Ok(Outcome::Cancelled),
            Some(Limit(kind)) => return Ok(Outcome::LimitHit(kind)),
            None => {}
        }
        let asked = timeout(PATIENCE, self.engine.client.inspect_container(self.id.id(), None)).await;
        let state = match asked {
            Ok(Ok(found)) => found.state.unwrap_or_default(),
            Ok(Err(error)) => return Err(ContainerError::call("tell how a container ended")(error)),
            Err(late) => {
                return Err(ContainerError::Lost { doing: "tell how a container ended", source: Box::new(late) });
            }
        };
        match (state.oom_killed, state.exit_code) {
            (Some(true), _) => Ok(Outcome::LimitHit(codebox_core::LimitKind::Memory)),
            // Somebody killed the container: the engine's user, or the kernel without the engine's notice.
            (_, Some(137)) => Ok(Outcome::Signalled(9)),
            (_, code) => {
                let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
                Err(self.talk.broken("carry its streams", &format!("it ended with {code}")))
            }
        }
    }

    fn provenance(&self) -> Provenance {
        let mut provenance = Provenance::new(self.backend.clone(), Isolation::Container);
        provenance.image = Some(self.image.name.to_string());
        provenance.image_digest = Some(self.image.id.clone());
        provenance.engine = Some(self.engine.facts.phrase());
        provenance.container_id = Some(self.id.id().to_owned());
        provenance
    }

    fn private_dirs(&mut self) -> Result<Vec<Dir>, ContainerError> {
        let mut dirs = Vec::new();
        for (name, guest) in PRIVATE {
            if GuestPath::new(guest).is_ok_and(|guest| !self.granted.covers(&guest)) {
                let path = self.scratch.path(name);
                dirs.push(self.scratch.open(name).map_err(ContainerError::io("open", &path))?);
            }
        }
        Ok(dirs)
    }

    /// Puts a job's files into the private directories; they must not replace anything of the user's.
    fn put_files(&mut self, job: &Job) -> Result<Before, ContainerError> {
        let mut before = Before::new();
        for file in &job.files {
            let parts: Vec<&str> = file.path.components().collect();
            let place = PRIVATE.into_iter().chain([("run", PROGRAM_DIR)]).find_map(|(name, guest)| {
                let guest = GuestPath::new(guest).ok()?;
                let ours = file.path.is_within(&guest) && !self.granted.covers(&guest);
                ours.then(|| (name, guest.components().count()))
            });
            let Some((name, above)) = place else {
                let why = "it is not in a private directory of the job".to_owned();
                return Err(ContainerError::Input { subject: file.path.to_string(), why });
            };
            let path = self.scratch.path(name);
            let dir = self.scratch.open(name).map_err(ContainerError::io("open", &path))?;
            let put = put_file(&dir, &parts[above..], &file.content);
            put.and_then(|digest| {
                own(&dir, &parts[above..], &self.user)?;
                Ok(digest)
            })
            .map(|digest| before.insert(file.path.as_str().to_owned(), digest))
            .map_err(ContainerError::io("put in", file.path.as_str().as_ref()))?;
        }
        Ok(before)
    }

    /// What the job changed in its working directory, brought out where the job says so.
    fn collect(&mut self, job: &Job, since: std::time::SystemTime, before: &Before, budget: Budget) -> FileChanges {
        let at = GuestPath::work();
        let (dir, owner) = match self.granted.binds.iter().find(|bind| bind.guest == at.as_str()) {
            Some(bind) => (Dir::open_ambient_dir(&bind.host, cap_std::ambient_authority()), Owner::User),
            None => (self.scratch.open("work"), Owner::Job),
        };
        let Ok(dir) = dir else { return FileChanges::default() };
        collect(&Left { dir: &dir, at: &at, owner, since, before }, job.out.as_ref(), budget)
    }
}

/// Directories of a job's own: their names in its scratch directory, and their places.
const PRIVATE: [(&str, &str); 2] = [("work", "/work"), ("tmp", "/tmp")];

/// The private directories as binds, belonging to the job's user.
fn private(scratch: &mut InstanceScratch, granted: &Granted, user: &JobUser) -> Result<Vec<Bind>, ContainerError> {
    let mut binds = Vec::new();
    let run = scratch.path("run");
    scratch.add("run").map_err(ContainerError::io("create", &run))?;
    binds.push(Bind { host: run, guest: PROGRAM_DIR.to_owned(), access: Access::ReadOnly });
    for (name, guest) in PRIVATE {
        let host = scratch.path(name);
        let dir = scratch.open(name).map_err(ContainerError::io("open", &host))?;
        chown(&dir, user).map_err(ContainerError::io("give away", &host))?;
        if GuestPath::new(guest).is_ok_and(|guest| !granted.covers(&guest)) {
            binds.push(Bind { host, guest: guest.to_owned(), access: Access::ReadWrite });
        }
    }
    // Granted places inside of a private directory are visible in it, and an engine makes them as root.
    for bind in &granted.binds {
        for (name, guest) in PRIVATE {
            if let Some(rest) = bind.guest.strip_prefix(guest).and_then(|rest| rest.strip_prefix('/')) {
                let point = PathBuf::from(name).join(rest);
                scratch.make_point(&point).map_err(ContainerError::io("make a place in", &scratch.path(name)))?;
            }
        }
    }
    Ok(binds)
}

/// The hook for TypeScript as a bind.
fn hook(scratch: &mut InstanceScratch) -> Result<Bind, ContainerError> {
    let host = scratch.path("hook");
    scratch.add("hook").map_err(ContainerError::io("create", &host))?;
    let dir = scratch.open("hook").map_err(ContainerError::io("open", &host))?;
    for (name, text) in HOOK_FILES {
        put_file(&dir, &[name], text.as_bytes()).map_err(ContainerError::io("write", &host))?;
    }
    Ok(Bind { host, guest: HOOKS.to_owned(), access: Access::ReadOnly })
}

#[cfg(unix)]
fn chown(dir: &Dir, user: &JobUser) -> std::io::Result<()> {
    use crate::caller::Owners;
    if user.owners == Owners::Mapped {
        let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
        rustix::fs::chownat(dir, "", Some(uid), Some(gid), rustix::fs::AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn chown(_dir: &Dir, _user: &JobUser) -> std::io::Result<()> {
    Ok(())
}

/// Gives a file that was put in, and the directories that lead to it, to the job's user.
#[cfg(unix)]
fn own(dir: &Dir, parts: &[&str], user: &JobUser) -> std::io::Result<()> {
    use crate::caller::Owners;
    if user.owners != Owners::Mapped {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    let mut dir = dir.try_clone()?;
    for (at, part) in parts.iter().enumerate() {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(&dir, *part, Some(uid), Some(gid), flags)?;
        if at + 1 < parts.len() {
            dir = dir.open_dir(part)?;
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn own(_dir: &Dir, _parts: &[&str], _user: &JobUser) -> std::io::Result<()> {
    Ok(())
}

/// The whole environment of a job.
fn environment(job: &Job) -> Vec<(String, String)> {
    let home = [("HOME", "/tmp")].into_iter().filter(|(name, _)| !job.env.contains_key(*name));
    let home = home.map(|(name, value)| (name.to_owned(), value.to_owned()));
    home.chain(job.env.iter().map(|(name, value)| (name.clone(), value.clone()))).collect()
}

fn not_started(program: &str, number: i32) -> codebox_core::GuestError {
    let (name, value) = if number == 2 {
        ("CommandNotFound", format!("{program}: no such command in the image"))
    } else {
        let why = std::io::Error::from_raw_os_error(number);
        ("CommandNotStarted", format!("{program}: {why}"))
    };
    codebox_core::GuestError { name: name.to_owned(), value, ..codebox_core::GuestError::default() }
}

pub(crate) fn files(error: codebox_files::FilesError) -> ContainerError {
    let codebox_files::FilesError::Io { doing, path, source } = error;
    ContainerError::Io { doing, path, source }
}

impl Instance for ContainerInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let backend = self.backend.clone();
            self.run(job, io).await.map_err(|error| error.of(&backend))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async move {
            let Self { id, backend, talk, scratch, granted, beside, .. } = *self;
            let removed = id.now().await;
            if let Some(beside) = beside {
                let _ = timeout(PATIENCE, beside).await;
            }
            drop(talk);
            drop(granted);
            drop(scratch);
            removed.map_err(|error| error.of(&backend))
        })
    }
}
