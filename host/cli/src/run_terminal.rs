//! The terminal of this process as that of a program.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use codebox_core::{EnvName, InputModes, ResultKind, RunnerError, WindowSize};
use codebox_service::EnvRequest;

use crate::args::RunArgs;

/// Variables by which programs know the abilities of a terminal.
const VARIABLES: [&str; 3] = ["TERM", "COLORTERM", "NO_COLOR"];

/// Returns the size of the terminal that the streams of a program are; `None` for pipes. All three streams of this process have to be a
/// terminal, unless the options ask for one.
pub(crate) fn terminal_of(args: &RunArgs) -> Result<Option<WindowSize>, RunnerError> {
    let is_attached = args.container.is_some() || args.dev_config.is_some();
    if args.tty && is_attached {
        let line = "cannot use --tty: a program in a running container has pipes";
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("leave it out"));
    }
    let is_read_by_program = args.json || args.shape.shape().is_some();
    let is_terminal = || io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let has_terminal = args.tty || (!args.no_tty && !is_read_by_program && !is_attached && is_terminal());
    Ok(has_terminal.then(size))
}

/// Returns the variables of this terminal that the program gets, without those that are set already.
pub(crate) fn variables(known: &[EnvRequest]) -> impl Iterator<Item = EnvRequest> {
    VARIABLES.into_iter().filter_map(|name| {
        let is_known = known.iter().any(|variable| variable.name().as_str() == name);
        let value = std::env::var(name).ok().filter(|value| !value.is_empty() && !is_known)?;
        Some(EnvRequest::Set(EnvName::new(name).ok()?, value))
    })
}

#[cfg(unix)]
fn size() -> WindowSize {
    crate::terminal::size()
}

#[cfg(not(unix))]
fn size() -> WindowSize {
    WindowSize { rows: 24, columns: 80 }
}

/// Returns the modes of the terminal of this process; `None` if its standard input is none.
pub(crate) fn input_modes() -> Option<Arc<dyn InputModes>> {
    #[cfg(unix)]
    return crate::terminal::ProgramModes::of_terminal().map(|modes| Arc::new(modes) as _);
    #[cfg(not(unix))]
    None
}

/// Restores the mode of the terminal of this process after a program.
pub(crate) fn restore() {
    #[cfg(unix)]
    crate::terminal::restore();
}

/// Returns the later sizes of the terminal of this process.
#[cfg(unix)]
pub(crate) fn resizes() -> Option<Box<dyn codebox_core::Resizes>> {
    Some(Box::new(sizes::Sizes::default()))
}

/// Returns the later sizes of the terminal of this process.
#[cfg(not(unix))]
pub(crate) fn resizes() -> Option<Box<dyn codebox_core::Resizes>> {
    None
}

#[cfg(unix)]
mod sizes {
    use codebox_core::{BoxFuture, Resizes, WindowSize};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use crate::terminal::{on_resize, size};

    /// Sizes of the terminal. A run that needs none has no handler and no thread for them.
    #[derive(Default)]
    pub(super) struct Sizes(Option<UnboundedReceiver<WindowSize>>);

    impl Resizes for Sizes {
        fn next(&mut self) -> BoxFuture<'_, WindowSize> {
            Box::pin(async move {
                let sizes = self.0.get_or_insert_with(|| {
                    let (sender, sizes) = unbounded_channel();
                    on_resize(move || sender.send(size()).is_ok());
                    sizes
                });
                match sizes.recv().await {
                    Some(size) => size,
                    None => std::future::pending().await,
                }
            })
        }
    }
}
