/// Limit that the kernel holds for each process of a container.
///
/// Engines set them by their options, but the Docker-compatible service of a rootless Podman ignores these (4.3). The agent
/// therefore sets the same limits on itself, and every program inherits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessLimit {
    /// Size of a core dump in bytes.
    Core,
    /// Size of a file that the process writes, in bytes.
    FileSize,
    /// Number of open descriptors.
    OpenFiles,
    /// Number of processes of the user.
    Processes,
}

impl ProcessLimit {
    const ALL: [Self; 4] = [Self::Core, Self::FileSize, Self::OpenFiles, Self::Processes];

    /// Returns the name in options of engines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::FileSize => "fsize",
            Self::OpenFiles => "nofile",
            Self::Processes => "nproc",
        }
    }

    /// Returns the limit in calls of the kernel.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn resource(self) -> rustix::process::Resource {
        use rustix::process::Resource;
        match self {
            Self::Core => Resource::Core,
            Self::FileSize => Resource::Fsize,
            Self::OpenFiles => Resource::Nofile,
            Self::Processes => Resource::Nproc,
        }
    }

    /// Returns the word of the agent's command line that sets the limit to this value, such as `nofile=256`.
    #[must_use]
    pub fn word(self, value: u64) -> String {
        format!("{}={value}", self.name())
    }

    /// Reads such a word; `None` if it is no limit.
    #[must_use]
    pub fn parse(word: &str) -> Option<(Self, u64)> {
        let (name, value) = word.split_once('=')?;
        let limit = Self::ALL.into_iter().find(|limit| limit.name() == name)?;
        Some((limit, value.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for (limit, word) in [(ProcessLimit::OpenFiles, "nofile=40"), (ProcessLimit::FileSize, "fsize=8388608")] {
            let (read, value) = ProcessLimit::parse(word).expect("a limit");
            assert_eq!((read, limit.word(value).as_str()), (limit, word));
        }
        for word in ["nofile", "nofile=", "nofile=-1", "stack=1", "=1"] {
            assert_eq!(ProcessLimit::parse(word), None, "{word}");
        }
    }
}
