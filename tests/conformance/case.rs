//! A case as data: what a program is given and what has to come of it, said once, and the program in each language.
//!
//! ```text
//! code("ends::exit_number")        how the program is given, and the case's name
//!     .exits(7)                    what holds for every language
//!     .python("import sys\nsys.exit(7)")
//!     .scripts("process.exit(7)")  JavaScript, and TypeScript as it stands
//!     .lua(program("os.exit(7)").prints(""))
//! ```
//! A case of one language has only that one's program. What is so on one tier alone is said apart:
//!
//! ```text
//!     .wasm(expected().misses("thread"))     beside what holds everywhere, or instead
//!     .containers(expected().prints("7\n"))
//!     .only_in(Tier::Wasm, "why")            no trial elsewhere
//! ```
//! and a program can have another text for containers. What a language says goes before what a case says, and what a tier
//! says before both.

use codebox_testkit::Input;

use crate::expect::{Expect, Expecting, Expects, Tiered};
use crate::language::Language;
use crate::program::Program;
use crate::tier::Tier;

/// A case, in the languages that it has a program in.
pub struct Case {
    pub name: &'static str,
    pub given: Given,
    pub args: Vec<&'static str>,
    pub input: Input,
    /// Further options of `codebox run`, limits among them.
    pub options: Vec<&'static str>,
    pub grants: Vec<Grant>,
    /// Whether `--out` is given.
    pub out: Out,
    /// Whether `PORT` in its programs and options is the port of a server.
    pub served: bool,
    expect: Expects,
    only: Option<(Tier, &'static str)>,
    programs: Vec<(Language, Program)>,
}

/// How the program reaches codebox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// In a file of this name and the language's ending.
    File(&'static str),
    /// In a file of this very name.
    Exactly(&'static str),
    /// With `-c`.
    Code,
    /// From standard input.
    Stdin,
}

/// A directory of the host, made for the case: its name there, the place in the guest, access, and files in it.
pub struct Grant {
    pub host: &'static str,
    pub guest: &'static str,
    pub access: &'static str,
    pub files: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    No,
    Yes,
}

fn new(name: &'static str, given: Given) -> Case {
    Case {
        name,
        given,
        args: Vec::new(),
        input: Input::Empty,
        options: Vec::new(),
        grants: Vec::new(),
        out: Out::No,
        served: false,
        expect: Expects::default(),
        only: None,
        programs: Vec::new(),
    }
}

/// A case whose program is a file called `main`, with its language's ending.
pub fn file(name: &'static str) -> Case {
    named_file(name, "main")
}

/// A case whose program is a file of this name, and its language's ending.
pub fn named_file(name: &'static str, stem: &'static str) -> Case {
    new(name, Given::File(stem))
}

/// A case whose program is a file of this name, which has no ending.
pub fn bare_file(name: &'static str, file: &'static str) -> Case {
    new(name, Given::Exactly(file))
}

/// A case whose program is given with `-c`.
pub fn code(name: &'static str) -> Case {
    new(name, Given::Code)
}

/// A case whose program comes from standard input.
pub fn piped(name: &'static str) -> Case {
    new(name, Given::Stdin)
}

impl Tiered for Case {
    fn expects(&mut self) -> &mut Expects {
        &mut self.expect
    }

    fn only(&mut self) -> &mut Option<(Tier, &'static str)> {
        &mut self.only
    }
}

impl Expecting for Case {
    fn expectation(&mut self) -> &mut Expect {
        &mut self.expect.all
    }
}

/// The tiers.
impl Case {
    /// Why a tier leaves out the program in this language, if there is one and it does.
    pub fn left_out(&self, language: Language, tier: Tier) -> Option<&'static str> {
        let only = self.only.or(self.program(language)?.only);
        only.and_then(|(own, reason)| (own != tier).then_some(reason))
    }

    /// Whether there is a program in this language, for this tier.
    pub fn runs(&self, language: Language, tier: Tier) -> bool {
        self.program(language).is_some() && self.left_out(language, tier).is_none()
    }

    /// What this program has to come to on this tier.
    pub fn expected_of(&self, program: &Program, tier: Tier) -> Expect {
        let everywhere = self.expect.all.and(&program.expect.all);
        everywhere.and(self.expect.of(tier)).and(program.expect.of(tier))
    }
}

/// The programs.
impl Case {
    /// The program in this language, if the case has one.
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

    /// A program in JavaScript that is as right in TypeScript.
    pub fn scripts(self, program: impl Into<Program>) -> Self {
        let program = program.into();
        self.javascript(program.clone()).typescript(program)
    }

    pub fn lua(self, program: impl Into<Program>) -> Self {
        self.with_program(Language::Lua, program.into())
    }
}

/// What the programs are given.
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
        (host, guest, access): (&'static str, &'static str, &'static str),
        files: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.grants.push(Grant { host, guest, access, files });
        self
    }

    pub fn served(mut self) -> Self {
        self.served = true;
        self
    }

    pub fn out(mut self) -> Self {
        self.out = Out::Yes;
        self
    }
}
