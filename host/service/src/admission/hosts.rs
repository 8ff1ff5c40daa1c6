//! Checks of requested network grants against the hosts that the configuration allows.

use codebox_core::{NetGrant, ResultKind};

use super::denied::Denied;
use super::policy::Policy;

/// Returns the requested grants without duplicates.
pub(super) fn admit(requested: Vec<NetGrant>, policy: &Policy) -> Result<Vec<NetGrant>, Denied> {
    if let Some(allowed) = &policy.allowed_hosts
        && let Some(beyond) = requested.iter().find(|grant| !allowed.iter().any(|one| grant.is_within(one)))
    {
        return Err(Denied::new(
            ResultKind::Denied,
            "grant",
            beyond.to_string(),
            "the configuration does not allow it",
            format!("add \"{beyond}\" to network.allow, or remove the grant"),
        ));
    }
    let mut grants = Vec::with_capacity(requested.len());
    for grant in requested {
        if !grants.contains(&grant) {
            grants.push(grant);
        }
    }
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(texts: &[&str]) -> Vec<NetGrant> {
        texts.iter().map(|text| text.parse().expect("a grant")).collect()
    }

    #[test]
    fn grants_only_configured_hosts() {
        let policy = Policy { allowed_hosts: Some(grants(&["*.example.org:443"])), ..Policy::default() };
        let inside = grants(&["a.example.org:443", "a.example.org:443"]);
        assert_eq!(admit(inside, &policy), Ok(grants(&["a.example.org:443"])));
        let denied = admit(grants(&["a.example.org"]), &policy).expect_err("that is any port");
        assert_eq!(denied.kind, ResultKind::Denied);
        assert_eq!(denied.to_string(), "cannot grant a.example.org: the configuration does not allow it");
        assert!(denied.fix.contains("\"a.example.org\" to network.allow"), "{}", denied.fix);
        let none = Policy { allowed_hosts: Some(Vec::new()), ..Policy::default() };
        assert!(admit(grants(&["a.org"]), &none).is_err() && admit(Vec::new(), &none).is_ok());
        assert_eq!(admit(grants(&["a.org"]), &Policy::default()), Ok(grants(&["a.org"])));
    }
}
