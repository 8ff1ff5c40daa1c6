//! The process that keeps the machine: it has the only connection, serves all clients of the user, and turns the machine off when it is
//! not used.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::{Silent, Sweep, VmPath};
use codebox_vm_guest::{Exec, JOBS_GROUP, USER};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::channel::Channel;
use crate::error::{Layer, VmError};
use crate::forward;
use crate::image::{IMAGE_VERSION, VmImage};
use crate::message::{self, Answer, Hello, PlaceRequest, Ready, Request, Status, VERSION};
use crate::place::VmSettings;
use crate::provider::{Provider, VmState};
use crate::share::Share;

/// Time for a machine to answer after its start. One that is translated needs most of a minute on a slow processor.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Time for Podman to answer after that.
const PODMAN_TIMEOUT: Duration = Duration::from_secs(90);

/// Interval at which that is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Time without use after which a process without a machine ends.
const LINGER: Duration = Duration::from_secs(10);

/// Time for a machine to turn itself off.
const OFF_TIMEOUT: Duration = Duration::from_secs(20);

/// Directory of the machine for copies of files.
const FILES: &str = "/var/lib/codebox/files";

/// Keeps the machine until it is not used any more, or until a client ends it. Returns at once if another process keeps it.
///
/// # Errors
/// Returns an error if the directory cannot be used. A machine that cannot be started is reported to the clients.
pub async fn keep_vm(settings: VmSettings) -> io::Result<()> {
    codebox_files::private_dir(&settings.dir)?;
    let place = settings.keeper();
    let Some(_lock) = place.lock()? else { return Ok(()) };
    let listener = place.listen()?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let keeper = Arc::new(Keeper::new(settings));
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let keeper = Arc::clone(&keeper);
                clients.spawn(async move {
                    let _ = keeper.serve(stream).await;
                });
            }
            Some(_) = clients.join_next() => {}
            () = keeper.unused() => break,
            () = keeper.ending.notified() => break,
        }
    }
    place.remove_socket();
    keeper.turn_off().await;
    // The answer of the client that has ended the machine.
    let _ = timeout(Duration::from_secs(1), clients.join_next()).await;
    Ok(())
}

struct Keeper {
    settings: VmSettings,
    provider: Box<dyn Provider>,
    /// The connection to a machine that runs. Locked during its start.
    running: tokio::sync::Mutex<Option<Running>>,
    /// Directories by their number.
    shared: Mutex<HashMap<usize, PathBuf>>,
    next: AtomicUsize,
    uses: Mutex<Uses>,
    changed: Notify,
    ending: Notify,
}

struct Uses {
    count: usize,
    /// Time of the last change.
    since: Instant,
}

struct Running {
    channel: Channel,
    /// Forwards Podman.
    _forwarding: JoinSet<()>,
    /// Paths of files of this machine that have a copy, by their digests.
    copies: HashMap<String, VmPath>,
}

/// A use, which ends on drop.
struct Use<'k>(&'k Keeper);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.change_uses(|uses| uses.count -= 1);
    }
}

impl Keeper {
    fn new(settings: VmSettings) -> Self {
        Self {
            provider: settings.provider(),
            settings,
            running: tokio::sync::Mutex::default(),
            shared: Mutex::default(),
            next: AtomicUsize::new(0),
            uses: Mutex::new(Uses { count: 0, since: Instant::now() }),
            changed: Notify::new(),
            ending: Notify::new(),
        }
    }

