//! Results of confinement.

use codebox_core::{LayerState, SandboxLayer};

/// Returns the layers of a process that was deliberately not confined, for its report.
#[must_use]
pub fn all_off() -> Vec<SandboxLayer> {
    all(LayerState::Off, "disabled by the caller")
}

/// Returns all layers in one state for one reason.
pub(crate) fn all(state: LayerState, detail: &str) -> Vec<SandboxLayer> {
    ["landlock", "seccomp"].map(|name| layer(name, state, detail)).into()
}

pub(crate) fn layer(name: &str, state: LayerState, detail: impl Into<String>) -> SandboxLayer {
    SandboxLayer { name: name.to_owned(), state, detail: detail.into() }
}
