//! Execution of an admitted request.

use codebox_core::{
    Backend, BackendError, ExecIo, Instance, InstanceSpec, Isolation, Layer, Missing, Outcome, ResultKind, RunReport,
};
use thiserror::Error;

use crate::absent::{absent, tell};
use crate::admission::Admitted;
use crate::choice::Looked;
use crate::image_choice::{ImageChoice, ImageFacts, NoImage, choose_image, named_image};
use crate::needs::{BadAsk, Needs, Neighbours};
use crate::router::{Choice, Demand, NoRoute, Probed, route};

/// Backend and image for an admitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Selected backend.
    pub choice: Choice,
    /// Image to start from.
    pub image: ImageChoice,
    /// Features that the program's text uses and the guest lacks; reported if the program fails.
    pub absent: Vec<Missing>,
    /// Modules that a program in a container imports from packages or the library, without their submodules.
    pub imports: Vec<String>,
}

/// Reason that no plan exists for an admitted request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// No backend fits.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The named image does not exist.
    #[error(transparent)]
    NoImage(#[from] NoImage),
    /// A comment for codebox in the program is not valid.
    #[error(transparent)]
    BadAsk(#[from] BadAsk),
}

impl PlanError {
    /// Returns the result kind, which determines the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::NoRoute(error) => error.kind(),
            Self::NoImage(error) => error.kind(),
            Self::BadAsk(error) => error.kind(),
        }
    }

    /// Returns the remedy, in one line.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::NoRoute(error) => error.fix(),
            Self::NoImage(error) => error.fix(),
            Self::BadAsk(error) => error.fix(),
        }
    }
}

/// Selects a backend, among those that are probed already, and an image, among `images` of the language.
///
/// Uses only the demand of the request; [`choose`](crate::choose) and [`plan_of`] also use the program's needs.
///
/// # Errors
/// Returns an error if no backend fits, or if the named image is not among `images`.
pub fn plan(admitted: &Admitted, needs: &Needs, probed: &[Probed], images: &[ImageFacts]) -> Result<Plan, PlanError> {
    let choice = route(&Demand::from(admitted), probed, admitted.job().isolations)?;
    Ok(Plan { choice, image: image_for(admitted, needs, images)?, absent: Vec::new(), imports: Vec::new() })
}

/// Creates the plan for a choice of backend, with the image that fits the program's needs best.
///
/// # Errors
/// Returns an error if the named image is not among `images`.
pub fn plan_of(admitted: &Admitted, looked: &Looked, choice: Choice, images: &[ImageFacts]) -> Result<Plan, PlanError> {
    let absent = absent(admitted, &looked.needs, choice.isolation);
    let imports = match choice.isolation {
        // A WebAssembly program imports only from its image and the runtime's library.
        Isolation::Wasm => Vec::new(),
        Isolation::Container | Isolation::Vm => {
            let neighbours = Neighbours::of(admitted);
            looked.needs.modules().filter(|name| !neighbours.has(name)).map(str::to_owned).collect()
        }
    };
    Ok(Plan { choice, image: image_for(admitted, &looked.needs, images)?, absent, imports })
}

/// Returns the WebAssembly image for a program: the named one, or the one that has most of the program's imports.
///
/// # Errors
/// Returns an error if the named image is not among `images`.
pub fn image_for(admitted: &Admitted, needs: &Needs, images: &[ImageFacts]) -> Result<ImageChoice, NoImage> {
    match admitted.image() {
        Some(asked) => named_image(asked, images),
        None => Ok(choose_image(&admitted.job().language, needs, images)),
    }
}

/// An open guest that has not run any of the program yet.
///
/// The process can be confined at this point: all host resources of the run are open.
pub struct Prepared<'a> {
    admitted: &'a Admitted,
    plan: &'a Plan,
    spec: InstanceSpec,
    instance: Box<dyn Instance>,
}

