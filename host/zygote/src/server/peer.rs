//! Circumstances of a process that its children would inherit, and that a run must share with the host process.
//!
//! A worker has those of the host process. A run whose client has others (another user, namespace, control group,
//! resource limit, sandbox) is refused, so that the client runs it in its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use crate::sys;

/// Lines of `/proc/PID/status` that a child inherits.
const STATUS: [&str; 15] = [
    "Uid",
    "Gid",
    "Groups",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
    "Cpus_allowed",
    "Mems_allowed",
];

/// Namespaces of a process and of its children.
const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

/// Fields of `/proc/PID/stat` after the name: nice value, real-time priority and scheduling policy.
const SCHEDULING: [usize; 3] = [16, 37, 38];

/// The inherited circumstances of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Circumstances {
    status: BTreeMap<String, String>,
    limits: String,
    cgroup: String,
    places: Vec<PathBuf>,
    scheduling: Vec<String>,
    oom_score: String,
    io_priority: i64,
}

impl Circumstances {
    /// Returns those of this process.
    pub(crate) fn own() -> io::Result<Self> {
        Self::at("/proc/self", 0)
    }

    /// Returns those of another process.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Self::at(&format!("/proc/{pid}"), pid)
    }

    fn at(process: &str, pid: i32) -> io::Result<Self> {
        let text = |name: &str| fs::read_to_string(format!("{process}/{name}"));
        let root = fs::read_link(format!("{process}/root"))?;
        let namespaces = NAMESPACES.iter().map(|name| {
            // Kernels can lack a kind of namespace.
            fs::read_link(format!("{process}/ns/{name}")).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(PathBuf::new()),
                _ => Err(error),
            })
        });
        Ok(Self {
            status: status(&text("status")?),
            limits: limits(&text("limits")?),
            cgroup: text("cgroup")?,
            places: std::iter::once(Ok(root)).chain(namespaces).collect::<io::Result<_>>()?,
            scheduling: scheduling(&text("stat")?),
            oom_score: text("oom_score_adj")?,
            io_priority: sys::io_priority(pid)?,
        })
    }
}

fn status(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let inherited = lines.filter(|(name, _)| STATUS.contains(name));
    inherited.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

/// Returns the limits without the current limit on open files, which every process of codebox raises to the maximum.
fn limits(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("Max open files") {
        Some(rest) => rest.split_whitespace().skip(1).collect::<Vec<_>>().join(" "),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the values of scheduling. The name, which the process chooses, ends at the last parenthesis.
fn scheduling(text: &str) -> Vec<String> {
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    SCHEDULING.iter().map(|&place| fields.get(place).copied().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_has_its_own_circumstances() {
        let own = Circumstances::own().expect("they are readable");
        assert_eq!(Circumstances::of(std::process::id() as i32).expect("they are readable"), own);
    }

    /// Returns the circumstances of a process that a shell starts after a command.
    fn after(command: &str) -> Circumstances {
        let mut child = Command::new("sh")
            .args(["-c", &format!("{command}; echo; exec cat")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut line = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut line).expect("it prints a line");
        let circumstances = Circumstances::of(child.id() as i32).expect("they are readable");
        drop(child.stdin.take());
        child.wait().expect("it ends");
        circumstances
    }

    #[test]
    fn children_differ_after_a_change() {
        let own = Circumstances::own().expect("they are readable");
        assert_eq!(after("true"), own);
        // Every process of codebox raises the current limit on open files.
        assert_eq!(after("ulimit -S -n 64"), own);
        let changes =
            ["ulimit -c 0; ulimit -t 600", "ulimit -n 64", "renice -n 5 -p $$ >/dev/null", "ionice -c 3 -p $$"];
        for change in changes {
            assert_ne!(after(change), own, "{change}");
        }
    }

    #[test]
    fn the_name_of_a_process_does_not_change_its_scheduling() {
        let rest = (0..60).map(|field| format!(" {field}")).collect::<String>();
        let expected = scheduling(&format!("7 (cat){rest}"));
        assert_eq!(expected, ["16", "37", "38"]);
        assert_eq!(scheduling(&format!("7 (c) 1 2 3 (t){rest}")), expected);
    }
}
