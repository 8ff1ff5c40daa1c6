//! One client of a box.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use codebox_core::{BoxCommand, CancelToken, CommandInput, ResultKind, RunReport, RunnerError, ToolName, exit_status};
use codebox_runner::{BoxLogEntry, CommandIo, Shaping};
use codebox_worker::frame::{self, Kind, MaxSizes};
use serde::de::IgnoredAny;
use serde_bytes::ByteBuf;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::client::SIGKILL;
use super::keeper::{Keeper, now_ms};
use super::message::{BoxAnswer, BoxHello, BoxRequest, INPUT_WINDOW};
use crate::message::VERSION;

/// Maximum size of a request in bytes: more than the longest command line and environment that a kernel accepts.
const MAX_REQUEST: u32 = 16 << 20;

const SIZES: MaxSizes = MaxSizes { ordinary: MAX_REQUEST, last: MAX_REQUEST };

/// Timeout for the first message of a client.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of pieces of output that wait for a slow client, after which the command waits.
const QUEUED: usize = 8;

/// Serves the request of a client.
pub(super) async fn serve_client(keeper: &Arc<Keeper>, stream: UnixStream) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let Ok(hello) = timeout(HELLO_TIMEOUT, frame::read_async(&mut reader, SIZES)).await else { return Ok(()) };
    let Some((_, BoxHello { version })) = hello? else { return Ok(()) };
    if version != VERSION {
        let line = format!("the box is kept by codebox {VERSION}, and this is codebox {version}");
        let error = RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use that version, or start a new box");
        return send(&mut writer, &BoxAnswer::Failed(error.into())).await;
    }
    match frame::read_async(&mut reader, SIZES).await? {
        Some((_, BoxRequest::Exec { command, is_whole, tool })) => {
            keeper.touch();
            keeper.commands.fetch_add(1, Ordering::Relaxed);
            keeper.running.fetch_add(1, Ordering::Relaxed);
            let shaping = if is_whole { Shaping::Off } else { Shaping::Settings };
            let answer = exec(keeper, command, (shaping, tool), reader, &mut writer).await;
            keeper.running.fetch_sub(1, Ordering::Relaxed);
            keeper.touch();
            send(&mut writer, &answer).await
        }
        Some((_, BoxRequest::Info)) => send(&mut writer, &BoxAnswer::Info(Box::new(keeper.info()))).await,
        Some((_, BoxRequest::Stop)) => {
            send(&mut writer, &BoxAnswer::Done).await?;
            keeper.stop.notify_one();
            Ok(())
        }
        // A message about a command that was not started.
        Some(_) | None => Ok(()),
    }
}

/// Answers a client for which there is no place.
pub(super) async fn refuse_client(stream: UnixStream) {
    let error =
        RunnerError::new(ResultKind::InvalidRequest, "the box has too many clients").with_fix("try again later");
    let (_reader, mut writer) = stream.into_split();
    let _ = send(&mut writer, &BoxAnswer::Failed(error.into())).await;
}

/// Runs a command, and passes its streams on.
async fn exec(
    keeper: &Arc<Keeper>,
    command: BoxCommand,
    (shaping, tool): (Shaping, Option<ToolName>),
    reader: OwnedReadHalf,
    writer: &mut OwnedWriteHalf,
) -> BoxAnswer {
    keeper.hide(command.env.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned()));
    let argv: Vec<String> = command.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let (input_sender, stdin) = mpsc::channel(1);
    let (control_sender, control) = mpsc::channel(QUEUED);
    let (output_sender, mut output) = mpsc::channel(QUEUED);
    let (taken_sender, mut taken) = mpsc::channel(INPUT_WINDOW);
    let cancel = CancelToken::new();
    let reading = tokio::spawn(read_input(reader, input_sender, control_sender, taken_sender, cancel.clone()));
    let began = Instant::now();
    let mut of_tool = tool.is_some().then(<[Vec<u8>; 2]>::default);
    let running = {
        let (keeper, cancel) = (Arc::clone(keeper), cancel.clone());
        tokio::spawn(async move {
            let (stdin, control) = (Some(stdin), Some(control));
            let mut io = CommandIo { stdin, control, output: Some(output_sender), cancel, shaping, tool };
            keeper.sandbox.exec(command, &mut io).await
        })
    };
    // Ends with the command, which has the sender.
    let mut has_client = true;
    loop {
        let answer = tokio::select! {
            biased;
            Some(()) = taken.recv() => BoxAnswer::InputTaken,
            piece = output.recv() => match piece {
                // The output of a tool is shown without secrets if it fails, which its end tells.
                Some((stream, bytes)) if let Some([output, errors]) = &mut of_tool => {
                    match stream {
                        0 => output.extend(bytes),
                        _ => keep_end(errors, &bytes),
                    }
                    continue;
                }
                Some((stream, bytes)) => BoxAnswer::Output(u8::try_from(stream).unwrap_or(1), ByteBuf::from(bytes)),
                None => break,
            },
            () = keeper.ending.cancelled() => {
                reading.abort();
                running.abort();
                // It has the box until then.
                let _ = running.await;
                keeper.add(interrupted(argv, began.elapsed()));
                let line = format!("the box {} was stopped", keeper.sandbox.name());
                let error = RunnerError::new(ResultKind::EngineLost, line);
                return BoxAnswer::Failed(error.with_fix("start it again with codebox box start").into());
            }
        };
        if has_client && send(writer, &answer).await.is_err() {
            has_client = false;
            cancel.cancel();
        }
    }
    let ran = running.await;
    reading.abort();
    match ran {
        Ok(Ok(report)) => {
            keeper.add(entry_of(argv, &report));
            if let Some([output, errors]) = of_tool {
                let masked = |bytes: &[u8]| keeper.masked(&String::from_utf8_lossy(bytes)).into_bytes();
                let has_result = report.is_success() && serde_json::from_slice::<IgnoredAny>(&output).is_ok();
                let output = if has_result { output } else { masked(end_of(&output)) };
                for (stream, bytes) in [(0, output), (1, masked(&errors))] {
                    for piece in bytes.chunks(MAX_PIECE) {
                        let _ = send(writer, &BoxAnswer::Output(stream, ByteBuf::from(piece))).await;
                    }
                }
            }
            BoxAnswer::Ended(Box::new(report))
        }
        Ok(Err(error)) => {
            keeper.add(interrupted(argv, began.elapsed()));
            BoxAnswer::Failed(error.into())
        }
        Err(ended) => BoxAnswer::Failed(RunnerError::of(ResultKind::InternalError, &ended).into()),
    }
}

