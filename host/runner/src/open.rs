//! Opening of a guest, and execution of the job in it.

use std::path::Path;
use std::sync::Arc;

use codebox_core::{
    BackendError, BackendId, CodeScope, ExecIo, Instance, InstanceSpec, Isolation, Job, Layer, Outcome, RunReport,
    Source,
};
use codebox_service::{Admitted, Plan, merge_missing};

use crate::pipeline::PlannedJob;

/// An open guest that has not run any of the program yet.
///
/// The process can be confined at this point: all host resources of the run are open.
pub(crate) struct OpenGuest {
    admitted: Arc<Admitted>,
    plan: Arc<Plan>,
    spec: InstanceSpec,
    instance: Box<dyn Instance>,
}

/// Returns the specification of a job's guest, with the layers of its packages.
pub(crate) fn spec_of(admitted: &Admitted, plan: &Plan, layers: Vec<Layer>, code: CodeScope) -> InstanceSpec {
    let job = admitted.job();
    InstanceSpec {
        language: job.language.clone(),
        grants: job.grants.clone(),
        limits: job.limits,
        cpus: job.cpus,
        program: match &job.source {
            Source::File { text, .. } if job.language.spec().is_module => Some(text.clone()),
            _ => None,
        },
        image: match plan.choice.isolation {
            Isolation::Wasm => Some(plan.image.name.clone()),
            Isolation::Container | Isolation::Vm => admitted.container_image().map(|name| name.as_str().to_owned()),
        },
        isolation: plan.choice.isolation,
        warm: admitted.warm(),
        layers,
        code,
        session: None,
        attachment: admitted.attachment().cloned().map(Box::new),
    }
}

impl OpenGuest {
    /// Opens a guest with exactly the admitted grants, and with the layers of the job's packages. `image` replaces the image of
    /// the plan.
    pub(crate) async fn open(
        planned: &PlannedJob<'_>,
        layers: Vec<Layer>,
        image: Option<String>,
    ) -> Result<Self, BackendError> {
        let PlannedJob { job, plan, backend, code, .. } = planned;
        let (admitted, plan) = (Arc::clone(&job.admitted), Arc::clone(plan));
        let mut spec = spec_of(&admitted, &plan, layers, *code);
        spec.image = image.or(spec.image);
        spec.session.clone_from(&planned.session);
        let instance = backend.open(&spec).await?;
        Ok(Self { admitted, plan, spec, instance })
    }

    pub(crate) fn job(&self) -> &Job {
        self.admitted.job()
    }

    pub(crate) fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Runs the program and closes the guest, in any case.
    pub(crate) async fn exec(mut self, io: &mut ExecIo) -> Result<RunReport, BackendError> {
        let admitted = Arc::clone(&self.admitted);
        let result = self.run(admitted.job(), io).await;
        // The outcome of the run is known; a failure to close the guest does not change the report.
        if let Err(error) = self.instance.close().await {
            tracing::warn!(%error, "cannot close the guest");
        }
        result
    }

    /// Returns the backend of the guest.
    pub(crate) fn backend(&self) -> &BackendId {
        &self.plan.choice.backend
    }

    /// Runs a job in the guest, which stays open.
    pub(crate) async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, BackendError> {
        let mut report = self.instance.exec(job, io).await?;
        if let (Some(error), Some(adapter)) = (&mut report.error, self.spec.language.adapter())
            && error.frames.is_empty()
        {
            error.frames = adapter.frames(error);
        }
        let provenance = &mut report.provenance;
        if provenance.reason.is_empty() {
            provenance.reason.clone_from(&self.plan.choice.reason);
        }
        if provenance.image.is_none() {
            provenance.image = Some(self.plan.image.name.clone());
        }
        if matches!(report.outcome, Outcome::Exited(1..)) {
            merge_missing(&mut report.missing, &self.plan.missing);
        }
        Ok(report)
    }

    /// Saves the state of a session in a new directory, as [`Instance::checkpoint`] does.
    pub(crate) async fn checkpoint(&mut self, dir: &Path, shared: usize) -> Result<usize, BackendError> {
        self.instance.checkpoint(dir, shared).await
    }

    /// Closes the guest without running the program.
    pub(crate) async fn close(self) -> Result<(), BackendError> {
        self.instance.close().await
    }
}
