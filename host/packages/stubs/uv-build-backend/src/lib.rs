//! The part of `uv-build-backend` that `uv-workspace` names. codebox builds packages in containers, with the backend that each
//! package names.

use uv_options_metadata::{OptionsMetadata, Visit};

/// Settings of a build backend that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildBackendSettings;

impl OptionsMetadata for BuildBackendSettings {
    fn record(_: &mut dyn Visit) {}
}
