//! One run of one hostile program, and the checks after it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::{Canaries, Guest, Header, Input, Kit, ProcessResult, Report};

use crate::Verdict;

/// Maximum delay in milliseconds of a guest's end after its wall limit.
const MAX_DELAY_MS: f64 = 250.0;

/// Function that prepares the granted directory.
pub type Setup = fn(&Canaries) -> Result<()>;
/// Function that checks the results.
pub type Verification = fn(&Canaries, &ProcessResult, &Report) -> Result<()>;

/// Attack as data, in every language that has a program for it.
#[derive(Clone)]
pub struct Attack {
    only: Option<Guest>,
    pub fixture: &'static str,
    variant: &'static str,
    args: Vec<String>,
    options: Vec<&'static str>,
    mounts: Vec<(&'static str, &'static str, &'static str)>,
    input: Input,
    /// Expected outcome, if it differs from the header.
    expect: Option<&'static str>,
    canary_args: Vec<CanaryArg>,
    setup: Vec<Setup>,
    verifications: Vec<Verification>,
}

/// Argument whose value depends on the canaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanaryArg {
    File,
    Port,
    Prefix,
}

/// Creates an attack by this program, with the granted directory as its `/work` and a time limit of one second.
pub fn attack(fixture: &'static str) -> Attack {
    Attack {
        only: None,
        fixture,
        variant: "",
        args: Vec::new(),
        options: Vec::new(),
        mounts: vec![("", "/work", "rw")],
        input: Input::Empty,
        expect: None,
        canary_args: Vec::new(),
        setup: Vec::new(),
        verifications: Vec::new(),
    }
}

impl Attack {
    /// Adds this argument, which also names the variant.
    pub fn with(mut self, arg: &'static str) -> Self {
        self.variant = arg;
        self.args.push(arg.to_owned());
        self
    }

    /// Restricts the attack to this language: the others have the program, but not this variant.
    pub fn only(mut self, guest: Guest) -> Self {
        self.only = Some(guest);
        self
    }

    pub fn variant(mut self, variant: &'static str) -> Self {
        self.variant = variant;
        self
    }

    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn canary_arg(mut self, arg: CanaryArg) -> Self {
        self.canary_args.push(arg);
        self
    }

    pub fn options(mut self, options: &[&'static str]) -> Self {
        self.options.extend(options);
        self
    }

    /// Mounts only these folders of the granted directory, each as (folder, guest path, access).
    pub fn mounts(mut self, mounts: &[(&'static str, &'static str, &'static str)]) -> Self {
        self.mounts = mounts.to_vec();
        self
    }

    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    pub fn expect(mut self, outcome: &'static str) -> Self {
        self.expect = Some(outcome);
        self
    }

    pub fn setup(mut self, setup: Setup) -> Self {
        self.setup.push(setup);
        self
    }

    pub fn verify(mut self, verify: Verification) -> Self {
        self.verifications.push(verify);
        self
    }

    /// Returns the languages of the attack.
    pub fn guests(&self) -> Vec<Guest> {
        let has_program =
            |guest: &Guest| self.only.is_none_or(|only| only == *guest) && guest.hostile(self.fixture).exists();
        Guest::ALL.into_iter().filter(has_program).collect()
    }

    pub fn name(&self, guest: Guest) -> Result<String> {
        let header = Header::of(guest, self.fixture)?;
        let variant = if self.variant.is_empty() { String::new() } else { format!("::{}", self.variant) };
        Ok(format!("{}::{}::{}{variant}", guest.name(), header.row, self.fixture).replace(' ', "_"))
    }

    pub fn run(&self, kit: &Kit, guest: Guest) -> Result<Verdict> {
        let canaries = Canaries::plant(kit)?;
        self.run_with_canaries(kit, guest, &canaries)?;
        Ok(Verdict::Passed)
    }

    /// Runs the attack with existing canaries.
    pub fn run_with_canaries(&self, kit: &Kit, guest: Guest, canaries: &Canaries) -> Result<(ProcessResult, Report)> {
        for setup in &self.setup {
            setup(canaries)?;
        }
        let mut run = canaries.around(kit.run_json()).args(self.options.iter().copied());
        if !self.options.contains(&"--timeout") {
            run = run.args(["--timeout", "1s"]);
        }
        for (folder, guest_path, access) in &self.mounts {
            run = run.grant(&canaries.grant().join(folder), guest_path, access);
        }
        run = run.arg(guest.hostile(self.fixture)).args(self.args.iter().cloned());
        for arg in &self.canary_args {
            run = match arg {
                CanaryArg::File => run.arg(canaries.file()),
                CanaryArg::Port => run.arg(canaries.port().to_string()),
                CanaryArg::Prefix => run.arg(canaries.prefix()),
            };
        }
        let result = run.input(self.input.clone()).deadline(Duration::from_secs(60)).run()?;
        let report = self.check_run(guest, canaries, &result).with_context(|| excerpt(&result))?;
        for verify in &self.verifications {
            verify(canaries, &result, &report).with_context(|| excerpt(&result))?;
        }
        Ok((result, report))
    }

    fn check_run(&self, guest: Guest, canaries: &Canaries, result: &ProcessResult) -> Result<Report> {
        let report = check_sound(result)?;
        if let Some(expected) = self.expect {
            ensure!(report.outcome() == expected, "outcome is {} and not {expected}", report.outcome());
        } else {
            let header = Header::of(guest, self.fixture)?;
            let is_expected = header.expect.iter().any(|one| *one == report.outcome());
            ensure!(is_expected, "outcome is {}, expected one of {:?}", report.outcome(), header.expect);
        }
        if report.outcome() == "limit wall" {
            let limit = report.at("/limits/wall_ms").as_f64().unwrap_or(0.0);
            let duration_ms = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX);
            ensure!(duration_ms <= limit + MAX_DELAY_MS, "duration is {duration_ms} ms, limit is {limit}");
        }
        canaries.check(result)?;
        Ok(report)
    }
}

/// Checks the properties of every run, whatever the guest does: codebox ends by itself, in time, and does not fail.
pub fn check_sound(result: &ProcessResult) -> Result<Report> {
    ensure!(!result.timed_out, "timed out");
    ensure!(result.signal.is_none(), "codebox was ended by signal {:?}: {}", result.signal, result.stderr_text());
    let messages = result.stderr_text();
    ensure!(!messages.contains("panicked"), "codebox panicked: {messages}");
    let report = result.report()?;
    if report.kind() == "internal_error" || !report.at("/error/kind").is_null() {
        bail!("codebox failed: {}", report.json());
    }
    ensure!(result.code.map(i64::from) == report.exit_code(), "the status is {:?}", result.code);
    Ok(report)
}

fn excerpt(result: &ProcessResult) -> String {
    let Ok(report) = result.report() else {
        return format!("code {:?}, signal {:?}, stderr {:.600}", result.code, result.signal, result.stderr_text());
    };
    let tail = |text: &str| {
        let skipped = text.chars().count().saturating_sub(900);
        text.chars().skip(skipped).collect::<String>()
    };
    format!("outcome {}\nstdout: {}\nstderr: {}", report.outcome(), tail(report.stdout()), tail(report.stderr()))
}
