//! Checks of limits and isolations against the operator's ceilings. A requested value above a ceiling is refused, not
//! clamped.

use std::fmt;
use std::time::Duration;

use codebox_core::{IsolationSet, Limit, LimitKind, LimitOverrides, Limits, ResultKind};

use super::denied::Denied;
use super::policy::Policy;
use super::request::Preference;

/// Returns the limits in force: the requested ones, and the policy's defaults for the others.
pub(super) fn limits(requested: &LimitOverrides, policy: &Policy) -> Result<Limits, Denied> {
    let limits = requested.apply_to(policy.defaults.min(policy.ceilings));
    let Some((kind, ceiling)) = first_above(limits, policy.ceilings) else {
        return Ok(limits);
    };
    Err(Denied::new(
        ResultKind::Denied,
        "raise",
        format!("the {kind} limit"),
        format!("it would exceed this machine's ceiling, {ceiling}"),
        format!("set a lower {kind} limit, or raise the ceiling in the configuration"),
    ))
}

/// Returns the isolations that both the request and the policy accept.
pub(super) fn isolations(requested: Preference, policy: &Policy) -> Result<IsolationSet, Denied> {
    let allowed = requested.acceptable().iter().filter(|isolation| policy.isolations.contains(*isolation));
    IsolationSet::of(allowed).ok_or_else(|| {
        let allowed = policy.isolations;
        Denied::new(
            ResultKind::Denied,
            "use isolation",
            requested.to_string(),
            format!("the configuration allows only {allowed}"),
            format!("use --isolation {allowed}, or change the configuration"),
        )
    })
}

/// Returns the first limit that is above its ceiling, and the ceiling.
fn first_above(limits: Limits, ceilings: Limits) -> Option<(LimitKind, String)> {
    let Limits { wall, cpu, memory, output, disk, files, open_files, processes, fuel, net_bytes, net_connections } =
        limits;
    let checks = [
        (LimitKind::Wall, time_above(wall, ceilings.wall)),
        (LimitKind::Cpu, time_above(cpu, ceilings.cpu)),
        (LimitKind::Memory, above(memory, ceilings.memory)),
        (LimitKind::Output, above(output, ceilings.output)),
        (LimitKind::Disk, above(disk, ceilings.disk)),
        (LimitKind::Files, above(files, ceilings.files)),
        (LimitKind::OpenFiles, above(open_files, ceilings.open_files)),
        (LimitKind::Processes, above(processes, ceilings.processes)),
        (LimitKind::Fuel, above(fuel, ceilings.fuel)),
        (LimitKind::NetBytes, above(net_bytes, ceilings.net_bytes)),
        (LimitKind::NetConnections, above(net_connections, ceilings.net_connections)),
    ];
    checks.into_iter().find_map(|(kind, ceiling)| Some((kind, ceiling?)))
}

/// Returns the ceiling if the limit is above it.
fn above<T: Copy + Ord + fmt::Display>(limit: Limit<T>, ceiling: Limit<T>) -> Option<String> {
    ceiling.at().filter(|_| limit.min(ceiling) != limit).map(|ceiling| ceiling.to_string())
}

fn time_above(limit: Limit<Duration>, ceiling: Limit<Duration>) -> Option<String> {
    ceiling.at().filter(|_| limit.min(ceiling) != limit).map(|ceiling| format!("{ceiling:?}"))
}

#[cfg(test)]
mod tests {
    use codebox_core::{ByteSize, Isolation};

    use super::*;

    fn policy(memory: Limit<ByteSize>) -> Policy {
        let ceilings = Limits { memory, ..Limits::unlimited() };
        Policy { ceilings, ..Policy::default() }
    }

    #[test]
    fn ceilings_lower_defaults_and_refuse_requests() {
        let low = policy(Limit::At(ByteSize::mib(64)));
        let none = LimitOverrides::default();
        let limits_in_force = limits(&none, &low).expect("nothing was requested");
        assert_eq!(limits_in_force.memory, Limit::At(ByteSize::mib(64)));
        for memory in [Limit::Unlimited, Limit::At(ByteSize::mib(65))] {
            let requested = LimitOverrides { memory: Some(memory), ..none };
            let denied = limits(&requested, &low).expect_err("above the ceiling");
            assert_eq!((denied.kind, denied.exit_status()), (ResultKind::Denied, 126));
            assert!(
                denied.to_string().contains("memory limit") && denied.detail.ends_with("ceiling, 64 MiB"),
                "{denied}"
            );
        }
        let short = Limits { wall: Limit::At(Duration::from_millis(1500)), ..Limits::unlimited() };
        let requested = LimitOverrides { wall: Some(Limit::At(Duration::from_secs(2))), ..none };
        let denied =
            limits(&requested, &Policy { ceilings: short, ..Policy::default() }).expect_err("above the ceiling");
        assert!(denied.detail.ends_with("ceiling, 1.5s"), "{denied}");
        let requested = LimitOverrides { memory: Some(Limit::At(ByteSize::mib(64))), ..none };
        assert!(limits(&requested, &low).is_ok());
    }

    #[test]
    fn isolations_are_those_both_accept() {
        let wasm = IsolationSet::only(Isolation::Wasm);
        let policy = Policy { isolations: wasm, ..Policy::default() };
        assert_eq!(isolations(Preference::Auto, &policy), Ok(wasm));
        let denied = isolations(Preference::Only(Isolation::Vm), &policy).expect_err("not allowed");
        assert_eq!(denied.kind, ResultKind::Denied);
    }
}
