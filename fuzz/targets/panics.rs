//! Handling of parser panics, which end only a separate process in codebox.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

/// Returns the result of `work`, or `None` if a parser panicked. A panic in codebox's own code aborts the process.
pub fn catch_parser_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    use std::cell::Cell;
    thread_local! {
        static IS_OWN_PANIC: Cell<bool> = const { Cell::new(false) };
    }
    let previous_hook = take_hook();
    set_hook(Box::new(|panic| {
        let is_own = panic.location().is_some_and(|origin| origin.file().contains("host/"));
        IS_OWN_PANIC.set(is_own);
        if is_own {
            eprintln!("{panic}");
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(work));
    set_hook(previous_hook);
    match result {
        Ok(result) => Some(result),
        Err(_) if IS_OWN_PANIC.get() => std::process::abort(),
        Err(_) => None,
    }
}
