use std::collections::BTreeMap;
use std::str::FromStr;

use codebox_core::{
    EnvName, Isolation, IsolationSet, NameError, NetGrant, ResultKind, SecretGrant, SecretName, SecretValue,
};
use thiserror::Error;

use super::denied::Denied;
use super::host_environment::HostEnvironment;

/// A secret that the guest uses without seeing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRequest {
    /// Name of the secret, and of the guest's environment variable that has its placeholder.
    pub name: SecretName,
    /// Origin of the value.
    pub source: SecretSource,
    /// Hosts that may receive the value, on every granted port.
    pub hosts: Vec<NetGrant>,
}

/// Origin of the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// The host's environment variable with this name.
    Env(EnvName),
    /// This value.
    Value(SecretValue),
    /// No origin, because the request was read from a record, which has no values.
    NotRecorded,
}

/// Reason that a text is not a valid [`SecretRequest`]. No message contains a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretRequestError {
    /// A name or a host is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The text has another form.
    #[error(
        "write NAME=env:VARIABLE@HOST, with the variable of this environment that has the value; separate several hosts with commas"
    )]
    Form,
    /// A host has a port.
    #[error("write the host {0} of a secret without a port: --net limits the ports")]
    Port(NetGrant),
}

impl FromStr for SecretRequest {
    type Err = SecretRequestError;

    /// Parses `NAME=env:VARIABLE@HOST[,HOST...]`.
    fn from_str(text: &str) -> Result<Self, SecretRequestError> {
        let (origin, hosts) = text.split_once('@').ok_or(SecretRequestError::Form)?;
        let (name, source) = parse_origin(origin)?;
        let hosts: Vec<NetGrant> = hosts.split(',').map(NetGrant::new).collect::<Result<_, _>>()?;
        match hosts.iter().find(|host| host.port().is_some()) {
            Some(host) => Err(SecretRequestError::Port(host.clone())),
            None => Ok(Self { name, source, hosts }),
        }
    }
}

/// The value of a secret that is known already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretOrigin {
    /// Name of the secret.
    pub name: SecretName,
    /// Origin of the value.
    pub source: SecretSource,
}

impl FromStr for SecretOrigin {
    type Err = SecretRequestError;

    /// Parses `NAME=env:VARIABLE`.
    fn from_str(text: &str) -> Result<Self, SecretRequestError> {
        let (name, source) = parse_origin(text)?;
        Ok(Self { name, source })
    }
}

fn parse_origin(text: &str) -> Result<(SecretName, SecretSource), SecretRequestError> {
    let (name, variable) = text.split_once("=env:").ok_or(SecretRequestError::Form)?;
    Ok((SecretName::new(name)?, SecretSource::Env(EnvName::new(variable)?)))
}

impl From<SecretGrant> for SecretRequest {
    fn from(grant: SecretGrant) -> Self {
        let SecretGrant { name, value, hosts } = grant;
        Self { name, source: value.map_or(SecretSource::NotRecorded, SecretSource::Value), hosts }
    }
}

impl SecretOrigin {
    /// Returns the value.
    ///
    /// # Errors
    /// Returns an error if the variable is not set, or its value cannot be a secret. It does not contain the value.
    pub fn value(self, host_environment: &dyn HostEnvironment) -> Result<SecretValue, Denied> {
        let name = self.name;
        let variable = match self.source {
            SecretSource::Value(value) => return Ok(value),
            SecretSource::NotRecorded => {
                let fix = format!("pass it again: codebox session secret ID {name}=env:VARIABLE");
                return Err(refused(
                    &name,
                    "its value is not kept on disk, and the process that had it has ended",
                    fix,
                ));
            }
            SecretSource::Env(variable) => variable,
        };
        let value = host_environment.env_var(variable.as_str()).ok_or_else(|| {
            let (detail, fix) = (format!("the variable {variable} is not set"), format!("set {variable}"));
            refused(&name, &detail, fix)
        })?;
        let checked = value.into_string().ok().and_then(|value| SecretValue::new(value).ok());
        checked.ok_or_else(|| {
            let detail = format!("the value of {variable} cannot be sent in a header, or is too short to be masked");
            refused(&name, &detail, "use 8 to 4096 printable ASCII characters, without a space or line feed at the end")
        })
    }
}

/// Returns the requested secrets with their values. Sets the variables that have their placeholders.
pub(super) fn admit(
    requested: Vec<SecretRequest>,
    net: &[NetGrant],
    isolations: IsolationSet,
    variables: &mut BTreeMap<String, String>,
    host_environment: &dyn HostEnvironment,
) -> Result<Vec<SecretGrant>, Denied> {
    let mut grants: Vec<SecretGrant> = Vec::with_capacity(requested.len());
    for SecretRequest { name, source, hosts } in requested {
        if !isolations.contains(Isolation::Wasm) {
            let fix = format!("remove --isolation, or pass the value with --env {name}, which shows it to the program");
            return Err(refused(&name, "only WebAssembly keeps it from the program", fix));
        }
        if grants.iter().any(|other| other.name == name) {
            return Err(refused(&name, "it is passed twice", format!("pass {name} once, with all of its hosts")));
        }
        let is_granted = |host: &NetGrant| {
            net.iter().any(|grant| grant.without_port().is_within(host) || host.is_within(&grant.without_port()))
        };
        if let Some(host) = hosts.iter().find(|host| !is_granted(host)) {
            return Err(refused(&name, &format!("its host {host} is not granted"), format!("add --net {host}")));
        }
        let value = SecretOrigin { name: name.clone(), source }.value(host_environment)?;
        let grant = SecretGrant { name, value: Some(value), hosts };
        let earlier = variables.insert(grant.name.to_string(), grant.placeholder());
        if earlier.is_some_and(|earlier| earlier != grant.placeholder()) {
            let fix = format!("remove --env {0}, or give the secret another name", grant.name);
            return Err(refused(&grant.name, "there is an environment variable with its name", fix));
        }
        grants.push(grant);
    }
    Ok(grants)
}

