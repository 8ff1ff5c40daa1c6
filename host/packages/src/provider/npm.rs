//! npm packages for programs in JavaScript and TypeScript.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use crate::npm::{
    NpmEnvironment, NpmError, NpmFiles, NpmSettings, NpmSpec, NpmStore, NpmTree, NpmTreeError, builtin_module,
    npm_environment, parse_package_json, parse_package_lock,
};
use crate::settings::ConfigFiles;
use codebox_core::{GuestPath, Isolation, Job, Layer, PackageManager, Progress, ResultKind, RunnerError};
use codebox_service::admission::NODE_MODULES;
use codebox_service::config::{Packages, Settings};
use codebox_service::{Admitted, EnvLookup, Escalation, Manifest, PackageNeeds, lock_path};

use super::{PackageDirs, request};

/// File that lists the packages of a project.
const PACKAGE_JSON: &str = "package.json";
/// File with the exact packages of a project.
const PACKAGE_LOCK: &str = "package-lock.json";

/// Returns true if the packages of a job come from npm.
pub(super) fn is_npm_job(job: &Job) -> bool {
    job.language.package_manager() == Some(PackageManager::Npm)
}

/// Returns true if a job requests npm packages.
pub(super) fn requests_packages(admitted: &Admitted) -> bool {
    let job = admitted.job();
    let has_manifest = || admitted.project().is_some_and(|project| project.manifest(PACKAGE_JSON).is_some());
    is_npm_job(job) && !(job.packages.is_empty() && admitted.requirements().is_empty() && !has_manifest())
}

/// Rejects a script that requests no packages although its lock was made for some, because the packages would be
/// missing.
pub(super) fn reject_unused_lock(admitted: &Admitted) -> Result<(), RunnerError> {
    let Some(script) = admitted.script().filter(|_| is_npm_job(admitted.job())) else { return Ok(()) };
    let file = lock_path(script);
    let tree = request::unused_lock_text(&file).and_then(|text| text.parse::<NpmTree>().ok());
    let specs =
        tree.and_then(|tree| tree.requested.iter().map(|spec| spec.parse()).collect::<Result<Vec<NpmSpec>, _>>().ok());
    request::reject_lock_without_requests(&file, specs.unwrap_or_default().iter().map(shortest_spelling).collect())
}

/// Returns the shortest spelling of a requested package that parses to the same request.
fn shortest_spelling(spec: &NpmSpec) -> String {
    if spec.wanted() == "latest" { spec.name().to_string() } else { spec.to_string() }
}

/// The npm packages that a job requests, and the store that holds them.
pub(super) struct NpmPackages<'p> {
    specs: Vec<NpmSpec>,
    /// The lock of the script, with its path.
    lock: Option<(PathBuf, NpmTree)>,
    settings: &'p Settings,
    store: NpmStore,
    home: Option<PathBuf>,
    env: &'p EnvLookup,
}

