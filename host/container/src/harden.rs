//! A container as it is made: everything stated, nothing left to an engine's default.
//!
//! The list is the whole of what a container of ours may have. A request can choose the image, the directories and the
//! limits; no value of it reaches any other field.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits,
};
use codebox_agent::{AGENT_PLACE, MAX_ASKED};
use codebox_core::{Access, Limits};

use crate::caller::{JobUser, Owners};
use crate::doors::Doors;
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::images::ImageFacts;
use crate::mounts::Bind;

/// Threads of the agent, which the kernel counts with the job's: its own, with that of the doors, and one for each question.
const AGENT_THREADS: i64 = 8 + MAX_ASKED as i64;

/// Shared memory of a job, part of its memory.
const SHARED_MEMORY: u64 = 64 << 20;

/// More processes than a user has, and fewer than any machine gives one.
const MANY_PROCESSES: i64 = 16_384;

/// The lowest memory limit that engines take.
const LEAST_MEMORY: u64 = 6 << 20;

/// The lowest limit on open files with which an engine can start a container, and the agent in it a program.
const LEAST_OPEN_FILES: u32 = 16;

/// The most processes that a kernel counts to (`PID_MAX_LIMIT`); a limit beyond it is no limit, and engines refuse it.
const MOST_PROCESSES: i64 = 4 << 20;

/// Where a container finds the machine's certificate authorities, if this machine has them in one file.
pub(crate) const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What a container is made for.
pub(crate) struct Wanted<'a> {
    pub image: &'a ImageFacts,
    pub user: &'a JobUser,
    pub limits: &'a Limits,
    pub binds: &'a [Bind],
    pub doors: &'a Doors,
    pub labels: HashMap<String, String>,
}

/// The container for a job.
pub(crate) fn container(wanted: Wanted<'_>, facts: &EngineFacts) -> Result<ContainerCreateBody, ContainerError> {
    let Wanted { image, user, limits, binds, doors, labels } = wanted;
    let host = HostConfig {
        extra_hosts: Some(doors.hosts()),
        sysctls: sysctls(doors),
        ..host(image, user, limits, binds, facts)?
    };
    Ok(ContainerCreateBody {
        image: Some(image.id.clone()),
        user: Some(format!("{}:{}", user.uid, user.gid)),
        // The image's own are overridden: none of its programs runs before the job's.
        entrypoint: Some(vec![AGENT_PLACE.to_owned()]),
        cmd: Some(vec!["serve".to_owned()]),
        working_dir: Some("/".to_owned()),
        env: Some(Vec::new()),
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        hostname: Some("codebox".to_owned()),
        // The agent's line to its host: open as long as the host holds it, and not a moment longer.
        open_stdin: Some(true),
        stdin_once: Some(true),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        // On a terminal one stream could forge the other's marks.
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
    // Time, output, files and the network are held by the agent and the host.
    let Limits {
        wall: _,
        cpu: _,
        memory,
        output: _,
        disk,
        files: _,
        open_files,
        processes,
        fuel: _,
        net_bytes: _,
        net_connections: _,
    } = *limits;
    let memory = match memory.at() {
        Some(size) if size.get() < LEAST_MEMORY => {
            let why = format!("an engine takes no less than {} MiB; raise --memory", LEAST_MEMORY >> 20);
            return Err(ContainerError::Input { subject: "memory limit".to_owned(), why });
        }
        Some(size) => Some(signed(size.get())),
        None => None,
    };
    if let Some(count) = open_files.at().filter(|count| count.get() < LEAST_OPEN_FILES) {
        let why =
            format!("{count} are too few to start a container with; raise --max-open-files to {LEAST_OPEN_FILES}");
        return Err(ContainerError::Input { subject: "open files limit".to_owned(), why });
    }
    let processes = processes.at().map(|count| (i64::from(count.get()) + AGENT_THREADS).min(MOST_PROCESSES));
    let mut ulimits = vec![ulimit("core", Some(0))];
    ulimits.push(ulimit("nofile", open_files.at().map(|count| i64::from(count.get())).or_else(|| ceiling("nofile"))));
    // Counted for a user on the whole machine, so it is no limit of a job's, and the count of the group is: it is stated
    // because an engine's own default can be more than this machine gives.
    let many = ceiling("nproc").map_or(MANY_PROCESSES, |most| most.min(MANY_PROCESSES));
    ulimits.push(ulimit("nproc", Some(many)));
    if let Some(size) = disk.at() {
        ulimits.push(ulimit("fsize", Some(signed(size.get()))));
    }
    let without_options = binds.iter().filter(|bind| bind.with_options(facts.flavour).is_none());
    let lowered = without_options.map(|bind| bind.lower(facts.flavour));
    let shared = memory.map_or(SHARED_MEMORY, |most| SHARED_MEMORY.min(most.unsigned_abs()));
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
        userns_mode: (user.owners == Owners::KeepId).then(|| "keep-id".to_owned()),
        devices: Some(Vec::new()),
        group_add: Some(Vec::new()),
        // The agent is the first process and buries what others leave.
        init: Some(false),
        auto_remove: Some(false),
        memory,
        // With as much swap as memory there is none to have.
        memory_swap: memory,
        nano_cpus: Some(facts.processors.saturating_mul(1_000_000_000)),
        pids_limit: Some(processes.unwrap_or(-1)),
        ulimits: Some(ulimits),
        shm_size: Some(signed(shared)),
        // The engine keeps nothing of what a job prints.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        mounts: Some(lowered.collect::<Result<_, _>>()?),
        binds: Some(binds.iter().filter_map(|bind| bind.with_options(facts.flavour)).collect()),
        tmpfs: Some(volumes(image, binds)),
        ..HostConfig::default()
    })
}

