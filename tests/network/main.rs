//! Guests in WebAssembly with granted hosts: reachable and unreachable addresses, and all kinds of clients.
//!
//! Trials are named `LANGUAGE::CASE`. Every program runs in a process of the program under test that has confined
//! itself; the servers run in the test process, on loopback.

mod cases;
mod server;
mod slow;
mod websocket;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Guest, Kit, ProcessResult, Report, is_required};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use server::Server;

/// Environment of every trial.
pub struct TestEnvironment {
    pub kit: Kit,
    pub plain: Server,
    /// TLS server whose certificate matches its name.
    pub tls: Server,
    /// TLS server whose certificate is for another name.
    pub misnamed: Server,
    /// Directory with the file of trusted certificates.
    trusted: tempfile::TempDir,
}

impl TestEnvironment {
    fn new(kit: Kit) -> Result<Self> {
        let (plain, tls, misnamed) = (Server::plain()?, Server::tls("localhost")?, Server::tls("other.example")?);
        let trusted = kit.folder()?;
        let certificates = [&tls, &misnamed].map(|server| server.certificate.clone().unwrap_or_default());
        std::fs::write(trusted.path().join("roots.pem"), certificates.concat())?;
        Ok(Self { kit, plain, tls, misnamed, trusted })
    }

    pub fn roots(&self) -> std::path::PathBuf {
        self.trusted.path().join("roots.pem")
    }

    /// Runs a program with these grants and further options; `PLAIN`, `TLS` and `MISNAMED` in its text stand for the
    /// servers' ports.
    pub fn run(
        &self,
        guest: Guest,
        text: &str,
        grants: &[String],
        options: &[&str],
    ) -> Result<(Report, ProcessResult)> {
        self.run_trusting(&self.roots(), guest, text, grants, options)
    }

    /// Runs a program in Lua with these grants.
    pub fn run_lua(&self, text: &str, grants: &[String]) -> Result<Report> {
        let text = self.substitute_ports(text);
        let command =
            self.kit.run_json().env("SSL_CERT_FILE", self.roots()).args(["--lang", "lua", "-c", text.as_str()]);
        let grants = grants.iter().flat_map(|grant| ["--net", grant.as_str()]);
        let result = command.args(grants).run()?;
        ensure!(!result.timed_out, "timed out");
        result.report()
    }

    /// Runs a program with other trusted certificates.
    pub fn run_trusting(
        &self,
        roots: &Path,
        guest: Guest,
        text: &str,
        grants: &[String],
        options: &[&str],
    ) -> Result<(Report, ProcessResult)> {
        let text = self.substitute_ports(text);
        let mut command = self.kit.run_json().env("SSL_CERT_FILE", roots).args(guest.inline(&text)).args(options);
        for grant in grants {
            command = command.args(["--net", grant.as_str()]);
        }
        let result = command.run()?;
        ensure!(!result.timed_out, "timed out");
        Ok((result.report()?, result))
    }

    pub fn substitute_ports(&self, text: &str) -> String {
        let port = |server: &Server| server.address.port().to_string();
        let text = text.replace("PLAIN", &port(&self.plain));
        text.replace("MISNAMED", &port(&self.misnamed)).replace("TLS", &port(&self.tls))
    }

    /// Starts a server that only one trial uses: `OTHER` in the program's text stands for its port.
    pub fn other(&self, text: &str) -> Result<(Server, String)> {
        let server = Server::plain()?;
        let text = text.replace("OTHER", &server.address.port().to_string());
        Ok((server, text))
    }

    /// Runs a program that must print this text and succeed.
    pub fn check_prints(&self, guest: Guest, text: &str, grants: &[String], expected: &str) -> Result<Report> {
        let (report, _) = self.run(guest, text, grants, &[])?;
        let details = || format!("{} {}", report.outcome(), report.stderr());
        ensure!(report.outcome() == "exited 0", "failed: {}", details());
        ensure!(report.stdout() == expected, "printed {:?} and not {expected:?}; {}", report.stdout(), details());
        Ok(report)
    }

