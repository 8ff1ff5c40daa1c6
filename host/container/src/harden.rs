//! Specification of a container: every setting is explicit, so that no default of an engine applies.
//!
//! The specification lists everything that a container may have. A request can choose the image, the directories and
//! the limits; no value of a request reaches any other field.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits,
};
use codebox_agent::{AGENT_PATH, MAX_OPEN_QUERIES, ProcessLimit};
use codebox_core::{Access, Cpus, Limits};

use crate::caller::{FileOwnership, JobUser};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::images::ImageFacts;
use crate::mounts::Bind;
use crate::port_forwards::PortForwards;

/// Threads of the agent, which the kernel counts with the job's: the agent's own threads, including that for the port
/// forwards, and one for each query.
const AGENT_THREADS: i64 = 8 + MAX_OPEN_QUERIES as i64;

/// Shared memory of a job in bytes, which counts as a part of its memory.
const SHARED_MEMORY: u64 = 64 << 20;

/// Process limit of a user: more than a user needs, and less than any machine allows.
const MAX_USER_PROCESSES: u64 = 16_384;

/// Lowest memory limit that engines accept, in bytes.
const MIN_MEMORY: u64 = 6 << 20;

/// Lowest limit on open files with which an engine can start a container and the agent a program.
const MIN_OPEN_FILES: u32 = 16;

/// Highest number of processes that a kernel supports (`PID_MAX_LIMIT`). A higher limit has no effect, and engines
/// reject it.
const MAX_PROCESSES: i64 = 4 << 20;

/// Guest path of the machine's certificate authorities, if the machine has them in one file.
pub(crate) const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Inputs of a container's specification.
pub(crate) struct ContainerInputs<'a> {
    pub image: &'a ImageFacts,
    pub user: &'a JobUser,
    pub limits: &'a Limits,
    /// Processors of the container; `None` for all.
    pub cpus: Option<Cpus>,
    pub binds: &'a [Bind],
    pub port_forwards: &'a PortForwards,
    pub labels: HashMap<String, String>,
    /// Group in which the engine makes that of the container; `None` for the default of the engine.
    pub group: Option<&'a str>,
    /// Working directory and variables of programs that the engine starts.
    pub engine_exec: EngineExec,
}

/// Environment of programs that the engine starts in a container.
pub(crate) struct EngineExec {
    pub cwd: String,
    pub env: Vec<(String, String)>,
}

impl Default for EngineExec {
    fn default() -> Self {
        Self { cwd: "/".to_owned(), env: Vec::new() }
    }
}

