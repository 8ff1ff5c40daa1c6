//! Packages of npm for a job, by the user's settings and from this machine's cache.

use codebox_core::{GuestPath, Job, Language, Layer};
use codebox_packages::{
    ConfigFiles, NpmEnvironment, NpmError, NpmFiles, NpmSettings, NpmSpec, NpmStore, Progress, npm_environment,
};

use crate::places::Places;

/// Where a guest finds them: Node's search for packages goes upwards from any directory and ends here.
const MODULES: &str = "/node_modules";

/// Whether a job's packages are npm's.
pub(crate) fn wants(job: &Job) -> bool {
    matches!(job.language, Language::JavaScript | Language::TypeScript) && !job.packages.is_empty()
}

/// Makes the packages ready, or finds them; blocks meanwhile, and must not be called from async code.
pub(crate) fn modules(
    places: &Places,
    packages: &[String],
    progress: &dyn Progress,
) -> Result<NpmEnvironment, NpmError> {
    let specs: Vec<NpmSpec> = packages.iter().map(|package| package.parse()).collect::<Result<_, _>>()?;
    let env = |name: &str| std::env::var(name).ok();
    let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
    let settings = NpmSettings::from_user(&env, &NpmFiles::OfUser { home }, &ConfigFiles::OfUser)?;
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|source| NpmError::Client(source.into()))?;
    executor.block_on(npm_environment(&specs, None, &settings, &NpmStore::at(&places.npm()), progress))
}

/// The same as a layer of a guest; nothing where its place cannot be written down.
pub(crate) fn layer(made: &NpmEnvironment) -> Option<Layer> {
    Some(Layer { host: made.dir.canonicalize().ok()?, guest: GuestPath::new(MODULES).ok()? })
}
