//! Which call of an engine's interface a request is.

/// A call of the interface that both engines speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineCall {
    /// Whether it is there.
    Ping,
    /// Which version it is.
    Version,
    /// What it is.
    Info,
    /// What an image is.
    Image,
    /// Making a container.
    Create,
    /// Carrying a container's streams.
    Attach,
    /// Starting a container.
    Start,
    /// What a container is.
    Inspect,
    /// Removing a container.
    Remove,
    /// Which containers there are.
    List,
    /// Anything else.
    Other,
}

impl EngineCall {
    /// The call of a request's first line: `POST /v1.41/containers/create HTTP/1.1`.
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
