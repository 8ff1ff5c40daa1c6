//! From an admitted request to a report.

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

/// What an admitted request runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The backend.
    pub choice: Choice,
    /// The image to start from.
    pub image: ImageChoice,
    /// What the program's text wants and will not find there; told if it fails.
    pub absent: Vec<Missing>,
    /// Modules that a program in a container imports from packages or its language's library, without their submodules.
    pub imports: Vec<String>,
}

/// Why an admitted request can run on nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// No backend does.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The named image is not there.
    #[error(transparent)]
    NoImage(#[from] NoImage),
    /// The program asks for something that cannot be understood.
    #[error(transparent)]
    BadAsk(#[from] BadAsk),
}

impl PlanError {
    /// The one word for it, which also decides the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::NoRoute(error) => error.kind(),
            Self::NoImage(error) => error.kind(),
            Self::BadAsk(error) => error.kind(),
        }
    }

    /// What to do, in one line.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::NoRoute(error) => error.fix(),
            Self::NoImage(error) => error.fix(),
            Self::BadAsk(error) => error.fix(),
        }
    }
}

/// Chooses backend and image, of `images` which are the language's, among backends that were asked already.
///
/// Goes by what was demanded alone; [`choose`](crate::choose) and [`plan_of`] go by what the program needs as well.
///
/// # Errors
/// When no backend fits, or the named image is not among `images`.
pub fn plan(admitted: &Admitted, needs: &Needs, probed: &[Probed], images: &[ImageFacts]) -> Result<Plan, PlanError> {
    let choice = route(&Demand::from(admitted), probed, admitted.job().isolations)?;
    Ok(Plan { choice, image: image_for(admitted, needs, images)?, absent: Vec::new(), imports: Vec::new() })
}

/// The plan that a choice of backend comes to, with the image that the program's needs suggest.
///
/// # Errors
/// When the named image is not among `images`.
pub fn plan_of(admitted: &Admitted, looked: &Looked, choice: Choice, images: &[ImageFacts]) -> Result<Plan, PlanError> {
    let absent = absent(admitted, &looked.needs, choice.isolation);
    let imports = match choice.isolation {
        // Its images and the runtime's library are all that it imports from.
        Isolation::Wasm => Vec::new(),
        Isolation::Container | Isolation::Vm => {
            let neighbours = Neighbours::of(admitted);
            looked.needs.modules().filter(|name| !neighbours.has(name)).map(str::to_owned).collect()
        }
    };
    Ok(Plan { choice, image: image_for(admitted, &looked.needs, images)?, absent, imports })
}

/// The WebAssembly image for a program: the one that was named, or the one that has most of what it imports.
///
/// # Errors
/// When the named image is not among `images`.
pub fn image_for(admitted: &Admitted, needs: &Needs, images: &[ImageFacts]) -> Result<ImageChoice, NoImage> {
    match admitted.image() {
        Some(asked) => named_image(asked, images),
        None => Ok(choose_image(&admitted.job().language, needs, images)),
    }
}

/// A guest that is open and has run nothing of the program yet.
///
/// The time to confine the process: everything that the run takes from the host is held.
pub struct Prepared<'a> {
    admitted: &'a Admitted,
    plan: &'a Plan,
    spec: InstanceSpec,
    instance: Box<dyn Instance>,
}

/// Opens a guest with exactly what was admitted, and the layers that the job's packages come to.
///
/// # Errors
/// When the backend cannot.
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
    /// What the guest was opened with.
    #[must_use]
    pub fn spec(&self) -> &InstanceSpec {
        &self.spec
    }

    /// Runs the program and ends the guest.
    ///
    /// # Errors
    /// When it cannot be said what the guest did. The guest is ended all the same.
    pub async fn exec(mut self, io: &mut ExecIo) -> Result<RunReport, BackendError> {
        let result = self.instance.exec(self.admitted.job(), io).await;
        let closed = self.instance.close().await;
        let mut report = result?;
        // The run itself is known; what was left behind does not change its report.
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

    /// Ends the guest without running anything.
    ///
    /// # Errors
    /// When the backend fails to.
    pub async fn close(self) -> Result<(), BackendError> {
        self.instance.close().await
    }
}

/// Opens a guest, runs the program in it and ends it.
///
/// # Errors
/// When it cannot be said what the guest did.
pub async fn run(
    admitted: &Admitted,
    plan: &Plan,
    backend: &dyn Backend,
    io: &mut ExecIo,
) -> Result<RunReport, BackendError> {
    prepare(admitted, plan, backend, Vec::new()).await?.exec(io).await
}

/// What to do about a backend's error, in one line, where there is something.
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
