//! Platforms without a second sandbox layer.

use codebox_core::{LayerState, SandboxLayer};

use crate::{ConfineError, Rules, layers};

/// Applies no restriction and reports that.
pub(crate) fn confine(_rules: &Rules) -> Result<Vec<SandboxLayer>, ConfineError> {
    Ok(layers::all(LayerState::Unavailable, &format!("not available on {}", std::env::consts::OS)))
}
