//! Whose failures a `try` catches.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtTry, WithItem};

use codebox_analysis::Power;

/// How a power fails where it is not there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failing {
    /// As an import does.
    Import,
    /// As this power's calls do.
    Call,
}

/// The failures that are caught around a place.
#[derive(Clone, Copy, Default)]
pub(super) struct Caught {
    imports: bool,
    threads: bool,
    processes: bool,
    sockets: bool,
}

impl Caught {
    const ALL: Self = Self { imports: true, threads: true, processes: true, sockets: true };

    /// Whether the lack of a power is among them.
    pub(super) fn catches(self, power: &Power, failing: Failing) -> bool {
        match (failing, power) {
            (Failing::Import, _) => self.imports,
            (Failing::Call, Power::Threads) => self.threads,
            (Failing::Call, Power::Processes) => self.processes,
            (Failing::Call, Power::Sockets) => self.sockets,
            // Loading a library gives an OSError, as starting a process does.
            (Failing::Call, Power::Module(_)) => self.processes,
        }
    }

    /// These and those that the handlers of a `try` let the program go on from.
    pub(super) fn and_by(self, attempt: &StmtTry) -> Self {
        let handlers = attempt.handlers.iter().map(|ExceptHandler::ExceptHandler(handler)| handler);
        let kept = handlers.filter(|handler| !gives_up(&handler.body));
        kept.fold(self, |caught, handler| match handler.type_.as_deref() {
            None => Self::ALL,
            Some(kind) => caught.and_of(kind),
        })
    }

    /// These and those that `contextlib.suppress` names.
    pub(super) fn and_suppressed(self, item: &WithItem) -> Self {
        match &item.context_expr {
            Expr::Call(call) if last_name(&call.func) == Some("suppress") => {
                call.arguments.args.iter().fold(self, Self::and_of)
            }
            _ => self,
        }
    }

    fn and_of(mut self, kind: &Expr) -> Self {
        match kind {
            Expr::Tuple(kinds) => return kinds.elts.iter().fold(self, Self::and_of),
            other => match last_name(other) {
                Some("Exception" | "BaseException") => return Self::ALL,
                Some("ImportError" | "ModuleNotFoundError") => self.imports = true,
                Some("RuntimeError") => self.threads = true,
                Some("OSError" | "IOError" | "EnvironmentError") => {
                    (self.processes, self.sockets) = (true, true);
                }
                Some("PermissionError" | "URLError" | "gaierror" | "error") => self.sockets = true,
                _ => {}
            },
        }
        self
    }
}

/// Whether a handler ends in raising, or in ending the program.
fn gives_up(body: &[Stmt]) -> bool {
    match body.last() {
        Some(Stmt::Raise(_)) => true,
        Some(Stmt::Expr(statement)) => match statement.value.as_ref() {
            Expr::Call(call) => matches!(last_name(&call.func), Some("exit" | "_exit" | "quit")),
            _ => false,
        },
        _ => false,
    }
}

/// The last part of a dotted name.
pub(super) fn last_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}