    /// Runs a program with this Python package, already fetched, that must print this text and succeed.
    pub fn check_prints_with(&self, package: &str, text: &str, expected: &str) -> Result<Report> {
        let text = self.substitute_ports(text);
        let mut command = self.with(package).env("SSL_CERT_FILE", self.roots()).args(["-c", text.as_str()]);
        for grant in self.all() {
            command = command.args(["--net".to_owned(), grant]);
        }
        let result = command.run()?;
        let report = result.report()?;
        let details = || format!("{} {}", report.outcome(), report.stderr());
        ensure!(!result.timed_out && report.outcome() == "exited 0", "failed: {}", details());
        ensure!(report.stdout() == expected, "printed {:?} and not {expected:?}; {}", report.stdout(), details());
        Ok(report)
    }

    /// Returns a run with this package; the user's settings determine the index.
    fn with(&self, package: &str) -> Codebox {
        self.kit.run_json().inherit_env().args(["--with", package, "--lang", "python"])
    }

    /// Fetches a package and its dependencies.
    fn fetch(&self, package: &str) -> Result<(), String> {
        let result = self.with(package).args(["-c", &format!("import {package}")]).run();
        match result.and_then(|result| result.report()) {
            Ok(report) if report.outcome() == "exited 0" => Ok(()),
            Ok(report) => Err(format!("{package} is unavailable: {}", report.json())),
            Err(error) => Err(format!("{package} is unavailable: {error:#}")),
        }
    }

    /// Returns grants of all servers.
    pub fn all(&self) -> Vec<String> {
        let at = |host: &str, server: &Server| format!("{host}:{}", server.address.port());
        vec![at("127.0.0.1", &self.plain), at("localhost", &self.tls), at("localhost", &self.misnamed)]
    }
}

/// Case: name, language and body.
pub type Case = (&'static str, Guest, fn(&TestEnvironment) -> Result<()>);

fn main() -> Result<()> {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let ready = kit.prepare().map_err(|error| format!("{error:#}"));
    let test_env = Arc::new(TestEnvironment::new(kit).context("start the servers")?);
    let lua = cases::lua::CASES.iter().map(|(name, case)| (*name, "lua", *case));
    let all = cases::all().into_iter().map(|(name, guest, case)| (name, guest.name(), case)).chain(lua);
    let trials = all.map(|(name, language, case)| {
        let (test_env, ready) = (Arc::clone(&test_env), ready.clone());
        Trial::ignorable_test(format!("{language}::{name}"), move || match ready {
            Err(reason) if is_required("wasm") => Err(reason.into()),
            Err(reason) => Ok(Completion::ignored_with(reason)),
            Ok(()) => match case(&test_env) {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(Failed::from(format!("{error:#}"))),
            },
        })
    });
    let fetched: BTreeMap<_, _> =
        cases::packages::CASES.iter().map(|(_, package, _)| (*package, Arc::new(OnceLock::new()))).collect();
    let with_packages = cases::packages::CASES.iter().map(|(name, package, case)| {
        let (test_env, ready, fetched) = (Arc::clone(&test_env), ready.clone(), Arc::clone(&fetched[package]));
        Trial::ignorable_test(format!("packages::{name}"), move || {
            let fetch_once = || fetched.get_or_init(|| test_env.fetch(package)).clone();
            match ready
                .map_err(|reason| ("wasm", reason))
                .and_then(|()| fetch_once().map_err(|reason| ("index", reason)))
            {
                Err((what, reason)) if is_required(what) => Err(reason.into()),
                Err((_, reason)) => Ok(Completion::ignored_with(reason)),
                Ok(()) => match case(&test_env) {
                    Ok(()) => Ok(Completion::Completed),
                    Err(error) => Err(Failed::from(format!("{error:#}"))),
                },
            }
        })
    });
    libtest_mimic::run(&args, trials.chain(with_packages).collect()).exit()
}
