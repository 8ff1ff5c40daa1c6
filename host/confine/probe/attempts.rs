//! The attempts of a confined process, by name.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::raw;

/// Sockets that were created before confinement.
pub struct PassedSockets {
    /// Both ends of a connection.
    tcp: [TcpStream; 2],
    udp: UdpSocket,
    control_socket: UnixStream,
    other: UnixStream,
}

impl PassedSockets {
    pub fn make() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let near = TcpStream::connect(listener.local_addr()?)?;
        let (far, _) = listener.accept()?;
        let (control_socket, other) = UnixStream::pair()?;
        Ok(Self { tcp: [near, far], udp: UdpSocket::bind("127.0.0.1:0")?, control_socket, other })
    }

    /// Returns the number of the socket over which further descriptors could be received.
    pub fn control_socket(&self) -> i32 {
        self.control_socket.as_raw_fd()
    }
}

/// Tries `action` and returns its output.
pub fn attempt(
    action: &str,
    operands: &[String],
    pagemap: Option<&File>,
    sockets: Option<&PassedSockets>,
) -> io::Result<String> {
    if let Some(sockets) = sockets {
        return attempt_on_sockets(action, operands, sockets);
    }
    let operand = |index: usize| operands.get(index).map_or("", String::as_str);
    let (a, b) = (operand(0), operand(1));
    let done = |()| String::new();
    match action {
        "nothing" => Ok(String::new()),
        "confine" => codebox_confine::confine(&codebox_confine::Rules::default())
            .map(|_| String::new())
            .map_err(io::Error::other),

        "read" => fs::read_to_string(a),
        "list" => Ok(fs::read_dir(a)?.count().to_string()),
        "stat" => Ok(fs::metadata(a)?.len().to_string()),
        "write" => OpenOptions::new().append(true).open(a)?.write_all(b"x").map(done),
        "create" => fs::write(a, "x").map(done),
        "truncate" => OpenOptions::new().write(true).truncate(true).open(a).map(|_| String::new()),
        "remove" => fs::remove_file(a).map(done),
        "mkdir" => fs::create_dir(a).map(done),
        "rmdir" => fs::remove_dir(a).map(done),
        "rename" => fs::rename(a, b).map(done),
        "symlink" => std::os::unix::fs::symlink(a, b).map(done),
        "link" => fs::hard_link(a, b).map(done),
        "copy" => Ok(fs::copy(a, b)?.to_string()),
        "chmod" => fs::set_permissions(a, Permissions::from_mode(0o777)).map(done),
        "fchmod" => File::open(a)?.set_permissions(Permissions::from_mode(0o700)).map(done),
        "set-user-id" => File::open(a)?.set_permissions(Permissions::from_mode(0o4755)).map(done),
        "create-set-user-id" => {
            OpenOptions::new().write(true).create_new(true).mode(0o6755).open(a)?;
            Ok(format!("{:o}", fs::metadata(a)?.permissions().mode() & 0o6000))
        }
        "create-set-user-id-with-openat2" => {
            raw::create_with_openat2(a, 0o6755)?;
            Ok(format!("{:o}", fs::metadata(a)?.permissions().mode() & 0o6000))
        }
        "mkdir-set-user-id" => {
            std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o6755).create(a)?;
            Ok(format!("{:o}", fs::metadata(a)?.permissions().mode() & 0o6000))
        }
        "touch" => File::options().write(true).open(a)?.set_modified(SystemTime::UNIX_EPOCH).map(done),
        "lock" => File::open(a)?.lock().map(done),
        "mkfifo" => raw_call(libc::SYS_mknodat, [-100, 0, 0o010_644, 0]),

        "tcp" => TcpStream::connect(a).map(|_| String::new()),
        "udp" => UdpSocket::bind("127.0.0.1:0").map(|_| String::new()),
        "unix" => UnixStream::pair().map(|_| String::new()),
        "netlink" => raw_call(libc::SYS_socket, [16, 3, 0, 0]),

        "exec" => Err(Command::new("/bin/true").exec()),
        "spawn" => Ok(Command::new("/bin/true").status()?.to_string()),
        "fork" => raw_call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0]),
        "new-user-thread" => {
            let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
            raw_call(libc::SYS_clone, [(flags | libc::CLONE_NEWUSER).into(), 0, 0, 0])
        }
        "clone3" => raw_call(libc::SYS_clone3, [0; 4]),
        "call" => raw_call(a.parse().map_err(io::Error::other)?, [0; 4]),
        "signal-parent" => raw_call(libc::SYS_kill, [parent(), libc::SIGCONT.into(), 0, 0]),
        "signal-own" => raw_call(libc::SYS_kill, [std::process::id().into(), 0, 0, 0]),
        "raise-limit" => {
            // Any non-null address of the new limits will do: the filter checks only that it is not null.
            raw_call(libc::SYS_prlimit64, [0, libc::RLIMIT_NOFILE.into(), 1, 0])
        }
        "type-into-terminal" => raw_call(libc::SYS_ioctl, [0, libc::TIOCSTI as i64, 0, 0]),
        "abort" => std::process::abort(),

        "thread" => Ok(thread::spawn(|| "joined").join().unwrap_or("panicked").to_owned()),
        "sleep" => {
            let start = Instant::now();
            thread::sleep(Duration::from_millis(5));
            Ok((start.elapsed() >= Duration::from_millis(5)).to_string())
        }
        "time" => Ok((SystemTime::now() > SystemTime::UNIX_EPOCH).to_string()),
        "parallelism" => Ok((thread::available_parallelism()?.get() > 0).to_string()),
        "allocate" => Ok(vec![1_u8; 64 << 20].iter().filter(|&&byte| byte == 1).count().to_string()),
        "map" => raw::map(libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE).map(done),
        "map-exec" => {
            let exec = libc::PROT_READ | libc::PROT_EXEC;
            raw::map(exec, exec).map(done)
        }
        "protect-exec" => {
            let write = libc::PROT_READ | libc::PROT_WRITE;
            raw::map(write, libc::PROT_READ | libc::PROT_EXEC).map(done)
        }
        "scan-pages" => match pagemap {
            Some(pagemap) => raw::scan_pages(pagemap.as_raw_fd()).map(done),
            None => Err(io::ErrorKind::NotFound.into()),
        },
        unknown => Err(io::Error::other(format!("no attempt is called {unknown}"))),
    }
}

