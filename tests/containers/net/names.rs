//! Host names with chosen addresses and isolated networks, both in namespaces of the test.

use std::path::Path;

use anyhow::{Context as _, Result};
use codebox_testkit::Codebox;

use crate::test_env::TestEnvironment;

/// Returns a job whose codebox resolves these names to these addresses and resolves no others.
pub fn with_host_names(test_env: &TestEnvironment, names: &[(&str, &str)], job: &Codebox) -> Result<Codebox> {
    in_namespaces(test_env, &["-m"], "", names, job)
}

/// Does the same as [`with_host_names`] in an isolated network with an HTTP server of the machine's Python at this address,
/// port 80.
pub fn with_server_at(
    test_env: &TestEnvironment,
    address: &str,
    names: &[(&str, &str)],
    job: &Codebox,
) -> Result<Codebox> {
    let set_up = format!(
        "/usr/sbin/ip link set lo up; /usr/sbin/ip address add {address}/32 dev lo; cd /var/empty 2>/dev/null || cd /; \
         /usr/bin/python3 -m http.server 80 --bind {address} >/dev/null 2>&1 & server=$!; trap 'kill $server' EXIT; \
         until /usr/bin/python3 -c 'import socket; socket.create_connection((\"{address}\", 80))' 2>/dev/null; do :; done;"
    );
    in_namespaces(test_env, &["-m", "-n"], &set_up, names, job)
}

fn in_namespaces(
    test_env: &TestEnvironment,
    namespaces: &[&str],
    set_up: &str,
    names: &[(&str, &str)],
    job: &Codebox,
) -> Result<Codebox> {
    let hosts: String = names.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
    let file = test_env.home().join("hosts");
    std::fs::write(&file, format!("127.0.0.1 localhost\n{hosts}"))?;
    let command = job.command();
    let script = format!("/usr/bin/mount --bind \"$0\" /etc/hosts && {{ {set_up} \"$@\"; }}");
    let outer = Codebox::new(Path::new("/usr/bin/unshare"), test_env.home());
    let outer = outer.args(namespaces).args(["/bin/sh", "-c", &script]).arg(file);
    let outer = outer.arg(command.get_program()).args(command.get_args());
    let mut outer = test_env.canaries.around(outer);
    for (name, value) in command.get_envs() {
        let name = name.to_str().context("a plain name")?;
        outer = outer.env(name, value.unwrap_or_default());
    }
    Ok(outer)
}
