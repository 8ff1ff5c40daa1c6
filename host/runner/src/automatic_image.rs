//! Choice of an image that was made for a program that runs repeatedly.

use codebox_core::path::MappedPath as _;
use codebox_core::{Adapter, AutomaticImage, CodeScope, GuestPath, ImageUse, Isolation, Layer, Source};
use codebox_service::{Admitted, FirstImport};

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
            // A checkpoint needs the image of its session for as long as it is kept.
            || planned.session.is_some()
            || first_imports.is_empty()
            || !is_independent_of_user(admitted)
        {
            return None;
        }
        let imports = first_imports.iter().map(|FirstImport { module, names }| (module.clone(), names.clone()));
        let program = program_file(admitted);
        let job = admitted.job();
        let wanted = AutomaticImage {
            base: planned.plan.image.name.clone(),
            imports: imports.collect(),
            layers: layers.to_vec(),
            program_dir: program.map(dir_of).unwrap_or_default(),
            network: !job.grants.net.is_empty(),
        };
        let has_module = |module: &str| {
            let is_program = |name: &GuestPath| name.file_name() == Some(&format!("{module}.py"));
            program.is_some_and(is_program)
        };
        let has_path = |path: &str| GuestPath::new(path).map_or(true, |path| is_granted(admitted, &path));
        // Programs need memory beyond that of the image.
        let max_size = job.limits.memory.at().map_or(u64::MAX, |limit| limit.get() / 2);
        images.find(&wanted, ImageUse { has_module: &has_module, has_path: &has_path, max_size })
    }
}

/// Returns true if the imports of a job's program have the same effect in every job with the same packages and a program in the
/// same directory.
fn is_independent_of_user(admitted: &Admitted) -> bool {
    let job = admitted.job();
    // Libraries read variables when they are imported.
    let is_python = job.language.adapter() == Some(Adapter::Python);
    let has_choice = admitted.image().is_some() || admitted.default_image().is_some();
    let program = program_file(admitted);
    // The places in which imports look for modules, and list and inspect files.
    let searched = ["/work", "/tmp", "/usr"].map(str::to_owned).into_iter().chain(program.map(dir_of));
    let has_user_files = searched.filter_map(|path| GuestPath::new(&path).ok()).any(|path| is_granted(admitted, &path));
    is_python
        && !has_choice
        && !has_user_files
        && job.env.is_empty()
        && job.files.iter().all(|file| Some(&file.path) == program)
}

/// Returns true if a granted directory contains a path, or is below it.
fn is_granted(admitted: &Admitted, path: &GuestPath) -> bool {
    admitted.job().grants.dirs.iter().any(|grant| path.is_within(&grant.guest) || grant.guest.is_within(path))
}

fn program_file(admitted: &Admitted) -> Option<&GuestPath> {
    match &admitted.job().source {
        Source::File { name, .. } => Some(name),
        _ => None,
    }
}

fn dir_of(file: &GuestPath) -> String {
    file.as_str().rsplit_once('/').map_or_else(String::new, |(dir, _)| dir.to_owned())
}