/// Ports below 1024 are for everybody where a door is at one: what is granted there is reached there.
fn sysctls(doors: &Doors) -> Option<HashMap<String, String>> {
    let low = ("net.ipv4.ip_unprivileged_port_start".to_owned(), "0".to_owned());
    doors.has_low_port().then(|| HashMap::from([low]))
}

/// Places that the image declares as volumes, which an engine would make writable and without a limit: empty and
/// read-only instead.
fn volumes(image: &ImageFacts, binds: &[Bind]) -> HashMap<String, String> {
    let free = |place: &&String| binds.iter().all(|bind| bind.guest != **place);
    let places = image.volumes.iter().filter(free).cloned();
    // What Podman makes writable wherever a root is read-only.
    let engines = ["/run", "/var/tmp"].map(str::to_owned);
    let all = places.chain(engines.into_iter().filter(|place| free(&place)));
    all.map(|place| (place, "ro,nosuid,nodev,noexec,size=65536".to_owned())).collect()
}

fn ulimit(name: &str, most: Option<i64>) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: most, hard: most }
}

/// The highest that this process may have, which an engine of its user may give: their own defaults can be beyond it.
#[cfg(unix)]
fn ceiling(name: &str) -> Option<i64> {
    use rustix::process::{Resource, getrlimit};
    let resource = match name {
        "nofile" => Resource::Nofile,
        _ => Resource::Nproc,
    };
    getrlimit(resource).maximum.map(signed)
}

#[cfg(not(unix))]
fn ceiling(_name: &str) -> Option<i64> {
    None
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How long a container lives at the most: its job's time, and time to start and to be looked through.
pub(crate) fn life(limits: &Limits) -> Option<Duration> {
    Some(limits.wall.at()? + Duration::from_secs(60))
}

/// The binds that every container has besides granted directories.
pub(crate) fn own_binds(agent: &std::path::Path, authorities: Option<&std::path::Path>) -> Vec<Bind> {
    let mut binds = vec![Bind { host: agent.to_owned(), guest: AGENT_PLACE.to_owned(), access: Access::ReadOnly }];
    if let Some(bundle) = authorities {
        let guest = AUTHORITIES.to_owned();
        binds.push(Bind { host: bundle.to_owned(), guest, access: Access::ReadOnly });
    }
    binds
}
