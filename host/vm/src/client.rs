//! Clients of the process that keeps the machine.

use std::io;
use std::time::{Duration, Instant};

use codebox_core::{Progress, VmPath};
use codebox_vm_guest::Exec;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::channel::{CommandOutput, lost};
use crate::error::{Layer, VmError};
use crate::message::{self, Answer, Hello, PlaceRequest, Ready, Request, Status, VERSION};
use crate::place::VmSettings;

/// Time for a process that has been started to accept clients.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which that is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Size of a piece of the input of a command in bytes.
const PIECE: usize = 32 << 10;

/// Function that starts the process that keeps the machine.
pub type StartKeeper = dyn Fn() -> io::Result<()> + Send + Sync;

/// Client of the process that keeps the machine.
pub struct VmClient {
    settings: VmSettings,
    start: Box<StartKeeper>,
}

/// Use of the machine, or of directories in it. It ends when this is dropped.
#[derive(Debug)]
pub struct Lease {
    stream: BufReader<UnixStream>,
}

impl VmClient {
    /// Creates a client. Accesses nothing.
    #[must_use]
    pub fn new(settings: VmSettings, start: Box<StartKeeper>) -> Self {
        Self { settings, start }
    }

    /// Returns the settings of the machine.
    #[must_use]
    pub fn settings(&self) -> &VmSettings {
        &self.settings
    }

    /// Starts the machine unless it runs, and keeps it as long as the lease.
    ///
    /// # Errors
    /// Returns an error that names the part that failed.
    pub async fn use_machine(&self, progress: &dyn Progress) -> Result<(Ready, Lease), VmError> {
        match self.request(Request::Use, progress).await? {
            (Answer::Ready(ready), lease) => Ok((ready, lease)),
            _ => Err(unexpected()),
        }
    }

    /// Makes directories and files of this machine available in the virtual one, as long as the lease. The paths are in the order of the
    /// request: directories, then files.
    ///
    /// # Errors
    /// Returns an error that names the part that failed.
    pub async fn place(&self, request: PlaceRequest, progress: &dyn Progress) -> Result<(Vec<VmPath>, Lease), VmError> {
        let count = request.dirs.len() + request.files.len();
        match self.request(Request::Place(request), progress).await? {
            (Answer::Placed(paths), lease) if paths.len() == count => Ok((paths, lease)),
            _ => Err(unexpected()),
        }
    }

    /// Runs a command in the machine, which is started first, with an input, and returns its exit status. `has_started` is called when it has
    /// started, and `output` receives what it writes.
    ///
    /// # Errors
    /// Returns an error that names the part that failed.
    pub async fn run(
        &self,
        command: Exec,
        mut input: impl AsyncRead + Unpin,
        has_started: &mut (dyn FnMut() + Send),
        output: &mut (dyn FnMut(CommandOutput) -> io::Result<()> + Send),
        progress: &dyn Progress,
    ) -> Result<i32, VmError> {
        let (Answer::Started, lease) = self.request(Request::Run(command), progress).await? else {
            return Err(unexpected());
        };
        has_started();
        let (mut reader, mut writer) = tokio::io::split(lease.stream);
        let feeding = async {
            let mut piece = vec![0; PIECE];
            loop {
                let length = input.read(&mut piece).await.unwrap_or_default();
                writer.write_u32(u32::try_from(length).unwrap_or_default()).await?;
                writer.write_all(&piece[..length]).await?;
                writer.flush().await?;
                if length == 0 {
                    return Ok::<_, io::Error>(());
                }
            }
        };
        let reading = async {
            loop {
                match CommandOutput::read(&mut reader).await.map_err(|error| lost(&error))? {
                    CommandOutput::Ended(status) => return Ok(status),
                    piece => output(piece).map_err(|error| {
                        VmError::new(Layer::Vm, format!("cannot write the output: {error}"), "check the output")
                    })?,
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            // The command need not read its input.
            ended = async { let _ = feeding.await; std::future::pending().await } => ended,
        }
    }

    /// Returns facts about a machine that is kept; `None` if no process keeps it.
    ///
    /// # Errors
    /// Returns an error if the process does not answer.
    pub async fn status(&self) -> Result<Option<Status>, VmError> {
        let Some(stream) = self.connect().map_err(|error| failed(&error))? else { return Ok(None) };
        match exchange(stream, Request::Status, &codebox_core::Silent).await?.0 {
            Answer::Status(status) => Ok(Some(*status)),
            _ => Err(unexpected()),
        }
    }

    /// Turns the machine off; false if no process keeps it.
    ///
    /// # Errors
    /// Returns an error if the process does not answer.
    pub async fn down(&self) -> Result<bool, VmError> {
        let Some(stream) = self.connect().map_err(|error| failed(&error))? else { return Ok(false) };
        match exchange(stream, Request::Down, &codebox_core::Silent).await?.0 {
            Answer::Done => Ok(true),
            _ => Err(unexpected()),
        }
    }

    async fn request(&self, request: Request, progress: &dyn Progress) -> Result<(Answer, Lease), VmError> {
        let stream = self.connect_or_start().await.map_err(|error| failed(&error))?;
        exchange(stream, request, progress).await
    }

    fn connect(&self) -> io::Result<Option<UnixStream>> {
        match self.settings.keeper().connect() {
            Ok(Some(stream)) => {
                stream.set_nonblocking(true)?;
                UnixStream::from_std(stream).map(Some)
            }
            Ok(None) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn connect_or_start(&self) -> io::Result<UnixStream> {
        if let Some(stream) = self.connect()? {
            return Ok(stream);
        }
        let until = Instant::now() + KEEPER_TIMEOUT;
        (self.start)()?;
        loop {
            if let Some(stream) = self.connect()? {
                return Ok(stream);
            }
            if Instant::now() > until {
                return Err(io::Error::other("it has not started"));
            }
            sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Sends a request, and reads up to its answer.
async fn exchange(stream: UnixStream, request: Request, progress: &dyn Progress) -> Result<(Answer, Lease), VmError> {
    let mut stream = BufReader::new(stream);
    let sent = message::write(stream.get_mut(), &Hello { version: VERSION.to_owned(), request }).await;
    sent.map_err(|error| failed(&error))?;
    let mut is_in_step = false;
    loop {
        let answer = message::read(&mut stream).await.map_err(|error| failed(&error))?;
        if let Some(Answer::Failed(error)) = answer {
            return Err(error);
        }
        if std::mem::take(&mut is_in_step) {
            progress.finished();
        }
        match answer {
            Some(Answer::Progress(what)) => {
                progress.started(&what, None);
                is_in_step = true;
            }
            Some(answer) => return Ok((answer, Lease { stream })),
            None => return Err(failed(&"it has ended")),
        }
    }
}

fn failed(error: &dyn std::fmt::Display) -> VmError {
    VmError::new(Layer::Vm, format!("the process that keeps it does not answer: {error}"), "run the command again")
}

fn unexpected() -> VmError {
    failed(&"unexpected answer")
}