/// Maximum number of bytes of the standard error of a tool, and of the output of one that has failed, the last ones.
const MAX_TOOL_END: usize = 64 << 10;

/// Maximum number of bytes of an output in one message.
const MAX_PIECE: usize = 64 << 10;

/// Adds bytes, and keeps the last ones.
fn keep_end(errors: &mut Vec<u8>, bytes: &[u8]) {
    errors.extend(bytes);
    errors.drain(..errors.len() - end_of(errors).len());
}

/// Returns the last bytes of an output.
fn end_of(output: &[u8]) -> &[u8] {
    &output[output.len().saturating_sub(MAX_TOOL_END)..]
}

/// Returns the entry of a command whose box was stopped.
fn interrupted(argv: Vec<String>, wall: Duration) -> BoxLogEntry {
    BoxLogEntry {
        time_ms: now_ms(),
        is_shim: false,
        argv,
        status: 128 + i32::from(SIGKILL),
        wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
        spilled: Vec::new(),
    }
}

fn entry_of(argv: Vec<String>, report: &RunReport) -> BoxLogEntry {
    BoxLogEntry {
        time_ms: now_ms(),
        is_shim: false,
        argv,
        status: i32::from(exit_status(&report.outcome)),
        wall_ms: u64::try_from(report.usage.wall.as_millis()).unwrap_or(u64::MAX),
        spilled: report.spilled.iter().map(|spilled| spilled.path.clone()).collect(),
    }
}

/// Reads the input of a command. A client that is gone cancels the command.
async fn read_input(
    mut reader: OwnedReadHalf,
    input: mpsc::Sender<Vec<u8>>,
    control: mpsc::Sender<CommandInput>,
    taken: mpsc::Sender<()>,
    cancel: CancelToken,
) {
    let (queue, mut queued) = mpsc::channel::<Vec<u8>>(INPUT_WINDOW);
    let passing = tokio::spawn(async move {
        while let Some(bytes) = queued.recv().await {
            // A command that has closed its standard input reads no more.
            let _ = input.send(bytes).await;
            let _ = taken.send(()).await;
        }
    });
    let mut queue = Some(queue);
    loop {
        match frame::read_async(&mut reader, SIZES).await {
            Ok(Some((_, BoxRequest::Input(bytes)))) if bytes.is_empty() => queue = None,
            // A client that sends more than it may has no further input.
            Ok(Some((_, BoxRequest::Input(bytes)))) => {
                if queue.as_ref().is_some_and(|queue| queue.try_send(bytes.into_vec()).is_err()) {
                    queue = None;
                }
            }
            Ok(Some((_, BoxRequest::Signal(signal)))) => {
                let _ = control.send(CommandInput::Signal(signal)).await;
            }
            Ok(Some((_, BoxRequest::Resize(size)))) => {
                let _ = control.send(CommandInput::Resize(size)).await;
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    passing.abort();
    cancel.cancel();
}

async fn send(writer: &mut OwnedWriteHalf, answer: &BoxAnswer) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame::append(&mut bytes, Kind::Ordinary, answer)?;
    writer.write_all(&bytes).await
}
