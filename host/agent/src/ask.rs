//! Questions of a job's programs to the host.

use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use codebox_agent::{ASK_SOCKET, MAX_ASK, Word};

use crate::line::Line;

/// Passes standard input on as a question and prints the answer.
pub(crate) fn ask() -> io::Result<()> {
    let mut question = Vec::new();
    io::stdin().lock().take(MAX_ASK as u64 + 1).read_to_end(&mut question)?;
    if question.len() > MAX_ASK {
        return Err(io::Error::other("the question is too long"));
    }
    let mut socket = UnixStream::connect_addr(&SocketAddr::from_abstract_name(ASK_SOCKET)?)?;
    socket.write_all(&question)?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    io::stdout().write_all(&answer)
}

/// The questions of this container: one is with the host at a time.
#[derive(Default)]
pub(crate) struct Questions {
    answers: Mutex<Option<Sender<Vec<u8>>>>,
}

impl Questions {
    /// Listens from now on, if nothing does yet.
    pub(crate) fn listen(&self, line: &Line) -> io::Result<()> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.is_none() {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(ASK_SOCKET)?)?;
            let (sender, receiver) = channel();
            *answers = Some(sender);
            let line = line.clone();
            thread::spawn(move || pass(&listener, &receiver, &line));
        }
        Ok(())
    }

    /// Gives the host's answer to who waits for it.
    pub(crate) fn answer(&self, bytes: Vec<u8>) {
        if let Some(answers) = &*self.answers.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = answers.send(bytes);
        }
    }
}

fn pass(listener: &UnixListener, answers: &Receiver<Vec<u8>>, line: &Line) {
    for socket in listener.incoming().flatten() {
        // Who asks is the job: one that never ends its question keeps only itself waiting.
        let mut question = Vec::new();
        let read = (&socket).take(MAX_ASK as u64 + 1).read_to_end(&mut question);
        if read.is_err() || question.len() > MAX_ASK {
            continue;
        }
        line.send(&Word::Ask(question));
        let Ok(answer) = answers.recv() else { return };
        let _ = (&socket).write_all(&answer);
    }
}