    fn change_uses<T>(&self, change: impl FnOnce(&mut Uses) -> T) -> T {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut uses);
        uses.since = Instant::now();
        drop(uses);
        self.changed.notify_one();
        changed
    }

    fn begin_use(&self) -> Use<'_> {
        self.change_uses(|uses| uses.count += 1);
        Use(self)
    }

    /// Waits until the machine has not been used for the time of the settings.
    async fn unused(&self) {
        loop {
            let time = match self.running.try_lock() {
                Ok(running) if running.is_none() => LINGER,
                _ => self.settings.idle,
            };
            let left = {
                let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
                (uses.count == 0).then(|| time.saturating_sub(uses.since.elapsed()))
            };
            match left {
                Some(Duration::ZERO) => return,
                Some(left) => drop(timeout(left, self.changed.notified()).await),
                None => self.changed.notified().await,
            }
        }
    }

    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let Some(Hello { version, request }) = message::read(&mut reader).await? else { return Ok(()) };
        if version != VERSION {
            let reason = format!("it is kept by codebox {VERSION}, and this is codebox {version}");
            let error = VmError::new(Layer::Vm, reason, "turn it off with `codebox vm down` of that version");
            return message::write(&mut writer, &Answer::Failed(error)).await;
        }
        let _use = match request {
            Request::Status => None,
            _ => Some(self.begin_use()),
        };
        if let Request::Run(command) = request {
            return self.run(command, &mut reader, &mut writer).await;
        }
        // A client that is gone ends its request, and nothing is sent to it.
        let is_gone = async {
            let mut rest = [0; 64];
            while !matches!(reader.read(&mut rest).await, Ok(0) | Err(_)) {}
        };
        tokio::select! {
            done = self.perform(request, &mut writer) => done,
            () = is_gone => Ok(()),
        }
    }

    /// Runs a command, whose input and output the client has.
    async fn run(
        &self,
        command: Exec,
        client: &mut BufReader<OwnedReadHalf>,
        writer: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let started = match self.start(writer).await {
            Ok(channel) => channel.exec(command).await,
            Err(error) => Err(error),
        };
        let stream = match started {
            Ok(stream) => stream,
            Err(error) => return message::write(writer, &Answer::Failed(error)).await,
        };
        message::write(writer, &Answer::Started).await?;
        let (mut output, mut input) = tokio::io::split(stream);
        let feeding = async {
            loop {
                // A client that is gone ends the command.
                let length = client.read_u32().await?;
                let mut piece = (&mut *client).take(length.into());
                // The command need not read its input.
                let _ = tokio::io::copy(&mut piece, &mut input).await;
                let _ = if length == 0 { input.shutdown().await } else { input.flush().await };
                tokio::io::copy(&mut piece, &mut tokio::io::sink()).await?;
            }
        };
        tokio::select! {
            done = tokio::io::copy(&mut output, writer) => done.map(drop),
            done = feeding => done,
        }
    }

    /// Performs a request, and keeps what it has promised until the machine ends.
    async fn perform(&self, request: Request, writer: &mut OwnedWriteHalf) -> io::Result<()> {
        match request {
            Request::Use => match self.start(writer).await {
                Ok(channel) => {
                    let ready =
                        Ready { socket: self.settings.podman_socket(), user: USER, group: JOBS_GROUP.to_owned() };
                    message::write(writer, &Answer::Ready(ready)).await?;
                    channel.closed().await;
                    Ok(())
                }
                Err(error) => message::write(writer, &Answer::Failed(error)).await,
            },
            Request::Place(request) => match self.place(&request, writer).await {
                Ok((channel, paths, _shares)) => {
                    message::write(writer, &Answer::Placed(paths)).await?;
                    channel.closed().await;
                    Ok(())
                }
                Err(error) => message::write(writer, &Answer::Failed(error)).await,
            },
            Request::Run(_) => Ok(()),
            Request::Status => message::write(writer, &Answer::Status(Box::new(self.status().await))).await,
            Request::Down => {
                self.turn_off().await;
                let answered = message::write(writer, &Answer::Done).await;
                self.ending.notify_one();
                answered
            }
        }
    }

    async fn status(&self) -> Status {
        let channel = match self.running.try_lock() {
            Ok(running) => running.as_ref().map(|running| running.channel.clone()),
            Err(_) => None,
        };
        let facts = match channel {
            Some(channel) => channel.facts().await.ok(),
            None => None,
        };
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner).count;
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        Status { facts, uses, shared, pid: std::process::id() }
    }

    /// Returns the connection to the machine, which is made and started first if need be. Clients that come at once wait for one start.
    async fn start(&self, progress: &mut OwnedWriteHalf) -> Result<Channel, VmError> {
        let mut running = match self.running.try_lock() {
            Ok(running) => running,
            Err(_) => {
                step(progress, "waiting for the virtual machine").await;
                self.running.lock().await
            }
        };
        if let Some(running) = running.as_ref().filter(|running| !running.channel.is_closed()) {
            return Ok(running.channel.clone());
        }
        *running = None;
        let VmSettings { image, spec, .. } = &self.settings;
        let image = VmImage::open(image, self.provider.image_files())?;
        self.provider.probe()?;
        if self.provider.state()? == VmState::Missing {
            step(progress, "making the disk of the virtual machine").await;
            self.in_background(|| self.provider.create(&image, spec, &Silent))?;
        }
        if self.provider.state()? != VmState::Running {
            step(progress, "starting the virtual machine").await;
            self.in_background(|| self.provider.start(&image, spec))?;
        }
        step(progress, "waiting for the virtual machine to answer").await;
        let stream = self.provider.connect().await?;
        let channel = tokio::select! {
            opened = Channel::open(stream, START_TIMEOUT) => opened?,
            error = self.early_end() => return Err(error),
        };
        self.check_version(&channel).await?;
        channel.set_clock().await?;
        step(progress, "waiting for Podman in the virtual machine").await;
        wait_for_podman(&channel).await?;
        let socket = self.settings.podman_socket();
        let listener = forward::listen(&socket).map_err(|error| {
            VmError::new(
                Layer::Network,
                format!("cannot listen at {}: {error}", socket.display()),
                "see codebox doctor",
            )
        })?;
        let mut forwarding = JoinSet::new();
        let forwarded = channel.clone();
        forwarding.spawn(async move { forward::forward(&listener, &forwarded).await });
        *running = Some(Running { channel: channel.clone(), _forwarding: forwarding, copies: HashMap::new() });
        self.changed.notify_one();
        Ok(channel)
    }

    /// Checks that the machine was made from an image of this version. Another one is turned off.
    async fn check_version(&self, channel: &Channel) -> Result<(), VmError> {
        // A system that Lima has installed names none; its program is replaced at each start.
        let found = channel.facts().await?.image;
        if found.is_empty() || found == IMAGE_VERSION.to_string() {
            return Ok(());
        }
        let _ = timeout(OFF_TIMEOUT, power_off(&*self.provider, channel)).await;
        let reason = format!("it was made from an image of version {found}, and this codebox uses {IMAGE_VERSION}");
        Err(VmError::new(Layer::Vm, reason, "remove it, with its container images, with codebox vm reset"))
    }

    /// Calls a function that takes long, while other clients are served.
    fn in_background<T>(&self, call: impl FnOnce() -> T) -> T {
        tokio::task::block_in_place(call)
    }

    /// Waits until the machine has ended during its start, and returns the reason.
    async fn early_end(&self) -> VmError {
        loop {
            sleep(CHECK_INTERVAL).await;
            let reason = match self.provider.state() {
                Ok(VmState::Running) | Err(_) => continue,
                Ok(VmState::Damaged(reason)) => reason,
                Ok(VmState::Missing | VmState::Stopped) => {
                    let log = self.provider.log();
                    let last = log.lines().rev().map(str::trim).find(|line| !line.is_empty());
                    format!("it has ended during its start: {}", last.unwrap_or("it gives no reason"))
                }
            };
            return VmError::new(
                Layer::Vm,
                reason,
                "see codebox vm logs; codebox vm reset makes a new one, without its images",
            );
        }
    }

    /// Makes directories and files of this machine available in the virtual one.
    async fn place(
        &self,
        request: &PlaceRequest,
        progress: &mut OwnedWriteHalf,
    ) -> Result<(Channel, Vec<VmPath>, Vec<Shared<'_>>), VmError> {
        let channel = self.start(progress).await?;
        let (mut paths, mut shares) = (Vec::new(), Vec::new());
        for dir in &request.dirs {
            let share = channel.share(dir).await?;
            paths.push(share.path().clone());
            shares.push(self.list(dir.path.clone(), share));
        }
        for file in &request.files {
            paths.push(self.copy(&channel, file.clone()).await?);
        }
        Ok((channel, paths, shares))
    }

    fn list(&self, path: PathBuf, share: Share) -> Shared<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert(number, path);
        Shared { keeper: self, number, _share: share }
    }

    /// Copies a file to the disk of the machine, unless it has one with the same content.
    async fn copy(&self, channel: &Channel, file: PathBuf) -> Result<VmPath, VmError> {
        let failed = |error: &dyn std::fmt::Display| {
            VmError::new(Layer::Vm, format!("cannot copy {}: {error}", file.display()), "see codebox vm logs")
        };
        let from = file.clone();
        let content = tokio::task::spawn_blocking(move || std::fs::read(from)).await;
        let content = content.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let digest = codebox_files::hex(&Sha256::digest(&content));
        let known = |running: &Option<Running>| running.as_ref().and_then(|one| one.copies.get(&digest).cloned());
        if let Some(path) = known(&*self.running.lock().await) {
            return Ok(path);
        }
        let path = format!("{FILES}/{digest}");
        // A copy is complete when it has its name. Each attempt has its own name before.
        let script = format!(
            "test -e {path} || {{ mkdir -p {FILES} && cat > {path}.$$ && chmod 755 {path}.$$ && mv {path}.$$ {path}; }}"
        );
        let command = Exec { argv: ["sh", "-c", &script].map(str::to_owned).to_vec(), is_root: true };
        let result = channel.run(command, &content).await?;
        if result.status != 0 {
            return Err(failed(&String::from_utf8_lossy(&result.stderr).trim()));
        }
        let path = VmPath::new(&path).map_err(|error| failed(&error))?;
        if let Some(running) = self.running.lock().await.as_mut() {
            running.copies.insert(digest, path.clone());
        }
        Ok(path)
    }

    /// Turns the machine off, by force if it does not answer.
    async fn turn_off(&self) {
        let running = self.running.lock().await.take();
        let _ = std::fs::remove_file(self.settings.podman_socket());
        let off = async {
            match &running {
                Some(running) => power_off(&*self.provider, &running.channel).await,
                None => self.provider.kill(),
            }
        };
        if !matches!(timeout(OFF_TIMEOUT, off).await, Ok(Ok(()))) {
            let _ = self.provider.kill();
        }
    }
}

