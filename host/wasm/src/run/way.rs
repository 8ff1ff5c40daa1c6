use std::io;
use std::sync::Arc;

use codebox_core::NetRules;
use codebox_egress::{Dialer, TlsRoots};

/// How an instance reaches the network.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// Who connects.
    pub dialer: Dialer,
    /// Whose certificates are trusted; nobody's without any.
    pub roots: Option<TlsRoots>,
}

/// Finds the way of an instance that was granted something, by these rules; it is asked before the process confines
/// itself.
pub type Ways = Arc<dyn Fn(&NetRules) -> io::Result<Way> + Send + Sync>;
