//! Takes the types out of a guest's TypeScript while the guest waits.

use std::io;

use codebox_typescript::Question;
use tokio::sync::oneshot;

/// Begins the work on a thread of its own, so that the guest's deadline holds whatever the text costs to parse.
pub(crate) fn start(typed: Question) -> io::Result<oneshot::Receiver<Vec<u8>>> {
    let (send, receive) = oneshot::channel();
    let strip = move || {
        // A guest that was stopped waits no longer.
        let _ = send.send(typed.answer());
    };
    std::thread::Builder::new().name("codebox-strip".into()).spawn(strip)?;
    Ok(receive)
}
