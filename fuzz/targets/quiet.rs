//! Panics of the parsers, which end a process of their own in codebox and no more.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// The result of `work`; nothing if a parser panicked. Where the panic was in code of codebox's it goes on.
pub fn survives<T>(work: impl FnOnce() -> T) -> Option<T> {
    use std::cell::Cell;
    thread_local! {
        static OURS: Cell<bool> = const { Cell::new(false) };
    }
    let before = take_hook();
    set_hook(Box::new(|panic| {
        let ours = panic.location().is_some_and(|place| place.file().contains("host/"));
        OURS.set(ours);
        if ours {
            eprintln!("{panic}");
        }
    }));
    let done = catch_unwind(AssertUnwindSafe(work));
    set_hook(before);
    match done {
        Ok(done) => Some(done),
        Err(_) if OURS.get() => std::process::abort(),
        Err(_) => None,
    }
}
