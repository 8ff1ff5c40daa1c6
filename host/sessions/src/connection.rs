//! One client of the process that keeps the sessions.

use std::io::{self, BufWriter};
use std::time::Duration;

use codebox_core::{Job, OutputSink, ResultKind, RunnerError};
use codebox_runner::with_audit;
use codebox_worker::frame::{self, Kind, MaxSizes};
use serde_bytes::ByteBuf;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exec::{Work, exec};
use crate::message::{Answer, Hello, Request, VERSION};
use crate::serve::Process;

/// Maximum size of a request in bytes. A cell has at most 16 MiB.
const MAX_REQUEST: u32 = 32 << 20;

/// Maximum size of a piece of a file in bytes.
pub(crate) const PIECE: usize = 1 << 18;

/// Number of pieces of output that wait for a slow client, after which the cell waits.
pub(crate) const QUEUED: usize = 16;

const SIZES: MaxSizes = MaxSizes { ordinary: MAX_REQUEST, last: MAX_REQUEST };

/// Serves the requests of a client, one after the other.
pub(crate) async fn serve(process: &Process, stream: UnixStream) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let Some((_, Hello { version })) = frame::read_async(&mut reader, SIZES).await? else { return Ok(()) };
    if process.is_ending() {
        return Ok(());
    }
    if version != VERSION {
        let line = format!("the process that keeps the sessions is codebox {VERSION}, and this is codebox {version}");
        let fix = "run `codebox session end` with that version, which saves the sessions";
        let error = RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix);
        return send(&mut writer, &Answer::Failed(error.into())).await;
    }
    send(&mut writer, &Answer::Done).await?;
    let mut requests = Requests::read(reader);
    match requests.next().await? {
        Some(Request::UseAudit(audit)) => {
            let first = requests.next().await?;
            with_audit(audit, Box::pin(serve_requests(process, first, requests, &mut writer))).await
        }
        first => serve_requests(process, first, requests, &mut writer).await,
    }
}

