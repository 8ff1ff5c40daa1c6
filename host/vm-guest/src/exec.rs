//! Commands for the host.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use codebox_vm_guest::{Exec, Frame, USER};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Search path of commands.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Interval at which a command without output is checked for a host that has given it up.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Process group of a command, which ends with this value.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            // It may have ended.
            let _ = kill_process_group(id, Signal::KILL);
        }
    }
}

/// Size of a piece of output in bytes.
const PIECE: usize = 32 << 10;

/// Returns the variables of the user of Podman.
pub(crate) fn user_variables() -> [(&'static str, &'static str); 5] {
    [
        ("PATH", PATH),
        ("HOME", "/home/codebox"),
        ("USER", "codebox"),
        ("LANG", "C.UTF-8"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ]
}

/// Starts a command.
pub(crate) fn start(exec: &Exec) -> io::Result<Child> {
    let (program, rest) = exec.argv.split_first().ok_or_else(|| io::Error::other("the command line is empty"))?;
    let mut command = Command::new(program);
    command.args(rest).env_clear().current_dir("/").kill_on_drop(true).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if exec.is_root {
        command.envs([("PATH", PATH), ("HOME", "/root"), ("LANG", "C.UTF-8")]);
    } else {
        command.envs(user_variables()).uid(USER).gid(USER);
    }
    command.spawn()
}

/// Passes the streams of a command on, and its end.
pub(crate) async fn pass(
    mut child: Child,
    mut input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let _group = Group(child.id());
    let (sender, mut pieces) = mpsc::channel::<(Frame, Vec<u8>)>(2);
    if let Some(stdout) = child.stdout.take() {
        tokio::spawn(read(stdout, Frame::Stdout, sender.clone()));
    }
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(read(stderr, Frame::Stderr, sender));
    }
    let stdin = child.stdin.take();
    let feeding = async {
        let Some(mut stdin) = stdin else { return };
        // The command need not read all of it.
        let _ = tokio::io::copy(&mut input, &mut stdin).await;
        drop(stdin);
    };
    let passing = async {
        loop {
            match timeout(CHECK_INTERVAL, pieces.recv()).await {
                Ok(Some((kind, bytes))) => write(&mut output, kind, &bytes).await?,
                Ok(None) => break,
                // It fails if the host has given the command up, which the end of the input does not tell.
                Err(_) => write(&mut output, Frame::Stdout, b"").await?,
            }
        }
        let status = child.wait().await?;
        write(&mut output, Frame::Ended, &code(status).to_be_bytes()).await?;
        output.shutdown().await
    };
    tokio::select! {
        done = passing => done,
        // The input can end before the command.
        done = async { feeding.await; std::future::pending().await } => done,
    }
}

async fn read(mut from: impl AsyncRead + Unpin, kind: Frame, to: mpsc::Sender<(Frame, Vec<u8>)>) {
    let mut piece = vec![0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        if to.send((kind, piece[..length].to_vec())).await.is_err() {
            return;
        }
    }
}

async fn write(to: &mut (impl AsyncWrite + Unpin), kind: Frame, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut frame = vec![kind as u8];
    frame.extend(length.to_be_bytes());
    frame.extend(bytes);
    to.write_all(&frame).await?;
    to.flush().await
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
