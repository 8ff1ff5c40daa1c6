//! Modules and hosts that a program's text uses and its guest lacks, reported once the program has failed.

use codebox_core::{Isolation, Missing};

use crate::admission::Admitted;
use crate::needs::{Need, Needs, Weight};

/// Maximum number of expected modules that are reported for one program.
const MAX_MISSING_MODULES: usize = 5;

/// Returns the required features that the guest will lack: modules of packages that were not requested, and hosts if
/// none is granted.
///
/// It is not known whether a named image contains a module, or which modules the packages of a container provide.
pub(crate) fn missing_features(admitted: &Admitted, needs: &Needs, isolation: Isolation) -> Vec<Missing> {
    let job = admitted.job();
    let is_known = match isolation {
        Isolation::Wasm => true,
        Isolation::Container | Isolation::Vm => job.packages.is_empty() && admitted.container_image().is_none(),
    };
    let mut expected: Vec<Missing> = Vec::new();
    for need in needs.powers.iter().filter(|need| need.weight == Weight::Required && is_known) {
        let missing = module(need);
        expected.extend(missing.filter(|missing| !expected.contains(missing) && expected.len() < MAX_MISSING_MODULES));
    }
    // A container has sockets, but without a grant it reaches no host; the program only sees that a name cannot be
    // resolved.
    let is_client = |need: &&Need| need.is_satisfied_by_hosts() && (need.package().is_none() || !is_known);
    if isolation != Isolation::Wasm
        && job.grants.net.is_empty()
        && let Some(Need { line, words, .. }) = needs.powers.iter().find(is_client)
    {
        let hint = format!("line {line} uses {words}, but no host is granted: grant one with --net HOST[:PORT]");
        expected.push(Missing { what: "network hosts".to_owned(), hint });
    }
    expected
}

/// Merges `expected` into the features that the guest itself found missing. For the same feature the hint of `expected` is
/// kept, because it names the package that provides it.
pub fn merge_missing(missing: &mut Vec<Missing>, expected: &[Missing]) {
    for one in expected {
        match missing.iter_mut().find(|other| other.what == one.what) {
            Some(other) => other.hint.clone_from(&one.hint),
            None => missing.push(one.clone()),
        }
    }
}

fn module(need: &Need) -> Option<Missing> {
    let package = need.package()?;
    let module = need.words.strip_prefix("import ")?;
    let hint = format!("line {} imports it, but no requested package provides it: add --with {package}", need.line);
    Some(Missing { what: format!("the module {module}"), hint })
}
