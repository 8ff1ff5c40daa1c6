//! Build context for uv's resolver that refuses every build and starts no Python.

use std::future::{Future, pending};
use std::path::{Path, PathBuf};

use uv_cache::Cache;
use uv_configuration::{BuildKind, BuildOptions, BuildOutput, NoBinary, NoBuild, NoSources};
use uv_distribution_filename::DistFilename;
use uv_distribution_types::{
    CachedDist, ConfigSettings, DependencyMetadata, ExtraBuildRequires, ExtraBuildVariables, IndexCapabilities,
    IndexLocations, IsBuildBackendError, PackageConfigSettings, Requirement, SourceDist,
};
use uv_git::GitResolver;
use uv_python::{Interpreter, PythonEnvironment};
use uv_types::{
    AnyErrorBuild, BuildArena, BuildContext, BuildIsolation, BuildStack, ResolvedRequirements, SourceBuildTrait,
};
use uv_workspace::WorkspaceCache;

/// Build context that refuses every build.
pub(super) struct NoBuildContext {
    cache: Cache,
    git: GitResolver,
    arena: BuildArena<Never>,
    capabilities: IndexCapabilities,
    metadata: DependencyMetadata,
    options: BuildOptions,
    config: ConfigSettings,
    config_package: PackageConfigSettings,
    sources: NoSources,
    locations: IndexLocations,
    workspaces: WorkspaceCache,
    requires: ExtraBuildRequires,
    variables: ExtraBuildVariables,
}

impl NoBuildContext {
    pub(super) fn new(cache: Cache, locations: IndexLocations) -> Self {
        Self {
            cache,
            git: GitResolver::default(),
            arena: BuildArena::default(),
            capabilities: IndexCapabilities::default(),
            metadata: DependencyMetadata::default(),
            options: BuildOptions::new(NoBinary::None, NoBuild::All),
            config: ConfigSettings::default(),
            config_package: PackageConfigSettings::default(),
            sources: NoSources::All,
            locations,
            workspaces: WorkspaceCache::default(),
            requires: ExtraBuildRequires::default(),
            variables: ExtraBuildVariables::default(),
        }
    }
}

/// Error for a refused build.
#[derive(Debug, thiserror::Error)]
#[error("only wheels are used, and this has to be built")]
pub(super) struct BuildsDisabled;

impl uv_errors::Hint for BuildsDisabled {
    fn hints(&self) -> uv_errors::Hints<'_> {
        uv_errors::Hints::none()
    }
}

impl IsBuildBackendError for BuildsDisabled {
    fn is_build_backend_error(&self) -> bool {
        false
    }
}

/// Uninhabited type of a build in progress.
pub(super) enum Never {}

impl SourceBuildTrait for Never {
    async fn metadata(&mut self) -> Result<Option<PathBuf>, AnyErrorBuild> {
        match *self {}
    }

    async fn wheel<'a>(&'a self, _wheel_dir: &'a Path) -> Result<String, AnyErrorBuild> {
        match *self {}
    }
}

impl BuildContext for NoBuildContext {
    type SourceDistBuilder = Never;

    // There is no interpreter to return. Only builds request one, and these are refused earlier.
    fn interpreter(&self) -> impl Future<Output = &Interpreter> + '_ {
        pending()
    }

    fn cache(&self) -> &Cache {
        &self.cache
    }

    fn git(&self) -> &GitResolver {
        &self.git
    }

    fn build_arena(&self) -> &BuildArena<Never> {
        &self.arena
    }

    fn capabilities(&self) -> &IndexCapabilities {
        &self.capabilities
    }

    fn dependency_metadata(&self) -> &DependencyMetadata {
        &self.metadata
    }

    fn build_options(&self) -> &BuildOptions {
        &self.options
    }

    fn build_isolation(&self) -> BuildIsolation<'_> {
        BuildIsolation::Isolated
    }

    fn config_settings(&self) -> &ConfigSettings {
        &self.config
    }

    fn config_settings_package(&self) -> &PackageConfigSettings {
        &self.config_package
    }

    fn sources(&self) -> &NoSources {
        &self.sources
    }

    fn locations(&self) -> &IndexLocations {
        &self.locations
    }

    fn workspace_cache(&self) -> &WorkspaceCache {
        &self.workspaces
    }

    fn extra_build_requires(&self) -> &ExtraBuildRequires {
        &self.requires
    }

    fn extra_build_variables(&self) -> &ExtraBuildVariables {
        &self.variables
    }

    async fn resolve<'a>(
        &'a self,
        _requirements: &'a [Requirement],
        _build_stack: &'a BuildStack,
    ) -> Result<ResolvedRequirements, impl IsBuildBackendError> {
        Err::<_, BuildsDisabled>(BuildsDisabled)
    }

    async fn install<'a>(
        &'a self,
        _requirements: &'a ResolvedRequirements,
        _venv: &'a PythonEnvironment,
        _build_stack: &'a BuildStack,
    ) -> Result<Vec<CachedDist>, impl IsBuildBackendError> {
        Err::<_, BuildsDisabled>(BuildsDisabled)
    }

    async fn setup_build<'a>(
        &'a self,
        _source: &'a Path,
        _subdirectory: Option<&'a Path>,
        _install_path: &'a Path,
        _stop_discovery_at: Option<&'a Path>,
        _version_id: Option<&'a str>,
        _dist: Option<&'a SourceDist>,
        _sources: &'a NoSources,
        _build_kind: BuildKind,
        _build_output: BuildOutput,
        _build_stack: BuildStack,
    ) -> Result<Never, impl IsBuildBackendError> {
        Err::<_, BuildsDisabled>(BuildsDisabled)
    }

    async fn direct_build<'a>(
        &'a self,
        _source: &'a Path,
        _subdirectory: Option<&'a Path>,
        _output_dir: &'a Path,
        _sources: NoSources,
        _build_kind: BuildKind,
        _version_id: Option<&'a str>,
    ) -> Result<Option<DistFilename>, impl IsBuildBackendError> {
        Err::<_, BuildsDisabled>(BuildsDisabled)
    }
}