/// Returns the specification of a job's container.
pub(crate) fn container(
    inputs: ContainerInputs<'_>,
    facts: &EngineFacts,
) -> Result<ContainerCreateBody, ContainerError> {
    let ContainerInputs { image, user, limits, cpus, binds, port_forwards, labels, group, engine_exec } = inputs;
    let EngineExec { cwd, env } = engine_exec;
    let process_limits = process_limits(limits)?;
    let host = HostConfig {
        cgroup_parent: group.map(str::to_owned),
        extra_hosts: Some(port_forwards.hosts()),
        sysctls: sysctls(port_forwards),
        nano_cpus: Some(nano_cpus(cpus, facts)?),
        ulimits: Some(process_limits.iter().map(|(limit, value)| ulimit(*limit, *value)).collect()),
        ..host(image, user, limits, binds, facts)?
    };
    let words = process_limits.iter().map(|(limit, value)| limit.word(*value));
    Ok(ContainerCreateBody {
        image: Some(image.id.clone()),
        user: Some(format!("{}:{}", user.uid, user.gid)),
        // Overrides the entry point of the image, so that no program of the image runs before the job's.
        entrypoint: Some(vec![AGENT_PATH.to_owned()]),
        cmd: Some(std::iter::once("serve".to_owned()).chain(words).collect()),
        working_dir: Some(cwd),
        env: Some(env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        hostname: Some("codebox".to_owned()),
        // The agent's standard input stays open exactly as long as the host holds the connection.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        // With a terminal, one output stream could forge the headers of the other.
        tty: Some(false),
        labels: Some(labels),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    })
}

fn host(
    image: &ImageFacts,
    user: &JobUser,
    limits: &Limits,
    binds: &[Bind],
    facts: &EngineFacts,
) -> Result<HostConfig, ContainerError> {
    // The agent and the host enforce the limits on time, output, files and the network.
    let Limits {
        wall: _,
        cpu: _,
        memory,
        output: _,
        disk: _,
        files: _,
        open_files: _,
        processes,
        fuel: _,
        net_bytes: _,
        net_connections: _,
    } = *limits;
    let memory = match memory.at() {
        Some(size) if size.get() < MIN_MEMORY => {
            let why = format!("container engines require at least {} MiB; raise --memory", MIN_MEMORY >> 20);
            return Err(ContainerError::Input { subject: "memory limit".to_owned(), why });
        }
        Some(size) => Some(signed(size.get())),
        None => None,
    };
    let processes = processes.at().map(|count| (i64::from(count.get()) + AGENT_THREADS).min(MAX_PROCESSES));
    let without_options = binds.iter().filter(|bind| bind.to_option_string(facts.flavour).is_none());
    let lowered = without_options.map(|bind| bind.lower(facts.flavour));
    let shared = memory.map_or(SHARED_MEMORY, |max| SHARED_MEMORY.min(max.unsigned_abs()));
    Ok(HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(Vec::new()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        readonly_rootfs: Some(true),
        network_mode: Some("none".to_owned()),
        ipc_mode: Some("private".to_owned()),
        pid_mode: None,
        uts_mode: None,
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        userns_mode: (user.owners == FileOwnership::KeepId).then(|| "keep-id".to_owned()),
        devices: Some(Vec::new()),
        group_add: Some(Vec::new()),
        // The agent is the first process and reaps orphaned processes.
        init: Some(false),
        auto_remove: Some(false),
        memory,
        // The value includes memory, so no swap is left.
        memory_swap: memory,
        pids_limit: Some(processes.unwrap_or(-1)),
        shm_size: Some(signed(shared)),
        // The engine keeps no log of a job's output.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(lowered.collect::<Result<_, _>>()?),
        binds: Some(binds.iter().filter_map(|bind| bind.to_option_string(facts.flavour)).collect()),
        tmpfs: Some(volumes(image, binds)),
        ..HostConfig::default()
    })
}

/// Returns the processors of the container in the unit of the engine, at most those of its machine.
fn nano_cpus(cpus: Option<Cpus>, facts: &EngineFacts) -> Result<i64, ContainerError> {
    let all = facts.processors.saturating_mul(1_000_000_000);
    match cpus {
        Some(cpus) if !facts.limits_cpus => {
            let why = format!("{} cannot limit them to {cpus}; use another engine", facts.summary());
            Err(ContainerError::Input { subject: "processors".to_owned(), why })
        }
        Some(cpus) => Ok(all.min(i64::from(cpus.thousandths()) * 1_000_000)),
        None => Ok(all),
    }
}

/// Returns the setting that opens ports below 1024 to every user, if a port forward has such a port. A granted low port
/// then has the same number in the container.
fn sysctls(port_forwards: &PortForwards) -> Option<HashMap<String, String>> {
    let low = ("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned());
    port_forwards.has_low_port().then(|| HashMap::from([low]))
}

/// Returns the paths that the image declares as volumes, as empty read-only mounts. An engine would make the volumes
/// writable and without a limit.
fn volumes(image: &ImageFacts, binds: &[Bind]) -> HashMap<String, String> {
    let free = |place: &&String| binds.iter().all(|bind| bind.guest != **place);
    let places = image.volumes.iter().filter(free).cloned();
    // Podman makes these paths writable in a container with a read-only root.
    let engines = ["/run", "/var/tmp"].map(str::to_owned);
    let all = places.chain(engines.into_iter().filter(|place| free(&place)));
    all.map(|place| (place, "ro,nosuid,nodev,noexec,size=65536".to_owned())).collect()
}

/// Returns the limits of each process of a job.
fn process_limits(limits: &Limits) -> Result<Vec<(ProcessLimit, u64)>, ContainerError> {
    if let Some(count) = limits.open_files.at().filter(|count| count.get() < MIN_OPEN_FILES) {
        let why = format!("{count} is too low to start a container; raise --max-open-files to {MIN_OPEN_FILES}");
        return Err(ContainerError::Input { subject: "open files limit".to_owned(), why });
    }
    let open_files = limits.open_files.at().map(|count| u64::from(count.get()));
    // The kernel counts a user's processes on the whole machine, so this value does not limit the job; the cgroup does.
    // The value is explicit because the default of an engine can exceed the maximum of this machine.
    let processes = hard_limit(ProcessLimit::Processes).map_or(MAX_USER_PROCESSES, |max| max.min(MAX_USER_PROCESSES));
    let all = [
        (ProcessLimit::Core, Some(0)),
        (ProcessLimit::OpenFiles, open_files.or_else(|| hard_limit(ProcessLimit::OpenFiles))),
        (ProcessLimit::Processes, Some(processes)),
        (ProcessLimit::FileSize, limits.disk.at().map(|size| size.get())),
    ];
    Ok(all.into_iter().filter_map(|(limit, value)| Some((limit, value?))).collect())
}

fn ulimit(limit: ProcessLimit, value: u64) -> ResourcesUlimits {
    let value = Some(signed(value));
    ResourcesUlimits { name: Some(limit.name().to_owned()), soft: value, hard: value }
}

/// Returns the hard limit of this process, which an engine of the same user can set. The default of an engine can
/// exceed it.
#[cfg(target_os = "linux")]
fn hard_limit(limit: ProcessLimit) -> Option<u64> {
    rustix::process::getrlimit(limit.resource()).maximum
}

#[cfg(not(target_os = "linux"))]
fn hard_limit(_limit: ProcessLimit) -> Option<u64> {
    None
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the maximum lifetime of a container: the time limit of its job, and a minute for the start and for the
/// inspection of the results.
pub(crate) fn max_lifetime(limits: &Limits) -> Option<Duration> {
    Some(limits.wall.at()? + Duration::from_secs(60))
}

/// Returns the binds that every container has in addition to the granted directories.
pub(crate) fn own_binds(agent: &std::path::Path, ca_bundle: Option<&std::path::Path>) -> Vec<Bind> {
    let mut binds = vec![Bind { host: agent.to_owned(), guest: AGENT_PATH.to_owned(), access: Access::ReadOnly }];
    if let Some(bundle) = ca_bundle {
        let guest = CA_BUNDLE.to_owned();
        binds.push(Bind { host: bundle.to_owned(), guest, access: Access::ReadOnly });
    }
    binds
}
