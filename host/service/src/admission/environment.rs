use std::collections::BTreeMap;

use codebox_core::{EnvName, ResultKind};

use super::denied::Denied;
use super::host_environment::HostEnvironment;
use super::request::EnvRequest;

/// Environment of the guest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Variables whose values come from the host.
    pub from_host: Vec<EnvName>,
    /// Values of all variables by name.
    pub values: BTreeMap<String, String>,
}

/// Resolves the requested variables. Error messages never contain a value, because it may be a secret.
pub(super) fn resolve(
    requests: Vec<EnvRequest>,
    host_environment: &dyn HostEnvironment,
) -> Result<Environment, Denied> {
    let mut environment = Environment::default();
    for request in requests {
        let (name, value) = match request {
            EnvRequest::Set(name, value) => (name, value),
            EnvRequest::FromHost(name) => {
                let value = host_value(&name, host_environment)?;
                if !environment.from_host.contains(&name) {
                    environment.from_host.push(name.clone());
                }
                (name, value)
            }
        };
        if value.contains('\0') {
            return Err(refused(&name, "its value contains a NUL", "pass a value without a NUL"));
        }
        let earlier = environment.values.insert(name.as_str().to_owned(), value.clone());
        if earlier.is_some_and(|earlier| earlier != value) {
            let fix = format!("pass {name} once");
            return Err(refused(&name, "it has two values", fix));
        }
    }
    Ok(environment)
}

fn host_value(name: &EnvName, host_environment: &dyn HostEnvironment) -> Result<String, Denied> {
    let value = host_environment.env_var(name.as_str()).ok_or_else(|| {
        let fix = format!("set {name}, pass its value as {name}=VALUE, or leave it out");
        refused(name, "it is not set", fix)
    })?;
    value.into_string().map_err(|_| refused(name, "its value is not UTF-8", "pass a UTF-8 value"))
}

fn refused(name: &EnvName, detail: &str, fix: impl Into<String>) -> Denied {
    let action = "pass environment variable";
    Denied::new(ResultKind::InvalidRequest, action, name.as_str(), detail, fix)
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
            (name == "TOKEN").then(|| OsString::from("secret"))
        }

        fn current_dir(&self) -> io::Result<PathBuf> {
            Ok(PathBuf::from("/"))
        }
    }

    fn resolved(texts: &[&str]) -> Result<Environment, Denied> {
        let requests = texts.iter().map(|text| text.parse().expect("a variable")).collect();
        resolve(requests, &Host)
    }

    #[test]
    fn passes_only_named_variables() {
        let environment = resolved(&["TOKEN", "A=b", "TOKEN"]).expect("TOKEN is set");
        assert_eq!(environment.from_host, [EnvName::new("TOKEN").expect("a name")]);
        let values: Vec<_> = environment.values.into_iter().collect();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(values, [pair("A", "b"), pair("TOKEN", "secret")]);
    }

    #[test]
    fn errors_name_variables_without_values() {
        let missing = resolved(&["GONE"]).expect_err("it is not set");
        assert_eq!(missing.to_string(), "cannot pass environment variable GONE: it is not set");
        assert_eq!(missing.exit_status(), 125);
        let twice = resolved(&["TOKEN", "TOKEN=other"]).expect_err("two values");
        assert!(!format!("{twice:?}").contains("secret"), "{twice:?}");
    }
}
