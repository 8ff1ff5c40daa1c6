//! A case as data: a program, what it is given, and what has to come of it.

use codebox_testkit::{Input, Report};

/// One program and its expectation.
pub struct Case {
    pub name: &'static str,
    pub program: Program,
    pub args: Vec<&'static str>,
    pub input: Input,
    /// Further options of `codebox run`, limits among them.
    pub options: Vec<&'static str>,
    /// Directories of the host, made for the case: its name there, the place in the guest, access, and files in it.
    pub grants: Vec<Grant>,
    /// Whether `--out` is given.
    pub out: Out,
    pub expect: Expect,
}

pub enum Program {
    /// A file of this name with this text, run from its own directory.
    File(&'static str, &'static str),
    /// Bytes, for texts that are not UTF-8.
    Bytes(&'static str, &'static [u8]),
    Code(&'static str),
    Stdin(&'static str),
}

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

/// What a host directory has to hold afterwards: directory, file, content.
pub type Left = (&'static str, &'static str, &'static str);

/// A further look at the report.
pub type Look = fn(&Report) -> Result<(), String>;

pub struct Expect {
    pub kind: &'static str,
    pub code: i32,
    pub stdout: Option<&'static str>,
    pub stdout_has: Vec<&'static str>,
    pub stderr_has: Vec<&'static str>,
    pub stderr_lacks: Vec<&'static str>,
    pub missing: Vec<&'static str>,
    /// Guest paths of all created files; not looked at when `None`.
    pub created: Option<Vec<&'static str>>,
    pub left: Vec<Left>,
    pub look: Vec<Look>,
}

fn new(name: &'static str, program: Program) -> Case {
    Case {
        name,
        program,
        args: Vec::new(),
        input: Input::Empty,
        options: Vec::new(),
        grants: Vec::new(),
        out: Out::No,
        expect: Expect {
            kind: "ok",
            code: 0,
            stdout: None,
            stdout_has: Vec::new(),
            stderr_has: Vec::new(),
            stderr_lacks: Vec::new(),
            missing: Vec::new(),
            created: None,
            left: Vec::new(),
            look: Vec::new(),
        },
    }
}

/// A case whose program is a file called `main.py`.
pub fn file(name: &'static str, text: &'static str) -> Case {
    new(name, Program::File("main.py", text))
}

/// A case whose program is a file of this name.
pub fn named_file(name: &'static str, file: &'static str, text: &'static str) -> Case {
    new(name, Program::File(file, text))
}

/// A case whose program is a file of these bytes.
pub fn bytes(name: &'static str, text: &'static [u8]) -> Case {
    new(name, Program::Bytes("main.py", text))
}

/// A case whose program is given with `-c`.
pub fn code(name: &'static str, text: &'static str) -> Case {
    new(name, Program::Code(text))
}

/// A case whose program comes from standard input.
pub fn piped(name: &'static str, text: &'static str) -> Case {
    new(name, Program::Stdin(text))
}

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

    pub fn out(mut self) -> Self {
        self.out = Out::Yes;
        self
    }

    /// Ends by itself with this status.
    pub fn exits(mut self, code: i32) -> Self {
        self.expect.code = code;
        self.expect.kind = if code == 0 { "ok" } else { "guest_error" };
        self
    }

    /// Is ended, or fails, as this kind and with this status.
    pub fn ends(mut self, kind: &'static str, code: i32) -> Self {
        self.expect.kind = kind;
        self.expect.code = code;
        self
    }

    pub fn prints(mut self, text: &'static str) -> Self {
        self.expect.stdout = Some(text);
        self
    }

    pub fn prints_with(mut self, part: &'static str) -> Self {
        self.expect.stdout_has.push(part);
        self
    }

    pub fn complains(mut self, part: &'static str) -> Self {
        self.expect.stderr_has.push(part);
        self
    }

    pub fn never_says(mut self, part: &'static str) -> Self {
        self.expect.stderr_lacks.push(part);
        self
    }

    pub fn misses(mut self, what: &'static str) -> Self {
        self.expect.missing.push(what);
        self
    }

    pub fn creates(mut self, files: &[&'static str]) -> Self {
        self.expect.created = Some(files.to_vec());
        self
    }

    pub fn leaves(mut self, left: Left) -> Self {
        self.expect.left.push(left);
        self
    }

    pub fn look(mut self, look: Look) -> Self {
        self.expect.look.push(look);
        self
    }
}
