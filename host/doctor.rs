//! The checks of `codebox doctor`, which are cheap, change nothing and install nothing.

use codebox_cli::Host;
use codebox_container::Weakness;
use codebox_core::{Backend as _, with_causes};
use codebox_service::Check;
use codebox_service::catalog::EntryState;

use crate::host::Process;
use crate::places::Places;

/// Checks everything that a run on this machine depends on.
pub(crate) fn checks(process: &Process) -> Vec<Check> {
    let mut checks = vec![system(), places()];
    checks.extend(runtimes(process));
    checks.push(walls());
    checks.push(resets());
    checks.extend(engines(process));
    checks
}

fn system() -> Check {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let detail = format!("{os} on {arch}, codebox {}", env!("CARGO_PKG_VERSION"));
    if (os, arch) == ("linux", "x86_64") {
        Check::ok("system", detail)
    } else {
        Check::warn("system", detail, "codebox is tested on Linux on x86-64 only")
    }
}

fn places() -> Check {
    match Places::from_env() {
        Ok(places) => {
            Check::ok("places", format!("data in {}, cache in {}", places.data.display(), places.cache.display()))
        }
        Err(e) => Check::fail("places", e.to_string(), "set CODEBOX_HOME to a directory"),
    }
}

fn runtimes(process: &Process) -> Vec<Check> {
    let entries = process.catalog().and_then(|catalog| Ok(catalog.runtimes()?));
    let entries = match entries {
        Ok(entries) => entries,
        Err(e) => return vec![Check::fail("runtimes", e.message(), "see the message")],
    };
    let check = |entry: codebox_service::catalog::RuntimeEntry| {
        let name = format!("runtime {}", entry.name);
        let install = format!("codebox runtime install {}", entry.name);
        match entry.state {
            EntryState::Installed => Check::ok(
                name,
                format!(
                    "version {}, {}",
                    entry.version,
                    entry.language_version.as_deref().unwrap_or("not prepared yet")
                ),
            ),
            EntryState::Missing => {
                Check::warn(name, "not installed: the first run prepares it", format!("to prepare it now: {install}"))
            }
            EntryState::Damaged(why) => Check::fail(name, why, install),
        }
    };
    entries.into_iter().map(check).collect()
}

/// Checks that the kernel supports the second sandbox layer. Applying the layer would confine this process irrevocably.
fn walls() -> Check {
    let lsms = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let seccomp = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").is_ok();
    let landlock = lsms.split(',').any(|lsm| lsm.trim() == "landlock");
    match (landlock, seccomp) {
        (true, true) => Check::ok("second wall", "landlock and seccomp"),
        (_, true) if lsms.is_empty() => {
            Check::ok("second wall", "seccomp; whether landlock is enabled cannot be seen, each report tells")
        }
        (_, true) => {
            Check::warn("second wall", "seccomp only", "use a Linux kernel with Landlock enabled (5.13 or later)")
        }
        (_, false) => Check::warn("second wall", "none on this system", "use Linux for a second wall"),
    }
}

fn resets() -> Check {
    if codebox_wasm::resets_in_place() {
        Check::ok("warm starts", "memory is reset in place")
    } else {
        Check::warn(
            "warm starts",
            "memory is mapped afresh for every job",
            "use Linux 6.7 or later for faster warm starts",
        )
    }
}

/// Checks each engine for weaknesses, or reports why it is unavailable. Starts no engine.
fn engines(process: &Process) -> Vec<Check> {
    let engines = match process.containers() {
        Ok(engines) => engines,
        Err(e) => return vec![Check::fail("engines", e.message(), "see the message")],
    };
    let asked = crate::containers::block(async {
        let mut found = Vec::new();
        for engine in engines {
            found.push((engine.id(), engine.facts().await.map_err(|error| engine.told(error))));
        }
        found
    });
    let mut checks = Vec::new();
    for (id, found) in asked.unwrap_or_default() {
        let name = format!("engine {id}");
        match found {
            Ok(facts) => {
                let detail = format!("{}, API {}, at {} ({})", facts.phrase(), facts.api, facts.place, facts.named_by);
                checks.push(Check::ok(name.clone(), detail));
                let weak = facts.weaknesses().into_iter();
                checks.extend(weak.map(|Weakness { what, fix }| Check::warn(name.clone(), what, fix)));
            }
            Err(error) => {
                let fix = codebox_service::backend_fix(&error).unwrap_or_else(|| "see the message".to_owned());
                checks.push(Check::warn(name, with_causes(&error), fix));
            }
        }
    }
    checks
}
