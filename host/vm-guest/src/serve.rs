//! Requests of a host.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebox_vm_guest::{Facts, GREETING, MAX_FRAME, MAX_LINE, NONCE_SIZE, PODMAN_SOCKET, Reply, Request};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::compat::{FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use yamux::{Config, Connection, Mode};

use crate::exec;
use crate::share::Mount;

/// Maximum number of streams at once.
const MAX_STREAMS: usize = 1024;

/// Time without a host after which the machine turns itself off: nothing else would end one whose host was killed.
const ABANDONED: Duration = Duration::from_secs(15 * 60);

/// Serves a host until it is gone; true if it has turned the machine off, or if none has come. After the time `idle` without a stream, memory
/// that only saves reading is given back to the host.
pub(crate) async fn serve(
    mut host: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    idle: Option<Duration>,
) -> io::Result<bool> {
    match timeout(ABANDONED, greet(&mut host)).await {
        Ok(greeted) => greeted?,
        Err(_) => return Ok(true),
    }
    let mut config = Config::default();
    config.set_max_num_streams(MAX_STREAMS).set_max_connection_receive_window(None);
    config.set_read_after_close(true);
    config.set_split_send_size(MAX_FRAME);
    let mut connection = Connection::new(host.compat(), config, Mode::Server);
    let off = Arc::new(Notify::new());
    let mut streams = JoinSet::new();
    // True if streams have been used since memory was last given back.
    let mut is_used = true;
    loop {
        let stream = tokio::select! {
            stream = poll_fn(|cx| connection.poll_next_inbound(cx)) => stream,
            Some(_) = streams.join_next() => continue,
            () = sleep(idle.unwrap_or_default()), if idle.is_some() && is_used && streams.is_empty() => {
                is_used = false;
                give_back_memory();
                continue;
            }
            () = off.notified() => {
                // The reply reaches the host.
                let _ = timeout(Duration::from_secs(1), poll_fn(|cx| connection.poll_close(cx))).await;
                return Ok(true);
            }
        };
        let Some(stream) = stream else { return Ok(false) };
        let stream = stream.map_err(io::Error::other)?;
        let off = Arc::clone(&off);
        is_used = true;
        streams.spawn(async move {
            let _ = answer(stream.compat(), &off).await;
        });
    }
}

/// Drops what the kernel keeps of files, and joins free pages to blocks: the host gets back larger blocks only.
fn give_back_memory() {
    rustix::fs::sync();
    for (file, value) in [("/proc/sys/vm/drop_caches", "3"), ("/proc/sys/vm/compact_memory", "1")] {
        if let Err(error) = std::fs::write(file, value) {
            eprintln!("codebox-vm: cannot write {file}: {error}");
        }
    }
}

/// Waits for the greeting, which begins a connection, and repeats it.
async fn greet(host: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
    let mut seen = 0;
    while seen < GREETING.len() {
        let byte = host.read_u8().await?;
        // The first byte occurs once in the greeting.
        seen = if byte == GREETING[seen] { seen + 1 } else { usize::from(byte == GREETING[0]) };
    }
    let mut nonce = [0; NONCE_SIZE];
    host.read_exact(&mut nonce).await?;
    host.write_all(&[GREETING, &nonce].concat()).await?;
    host.flush().await
}

async fn answer(stream: impl AsyncRead + AsyncWrite, off: &Notify) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(Box::pin(reader));
    let mut line = Vec::new();
    (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
    let request = serde_json::from_slice(&line).map_err(io::Error::other);
    match request {
        Ok(Request::Podman) => match UnixStream::connect(PODMAN_SOCKET).await {
            Ok(podman) => {
                reply(&mut writer, &Reply::Done).await?;
                let mut host = tokio::io::join(reader, writer);
                let mut podman = podman;
                tokio::io::copy_bidirectional(&mut host, &mut podman).await?;
                Ok(())
            }
            Err(error) => reply(&mut writer, &Reply::Failed(format!("Podman does not answer: {error}"))).await,
        },
        Ok(Request::Exec(command)) => match exec::start(&command) {
            Ok(child) => {
                reply(&mut writer, &Reply::Done).await?;
                exec::pass(child, reader, writer).await
            }
            Err(error) => reply(&mut writer, &Reply::Failed(error.to_string())).await,
        },
        Ok(Request::Share { read_only }) => match Mount::new(read_only) {
            Ok(mount) => {
                reply(&mut writer, &Reply::Shared(mount.path().to_owned())).await?;
                mount.pass(reader, writer).await
            }
            Err(error) => reply(&mut writer, &Reply::Failed(format!("cannot mount a directory: {error}"))).await,
        },
        Ok(Request::Facts) => reply(&mut writer, &Reply::Facts(facts())).await,
        Ok(Request::SetClock(millis)) => {
            let set = set_clock(millis);
            let done = set.map_or_else(|error| Reply::Failed(error.to_string()), |()| Reply::Done);
            reply(&mut writer, &done).await
        }
        Ok(Request::PowerOff) => {
            reply(&mut writer, &Reply::Done).await?;
            writer.shutdown().await?;
            off.notify_one();
            Ok(())
        }
        Err(error) => reply(&mut writer, &Reply::Failed(format!("it is no request: {error}"))).await,
    }
}

async fn reply(writer: &mut (impl AsyncWrite + Unpin), reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.flush().await
}

fn set_clock(millis: u64) -> io::Result<()> {
    let seconds = i64::try_from(millis / 1000).map_err(io::Error::other)?;
    let nanos = i64::try_from(millis % 1000).map_err(io::Error::other)? * 1_000_000;
    let time = rustix::time::Timespec { tv_sec: seconds, tv_nsec: nanos };
    Ok(rustix::time::clock_settime(rustix::time::ClockId::Realtime, time)?)
}

fn facts() -> Facts {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let uptime = read("/proc/uptime");
    let uptime: f64 = uptime.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let kib = |name: &str| {
        let line = memory.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or_default() << 10
    };
    let disk = rustix::fs::statvfs("/home")
        .map_or([0; 2], |disk| [disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize]);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Facts {
        image: read("/etc/codebox-image").trim().to_owned(),
        uptime_ms: Duration::from_secs_f64(uptime).as_millis() as u64,
        time_ms: time.as_millis() as u64,
        memory: [kib("MemTotal"), kib("MemAvailable")],
        disk,
    }
}
