//! One run of one hostile program, and the checks after it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use codebox_testkit::{Canaries, Guest, Header, Input, Kit, Ran, Report};

use crate::Verdict;

/// Maximum delay in milliseconds of a guest's end after its wall limit.
const LATE: f64 = 250.0;

/// Function that prepares the granted directory.
pub type Setup = fn(&Canaries) -> Result<()>;
/// Function that checks the results.
pub type Look = fn(&Canaries, &Ran, &Report) -> Result<()>;

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
    needs_canary: Vec<CanaryArg>,
    setup: Vec<Setup>,
    looks: Vec<Look>,
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
        needs_canary: Vec::new(),
        setup: Vec::new(),
        looks: Vec::new(),
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
        self.needs_canary.push(arg);
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

    pub fn look(mut self, look: Look) -> Self {
        self.looks.push(look);
        self
    }

    /// Returns the languages of the attack.
    pub fn guests(&self) -> Vec<Guest> {
        let made = |guest: &Guest| self.only.is_none_or(|only| only == *guest) && guest.hostile(self.fixture).exists();
        Guest::ALL.into_iter().filter(made).collect()
    }

    pub fn name(&self, guest: Guest) -> Result<String> {
        let header = Header::of(guest, self.fixture)?;
        let variant = if self.variant.is_empty() { String::new() } else { format!("::{}", self.variant) };
        Ok(format!("{}::{}::{}{variant}", guest.name(), header.row, self.fixture).replace(' ', "_"))
    }

    pub fn run(&self, kit: &Kit, guest: Guest) -> Result<Verdict> {
        let canaries = Canaries::plant(kit)?;
        self.run_among(kit, guest, &canaries)?;
        Ok(Verdict::Held)
    }

    /// Runs the attack with existing canaries.
    pub fn run_among(&self, kit: &Kit, guest: Guest, canaries: &Canaries) -> Result<(Ran, Report)> {
        for setup in &self.setup {
            setup(canaries)?;
        }
        let mut run = canaries.around(kit.run_json()).args(self.options.iter().copied());
        if !self.options.contains(&"--timeout") {
            run = run.args(["--timeout", "1s"]);
        }
        for (folder, place, access) in &self.mounts {
            run = run.grant(&canaries.grant().join(folder), place, access);
        }
        run = run.arg(guest.hostile(self.fixture)).args(self.args.iter().cloned());
        for arg in &self.needs_canary {
            run = match arg {
                CanaryArg::File => run.arg(canaries.file()),
                CanaryArg::Port => run.arg(canaries.port().to_string()),
                CanaryArg::Prefix => run.arg(canaries.prefix()),
            };
        }
        let ran = run.input(self.input.clone()).deadline(Duration::from_secs(60)).run()?;
        let report = self.judge(guest, canaries, &ran).with_context(|| excerpt(&ran))?;
        for look in &self.looks {
            look(canaries, &ran, &report).with_context(|| excerpt(&ran))?;
        }
        Ok((ran, report))
    }

    fn judge(&self, guest: Guest, canaries: &Canaries, ran: &Ran) -> Result<Report> {
        let report = sound(ran)?;
        if let Some(expected) = self.expect {
            ensure!(report.outcome() == expected, "outcome is {} and not {expected}", report.outcome());
        } else {
            let header = Header::of(guest, self.fixture)?;
            let right = header.expect.iter().any(|one| *one == report.outcome());
            ensure!(right, "outcome is {} and none of {:?}", report.outcome(), header.expect);
        }
        if report.outcome() == "limit wall" {
            let limit = report.at("/limits/wall_ms").as_f64().unwrap_or(0.0);
            let took = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX);
            ensure!(took <= limit + LATE, "it took {took} ms of {limit}");
        }
        canaries.check(ran)?;
        Ok(report)
    }
}

/// Checks the properties of every run, whatever the guest does: codebox ends by itself, in time, and does not fail.
pub fn sound(ran: &Ran) -> Result<Report> {
    ensure!(!ran.hung, "it hung");
    ensure!(ran.signal.is_none(), "codebox was ended by signal {:?}: {}", ran.signal, ran.stderr_text());
    let said = ran.stderr_text();
    ensure!(!said.contains("panicked"), "codebox panicked: {said}");
    let report = ran.report()?;
    if report.kind() == "internal_error" || !report.at("/error/kind").is_null() {
        bail!("codebox failed: {}", report.json());
    }
    ensure!(ran.code.map(i64::from) == report.exit_code(), "the status is {:?}", ran.code);
    Ok(report)
}

fn excerpt(ran: &Ran) -> String {
    let Ok(report) = ran.report() else {
        return format!("code {:?}, signal {:?}, stderr {:.600}", ran.code, ran.signal, ran.stderr_text());
    };
    let tail = |text: &str| {
        let skipped = text.chars().count().saturating_sub(900);
        text.chars().skip(skipped).collect::<String>()
    };
    format!("outcome {}\nstdout: {}\nstderr: {}", report.outcome(), tail(report.stdout()), tail(report.stderr()))
}