fn refused(name: &SecretName, detail: &str, fix: impl Into<String>) -> Denied {
    Denied::new(ResultKind::InvalidRequest, "use secret", name.as_str(), detail, fix)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io;
    use std::path::PathBuf;

    use super::*;

    struct Host;

    impl HostEnvironment for Host {
        fn env_var(&self, name: &str) -> Option<OsString> {
            match name {
                "KEY" => Some(OsString::from("sk-12345678")),
                "SHORT" => Some(OsString::from("sk-1")),
                "LINE" => Some(OsString::from("sk-12345678\n")),
                _ => None,
            }
        }

        fn current_dir(&self) -> io::Result<PathBuf> {
            Ok(PathBuf::from("/"))
        }
    }

    fn admitted(texts: &[&str], net: &[&str]) -> Result<(Vec<SecretGrant>, BTreeMap<String, String>), Denied> {
        let requests = texts.iter().map(|text| text.parse().expect("a secret")).collect();
        let net: Vec<NetGrant> = net.iter().map(|text| text.parse().expect("a grant")).collect();
        let mut variables = BTreeMap::from([("TAKEN".to_owned(), "x".to_owned())]);
        Ok((admit(requests, &net, IsolationSet::auto(), &mut variables, &Host)?, variables))
    }

    #[test]
    fn requests_parse() {
        let parsed: SecretRequest = "TOKEN=env:KEY@a.org,*.b.org".parse().expect("a secret");
        assert_eq!((parsed.name.as_str(), parsed.hosts.len()), ("TOKEN", 2));
        assert_eq!(parsed.source, SecretSource::Env(EnvName::new("KEY").expect("a name")));
        for bad in
            ["", "TOKEN", "TOKEN=sk-12345678@a.org", "TOKEN=env:KEY", "T-N=env:KEY@a.org", "T=env:@a.org", "T=env:KEY@"]
        {
            let error = bad.parse::<SecretRequest>().expect_err(bad);
            assert!(!error.to_string().contains("sk-"), "{error}");
        }
        let port = "TOKEN=env:KEY@a.org:443".parse::<SecretRequest>().expect_err("it has a port");
        assert_eq!(port.to_string(), "write the host a.org:443 of a secret without a port: --net limits the ports");
    }

    #[test]
    fn the_guest_has_a_placeholder() {
        let (grants, variables) = admitted(&["TOKEN=env:KEY@a.org"], &["a.org:443"]).expect("it is granted");
        assert_eq!(variables["TOKEN"], "codebox-secret.TOKEN.");
        assert_eq!(grants[0].value.as_ref().map(SecretValue::as_str), Some("sk-12345678"));
        assert!(admitted(&["TOKEN=env:KEY@a.b.org"], &["*.b.org"]).is_ok());
        assert!(admitted(&["TOKEN=env:KEY@*.b.org"], &["a.b.org"]).is_ok());
    }

    #[test]
    fn containers_have_no_secrets() {
        let request = "T=env:KEY@a.org".parse().expect("a secret");
        let net = ["a.org".parse().expect("a grant")];
        let only = IsolationSet::only(Isolation::Container);
        let denied = admit(vec![request], &net, only, &mut BTreeMap::new(), &Host).expect_err("it is refused");
        assert!(denied.to_string().contains("only WebAssembly keeps it from the program"), "{denied}");
    }

    #[test]
    fn refusals_name_the_secret_and_the_fix() {
        for (secrets, net, expected) in [
            (&["T=env:KEY@a.org"][..], &["b.org"][..], "its host a.org is not granted"),
            (&["T=env:GONE@a.org"], &["a.org"], "the variable GONE is not set"),
            (&["T=env:SHORT@a.org"], &["a.org"], "cannot be sent in a header, or is too short"),
            (&["T=env:LINE@a.org"], &["a.org"], "cannot be sent in a header, or is too short"),
            (&["TAKEN=env:KEY@a.org"], &["a.org"], "there is an environment variable with its name"),
            (&["T=env:KEY@a.org", "T=env:KEY@a.org"], &["a.org"], "it is passed twice"),
        ] {
            let denied = admitted(secrets, net).expect_err(expected);
            assert!(denied.to_string().contains(expected), "{denied}");
            assert!(!format!("{denied:?}").contains("sk-"), "{denied:?}");
        }
        let lost = SecretRequest::from(SecretGrant {
            name: SecretName::new("T").expect("a name"),
            value: None,
            hosts: vec!["a.org".parse().expect("a host")],
        });
        let origin = SecretOrigin { name: lost.name, source: lost.source };
        assert!(origin.value(&Host).expect_err("it has no value").fix.contains("session secret ID T=env:"));
    }
}
