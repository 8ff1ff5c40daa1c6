//! Cases as data: the inputs of a program and its expected results, stated once, and the program in each language.
//!
//! ```text
//! code("ends::exit_number")        form of the program, and the case's name
//!     .exits(7)                    expectation for every language
//!     .python("import sys\nsys.exit(7)")
//!     .scripts("process.exit(7)")  JavaScript, and TypeScript unchanged
//!     .lua(program("os.exit(7)").prints(""))
//! ```
//! A case for one language has only a program in that language. Expectations for one tier are separate:
//!
//! ```text
//!     .wasm(expected().misses("thread"))     in addition to the general expectations, or instead
//!     .containers(expected().prints("7\n"))
//!     .only_in(Tier::Wasm, "why")            no trial in other tiers
//! ```
//! A program can have another text for containers. An expectation of a language overrides that of the case, and an
//! expectation of a tier overrides both.

use codebox_testkit::Input;

use crate::expect::{Expectation, ExpectationBuilder, TierExpectations, TieredExpectation};
use crate::language::Language;
use crate::program::Program;
use crate::tier::Tier;

/// Case, with programs in one or more languages.
pub struct Case {
    pub name: &'static str,
    pub program_source: ProgramSource,
    pub args: Vec<&'static str>,
    pub input: Input,
    /// Further options of `codebox run`, including limits.
    pub options: Vec<&'static str>,
    pub grants: Vec<Grant>,
    /// Presence of `--out`.
    pub out: CollectOutput,
    /// True if `PORT` in the programs and options stands for the port of a server.
    pub needs_server: bool,
    expect: TieredExpectation,
    only: Option<(Tier, &'static str)>,
    programs: Vec<(Language, Program)>,
}

/// Form in which codebox gets the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSource {
    /// In a file of this name with the language's extension.
    File(&'static str),
    /// In a file of exactly this name.
    ExactFile(&'static str),
    /// With `-c`.
    Code,
    /// From standard input.
    Stdin,
}

/// Host directory that is created for the case: its name, the guest path, the access and its files.
pub struct Grant {
    pub host: &'static str,
    pub guest: &'static str,
    pub access: &'static str,
    pub files: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectOutput {
    No,
    Yes,
}

fn new(name: &'static str, program_source: ProgramSource) -> Case {
    Case {
        name,
        program_source,
        args: Vec::new(),
        input: Input::Empty,
        options: Vec::new(),
        grants: Vec::new(),
        out: CollectOutput::No,
        needs_server: false,
        expect: TieredExpectation::default(),
        only: None,
        programs: Vec::new(),
    }
}

/// Creates a case whose program is a file `main` with its language's extension.
pub fn file(name: &'static str) -> Case {
    named_file(name, "main")
}

/// Creates a case whose program is a file of this name with its language's extension.
pub fn named_file(name: &'static str, stem: &'static str) -> Case {
    new(name, ProgramSource::File(stem))
}

/// Creates a case whose program is a file of this name without an extension.
pub fn bare_file(name: &'static str, file: &'static str) -> Case {
    new(name, ProgramSource::ExactFile(file))
}

/// Creates a case whose program is given with `-c`.
pub fn code(name: &'static str) -> Case {
    new(name, ProgramSource::Code)
}

/// Creates a case whose program comes from standard input.
pub fn stdin(name: &'static str) -> Case {
    new(name, ProgramSource::Stdin)
}

impl TierExpectations for Case {
    fn expectations(&mut self) -> &mut TieredExpectation {
        &mut self.expect
    }

    fn only(&mut self) -> &mut Option<(Tier, &'static str)> {
        &mut self.only
    }
}

impl ExpectationBuilder for Case {
    fn expectation(&mut self) -> &mut Expectation {
        &mut self.expect.all
    }
}

/// Tiers.
impl Case {
    /// Returns the reason why a tier leaves out the program in this language, if the program exists and is left out.
    pub fn exclusion_reason(&self, language: Language, tier: Tier) -> Option<&'static str> {
        let only = self.only.or(self.program(language)?.only);
        only.and_then(|(own, reason)| (own != tier).then_some(reason))
    }

    /// Returns true if the case has a program in this language for this tier.
    pub fn runs(&self, language: Language, tier: Tier) -> bool {
        self.program(language).is_some() && self.exclusion_reason(language, tier).is_none()
    }

    /// Combines the expectations for this program on this tier.
    pub fn expectation_for(&self, program: &Program, tier: Tier) -> Expectation {
        let in_all_tiers = self.expect.all.and(&program.expect.all);
        in_all_tiers.and(self.expect.of(tier)).and(program.expect.of(tier))
    }
}

/// Programs.
impl Case {
    /// Returns the program in this language, if the case has one.
    pub fn program(&self, language: Language) -> Option<&Program> {
        self.programs.iter().find_map(|(own, program)| (*own == language).then_some(program))
    }

    fn with_program(mut self, language: Language, program: Program) -> Self {
        assert!(self.program(language).is_none(), "{} has two programs in {}", self.name, language.name());
        self.programs.push((language, program));
        self
    }

    pub fn python(self, program: impl Into<Program>) -> Self {
        self.with_program(Language::Python, program.into())
    }

    pub fn javascript(self, program: impl Into<Program>) -> Self {
        self.with_program(Language::JavaScript, program.into())
    }

    pub fn typescript(self, program: impl Into<Program>) -> Self {
        self.with_program(Language::TypeScript, program.into())
    }

    /// Adds a program that is valid both in JavaScript and in TypeScript.
    pub fn scripts(self, program: impl Into<Program>) -> Self {
        let program = program.into();
        self.javascript(program.clone()).typescript(program)
    }

    pub fn lua(self, program: impl Into<Program>) -> Self {
        self.with_program(Language::Lua, program.into())
    }
}

/// Inputs of the programs.
impl Case {
    pub fn args(mut self, args: &[&'static str]) -> Self {
        self.args.extend(args);
        self
    }

    pub fn input(mut self, text: &str) -> Self {
        self.input = Input::Bytes(text.into());
        self
    }

    pub fn silent(mut self) -> Self {
        self.input = Input::Silent;
        self
    }

    pub fn with(mut self, options: &[&'static str]) -> Self {
        self.options.extend(options);
        self
    }

    pub fn grant(
        mut self,
        host: &'static str,
        guest: &'static str,
        access: &'static str,
        files: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.grants.push(Grant { host, guest, access, files });
        self
    }

    pub fn needs_server(mut self) -> Self {
        self.needs_server = true;
        self
    }

    pub fn out(mut self) -> Self {
        self.out = CollectOutput::Yes;
        self
    }
}
