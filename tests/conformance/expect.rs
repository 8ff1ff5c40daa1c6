//! Expected results of a program.

use codebox_testkit::Report;

use crate::tier::Tier;

/// Expected content of a host directory after the run: directory, file and content.
pub type ExpectedFile = (&'static str, &'static str, &'static str);

/// Additional check of the report.
pub type ReportCheck = fn(&Report) -> Result<(), String>;

/// Expectation. By default, a program must succeed and miss no feature; other unset properties are not checked.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// Kind of the end and exit status; `ok` and 0 by default.
    pub ending: Option<(&'static str, i32)>,
    pub stdout: Option<&'static str>,
    pub stdout_has: Vec<&'static str>,
    pub stderr_has: Vec<&'static str>,
    pub stderr_lacks: Vec<&'static str>,
    pub missing: Vec<&'static str>,
    /// Guest paths of all created files.
    pub created: Option<Vec<&'static str>>,
    pub expected_files: Vec<ExpectedFile>,
    pub verify: Vec<ReportCheck>,
}

impl Expectation {
    /// Combines this expectation with `own`. A value of `own` takes precedence if only one value is possible.
    pub fn and(&self, own: &Self) -> Self {
        let Self { ending, stdout, stdout_has, stderr_has, stderr_lacks, missing, created, expected_files, verify } =
            own;
        Self {
            ending: ending.or(self.ending),
            stdout: stdout.or(self.stdout),
            stdout_has: [&self.stdout_has[..], stdout_has].concat(),
            stderr_has: [&self.stderr_has[..], stderr_has].concat(),
            stderr_lacks: [&self.stderr_lacks[..], stderr_lacks].concat(),
            missing: [&self.missing[..], missing].concat(),
            created: created.clone().or_else(|| self.created.clone()),
            expected_files: [&self.expected_files[..], expected_files].concat(),
            verify: [&self.verify[..], verify].concat(),
        }
    }
}

/// General expectation, and additions or replacements for each tier.
#[derive(Debug, Clone, Default)]
pub struct TieredExpectation {
    pub all: Expectation,
    pub wasm: Expectation,
    pub container: Expectation,
}

impl TieredExpectation {
    /// Returns the expectation of one tier.
    pub fn of(&self, tier: Tier) -> &Expectation {
        match tier {
            Tier::Wasm => &self.wasm,
            Tier::Container => &self.container,
        }
    }
}

/// Creates an empty expectation for one tier.
pub fn expected() -> Expectation {
    Expectation::default()
}

impl ExpectationBuilder for Expectation {
    fn expectation(&mut self) -> &mut Expectation {
        self
    }
}

/// Builder of tier-specific expectations for a case or for one language's program.
pub trait TierExpectations: Sized {
    fn expectations(&mut self) -> &mut TieredExpectation;

    /// Returns the only tier, with the reason, if the item is restricted to one.
    fn only(&mut self) -> &mut Option<(Tier, &'static str)>;

    /// Restricts the item to this tier, with the reason why it cannot hold elsewhere.
    fn only_in(mut self, tier: Tier, reason: &'static str) -> Self {
        *self.only() = Some((tier, reason));
        self
    }

    /// Adds an expectation for WebAssembly.
    fn wasm(mut self, expect: Expectation) -> Self {
        let wasm = &mut self.expectations().wasm;
        *wasm = wasm.and(&expect);
        self
    }

    /// Adds an expectation for containers.
    fn containers(mut self, expect: Expectation) -> Self {
        let container = &mut self.expectations().container;
        *container = container.and(&expect);
        self
    }
}

/// Builder of expectations: of a case, for all its programs, of one language's program, or of a tier.
pub trait ExpectationBuilder: Sized {
    fn expectation(&mut self) -> &mut Expectation;

    /// Expects this kind of end and this status.
    fn ends(mut self, kind: &'static str, code: i32) -> Self {
        self.expectation().ending = Some((kind, code));
        self
    }

    /// Expects the program to end by itself with this status.
    fn exits(self, code: i32) -> Self {
        self.ends(if code == 0 { "ok" } else { "guest_error" }, code)
    }

    fn prints(mut self, text: &'static str) -> Self {
        self.expectation().stdout = Some(text);
        self
    }

    fn stdout_contains(mut self, part: &'static str) -> Self {
        self.expectation().stdout_has.push(part);
        self
    }

    fn stderr_contains(mut self, part: &'static str) -> Self {
        self.expectation().stderr_has.push(part);
        self
    }

    fn stderr_omits(mut self, part: &'static str) -> Self {
        self.expectation().stderr_lacks.push(part);
        self
    }

    /// Expects a missing feature whose name contains this text.
    fn misses(mut self, what: &'static str) -> Self {
        self.expectation().missing.push(what);
        self
    }

    fn creates(mut self, files: &[&'static str]) -> Self {
        self.expectation().created = Some(files.to_vec());
        self
    }

    fn leaves_file(mut self, expected_files: ExpectedFile) -> Self {
        self.expectation().expected_files.push(expected_files);
        self
    }

    fn verify(mut self, verify: ReportCheck) -> Self {
        self.expectation().verify.push(verify);
        self
    }
}
