//! Choice of an image that was made for a program that runs repeatedly.

use codebox_core::path::MappedPath as _;
use codebox_core::{Adapter, AutomaticImage, CodeScope, GuestPath, Isolation, Layer, ProgramFiles, Source};
use codebox_service::{Admitted, FirstImport, LocalModules};

use crate::pipeline::PlannedJob;
use crate::runner::Runner;

impl Runner {
    /// Returns the image with the first imports of a job's program, if it is made.
    ///
    /// A job that names an image, or whose imports could depend on anything of its user, starts from another image.
    pub(crate) fn automatic_image(&self, planned: &PlannedJob<'_>, layers: &[Layer]) -> Option<String> {
        let images = self.parts.automatic_images.as_ref()?;
        let admitted = &planned.job.admitted;
        let first_imports = &planned.job.analysis.needs.first_imports;
        if planned.plan.choice.isolation != Isolation::Wasm
            || planned.code != CodeScope::Image
            || first_imports.is_empty()
            || !is_independent_of_user(admitted)
        {
            return None;
        }
        let imports = first_imports.iter().map(|FirstImport { module, names }| (module.clone(), names.clone()));
        let wanted = AutomaticImage {
            base: planned.plan.image.name.clone(),
            imports: imports.collect(),
            layers: layers.to_vec(),
            network: !admitted.job().grants.net.is_empty(),
        };
        let local = LocalModules::of(admitted.job(), admitted.path_map());
        let has_module = |module: &str| {
            let is_program = |name: &GuestPath| name.file_name() == Some(&format!("{module}.py"));
            program_file(admitted).is_some_and(is_program) || local.has(module)
        };
        let has_path = |path: &str| {
            let granted = admitted.job().grants.dirs.iter().map(|grant| &grant.guest);
            let overlaps = |path: GuestPath| granted.clone().any(|dir| path.is_within(dir) || dir.is_within(&path));
            GuestPath::new(path).map_or(true, overlaps)
        };
        images.find(&wanted, ProgramFiles { has_module: &has_module, has_path: &has_path })
    }
}

/// Returns true if the imports of a job's program have the same effect in every job with the same packages, unless it has
/// modules of its own.
fn is_independent_of_user(admitted: &Admitted) -> bool {
    let job = admitted.job();
    // Libraries read variables when they are imported.
    let is_python = job.language.adapter() == Some(Adapter::Python);
    let has_choice = admitted.image().is_some() || admitted.default_image().is_some();
    is_python
        && !has_choice
        && job.env.is_empty()
        && job.files.iter().all(|file| Some(&file.path) == program_file(admitted))
}

fn program_file(admitted: &Admitted) -> Option<&GuestPath> {
    match &admitted.job().source {
        Source::File { name, .. } => Some(name),
        _ => None,
    }
}
