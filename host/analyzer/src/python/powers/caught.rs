//! The failures that a `try` catches.

use ruff_python_ast::{ExceptHandler, Expr, Stmt, StmtTry, WithItem};

use codebox_analysis::Capability;

/// The way in which the use of a missing capability fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// With the error of an import.
    Import,
    /// With the error of a call that needs the capability.
    Call,
}

/// The kinds of failures that are caught around a place.
#[derive(Clone, Copy, Default)]
pub(super) struct CaughtErrors {
    imports: bool,
    threads: bool,
    processes: bool,
    sockets: bool,
}

impl CaughtErrors {
    const ALL: Self = Self { imports: true, threads: true, processes: true, sockets: true };

    /// Returns true if the failure of a capability is caught.
    pub(super) fn catches(self, power: &Capability, failure_kind: FailureKind) -> bool {
        match (failure_kind, power) {
            (FailureKind::Import, _) => self.imports,
            (FailureKind::Call, Capability::Threads) => self.threads,
            (FailureKind::Call, Capability::Processes) => self.processes,
            (FailureKind::Call, Capability::Sockets) => self.sockets,
            // Loading a library fails with `OSError`, as does starting a process.
            (FailureKind::Call, Capability::Module(_)) => self.processes,
        }
    }

    /// Adds the failures from which the handlers of a `try` recover.
    pub(super) fn with_handlers(self, attempt: &StmtTry) -> Self {
        let handlers = attempt.handlers.iter().map(|ExceptHandler::ExceptHandler(handler)| handler);
        let kept = handlers.filter(|handler| !reraises_or_exits(&handler.body));
        kept.fold(self, |caught, handler| match handler.type_.as_deref() {
            None => Self::ALL,
            Some(kind) => caught.with_exception(kind),
        })
    }

    /// Adds the failures that `contextlib.suppress` names.
    pub(super) fn with_suppressed(self, item: &WithItem) -> Self {
        match &item.context_expr {
            Expr::Call(call) if last_name(&call.func) == Some("suppress") => {
                call.arguments.args.iter().fold(self, Self::with_exception)
            }
            _ => self,
        }
    }

    fn with_exception(mut self, kind: &Expr) -> Self {
        match kind {
            Expr::Tuple(kinds) => return kinds.elts.iter().fold(self, Self::with_exception),
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

/// Returns true if a handler ends with raising an exception or ending the program.
fn reraises_or_exits(body: &[Stmt]) -> bool {
    match body.last() {
        Some(Stmt::Raise(_)) => true,
        Some(Stmt::Expr(statement)) => match statement.value.as_ref() {
            Expr::Call(call) => matches!(last_name(&call.func), Some("exit" | "_exit" | "quit")),
            _ => false,
        },
        _ => false,
    }
}

/// Returns the last component of a dotted name.
pub(super) fn last_name(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Name(name) => Some(name.id.as_str()),
        Expr::Attribute(attribute) => Some(attribute.attr.as_str()),
        _ => None,
    }
}