fn attempt_on_sockets(action: &str, operands: &[String], sockets: &PassedSockets) -> io::Result<String> {
    let PassedSockets { tcp: [near, far], udp, control_socket, other } = sockets;
    let on = |socket: &dyn AsRawFd| libc::c_long::from(socket.as_raw_fd());
    match action {
        "exchange" => {
            (&*near).write_all(b"word")?;
            let mut received = [0; 4];
            (&*far).read_exact(&mut received)?;
            far.shutdown(Shutdown::Write)?;
            let word = String::from_utf8_lossy(&received).into_owned();
            Ok(format!("{word}{}", (&*near).read(&mut received)?))
        }
        "send-to" => udp.send_to(b"word", "127.0.0.1:9").map(|sent| sent.to_string()),
        // A null message is enough, because the filter checks only the descriptor.
        "receive-on-control-socket" => raw_call(libc::SYS_recvmsg, [on(control_socket), 0, 0, 0]),
        "receive-on-other-socket" => raw_call(libc::SYS_recvmsg, [on(other), 0, 0, 0]),
        "give" => raw_call(libc::SYS_sendmsg, [on(control_socket), 0, 0, 0]),
        "connect-again" => raw_call(libc::SYS_connect, [on(near), 0, 0, 0]),
        "bind" => raw_call(libc::SYS_bind, [on(near), 0, 0, 0]),
        "listen" => raw_call(libc::SYS_listen, [on(near), 1, 0, 0]),
        "accept" => raw_call(libc::SYS_accept4, [on(near), 0, 0, 0]),
        "set-option" => near.set_nodelay(true).map(|()| String::new()),
        other => attempt(other, operands, None, None),
    }
}

fn raw_call(number: libc::c_long, arguments: [libc::c_long; 4]) -> io::Result<String> {
    raw::call(number, arguments).map(|answer| answer.to_string())
}

fn parent() -> libc::c_long {
    std::os::unix::process::parent_id().into()
}