/// Ends a machine that runs without a process that keeps it, as a killed one leaves it, or finds it only. Returns true if there is one.
///
/// # Errors
/// Returns an error if the provider does not answer, or the machine cannot be ended.
pub async fn end_abandoned(settings: &VmSettings, how: Sweep) -> Result<bool, VmError> {
    let provider = settings.provider();
    if !settings.dir.exists() || provider.state()? != VmState::Running {
        return Ok(false);
    }
    // While this process has the lock, no other one keeps the machine.
    let lock = settings.keeper().lock().map_err(|error| VmError::of_files("lock it", &error))?;
    if lock.is_none() || provider.state()? != VmState::Running {
        return Ok(false);
    }
    if how == Sweep::Remove {
        let off = async {
            let channel = Channel::open(provider.connect().await?, OFF_TIMEOUT).await?;
            power_off(&*provider, &channel).await
        };
        if !matches!(timeout(2 * OFF_TIMEOUT, off).await, Ok(Ok(()))) {
            provider.kill()?;
        }
    }
    Ok(true)
}

/// Turns a machine off, and waits for its end.
async fn power_off(provider: &dyn Provider, channel: &Channel) -> Result<(), VmError> {
    channel.power_off().await?;
    if !provider.ends_with_system() {
        return provider.kill();
    }
    while provider.state()? == VmState::Running {
        sleep(CHECK_INTERVAL).await;
    }
    Ok(())
}

/// A directory in the list of those that are shared.
struct Shared<'k> {
    keeper: &'k Keeper,
    number: usize,
    _share: Share,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.keeper.shared.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

async fn step(progress: &mut OwnedWriteHalf, what: &str) {
    // The client can be gone.
    let _ = message::write(progress, &Answer::Progress(what.to_owned())).await;
}

/// Waits until Podman accepts connections.
async fn wait_for_podman(channel: &Channel) -> Result<(), VmError> {
    let until = Instant::now() + PODMAN_TIMEOUT;
    loop {
        match channel.podman().await {
            Ok(_) => return Ok(()),
            Err(error) if error.layer != Layer::Podman || Instant::now() > until => return Err(error),
            Err(_) => sleep(CHECK_INTERVAL).await,
        }
    }
}
