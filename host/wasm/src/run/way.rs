use std::io;
use std::sync::Arc;

use codebox_core::{Limits, NetRules};
use codebox_egress::{Dialer, TlsRoots};

/// How an instance reaches the network.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// Who connects.
    pub dialer: Dialer,
    /// Whose certificates are trusted; nobody's without any.
    pub roots: Option<TlsRoots>,
}

/// Finds the way of an instance that was granted something, by these rules and within these limits; it is asked before
/// the process confines itself.
pub type Ways = Arc<dyn Fn(&NetRules, &Limits) -> io::Result<Way> + Send + Sync>;