impl<'p> NpmPackages<'p> {
    /// Collects the requests of `admitted`, including the lock of its script if `locked` requires it.
    pub(super) fn of(
        admitted: &Admitted,
        settings: &'p Settings,
        dirs: &'p PackageDirs,
        env: &'p EnvLookup,
        locked: LockPolicy,
    ) -> Result<Self, RunnerError> {
        let job = admitted.job();
        if let Some(file) = admitted.requirements().first() {
            let line = format!("cannot install the packages in {}: requirements files are for Python", file.display());
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use --with NAME"));
        }
        if admitted.may_build() {
            let line = format!("cannot build packages for {}: only Python packages can be built", job.language);
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove --build"));
        }
        if let Some(module) = job.packages.iter().find_map(|package| builtin_module(package)) {
            let line = format!("{module} is built into Node: no package is required");
            let name = module.split('/').next().unwrap_or(module);
            let fix = format!("remove it, or use --with {name}@latest for the npm package of that name");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        let specs: Result<Vec<NpmSpec>, _> = job.packages.iter().map(|package| package.parse()).collect();
        let mut specs = specs.map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
        let invalid = |manifest: &Manifest, reason: String| {
            let line = format!("cannot read {}: {reason}", manifest.path.display());
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("correct it, or remove --project")
        };
        let manifest = |name| admitted.project().and_then(|project| project.manifest(name));
        let mut project_lock = None;
        if let Some(package) = manifest(PACKAGE_JSON) {
            let listed = parse_package_json(&package.text).map_err(|reason| invalid(package, reason))?;
            // A lock has the packages of its project alone.
            if let (Some(lock), true) = (manifest(PACKAGE_LOCK), specs.is_empty()) {
                let tree = parse_package_lock(&lock.text, &listed);
                let tree = tree.map_err(|error| invalid(lock, error.to_string()))?;
                check_allowed(tree.packages.iter().map(|package| package.name.as_str()), &settings.packages)?;
                project_lock = Some((lock.path.clone(), tree));
            }
            specs.extend(
                listed
                    .into_iter()
                    .filter(|one| specs.iter().all(|other| other.name() != one.name()))
                    .collect::<Vec<_>>(),
            );
        }
        check_allowed(specs.iter().map(|spec| spec.name().as_str()), &settings.packages)?;
        let mut request =
            Self { specs, lock: project_lock, settings, store: NpmStore::at(&dirs.npm), home: dirs.home.clone(), env };
        if let (Some(script), LockPolicy::UseExisting) = (admitted.script(), locked) {
            let file = lock_path(script);
            if request::lock_exists(&file)? {
                let tree = request::read_text(&file)?.parse::<NpmTree>().map_err(|error| lock_error(&file, &error))?;
                check_allowed(tree.packages.iter().map(|package| package.name.as_str()), &settings.packages)?;
                request.lock = Some((file, tree));
            }
        }
        Ok(request)
    }

    /// Determines in which isolations the requested packages are available. Downloads the packages, because only their
    /// files show that.
    pub(super) fn needs(&self, admitted: &Admitted, progress: &dyn Progress) -> Result<PackageNeeds, RunnerError> {
        let installed = self.installed(progress)?;
        let native: Vec<String> = installed.native.iter().map(|one| one.package.clone()).collect();
        let packages = &installed.tree.packages;
        let all: Vec<String> = packages.iter().map(|package| format!("{} {}", package.name, package.version)).collect();
        let mut notes = vec![format!("packages: {}", all.join(", "))];
        if let (Some(first), true) = (native.first(), admitted.job().isolations.contains(Isolation::Wasm)) {
            if self.settings.escalation == Some(Escalation::Forbidden) {
                let line = format!(
                    "package {first} is not available in WebAssembly, and the policy does not allow escalation"
                );
                return Err(RunnerError::new(ResultKind::EscalationRefused, line)
                    .with_fix("use --isolation container, or allow escalation in your configuration"));
            }
            let reasons = installed.native.iter().map(|one| format!("{} {}", one.package, one.native));
            notes.push(format!("packages that require a container: {}", reasons.collect::<Vec<_>>().join(", ")));
        }
        // The names are as typed, so that they can be parsed again.
        Ok(PackageNeeds {
            names: self.specs.iter().map(ToString::to_string).collect(),
            native,
            notes,
            pure: Vec::new(),
        })
    }

    /// Returns the layer for the guest, and the lock that protects it from removal.
    pub(super) fn guest_layers(
        &self,
        isolation: Isolation,
        progress: &dyn Progress,
    ) -> Result<(Layer, File), RunnerError> {
        let (installed, held) = self.held(progress)?;
        if let (Isolation::Wasm, Some(native)) = (isolation, installed.native.first()) {
            let line = format!("package {} is not available in WebAssembly: it {}", native.package, native.native);
            return Err(RunnerError::new(ResultKind::EscalationRefused, line).with_fix("use --isolation container"));
        }
        let guest = GuestPath::new(NODE_MODULES).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        Ok((Layer { host: installed.dir, guest }, held))
    }

    /// Installs the packages and locks them. Tries again if another process removes them before they are locked.
    fn held(&self, progress: &dyn Progress) -> Result<(NpmEnvironment, File), RunnerError> {
        for _ in 0..3 {
            let installed = self.installed(progress)?;
            if let Some(held) =
                self.store.lock_environment(&installed.dir).map_err(|error| self.resolution_error(&error))?
            {
                return Ok((installed, held));
            }
        }
        Err(RunnerError::new(ResultKind::InternalError, "the packages were removed right after they were installed"))
    }

    /// Writes the lock file of a script next to it.
    pub(super) fn lock(&self, script: &Path, progress: &dyn Progress) -> Result<PathBuf, RunnerError> {
        let text = self.installed(progress)?.tree.to_text();
        let text = text.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let file = lock_path(script);
        request::write_lock(&file, &text)?;
        Ok(file)
    }

    /// Returns the installed packages. Rejects packages that support neither isolation.
    fn installed(&self, progress: &dyn Progress) -> Result<NpmEnvironment, RunnerError> {
        let installed = self.environment(progress).map_err(|error| match (&error, &self.lock) {
            (NpmError::Lock(bad), Some((file, _))) => lock_error(file, bad),
            _ => self.resolution_error(&error),
        })?;
        match installed.native.iter().find(|native| !native.native.works_in_container()) {
            Some(native) => {
                let line = format!("package {} is not available: it {}", native.package, native.native);
                Err(RunnerError::new(ResultKind::InstallFailed, line).with_fix("use a package with prebuilt files"))
            }
            None => Ok(installed),
        }
    }

    fn resolution_error(&self, error: &NpmError) -> RunnerError {
        let kind = match error {
            // These errors may be temporary.
            NpmError::Offline { .. } | NpmError::Unreachable { .. } | NpmError::Timeout(_) => {
                ResultKind::EngineUnavailable
            }
            NpmError::ConfigFile { .. } | NpmError::Settings(_) => ResultKind::InvalidRequest,
            NpmError::File { .. } => ResultKind::InternalError,
            _ => ResultKind::InstallFailed,
        };
        let fix = match (error, &self.settings.packages.registry) {
            (NpmError::Unreachable { .. }, None) => "connect to the network once, or set NPM_CONFIG_REGISTRY",
            // The configured registry overrides the variable.
            (NpmError::Unreachable { .. }, Some(_)) => {
                "connect to the network once, or change packages.registry in your own configuration"
            }
            _ => "",
        };
        RunnerError::of(kind, error).with_fix(fix)
    }

    /// Resolves and installs on a thread of its own. The thread ends here, because a run confines its process later.
    fn environment(&self, progress: &dyn Progress) -> Result<NpmEnvironment, NpmError> {
        let install = || {
            let registry_override = self.settings.packages.registry.as_ref();
            let env = |name: &str| match (registry_override, name) {
                (Some(registry_override), "NPM_CONFIG_REGISTRY") => Some(registry_override.clone()),
                _ => (self.env)(name),
            };
            let home = self.home.clone();
            let settings = NpmSettings::from_user(&env, &NpmFiles::User { home }, &ConfigFiles::User)?;
            let settings = if registry_override.is_some() { settings.with_single_registry() } else { settings };
            let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let executor = executor.map_err(|source| NpmError::Client(source.into()))?;
            let locked = self.lock.as_ref().map(|(_, tree)| tree);
            executor.block_on(npm_environment(&self.specs, locked, &settings, &self.store, progress))
        };
        let thread_failed = || NpmError::Client("the npm registry thread has exited".into());
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("codebox-npm".to_owned()).spawn_scoped(scope, install);
            thread.map_err(|_| thread_failed())?.join().map_err(|_| thread_failed())?
        })
    }
}

/// Use of a script's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockPolicy {
    /// An existing lock is used.
    UseExisting,
    /// An existing lock is ignored, because a new one is made.
    Regenerate,
}

fn check_allowed<'n>(mut names: impl Iterator<Item = &'n str>, rules: &Packages) -> Result<(), RunnerError> {
    names.find(|name| !rules.allows(name)).map_or(Ok(()), |name| Err(request::not_allowed(name)))
}

fn lock_error(file: &Path, error: &NpmTreeError) -> RunnerError {
    let fix = match error {
        NpmTreeError::Unsatisfied(_) | NpmTreeError::SpecsChanged { .. } => "recreate it with codebox lock",
        NpmTreeError::Invalid(_)
        | NpmTreeError::InvalidPlace(_)
        | NpmTreeError::Duplicate(_)
        | NpmTreeError::InvalidUrl(_)
        | NpmTreeError::ContentMismatch { .. } => "remove it, or recreate it with codebox lock",
    };
    RunnerError::new(ResultKind::InvalidRequest, format!("cannot use {}: {error}", file.display())).with_fix(fix)
}