/// Opens a guest with exactly the admitted grants, and with the layers of the job's packages.
///
/// # Errors
/// Returns an error if the backend fails.
pub async fn prepare<'a>(
    admitted: &'a Admitted,
    plan: &'a Plan,
    backend: &dyn Backend,
    layers: Vec<Layer>,
) -> Result<Prepared<'a>, BackendError> {
    let job = admitted.job();
    let spec = InstanceSpec {
        language: job.language.clone(),
        grants: job.grants.clone(),
        limits: job.limits,
        image: match plan.choice.isolation {
            Isolation::Wasm => Some(plan.image.name.clone()),
            Isolation::Container | Isolation::Vm => admitted.container_image().map(|name| name.as_str().to_owned()),
        },
        isolation: plan.choice.isolation,
        warm: admitted.warm(),
        layers,
    };
    let instance = backend.open(&spec).await?;
    Ok(Prepared { admitted, plan, spec, instance })
}

impl Prepared<'_> {
    /// Returns the specification that the guest was opened with.
    #[must_use]
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Runs the program and closes the guest.
    ///
    /// # Errors
    /// Returns an error if the outcome of the program is unknown. The guest is closed in any case.
    pub async fn exec(mut self, io: &mut ExecIo) -> Result<RunReport, BackendError> {
        let result = self.instance.exec(self.admitted.job(), io).await;
        let closed = self.instance.close().await;
        let mut report = result?;
        // The outcome of the run is known; a failure to close the guest does not change the report.
        if let Err(error) = closed {
            tracing::warn!(%error, "the guest could not be closed");
        }
        let provenance = &mut report.provenance;
        if provenance.reason.is_empty() {
            provenance.reason.clone_from(&self.plan.choice.reason);
        }
        if provenance.image.is_none() {
            provenance.image = Some(self.plan.image.name.clone());
        }
        if matches!(report.outcome, Outcome::Exited(1..)) {
            tell(&mut report.missing, &self.plan.absent);
        }
        Ok(report)
    }

    /// Closes the guest without running the program.
    ///
    /// # Errors
    /// Returns an error if the backend fails to close the guest.
    pub async fn close(self) -> Result<(), BackendError> {
        self.instance.close().await
    }
}

/// Opens a guest, runs the program in it and closes the guest.
///
/// # Errors
/// Returns an error if the outcome of the program is unknown.
pub async fn run(
    admitted: &Admitted,
    plan: &Plan,
    backend: &dyn Backend,
    io: &mut ExecIo,
) -> Result<RunReport, BackendError> {
    prepare(admitted, plan, backend, Vec::new()).await?.exec(io).await
}

/// Returns the remedy for a backend's error, in one line, if there is one.
#[must_use]
pub fn backend_fix(error: &BackendError) -> Option<String> {
    Some(match error {
        BackendError::Unavailable { why, .. } => why.fix.clone(),
        BackendError::RuntimeMissing { runtime, .. } => format!("install it: codebox runtime install {runtime}"),
        BackendError::RuntimeCorrupt { runtime, .. } => format!("install it again: codebox runtime install {runtime}"),
        BackendError::Limit { limit, .. } => format!("leave the {limit} limit out"),
        BackendError::Io { .. } if error.kind() == ResultKind::Busy => {
            "free some space or memory and run it again".to_owned()
        }
        BackendError::Interrupted { .. } => "run it again".to_owned(),
        BackendError::EngineLost { .. } => "see codebox doctor, and run it again".to_owned(),
        BackendError::MidJob { error, .. } => return backend_fix(error),
        BackendError::Image { .. } => "check its name, and that the engine can reach its registry".to_owned(),
        BackendError::ImageMissing { image, .. } => format!("fetch it: codebox image pull {image}"),
        BackendError::Grant { .. }
        | BackendError::Input { .. }
        | BackendError::Io { .. }
        | BackendError::Engine { .. } => return None,
    })
}

#[cfg(test)]
mod tests;
