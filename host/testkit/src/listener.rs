//! Listener that counts connections.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;

/// Loopback listener that counts connections.
#[derive(Debug)]
pub struct Listener {
    port: u16,
    connections: Arc<AtomicUsize>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts listening on a free port.
    ///
    /// # Errors
    /// Fails if the system has no free port.
    pub fn start() -> Result<Self> {
        let socket = TcpListener::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        let (connections, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counter, stop) = (Arc::clone(&connections), Arc::clone(&done));
        let thread = thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match socket.accept() {
                    Ok(_) => {
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Ok(Self { port, connections, done, thread: Some(thread) })
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections so far, after a short wait for one that is being established.
    #[must_use]
    pub fn connections(&self) -> usize {
        thread::sleep(Duration::from_millis(20));
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread does not concern the owner of the listener.
            let _ = thread.join();
        }
    }
}
