//! Plan of an admitted request: the backend and the image.

use codebox_core::{Isolation, Missing, ResultKind};
use thiserror::Error;

use crate::admission::Admitted;
use crate::choice::ProgramAnalysis;
use crate::image_choice::{ImageChoice, ImageFacts, NoImage, choose_image, configured_image, named_image};
use crate::missing_features::missing_features;
use crate::needs::{InvalidIsolationRequest, LocalModules, Needs};
use crate::router::{Choice, NoRoute};

/// Backend and image for an admitted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Selected backend.
    pub choice: Choice,
    /// Memory image to start from; without effect in a container.
    pub image: ImageChoice,
    /// Features that the program's text uses and the guest lacks; reported if the program fails.
    pub missing: Vec<Missing>,
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
    InvalidIsolationRequest(#[from] InvalidIsolationRequest),
}

impl PlanError {
    /// Returns the result kind, which determines the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::NoRoute(error) => error.kind(),
            Self::NoImage(error) => error.kind(),
            Self::InvalidIsolationRequest(error) => error.kind(),
        }
    }

    /// Returns the remedy, in one line.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::NoRoute(error) => error.fix(),
            Self::NoImage(error) => error.fix(),
            Self::InvalidIsolationRequest(error) => error.fix(),
        }
    }
}

/// Creates the plan for a choice of backend, with the image that fits the program's needs best. `images` has the images
/// of the program's language.
///
/// # Errors
/// Returns an error if the request names an image that is not among `images`, also for a container, so that a mistake in
/// a name is never ignored.
pub fn plan(
    admitted: &Admitted,
    analysis: &ProgramAnalysis,
    choice: Choice,
    images: &[ImageFacts],
) -> Result<Plan, PlanError> {
    let missing = missing_features(admitted, &analysis.needs, choice.isolation);
    let imports = match choice.isolation {
        // A WebAssembly program imports only from its image and the runtime's library.
        Isolation::Wasm => Vec::new(),
        Isolation::Container | Isolation::Vm => {
            let neighbours = LocalModules::of(admitted.job(), admitted.path_map());
            analysis.needs.modules().filter(|name| !neighbours.has(name)).map(str::to_owned).collect()
        }
    };
    let image = image_for(admitted, &analysis.needs, choice.isolation, images)?;
    Ok(Plan { choice, image, missing, imports })
}

/// Returns the memory image for a program: the one that the request names, the one that the policy names if the language
/// has it, or the one that has most of the program's imports. For a container, the default image of the language.
fn image_for(
    admitted: &Admitted,
    needs: &Needs,
    isolation: Isolation,
    images: &[ImageFacts],
) -> Result<ImageChoice, NoImage> {
    let language = &admitted.job().language;
    let named = admitted.image().map(|requested| named_image(requested, language, images)).transpose()?;
    match isolation {
        Isolation::Wasm => {
            let configured = || configured_image(admitted.default_image()?, images);
            Ok(named.or_else(configured).unwrap_or_else(|| choose_image(language, needs, images)))
        }
        Isolation::Container | Isolation::Vm => Ok(choose_image(language, needs, &[])),
    }
}
