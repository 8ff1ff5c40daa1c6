//! Directories of the host.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use codebox_vm_guest::{MAX_SHARE_MESSAGE, SHARES};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Number of the last directory.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Number of requests that are read before the host has received them.
const QUEUE: usize = 4;

/// A mounted directory of the host, which is unmounted on drop.
pub(crate) struct Mount {
    path: String,
    device: File,
}

impl Mount {
    /// Mounts a directory, whose requests come from the device.
    pub(crate) fn new(read_only: bool) -> io::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse")?;
        let path = format!("{SHARES}/{}", LAST.fetch_add(1, Ordering::Relaxed) + 1);
        fs::create_dir_all(&path)?;
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions", device.as_raw_fd());
        let access = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        mount("codebox", &path, "fuse", MountFlags::NOSUID | MountFlags::NODEV | access, &*CString::new(options)?)?;
        Ok(Self { path, device })
    }

    /// Returns the path at which it is mounted.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Passes requests of the kernel to the host, and its answers back, until the host ends the stream.
    pub(crate) async fn pass(
        &self,
        mut answers: impl AsyncRead + Unpin,
        mut requests: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let (sender, mut messages) = mpsc::channel(QUEUE);
        let device = self.device.try_clone()?;
        // The executor waits for sockets, and not for devices of this kind.
        thread::Builder::new().name("share".to_owned()).spawn(move || read_all(device, &sender))?;
        let asking = async {
            while let Some(message) = messages.recv().await {
                requests.write_all(&message).await?;
                requests.flush().await?;
            }
            Ok(())
        };
        let answering = async {
            loop {
                let length = answers.read_u32_le().await?;
                let size =
                    usize::try_from(length).ok().filter(|size| (size_of::<u32>()..=MAX_SHARE_MESSAGE).contains(size));
                let mut message = vec![0; size.ok_or(io::ErrorKind::InvalidData)?];
                message[..4].copy_from_slice(&length.to_le_bytes());
                answers.read_exact(&mut message[4..]).await?;
                // The process of the request can be gone.
                let _ = (&self.device).write(&message);
            }
        };
        tokio::select! {
            done = asking => done,
            done = answering => done,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Forced, so that processes that wait for the host receive an error, and the thread that reads ends.
        let _ = unmount(self.path.as_str(), UnmountFlags::DETACH | UnmountFlags::FORCE);
        let _ = fs::remove_dir(&self.path);
    }
}

/// Reads requests of the kernel until the directory is unmounted.
fn read_all(mut device: File, to: &mpsc::Sender<Vec<u8>>) {
    let mut message = vec![0; MAX_SHARE_MESSAGE];
    loop {
        // The kernel gives one request at a time, and discards one that is interrupted while it is read.
        match device.read(&mut message) {
            Ok(length) => {
                if to.blocking_send(message[..length].to_vec()).is_err() {
                    return;
                }
            }
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::INTR)) => {}
            Err(_) => return,
        }
    }
}
