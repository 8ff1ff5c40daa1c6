//! The limits of processes, which the programs of a container inherit from the agent.

use std::io;

use codebox_agent::ProcessLimit;
use rustix::process::{Rlimit, getrlimit, setrlimit};

/// Lowers the limits of this process to those in the words of its command line. A limit that the engine has set lower stays.
pub(crate) fn apply(words: impl Iterator<Item = String>) -> io::Result<()> {
    for word in words {
        let Some((limit, value)) = ProcessLimit::parse(&word) else {
            return Err(io::Error::other(format!("{word} is not a limit")));
        };
        let resource = limit.resource();
        let max = Some(getrlimit(resource).maximum.map_or(value, |own| own.min(value)));
        setrlimit(resource, Rlimit { current: max, maximum: max })?;
    }
    Ok(())
}
