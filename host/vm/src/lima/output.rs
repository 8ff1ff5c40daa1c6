//! Output of `limactl`.

use std::fmt;

use serde::Deserialize;

use crate::error::{Layer, VmError};
use crate::program::Ended;
use crate::provider::VmState;

/// Major and minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u32, pub u32);

impl Version {
    /// Reads `limactl version 1.2.0-rc.0`; `None` for a build without a number.
    pub(super) fn of(text: &str) -> Option<Self> {
        let number = text.strip_prefix("limactl version ")?;
        let mut parts = number.split(['.', '-']);
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Returns the state of a machine from its status and, on further lines, its errors.
pub(super) fn listed(text: &str) -> VmState {
    let (status, errors) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    let errors = errors.replace('\n', "; ");
    match status.trim() {
        "Running" => VmState::Running,
        "Stopped" => VmState::Stopped,
        // Each start passes through this state.
        "Broken" if errors.contains("driver is not") || errors.contains("failed to get Info") => VmState::Running,
        // The process of Lima that keeps the machine was killed.
        "Broken" if errors.contains("host agent is not") => VmState::Stopped,
        "Broken" => VmState::Damaged(if errors.is_empty() { "Lima reports it as broken".to_owned() } else { errors }),
        other => VmState::Damaged(format!("its description is invalid (status {other:?} of Lima)")),
    }
}

/// One line of the log.
#[derive(Deserialize)]
struct Line {
    level: String,
    msg: String,
}

/// Failures by a part of their message, with the part of the tier and the remedy. Quotes in messages differ between versions.
const FAILURES: [(&str, Layer, &str); 14] = [
    ("VZ driver requires macOS", Layer::Hypervisor, "update macOS, or install QEMU: brew install qemu"),
    ("unknown or unsupported VM type", Layer::Hypervisor, "install QEMU: brew install qemu"),
    ("failed to find the QEMU binary", Layer::Hypervisor, "install it: brew install qemu"),
    ("must not run as the root user", Layer::Hypervisor, "run codebox as another user than root"),
    ("template requires Lima version", Layer::Hypervisor, "update it: brew upgrade lima"),
    ("no space left on device", Layer::Vm, "free disk space"),
    ("no such host", Layer::Network, "check the network of this machine"),
    ("unexpected HTTP status", Layer::Image, "check the network, or update codebox for another image of Debian"),
    ("expected digest", Layer::Image, "check the proxy of the network: it has changed the image of Debian"),
    ("failed to download", Layer::Image, "check the network of this machine"),
    (
        "did not receive an event with the",
        Layer::Vm,
        "see codebox vm logs; the machine is slow, or its disk is damaged",
    ),
    ("host agent process has exited", Layer::Vm, "see codebox vm logs; codebox vm reset makes a new one"),
    ("another hostagent may already be running", Layer::Vm, "run the command again"),
    ("instance is protected", Layer::Vm, "run limactl unprotect codebox with its LIMA_HOME"),
];

/// Returns the reason of a call that failed: the last line of its log with the highest level, or else its last line.
pub(super) fn failure(ended: &Ended) -> VmError {
    let text = String::from_utf8_lossy(&ended.stderr);
    let lines = || text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    let of_level = |level: &str| lines().rfind(|line| line.level == level).map(|line| line.msg);
    let plain = || text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned);
    let reason = of_level("fatal").or_else(|| of_level("error")).or_else(plain).unwrap_or_else(|| {
        let status = ended.status.map_or_else(|| "a signal".to_owned(), |status| format!("status {status}"));
        format!("limactl has ended with {status}")
    });
    let known = FAILURES.iter().find(|(part, ..)| reason.contains(part));
    let (layer, fix) = known.map_or((Layer::Vm, "see codebox vm logs"), |(_, layer, fix)| (*layer, *fix));
    VmError::new(layer, reason, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (text, expected) in [
            ("limactl version 2.2.0", Some(Version(2, 2))),
            ("limactl version 2.2.0-rc.0", Some(Version(2, 2))),
            ("limactl version 1.2.0-193-gd4f4911e", Some(Version(1, 2))),
            ("limactl version 0.23.2", Some(Version(0, 23))),
            ("limactl version <unknown>", None),
            ("limactl version f8f3b2a", None),
            ("", None),
        ] {
            assert_eq!(Version::of(text), expected, "{text}");
        }
        assert!(Version(0, 23) < Version(1, 0) && Version(1, 10) > Version(1, 2));
    }

    /// Texts of Lima 1.0 to 2.2.
    #[test]
    fn states_are_read() {
        let damaged = |reason: &str| VmState::Damaged(reason.to_owned());
        for (text, expected) in [
            ("Running\n", VmState::Running),
            ("Stopped\n", VmState::Stopped),
            ("Broken\nhost agent is running but driver is not\n", VmState::Running),
            (
                "Broken\nfailed to get Info from \"/l/codebox/ha.sock\": Get \"http://lima-hostagent/v1/info\": dial unix /l/codebox/ha.sock: connect: no such file or directory\n",
                VmState::Running,
            ),
            ("Broken\nqemu driver is running but host agent is not\n", VmState::Stopped),
            ("Broken\nvz driver is running but host agent is not\n", VmState::Stopped),
            ("Broken\nopen /l/codebox/lima.yaml: no such file\n", damaged("open /l/codebox/lima.yaml: no such file")),
            ("Broken\n", damaged("Lima reports it as broken")),
            ("\n", damaged("its description is invalid (status \"\" of Lima)")),
        ] {
            assert_eq!(listed(text), expected, "{text}");
        }
    }

    #[test]
    fn failures_name_their_layer() {
        let ended = |stderr: &str| Ended { status: Some(1), stdout: Vec::new(), stderr: stderr.as_bytes().to_vec() };
        let log = |msg: &str| {
            let line =
                |level, msg| serde_json::json!({ "level": level, "msg": msg, "time": "2026-07-21T10:00:00+02:00" });
            format!("{}\n{}\n", line("info", "Attempting to download the image"), line("fatal", msg))
        };
        for (msg, layer, fix) in [
            (
                "failed to create driver instance: VZ driver requires macOS 13 or higher to run",
                Layer::Hypervisor,
                "macOS",
            ),
            (
                "failed to find the QEMU binary for the architecture `aarch64`: exec: \"qemu-system-aarch64\": executable file not found in $PATH",
                Layer::Hypervisor,
                "qemu",
            ),
            (
                "failed to download `https://x`: Get \"https://x\": dial tcp: lookup cloud.debian.org: no such host",
                Layer::Network,
                "network",
            ),
            ("failed to download `https://x`: expected digest `sha512:aa`, got `sha512:bb`", Layer::Image, "proxy"),
            ("failed to download `https://x`: write /l/data.tmp.1: no space left on device", Layer::Vm, "disk space"),
            ("did not receive an event with the `running` status", Layer::Vm, "logs"),
            ("something else", Layer::Vm, "logs"),
        ] {
            let error = failure(&ended(&log(msg)));
            assert_eq!((error.layer, error.reason.as_str()), (layer, msg));
            assert!(error.fix.contains(fix), "{error:?}");
        }
        // A program that is not Lima, and one that says nothing.
        assert_eq!(failure(&ended("limactl: must not run as the root user\n")).layer, Layer::Hypervisor);
        assert_eq!(failure(&ended("")).reason, "limactl has ended with status 1");
    }
}
