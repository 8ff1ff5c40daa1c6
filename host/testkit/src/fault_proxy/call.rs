//! Identification of the engine API call of a request.

/// Call of the API that both engines implement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineCall {
    /// Liveness check.
    Ping,
    /// Engine version.
    Version,
    /// Engine information.
    Info,
    /// Inspecting an image.
    Image,
    /// Creating a container.
    Create,
    /// Attaching to a container's streams.
    Attach,
    /// Starting a container.
    Start,
    /// Inspecting a container.
    Inspect,
    /// Removing a container.
    Remove,
    /// Listing containers.
    List,
    /// Any other call.
    Other,
}

impl EngineCall {
    /// Identifies the call of a request line: `POST /v1.41/containers/create HTTP/1.1`.
    #[must_use]
    pub fn of(line: &str) -> Self {
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default().trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let parts = match parts.as_slice() {
            [first, rest @ ..] if first.starts_with('v') && first.contains('.') => rest,
            all => all,
        };
        match (method, parts) {
            ("GET" | "HEAD", ["_ping"]) => Self::Ping,
            ("GET", ["version"]) => Self::Version,
            ("GET", ["info"]) => Self::Info,
            ("GET", ["images", .., "json"]) => Self::Image,
            ("POST", ["containers", "create"]) => Self::Create,
            ("POST", ["containers", _, "attach"]) => Self::Attach,
            ("POST", ["containers", _, "start"]) => Self::Start,
            ("GET", ["containers", "json"]) => Self::List,
            ("GET", ["containers", _, "json"]) => Self::Inspect,
            ("DELETE", ["containers", _]) => Self::Remove,
            _ => Self::Other,
        }
    }
}
