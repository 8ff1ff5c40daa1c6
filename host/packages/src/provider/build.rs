//! Builds of source distributions. Each build runs in a container of its own, which has the source, the build
//! requirements, and no other access to this machine or to any network. This process runs no code of packages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::index::Index;
use crate::package_store::{BuildImage, Environment, PackageStore, UnpackedSdist};
use crate::requirement::Requirement;
use crate::resolve::{ResolveError, SdistPolicy};
use crate::source::{BuildSystem, BuildSystemError, Sdist};
use crate::wheel::Wheel;
use codebox_core::{
    Backend, ExecIo, HostPath, ImageName, InstanceSpec, Isolation, Job, Language, LimitKind, Limits, Outcome,
    PYTHON_PACKAGES, Progress, ResultKind, RunReport, RunnerError,
};
use codebox_service::Admitted;
use codebox_service::config::BuildSetting;
use codebox_service::limit_text::limit_hit;

use super::errors::{not_installed, resolution_error};
use super::request::PackageRequest;
use super::{JobPackages, image, layer};

/// The Python program that runs a build in its container.
const BUILD_SCRIPT: &str = include_str!("build.py");

/// The guest directory of the source distribution.
const SOURCE_DIR: &str = "/source";

/// The guest directory of the executables from the build requirements.
const PROGRAMS_DIR: &str = "/usr/local/lib/codebox/programs";

/// The part of a failed build's output that is shown: the number of last lines, and the characters of each line.
const MAX_SHOWN_OUTPUT: (usize, usize) = (30, 300);

/// The longest list of build requirements that a build backend may return, in bytes.
const MAX_ANSWER_SIZE: u64 = 64 << 10;

/// The number of source distributions that one resolution may build.
const MAX_BUILDS: usize = 100;

/// The builder of source distributions for one job.
pub(super) struct SdistBuilder<'s> {
    job_packages: &'s JobPackages,
    request: &'s PackageRequest,
    progress: &'s dyn Progress,
    building: BuildPolicy,
    limits: Limits,
    required: Vec<LimitKind>,
    /// The engines that may run builds.
    engines: Vec<&'s dyn Backend>,
    /// The image of the job's container, if the user named one.
    image: Option<&'s ImageName>,
    /// The image that the wheels must support, if it is already known.
    target_image: Option<BuildImage>,
    /// The engine and the image of the builds, once chosen.
    open: Option<(&'s dyn Backend, BuildImage)>,
    /// The source distributions that were built for this job, by sha256.
    attempted: BTreeSet<String>,
    /// Notes on the built wheels for the user.
    pub notes: Vec<String>,
}

/// Policy for source distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BuildPolicy {
    Enabled,
    Disabled,
}

/// The build requirements of a source distribution, installed.
struct BuildEnvironment {
    environment: Option<Environment>,
    /// The key of this set of build requirements.
    key: String,
}

impl<'s> SdistBuilder<'s> {
    /// Creates a builder whose wheels may be for any image. `engines` may run the builds, the preferred one first.
    pub(super) fn for_any_image(
        job_packages: &'s JobPackages,
        admitted: &'s Admitted,
        request: &'s PackageRequest,
        engines: Vec<&'s dyn Backend>,
        progress: &'s dyn Progress,
    ) -> Result<Self, RunnerError> {
        let building = match (job_packages.settings.packages.building, admitted.may_build()) {
            (BuildSetting::Forbidden, true) => {
                let line = "cannot build packages: not allowed by the configuration";
                return Err(RunnerError::new(ResultKind::Denied, line).with_fix("remove --build"));
            }
            (BuildSetting::Forbidden, false) | (BuildSetting::Asked, false) => BuildPolicy::Disabled,
            (BuildSetting::Asked, true) | (BuildSetting::Always, _) => BuildPolicy::Enabled,
        };
        Ok(Self {
            job_packages,
            request,
            progress,
            building,
            limits: admitted.job().limits,
            required: admitted.required_limits().to_vec(),
            engines,
            image: None,
            target_image: None,
            open: None,
            attempted: BTreeSet::new(),
            notes: Vec::new(),
        })
    }

    /// Restricts the builder to the image of the job's container.
    pub(super) fn at(self, engine: &'s dyn Backend, build_image: BuildImage, image: Option<&'s ImageName>) -> Self {
        // Wheels that were built for another image are built again for this one.
        let attempted = BTreeSet::new();
        Self { target_image: Some(build_image.clone()), open: Some((engine, build_image)), image, attempted, ..self }
    }

