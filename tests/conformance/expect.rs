//! What has to come of a program.

use codebox_testkit::Report;

use crate::tier::Tier;

/// What a host directory has to hold afterwards: directory, file, content.
pub type Left = (&'static str, &'static str, &'static str);

/// A further look at the report.
pub type Look = fn(&Report) -> Result<(), String>;

/// An expectation; what it does not name is not looked at, but that a program ends well and misses nothing.
#[derive(Debug, Clone, Default)]
pub struct Expect {
    /// The kind of the end and the exit status; `ok` and 0 without.
    pub ending: Option<(&'static str, i32)>,
    pub stdout: Option<&'static str>,
    pub stdout_has: Vec<&'static str>,
    pub stderr_has: Vec<&'static str>,
    pub stderr_lacks: Vec<&'static str>,
    pub missing: Vec<&'static str>,
    /// Guest paths of all created files.
    pub created: Option<Vec<&'static str>>,
    pub left: Vec<Left>,
    pub look: Vec<Look>,
}

impl Expect {
    /// This, and what `own` adds to it. What can only be one thing is what `own` says, where it says so.
    pub fn and(&self, own: &Self) -> Self {
        let Self { ending, stdout, stdout_has, stderr_has, stderr_lacks, missing, created, left, look } = own;
        Self {
            ending: ending.or(self.ending),
            stdout: stdout.or(self.stdout),
            stdout_has: [&self.stdout_has[..], stdout_has].concat(),
            stderr_has: [&self.stderr_has[..], stderr_has].concat(),
            stderr_lacks: [&self.stderr_lacks[..], stderr_lacks].concat(),
            missing: [&self.missing[..], missing].concat(),
            created: created.clone().or_else(|| self.created.clone()),
            left: [&self.left[..], left].concat(),
            look: [&self.look[..], look].concat(),
        }
    }
}

/// An expectation, and what each tier adds to it or says instead.
#[derive(Debug, Clone, Default)]
pub struct Expects {
    pub all: Expect,
    pub wasm: Expect,
    pub container: Expect,
}

impl Expects {
    /// What one tier says.
    pub fn of(&self, tier: Tier) -> &Expect {
        match tier {
            Tier::Wasm => &self.wasm,
            Tier::Container => &self.container,
        }
    }
}

/// The expectation of one tier, to be built.
pub fn expected() -> Expect {
    Expect::default()
}

impl Expecting for Expect {
    fn expectation(&mut self) -> &mut Expect {
        self
    }
}

/// Saying what is so on one tier alone: of a case or of one language's program.
pub trait Tiered: Sized {
    fn expects(&mut self) -> &mut Expects;

    /// The only tier, and why there is no other.
    fn only(&mut self) -> &mut Option<(Tier, &'static str)>;

    /// On this tier alone, since elsewhere it cannot hold for this reason.
    fn only_in(mut self, tier: Tier, reason: &'static str) -> Self {
        *self.only() = Some((tier, reason));
        self
    }

    /// What is so in WebAssembly alone.
    fn wasm(mut self, expect: Expect) -> Self {
        let wasm = &mut self.expects().wasm;
        *wasm = wasm.and(&expect);
        self
    }

    /// What is so in containers alone.
    fn containers(mut self, expect: Expect) -> Self {
        let container = &mut self.expects().container;
        *container = container.and(&expect);
        self
    }
}

/// Building an expectation: of a case, which then holds for all its programs, of one language's program, or of a tier.
pub trait Expecting: Sized {
    fn expectation(&mut self) -> &mut Expect;

    /// Is ended, or fails, as this kind and with this status.
    fn ends(mut self, kind: &'static str, code: i32) -> Self {
        self.expectation().ending = Some((kind, code));
        self
    }

    /// Ends by itself with this status.
    fn exits(self, code: i32) -> Self {
        self.ends(if code == 0 { "ok" } else { "guest_error" }, code)
    }

    fn prints(mut self, text: &'static str) -> Self {
        self.expectation().stdout = Some(text);
        self
    }

    fn prints_with(mut self, part: &'static str) -> Self {
        self.expectation().stdout_has.push(part);
        self
    }

    fn complains(mut self, part: &'static str) -> Self {
        self.expectation().stderr_has.push(part);
        self
    }

    fn never_says(mut self, part: &'static str) -> Self {
        self.expectation().stderr_lacks.push(part);
        self
    }

    /// Misses something whose name has this in it.
    fn misses(mut self, what: &'static str) -> Self {
        self.expectation().missing.push(what);
        self
    }

    fn creates(mut self, files: &[&'static str]) -> Self {
        self.expectation().created = Some(files.to_vec());
        self
    }

    fn leaves(mut self, left: Left) -> Self {
        self.expectation().left.push(left);
        self
    }

    fn look(mut self, look: Look) -> Self {
        self.expectation().look.push(look);
        self
    }
}