async fn serve_requests(
    process: &Process,
    first: Option<Request>,
    mut requests: Requests,
    writer: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let mut first = first;
    loop {
        let next = match first.take() {
            Some(request) => Some(request),
            None => requests.next().await?,
        };
        let Some(request) = next else { return Ok(()) };
        let answer = match request {
            Request::Exec { id, cell, tools, suspends } => {
                let work = Work::Cell(cell, suspends);
                match Box::pin(exec(process, &id, work, tools, &mut requests, writer)).await {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            Request::Resume { id, position, resumption, tools } => {
                let work = Work::Suspended(position, resumption);
                match Box::pin(exec(process, &id, work, tools, &mut requests, writer)).await {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            Request::End => {
                let left = process.keeper.park_idle(Duration::ZERO).await;
                if left.is_empty() {
                    send(writer, &Answer::Done).await?;
                    process.request_end();
                    continue;
                }
                not_saved(&left)
            }
            Request::Export { id, name } => match export(process, &id, name.as_deref(), writer).await? {
                Some(answer) => answer,
                None => return Ok(()),
            },
            Request::Import(job) => match import(process, *job, &mut requests).await? {
                Some(answer) => answer,
                None => return Ok(()),
            },
            // The cell has ended meanwhile.
            Request::Cancel | Request::ToolResult(..) | Request::UseAudit(_) => continue,
            request => perform(process, request).await.unwrap_or_else(|error| Answer::Failed(error.into())),
        };
        send(writer, &answer).await?;
    }
}

/// The requests of a client, which are read by a task of their own: a message can be read in part when a cell ends.
pub(crate) struct Requests {
    received: mpsc::Receiver<io::Result<Request>>,
    reading: JoinHandle<()>,
}

impl Requests {
    fn read(mut reader: OwnedReadHalf) -> Self {
        let (sender, received) = mpsc::channel(1);
        let reading = tokio::spawn(async move {
            while let Some(read) = frame::read_async(&mut reader, SIZES).await.transpose() {
                let is_last = read.is_err();
                if sender.send(read.map(|(_, request)| request)).await.is_err() || is_last {
                    return;
                }
            }
        });
        Self { received, reading }
    }

    /// Returns the next request; `None` at the end. A request is not lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Request>> {
        self.received.recv().await.transpose()
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

pub(crate) async fn send(writer: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame::append(&mut bytes, Kind::Ordinary, answer)?;
    writer.write_all(&bytes).await
}

fn not_saved(left: &[(String, String)]) -> Answer {
    let all: Vec<String> = left.iter().map(|(id, why)| format!("{id} ({why})")).collect();
    let line = format!("cannot save all sessions: {}", all.join("; "));
    let error = RunnerError::new(ResultKind::Busy, line).with_fix("close what they have open, or stop these sessions");
    Answer::Failed(error.into())
}

/// Performs a request that runs no cell.
async fn perform(process: &Process, request: Request) -> Result<Answer, RunnerError> {
    let keeper = &process.keeper;
    Ok(match request {
        Request::Create(job, container) => Answer::Created(vec![keeper.create(*job, container).await?]),
        Request::Fork { id, count } => Answer::Created(keeper.fork(&id, count).await?),
        Request::Checkpoint { id, name } => {
            keeper.checkpoint(&id, &name).await?;
            Answer::Done
        }
        Request::Restore { id, name } => {
            keeper.restore(&id, &name).await?;
            Answer::Done
        }
        Request::GiveSecrets { id, values } => {
            keeper.give_secrets(&id, values).await?;
            Answer::Done
        }
        Request::Park(id) => {
            keeper.park(&id).await?;
            Answer::Done
        }
        Request::Stop(id) => {
            keeper.stop(&id).await?;
            Answer::Done
        }
        Request::Suspended(id) => Answer::Suspended(keeper.suspended(&id)?),
        Request::Discard(id, position) => {
            keeper.discard(&id, position).await?;
            Answer::Done
        }
        Request::List => Answer::Sessions(keeper.list()),
        Request::Exec { .. }
        | Request::Resume { .. }
        | Request::Export { .. }
        | Request::Import(_)
        | Request::Piece(_)
        | Request::Cancel
        | Request::ToolResult(..)
        | Request::UseAudit(_)
        | Request::End => Answer::Done,
    })
}

/// Exports a session, and passes the file on. `None` if the client is gone.
async fn export(
    process: &Process,
    id: &str,
    name: Option<&str>,
    writer: &mut OwnedWriteHalf,
) -> io::Result<Option<Answer>> {
    let (sender, mut pieces) = mpsc::channel(QUEUED);
    let to = BufWriter::with_capacity(PIECE, AnswerSink { stream: 0, sender });
    let forward = async {
        let mut is_gone = false;
        while let Some(piece) = pieces.recv().await {
            if send(writer, &piece).await.is_err() {
                is_gone = true;
                break;
            }
        }
        // The export fails when it has no receiver.
        drop(pieces);
        is_gone
    };
    let (exported, is_gone) = tokio::join!(process.keeper.export(id, name, to), forward);
    Ok((!is_gone).then(|| done(exported.map(|()| Answer::Done))))
}

/// Imports a session from the pieces that the client sends. `None` if the client is gone.
async fn import(process: &Process, job: Job, requests: &mut Requests) -> io::Result<Option<Answer>> {
    let (sender, pieces) = mpsc::channel(QUEUED);
    let from = PieceReader { pieces, piece: Vec::new(), read: 0 };
    let receive = async move {
        let mut sender = Some(sender);
        loop {
            match requests.next().await {
                Ok(Some(Request::Piece(piece))) if piece.is_empty() => return true,
                // The rest of a file that is refused is not used.
                Ok(Some(Request::Piece(piece))) => match &sender {
                    Some(open) if open.send(piece.into_vec()).await.is_err() => sender = None,
                    _ => {}
                },
                _ => return false,
            }
        }
    };
    let (imported, is_complete) = tokio::join!(process.keeper.import(job, from), receive);
    match (imported, is_complete) {
        (imported, true) => Ok(Some(done(imported.map(|id| Answer::Created(vec![id]))))),
        (Ok(id), false) => {
            // The client has not learnt the id.
            let _ = process.keeper.stop(&id).await;
            Ok(None)
        }
        (Err(_), false) => Ok(None),
    }
}

fn done(answer: Result<Answer, RunnerError>) -> Answer {
    answer.unwrap_or_else(|error| Answer::Failed(error.into()))
}

/// Reader of the pieces of a file that a client sends.
struct PieceReader {
    pieces: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    /// Number of bytes of the piece that were read.
    read: usize,
}

impl io::Read for PieceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            (self.piece, self.read) = (self.pieces.blocking_recv().unwrap_or_default(), 0);
        }
        let count = (&self.piece[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

impl io::Write for AnswerSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        OutputSink::write(self, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receiver of output that passes it to the client.
pub(crate) struct AnswerSink {
    pub stream: u8,
    pub sender: mpsc::Sender<Answer>,
}

impl OutputSink for AnswerSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let answer = Answer::Output(self.stream, ByteBuf::from(bytes));
        self.sender.blocking_send(answer).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
