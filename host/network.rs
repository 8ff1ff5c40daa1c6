//! Network access of this process's WebAssembly jobs, within their grants.

#[cfg(feature = "cli")]
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

#[cfg(feature = "cli")]
use codebox_core::{Limits, NetRules, ResultKind, RunnerError};
use codebox_egress::TlsRoots;
use codebox_wasm::{Connector, Connectors};

/// Returns a dialer that connects directly, for a process that is not confined.
pub(crate) fn direct() -> Connectors {
    let roots = Arc::new(OnceLock::new());
    Arc::new(move |_, _| Ok(Connector { roots: roots.get_or_init(roots_to_trust).clone(), ..Connector::default() }))
}

/// Returns the roots that OpenSSL's environment variables name, or else the system's. Without roots there is no TLS.
fn roots_to_trust() -> Option<TlsRoots> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    TlsRoots::load(named("SSL_CERT_FILE").as_deref(), named("SSL_CERT_DIR").as_deref()).ok()
}

#[cfg(all(feature = "cli", target_os = "linux"))]
pub(crate) use brokered::serve;

/// Returns the connections of a process of the command line, which is confined on Linux.
#[cfg(feature = "cli")]
pub(crate) fn of_command_line(channel: &Arc<OnceLock<i32>>) -> Connectors {
    #[cfg(target_os = "linux")]
    return brokered::brokered(Arc::clone(channel));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = channel;
        direct()
    }
}

#[cfg(all(feature = "cli", target_os = "linux"))]
mod brokered {
    use std::os::fd::AsFd as _;
    use std::process::Stdio;

    use codebox_egress::broker::{self, BrokerClient};
    use codebox_egress::{Dialer, EgressLimits};

    use super::*;
    use crate::processes::{BROKER_COMMAND, own_program};

    /// Returns a dialer that connects through a broker process, because this process is confined by then. Stores the
    /// number of the broker socket's descriptor in `channel`.
    pub(super) fn brokered(channel: Arc<OnceLock<i32>>) -> Connectors {
        Arc::new(move |rules: &NetRules, limits: &Limits| {
            let (ours, theirs) = broker::channel()?;
            let mut command = own_program(BROKER_COMMAND)?;
            command.current_dir("/");
            // The broker ends when its socket is closed, at the latest when this process ends.
            command.stdin(Stdio::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
            // A process of the command line runs one job, so the broker enforces the job's connection limit.
            let broker = BrokerClient::configure(ours, rules, EgressLimits::of(limits).connections)?;
            let _ = channel.set(broker.descriptor());
            Ok(Connector { dialer: Dialer::Other(Arc::new(broker)), roots: roots_to_trust() })
        })
    }

    /// Runs the broker in this process, with its socket as standard input.
    pub(crate) fn serve() -> Result<(), RunnerError> {
        let failed = |error: io::Error| RunnerError::of(ResultKind::InternalError, &error);
        let channel = io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        executor.block_on(broker::serve(channel)).map_err(failed)
    }
}

#[cfg(all(feature = "cli", not(target_os = "linux")))]
pub(crate) fn serve() -> Result<(), RunnerError> {
    Err(RunnerError::new(ResultKind::InvalidRequest, "the network broker is available on Linux only"))
}
