//! Lines that `--verbose` prints after a run.

use codebox_core::{Enforcement, LayerState, Limits, NetworkUsage, Provenance, RunReport, Usage};

use codebox_service::limit_text::limit_value;

use super::values::{bytes, duration};

/// Returns lines with the backend and the reason for it, the resources used, and the limits and sandbox layers in
/// force.
pub(crate) fn explanation(report: &RunReport) -> Vec<String> {
    let mut lines = vec![ran(&report.provenance)];
    lines.push(used(&report.usage));
    lines.extend(network(&report.network));
    lines.push(held(&report.enforcement, &report.limits));
    let uncovered = report.enforcement.uncovered.iter();
    lines.extend(uncovered.map(|(kind, what)| format!("the {kind} limit does not cover {what}")));
    lines.extend(sandbox_layers(&report.enforcement));
    lines
}

fn ran(provenance: &Provenance) -> String {
    let isolation = provenance.isolation;
    let mut line = format!("ran in {isolation}");
    let parts = [
        ("runtime", &provenance.runtime),
        ("image", &provenance.image),
        ("engine", &provenance.engine),
        ("container", &provenance.container_id),
    ];
    for (name, value) in parts {
        if let Some(value) = value {
            line.push_str(&format!(", {name} {value}"));
        }
    }
    if !provenance.reason.is_empty() {
        line.push_str(&format!(": {}", provenance.reason));
    }
    line
}

/// Returns the line about an attempt in a lighter isolation, which the run repeated.
pub(super) fn escalation(provenance: &Provenance) -> Option<String> {
    let from = provenance.escalated_from.as_ref()?;
    let (isolation, backend) = (provenance.isolation, &provenance.backend);
    Some(format!("ran again in {isolation} ({backend}), because {} lacks {}", from.isolation, from.reason))
}

fn used(usage: &Usage) -> String {
    let Usage { wall, cpu, peak_memory, startup, disk_written, fuel } = usage;
    let parts = [
        startup.map(|time| format!("started in {}", duration(time))),
        Some(format!("ran for {}", duration(*wall))),
        cpu.map(|time| format!("{} CPU time", duration(time))),
        peak_memory.map(|n| format!("{} peak memory", bytes(n))),
        disk_written.map(|n| format!("{} written", bytes(n))),
        fuel.map(|n| format!("{n} instructions")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn network(used: &NetworkUsage) -> Option<String> {
    let NetworkUsage { attempts, unlisted, sent, received } = used;
    let count = attempts.iter().map(|attempt| attempt.times).sum::<u64>().saturating_add(*unlisted);
    let (sent, received) = (bytes(*sent), bytes(*received));
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    (!used.is_none()).then(|| format!("tried to connect {times}, sent {sent}, received {received}"))
}

fn held(enforcement: &Enforcement, limits: &Limits) -> String {
    let limit = |(kind, held): (&codebox_core::LimitKind, &codebox_core::EnforcementLevel)| {
        let value = limit_value(*kind, limits)?;
        Some(format!("{kind} {value} ({})", held.as_str()))
    };
    let held: Vec<String> = enforcement.limits.iter().filter_map(limit).collect();
    if held.is_empty() { "limits: none".to_owned() } else { format!("limits: {}", held.join(", ")) }
}

fn sandbox_layers(enforcement: &Enforcement) -> impl Iterator<Item = String> {
    enforcement.layers.iter().map(|layer| {
        let state = match layer.state {
            LayerState::Held => "enforced",
            LayerState::Partial => "partially enforced",
            LayerState::Off => "off",
            LayerState::Unavailable => "not available",
        };
        let name = &layer.name;
        if layer.detail.is_empty() {
            format!("sandbox layer {name}: {state}")
        } else {
            format!("sandbox layer {name}: {state} ({})", layer.detail)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use codebox_core::{BackendId, EnforcementLevel, Isolation, LimitKind, Outcome, SandboxLayer};

    use super::*;

    #[test]
    fn explains_backend_reason_and_time() {
        let mut provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
        provenance.image = Some("python-data".to_owned());
        provenance.reason = "the program imports pandas".to_owned();
        let mut report = RunReport::new(Outcome::Exited(0), provenance, Limits::default());
        report.usage.wall = Duration::from_millis(2);
        report.usage.startup = Some(Duration::from_micros(130));
        let limits = &mut report.enforcement.limits;
        limits.insert(LimitKind::Memory, EnforcementLevel::Enforced);
        limits.insert(LimitKind::Fuel, EnforcementLevel::Unsupported);
        report.enforcement.layers.push(SandboxLayer {
            name: "seccomp".to_owned(),
            state: LayerState::Off,
            detail: "switched off".to_owned(),
        });
        assert_eq!(
            explanation(&report),
            [
                "ran in wasm, image python-data: the program imports pandas",
                "started in 130 µs, ran for 2.0 ms",
                "limits: memory 1 GiB (enforced)",
                "sandbox layer seccomp: off (switched off)",
            ]
        );
    }

    #[test]
    fn counts_single_attempts() {
        let tried =
            |unlisted| network(&NetworkUsage { unlisted, sent: 2048, ..NetworkUsage::default() }).expect("it was used");
        assert_eq!(tried(1), "tried to connect once, sent 2.0 KiB, received 0 bytes");
        assert_eq!(tried(2), "tried to connect 2 times, sent 2.0 KiB, received 0 bytes");
    }
}
