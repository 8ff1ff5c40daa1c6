//! Adds a backend of the embedder to a runner: here one that prints the jobs it is given instead of running them, for a
//! dry run of policy and selection.
//!
//! ```sh
//! cargo run --release --example backend
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use codebox::{
    AppDirs, Backend, BackendError, BackendId, BoxFuture, Capabilities, EnforcementLevel, ExecIo, Instance,
    InstanceSpec, Isolation, Job, Language, LimitKind, Outcome, Preference, Provenance, Request, RunReport, Support,
    Unavailable,
};

/// Backend that prints the grants of each job.
struct DryRun;

impl Backend for DryRun {
    fn id(&self) -> BackendId {
        BackendId::new("dry-run")
    }

    fn isolation(&self) -> Isolation {
        Isolation::Vm
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        let capabilities = Capabilities {
            languages: vec![Language::Python, Language::JavaScript],
            forbidden: BTreeMap::new(),
            // A program that never runs exceeds no limit.
            limits: LimitKind::ALL.into_iter().map(|kind| (kind, EnforcementLevel::Enforced)).collect(),
            snapshot: Support::No,
            fork: Support::No,
            network_filter: Support::Yes,
            offline: Vec::new(),
            fuel: Support::No,
            engine: None,
        };
        Box::pin(async { Ok(capabilities) })
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        println!("grants: {:?}", spec.grants);
        Box::pin(async { Ok(Box::new(Self) as Box<dyn Instance>) })
    }
}

impl Instance for DryRun {
    fn exec<'a>(&'a mut self, job: &'a Job, _io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        println!("source: {:?}, arguments: {:?}", job.source, job.args);
        let provenance = Provenance::new(self.id(), self.isolation());
        Box::pin(async move { Ok(RunReport::new(Outcome::Exited(0), provenance, job.limits)) })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async { Ok(()) })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runner = codebox::builder(AppDirs::from_env()?).backend(|| Ok(Arc::new(DryRun))).build();
    let request = Request { isolation: Preference::Only(Isolation::Vm), ..Request::python("print(1)") };
    let report = runner.run(request)?;
    println!("{}: {:?}", report.provenance.backend, report.outcome);
    Ok(())
}
