//! Confinement of a process of the command line to the grants of its job.

use std::sync::Arc;

use codebox_cli::Confinement as Choice;
use codebox_confine::{GrantedPath, Openat2, Rules, SocketAccess};
use codebox_core::{Access, HostPath, InstanceSpec, ResultKind, RunnerError, SandboxLayer};
use codebox_runner::Confinement;
use codebox_service::{Admitted, Check};
use codebox_wasm::Store;

use crate::command_line::Origin;
use crate::machine::Machine;

/// Confinement of this process, which the user may have turned off.
pub(crate) struct OwnProcess {
    pub machine: Arc<Machine>,
    pub choice: Choice,
    pub origin: Origin,
}

impl Confinement for OwnProcess {
    fn confine(&self, admitted: &Admitted, spec: &InstanceSpec) -> Result<Vec<SandboxLayer>, RunnerError> {
        #[cfg(target_os = "linux")]
        if self.origin == Origin::Start {
            // A confined process cannot start processes.
            crate::host_process::start_if_due(&self.machine);
        }
        match self.choice {
            Choice::Off => Ok(codebox_confine::all_off()),
            Choice::On => confine_to(&self.machine, spec, admitted.out()),
        }
    }
}

/// Confines this process to a guest and the directory that receives the files of its job.
pub(crate) fn confine_to(
    machine: &Machine,
    spec: &InstanceSpec,
    out: Option<&HostPath>,
) -> Result<Vec<SandboxLayer>, RunnerError> {
    let mut rules = rules_of(machine, spec)?;
    rules.read_write.extend(out.map(|out| out.to_path_buf().into()));
    // A confined process cannot start processes, so the analyzer ends before.
    machine.analyzer()?.close();
    confine(&rules)
}

/// Confines this process.
pub(crate) fn confine(rules: &Rules) -> Result<Vec<SandboxLayer>, RunnerError> {
    codebox_confine::confine(rules).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))
}

/// Returns the rules for a guest: its grants, the runtime's directories and the job's private directories.
pub(crate) fn rules_of(machine: &Machine, spec: &InstanceSpec) -> Result<Rules, RunnerError> {
    let wasm = machine.wasm()?;
    let network = machine.line.get().map_or(SocketAccess::Denied, |line| SocketAccess::PassedSockets(*line));
    // Without `openat2`, every path takes as many calls as it has components, which is many times slower in deep trees.
    let mut rules = Rules { network, openat2: Openat2::Allowed, ..Rules::default() };
    let store = wasm.store(&spec.language);
    rules.read.extend(store.into_iter().flat_map(Store::guest_dirs).map(GrantedPath::from));
    rules.read.extend(spec.layers.iter().map(|layer| GrantedPath::from(layer.host.clone())));
    rules.read_write.push(wasm.scratch_dir().to_owned().into());
    rules.remove_empty_dirs.extend(wasm.scratch_dir().parent().map(|parent| parent.to_owned().into()));
    let checkpoints = spec.session.iter().filter_map(|session| session.checkpoints.clone());
    rules.read_write.extend(checkpoints.map(GrantedPath::from));
    for grant in &spec.grants.dirs {
        let places = match grant.access {
            Access::ReadOnly => &mut rules.read,
            Access::ReadWrite => &mut rules.read_write,
        };
        places.push(grant.host.to_path_buf().into());
    }
    Ok(rules)
}

/// Checks that the kernel supports the second sandbox layer. Applying the layer would confine this process irrevocably.
pub(crate) fn check() -> Check {
    let lsms = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let seccomp = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok();
    let landlock = lsms.split(',').any(|lsm| lsm.trim() == "landlock");
    match (landlock, seccomp) {
        (true, true) => Check::ok("OS sandbox", "landlock and seccomp"),
        (_, true) if lsms.is_empty() => {
            Check::ok("OS sandbox", "seccomp; cannot detect whether landlock is enabled, see the report of a run")
        }
        (_, true) => {
            Check::warn("OS sandbox", "seccomp only", "use a Linux kernel with Landlock enabled (5.13 or later)")
        }
        (_, false) => Check::warn("OS sandbox", "not available on this system", "use Linux for the OS sandbox"),
    }
}
