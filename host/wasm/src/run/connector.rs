use std::io;
use std::sync::Arc;

use codebox_core::{Limits, NetRules};
use codebox_egress::{Dialer, TlsRoots};

/// The network access of an instance.
#[derive(Debug, Clone, Default)]
pub struct Connector {
    /// The dialer, which opens the connections.
    pub dialer: Dialer,
    /// The trusted root certificates. Without any, no certificate is trusted.
    pub roots: Option<TlsRoots>,
}

/// Function that returns the network access of an instance with network grants, by these rules and within these limits.
/// It is called before the process confines itself.
pub type Connectors = Arc<dyn Fn(&NetRules, &Limits) -> io::Result<Connector> + Send + Sync>;