    /// Returns true if source distributions are built.
    pub(super) fn builds_enabled(&self) -> bool {
        self.building == BuildPolicy::Enabled
    }

    /// Returns the fix for a package that is available only as a source distribution.
    pub(super) fn advice(&self) -> &'static str {
        match (self.building, self.job_packages.settings.packages.building) {
            (BuildPolicy::Disabled, BuildSetting::Forbidden) => {
                "request packages with wheels: the configuration does not allow building"
            }
            (BuildPolicy::Disabled, _) => "build it in a separate container with --build",
            (BuildPolicy::Enabled, _) => "",
        }
    }

    /// Returns the image in which packages for the job's container are built.
    pub(super) fn build_image(&self) -> Option<&BuildImage> {
        self.target_image.as_ref().filter(|_| self.builds_enabled())
    }

    /// Returns the image that the user named for the job.
    pub(super) fn image(&self) -> Option<&'s ImageName> {
        self.image
    }

    fn sources(&self) -> SdistPolicy<'_> {
        match self.building {
            BuildPolicy::Enabled => SdistPolicy::Built {
                package_store: &self.job_packages.package_store,
                build_image: self.target_image.as_ref(),
            },
            BuildPolicy::Disabled => SdistPolicy::Refused,
        }
    }

    /// Runs a query of package indexes. Builds every source distribution whose metadata the query needs, and repeats
    /// the query until it succeeds.
    pub(super) async fn query_index<T: Send>(
        &mut self,
        requirements: &[Requirement],
        query: impl AsyncFn(&Index<'_>, SdistPolicy<'_>) -> Result<T, ResolveError> + Send + Sync,
    ) -> Result<T, RunnerError> {
        for _ in 0..MAX_BUILDS {
            let sources = self.sources();
            let answer = self.job_packages.with_index(async |index| match query(index, sources).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(error) => Ok(Err(index.explain_no_solution(error, requirements, sources).await)),
            })?;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(ResolveError::BuildRequired(sdist)) => drop(self.build(&sdist).await?),
                Err(error) => return Err(resolution_error(error, self.advice())),
            }
        }
        let line = format!("more than {MAX_BUILDS} packages must be built to determine their requirements");
        Err(RunnerError::new(ResultKind::InstallFailed, line))
    }

    /// Returns the wheel of a source distribution, building it if necessary.
    pub(super) async fn wheel(&mut self, sdist: &Sdist) -> Result<Wheel, RunnerError> {
        let stored = self.job_packages.package_store.built(sdist, self.target_image.as_ref());
        let wheel = match stored {
            Some(wheel) => wheel,
            None => self.build(sdist).await?,
        };
        self.notes.push(format!("{} is built from {}", display_name(sdist), sdist.0.file));
        Ok(wheel)
    }

    async fn build(&mut self, sdist: &Sdist) -> Result<Wheel, RunnerError> {
        let what = display_name(sdist);
        if !self.attempted.insert(sdist.0.sha256.clone()) {
            return Err(build_error(&what, "the built wheel no longer exists").with_fix("run it again"));
        }
        // A file that a list of hashes excludes is not built either, because a build runs its code.
        self.request.check_hash(&sdist.0)?;
        let (engine, build_image) = self.select_engine(&what).await?;
        let package_store = &self.job_packages.package_store;
        let source = match package_store.unpacked(sdist).map_err(not_installed)? {
            Some(source) => source,
            None => self
                .job_packages
                .with_index(async |index| package_store.source(sdist, index).await.map_err(not_installed))?,
        };
        // Another process may have built the wheel while this one waited for the lock.
        let on_wait = || self.progress.note(&format!("waiting for another run to build {what}"));
        let _guard = source.acquire_build_lock(&on_wait).map_err(not_installed)?;
        if let Some(wheel) = package_store.built(sdist, Some(&build_image)) {
            return Ok(wheel);
        }
        let bad = |error: BuildSystemError| build_error(&what, &error.to_string());
        let system = BuildSystem::of(&source.tree).map_err(bad)?;
        self.progress.note(&format!("building {what} from source in a separate container"));
        let mut requirements = system.requires.clone();
        for step in ["requirements", "build"] {
            let build_environment = self.build_environment(&what, &requirements, &build_image)?;
            let work_dir = package_store.create_work_dir().map_err(not_installed)?;
            let out = work_dir.path().canonicalize().map_err(|error| build_error(&what, &error.to_string()))?;
            let words = [vec![step.to_owned(), system.backend.clone()], system.paths.clone()].concat();
            let report = self.run(engine, words, &source, &build_environment, &out).await?;
            if !report.is_success() {
                return Err(self.report_failure(&what, &report));
            }
            let reported_requirements = match step {
                "requirements" => reported_requirements(&out).and_then(|reported_requirements| {
                    BuildSystem::requirements(&reported_requirements).map_err(|e| e.to_string())
                }),
                _ => Ok(Vec::new()),
            };
            let reported_requirements = reported_requirements
                .map_err(|why| build_error(&what, &format!("invalid requirements from its build backend: {why}")))?;
            if reported_requirements.is_empty() {
                let built_wheel = built_wheel(&out)
                    .ok_or_else(|| build_error(&what, "the build produced no wheel or more than one"))?;
                let wheel = package_store
                    .store_built(sdist, &build_image, &build_environment.key, &built_wheel)
                    .map_err(not_installed)?;
                self.progress.note(&format!("built {}", wheel.file));
                return Ok(wheel);
            }
            requirements.extend(reported_requirements);
        }
        Err(build_error(&what, "the build did not finish"))
    }

    /// Chooses the engine and the image of the builds: the first engine that answers, enforces the required limits and
    /// has or can pull the image.
    async fn select_engine(&mut self, what: &str) -> Result<(&'s dyn Backend, BuildImage), RunnerError> {
        if let Some((engine, build_image)) = &self.open {
            return Ok((*engine, build_image.clone()));
        }
        if self.job_packages.settings.isolations.is_some_and(|allowed| !allowed.contains(Isolation::Container)) {
            let line = format!(
                "cannot build {what}: it requires a container, but the configuration does not allow containers"
            );
            return Err(RunnerError::new(ResultKind::Denied, line).with_fix("allow containers in your configuration"));
        }
        let mut refused = None;
        for engine in self.engines.clone() {
            match self.prepare_engine(engine).await {
                Ok(build_image) => {
                    self.open = Some((engine, build_image.clone()));
                    return Ok((engine, build_image));
                }
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
        let why = refused.as_ref().map_or("this build of codebox has no container engine", RunnerError::message);
        let line = format!("cannot build {what}: it requires a container, but none is available: {why}");
        Err(RunnerError::new(ResultKind::EngineUnavailable, line).with_fix("see codebox doctor"))
    }

    async fn prepare_engine(&self, engine: &dyn Backend) -> Result<BuildImage, RunnerError> {
        let capabilities = engine.probe().await;
        let capabilities = capabilities.map_err(|why| RunnerError::new(ResultKind::EngineUnavailable, why.reason))?;
        if let Some(kind) = capabilities.first_unenforced(self.required.iter().copied()) {
            let line = format!("{} cannot enforce the {kind} limit", engine.id());
            return Err(RunnerError::new(ResultKind::EngineUnavailable, line));
        }
        if let Some(store) = engine.image_store() {
            let spec = InstanceSpec::bare(Language::Python, Isolation::Container);
            store.ensure(&spec, self.progress).await?;
        }
        image::of(&self.job_packages.package_store, engine, None).await
    }

    /// Installs build requirements from indexes for the Python of the image. Only wheels are used, so that builds do
    /// not recurse.
    fn build_environment(
        &self,
        what: &str,
        requirements: &[Requirement],
        build_image: &BuildImage,
    ) -> Result<BuildEnvironment, RunnerError> {
        let (job_packages, target) = (self.job_packages, &build_image.target);
        if requirements.is_empty() {
            return Ok(BuildEnvironment { environment: None, key: PackageStore::key(&()) });
        }
        let download_wheels = || {
            let resolved = job_packages.resolve_wheels_only(requirements, target, self.progress)?;
            job_packages.download(&resolved.wheels, None, self.progress)?;
            Ok(resolved.wheels)
        };
        // The shared lock protects downloaded wheels from pruning until they are part of an environment.
        let _guard = job_packages.package_store.acquire_shared_lock().map_err(not_installed)?;
        let wheels = download_wheels().map_err(|failure: RunnerError| {
            let line = format!("cannot build {what}: cannot install its build requirements: {}", failure.message());
            RunnerError::new(failure.kind(), line)
        })?;
        let (package_store, name) = (&job_packages.package_store, super::container_name(target));
        let environment = package_store.environment(&wheels, &name, None, target.library()).map_err(not_installed)?;
        let contents: Vec<&str> = wheels.iter().map(|wheel| wheel.sha256.as_str()).collect();
        Ok(BuildEnvironment { environment: Some(environment), key: PackageStore::key(&contents) })
    }

    /// Runs one step of a build and copies its output files to `out`.
    async fn run(
        &self,
        engine: &dyn Backend,
        words: Vec<String>,
        source: &UnpackedSdist,
        build_environment: &BuildEnvironment,
        out: &Path,
    ) -> Result<RunReport, RunnerError> {
        let internal = |error: &(dyn std::error::Error + 'static)| RunnerError::of(ResultKind::InternalError, error);
        let out = HostPath::native(out).map_err(|e| internal(&e))?;
        let job = Job { args: words, limits: self.limits, out: Some(out), ..Job::python(BUILD_SCRIPT) };
        let build_environment = build_environment.environment.as_ref();
        let modules = build_environment.map(|environment| layer(&environment.modules, PYTHON_PACKAGES));
        let programs = build_environment.and_then(|environment| environment.programs.as_ref());
        let programs = programs.map(|programs| layer(programs, PROGRAMS_DIR));
        let layers = [Some(layer(&source.tree, SOURCE_DIR)), modules, programs];
        let spec = InstanceSpec {
            limits: self.limits,
            image: self.image.map(|name| name.as_str().to_owned()),
            layers: layers.into_iter().flatten().collect::<Result<_, _>>()?,
            // A build has none of the job's grants: no directory, no host and no variable.
            ..InstanceSpec::bare(Language::Python, Isolation::Container)
        };
        let mut instance = engine.open(&spec).await?;
        let report = instance.exec(&job, &mut ExecIo::none()).await;
        let closed = instance.close().await;
        let report = report?;
        closed?;
        Ok(report)
    }

    /// Reports a failed build: shows its last output lines as notes, and returns the reason in one line.
    fn report_failure(&self, what: &str, report: &RunReport) -> RunnerError {
        let output =
            [&report.stderr, &report.stdout].map(|stream| String::from_utf8_lossy(&stream.bytes()).into_owned());
        let output = output.into_iter().find(|output| !output.trim().is_empty()).unwrap_or_default();
        let (lines, width) = MAX_SHOWN_OUTPUT;
        let last: Vec<String> = output
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.chars().take(width).collect())
            .collect();
        for line in &last[last.len().saturating_sub(lines)..] {
            self.progress.note(&format!("{what} | {line}"));
        }
        let last_line = last.last().map(|line| format!(": {}", line.trim())).unwrap_or_default();
        match &report.outcome {
            Outcome::LimitHit(kind) => {
                build_error(what, &format!("the build was {}", limit_hit(*kind, &report.limits)))
            }
            Outcome::Exited(status) => build_error(what, &format!("the build exited with status {status}{last_line}"))
                .with_fix("request a version that has wheels, or use an --image that has the missing build tools"),
            Outcome::Signalled(signal) => {
                build_error(what, &format!("the build was killed by signal {signal}{last_line}"))
            }
            Outcome::Trapped(_) | Outcome::Cancelled | Outcome::Suspended => {
                build_error(what, &format!("the build was stopped{last_line}"))
            }
        }
    }
}

/// Returns the name and version of a source distribution.
fn display_name(Sdist(file): &Sdist) -> String {
    format!("{} {}", file.name, file.version)
}

fn build_error(what: &str, why: &str) -> RunnerError {
    RunnerError::new(ResultKind::InstallFailed, format!("cannot build {what}: {why}"))
}

/// Reads the build requirements that a build backend returned.
fn reported_requirements(out: &Path) -> Result<Vec<String>, String> {
    let mut text = String::new();
    let file = File::open(out.join("requirements.json")).map_err(|_| "no response".to_owned())?;
    file.take(MAX_ANSWER_SIZE).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| "the response is not a list of strings".to_owned())
}

/// Returns the only file in the output directory of wheels.
fn built_wheel(out: &Path) -> Option<PathBuf> {
    let mut left = fs::read_dir(out.join("wheel")).ok()?;
    let (first, second) = (left.next()?.ok()?, left.next());
    (first.file_type().ok()?.is_file() && second.is_none()).then(|| first.path())
}
