//! Backends that a case can run on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};

use anyhow::{Result, ensure};
use codebox_testkit::{
    BASE_IMAGE, Codebox, HostProcess, Kit, check_engine, is_full, is_required, is_selected, machine_image,
    start_machine,
};

use crate::case::Case;
use crate::language::Language;
use crate::tier::Tier;

/// Backend of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Wasm,
    /// The first tier, in workers of a host process.
    Host,
    Podman,
    Docker,
    /// Podman in a virtual machine. It has trials only where it is required, because a machine without hardware support needs seconds for each.
    Vm,
}

/// Lazily determined ability of a backend to run a language, or the reason why it cannot.
pub type Availability = LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>;

/// The host process of all trials, once the first trial of the backend has started it.
static HOST: OnceLock<Result<HostProcess, String>> = OnceLock::new();

/// Number of commands for the host process.
static OFFERED: AtomicU64 = AtomicU64::new(0);

fn host_process(kit: &Kit) -> &'static Result<HostProcess, String> {
    let start = || {
        // A host process is replaced when a runtime is prepared.
        Language::ALL.into_iter().try_for_each(|language| language.prepare(kit))?;
        let home = kit.temporary().join("host-home");
        if home.exists() {
            std::fs::remove_dir_all(&home)?;
        }
        kit.start_host(&home)
    };
    HOST.get_or_init(|| start().map_err(|error| format!("{error:#}")))
}

fn host_process_if_started() -> Option<&'static HostProcess> {
    HOST.get().and_then(|host| host.as_ref().ok())
}

/// The virtual machine of all trials, once the first trial has started it.
static MACHINE: OnceLock<Result<(), String>> = OnceLock::new();

/// Returns a command whose home has the virtual machine.
fn in_machine(kit: &Kit) -> Codebox {
    kit.codebox().env("PATH", std::env::var_os("PATH").unwrap_or_default())
}

fn start_vm(kit: &Kit) -> Result<()> {
    let dir = kit.home().join("data/vm");
    std::fs::create_dir_all(&dir)?;
    if !dir.join("image").exists() {
        std::os::unix::fs::symlink(machine_image(env!("CARGO_MANIFEST_DIR")), dir.join("image"))?;
    }
    start_machine(&|| in_machine(kit), kit.temporary()).map(drop)
}

impl Backend {
    pub const ALL: [Self; 5] = [Self::Wasm, Self::Host, Self::Podman, Self::Docker, Self::Vm];

    /// Returns the name in reports and in the names of trials.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::Host => "host",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Vm => "vm",
        }
    }

    /// Returns the options of `codebox run` that select exactly this backend.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::Wasm | Self::Host => &["--isolation", "wasm"],
            Self::Podman => &["--isolation", "container", "--engine", "podman", "--image", BASE_IMAGE],
            Self::Docker => &["--isolation", "container", "--engine", "docker", "--image", BASE_IMAGE],
            Self::Vm => &["--isolation", "vm", "--image", BASE_IMAGE],
        }
    }

    /// Returns a command that runs on this backend.
    pub fn codebox(self, kit: &Kit) -> Codebox {
        match (self, host_process_if_started()) {
            (Self::Host, Some(host)) => {
                OFFERED.fetch_add(1, Ordering::Relaxed);
                host.codebox()
            }
            (Self::Vm, _) => in_machine(kit),
            _ => kit.codebox(),
        }
    }

    pub fn tier(self) -> Tier {
        match self {
            Self::Wasm | Self::Host => Tier::Wasm,
            Self::Podman | Self::Docker | Self::Vm => Tier::Container,
        }
    }

    /// Returns true if the language's cases run on the backend. The second engine runs one language in the short form.
    pub fn runs(self, language: Language) -> bool {
        match self {
            Self::Wasm | Self::Host | Self::Podman => true,
            Self::Docker => language == Language::Python || is_full(),
            Self::Vm => self.is_required(),
        }
    }

    /// Returns true if the case with this number runs. In the short form, the first engine runs one case in four of Python, others of
    /// JavaScript, and one in eight of TypeScript and of Lua, which share their code path with these. The second engine runs one in eight of
    /// Python, which the first one does not run, and the virtual machine one in 64.
    pub fn selects(self, language: Language, number: usize) -> bool {
        match (self, language) {
            (Self::Wasm | Self::Host, _) => true,
            (Self::Podman, Language::Python) => is_selected(number, 4),
            (Self::Podman, Language::JavaScript) => is_selected(number + 2, 4),
            (Self::Podman, _) => is_selected(number, 8),
            (Self::Docker, _) => is_selected(number + 1, 8),
            (Self::Vm, _) => is_selected(number, 64),
        }
    }

    /// Returns false for a case that takes longer than the limit on its time. If its instructions are translated, the virtual machine needs ten
    /// milliseconds for each file that a program makes, of which one case makes 6,000, and an interpreter may not have started within the
    /// second that others have.
    pub fn has_time_for(self, case: &Case) -> bool {
        const LEFT_OUT: [&str; 7] = [
            "files::many_in_one_directory",
            "limits::wall",
            "limits::wall_while_listening",
            "limits::wall_in_exit_handlers",
            "limits::cpu_does_not_count_sleep",
            "files::listed_after_a_timeout",
            "async::combinators",
        ];
        self != Self::Vm || !LEFT_OUT.contains(&case.name)
    }

    /// Returns true if the absence of the backend is a failure. A required backend must run every language.
    pub fn is_required(self) -> bool {
        is_required(if self == Self::Host { Self::Wasm.name() } else { self.name() })
    }

    pub fn lazy_availability(self, language: Language, kit: Kit) -> Availability {
        LazyLock::new(Box::new(move || match self {
            Self::Wasm => language.prepare(&kit).map_err(|error| format!("{error:#}")),
            Self::Host => host_process(&kit).as_ref().map(drop).map_err(Clone::clone),
            Self::Podman | Self::Docker => {
                let engine = check_engine(&kit, self.name());
                engine.and_then(|()| language.describe(&kit)).map_err(|error| format!("{error:#}"))
            }
            Self::Vm => {
                let machine = MACHINE.get_or_init(|| start_vm(&kit).map_err(|error| format!("{error:#}")));
                machine.clone()?;
                language.describe(&kit).map_err(|error| format!("{error:#}"))
            }
        }))
    }
}

/// Removes the virtual machine, if a trial has started it.
pub fn stop_machine(kit: &Kit) -> Result<()> {
    if MACHINE.get().is_some() {
        in_machine(kit).args(["vm", "reset"]).run()?;
    }
    Ok(())
}

/// Stops the host process, and returns an error if it did not serve nearly all runs that it was offered. It does not serve
/// those that come while another one takes its place because a runtime was added.
pub fn stop_host() -> Result<()> {
    let Some(host) = host_process_if_started() else { return Ok(()) };
    let (served, offered) = (host.runs()?, OFFERED.load(Ordering::Relaxed));
    host.codebox().args(["host", "stop"]).run()?;
    ensure!(served * 10 >= offered * 9, "the host process served {served} of {offered} runs");
    Ok(())
}
