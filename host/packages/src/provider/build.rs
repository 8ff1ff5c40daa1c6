//! Builds of source distributions. Each build runs in a container of its own, which has the source, the build
//! requirements, and no other access to this machine or to any network. This process runs no code of packages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::{
    BadBuildSystem, BuildPlace, BuildSystem, Environment, House, Index, Requirement, ResolveError, Sdist, Sources,
    Unpacked, Wheel,
};
use codebox_core::{
    Backend, ExecIo, Grants, HostPath, ImageName, InstanceSpec, Isolation, Job, Language, LimitKind, Limits, Outcome,
    PYTHON_PACKAGES, Progress, ResultKind, RunReport, RunnerError,
};
use codebox_service::Admitted;
use codebox_service::config::Building;
use codebox_service::limit_text::limit_hit;

use super::asked::Asked;
use super::choose::unresolved;
use super::{JobPackages, image, layer, not_installed};

/// The Python program that runs a build in its container.
const BUILD: &str = include_str!("build.py");

/// The guest directory of the source distribution.
const SOURCE: &str = "/source";

/// The guest directory of the executables from the build requirements.
const PROGRAMS: &str = "/usr/local/lib/codebox/programs";

/// The part of a failed build's output that is shown: the number of last lines, and the characters of each line.
const SHOWN: (usize, usize) = (30, 300);

/// The longest list of build requirements that a build backend may return, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// The number of source distributions that one resolution may build.
const MOST_BUILT: usize = 100;

/// The builder of source distributions for one job.
pub(super) struct Shop<'s> {
    provisions: &'s JobPackages,
    asked: &'s Asked,
    progress: &'s dyn Progress,
    building: Serves,
    limits: Limits,
    required: Vec<LimitKind>,
    /// The engines that may run builds.
    engines: Vec<&'s dyn Backend>,
    /// The image of the job's container, if the user named one.
    image: Option<&'s ImageName>,
    /// The image that the wheels must support, if it is already known.
    here: Option<BuildPlace>,
    /// The engine and the image of the builds, once chosen.
    open: Option<(&'s dyn Backend, BuildPlace)>,
    /// The source distributions that were built for this job, by sha256.
    tried: BTreeSet<String>,
    /// Notes on the built wheels for the user.
    pub notes: Vec<String>,
}

/// Policy for source distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serves {
    Yes,
    No,
}

/// The build requirements of a source distribution, installed.
struct Tools {
    environment: Option<Environment>,
    /// The key of this set of build requirements.
    key: String,
}

impl<'s> Shop<'s> {
    /// Creates a builder whose wheels may be for any image. `engines` may run the builds, the preferred one first.
    pub(super) fn anywhere(
        provisions: &'s JobPackages,
        (admitted, asked): (&'s Admitted, &'s Asked),
        engines: Vec<&'s dyn Backend>,
        progress: &'s dyn Progress,
    ) -> Result<Self, RunnerError> {
        let building = match (provisions.settings.packages.building, admitted.asks_to_build()) {
            (Building::Forbidden, true) => {
                let line = "cannot build packages: not allowed by the configuration";
                return Err(RunnerError::new(ResultKind::Denied, line).with_fix("remove --build"));
            }
            (Building::Forbidden, false) | (Building::Asked, false) => Serves::No,
            (Building::Asked, true) | (Building::Always, _) => Serves::Yes,
        };
        Ok(Self {
            provisions,
            asked,
            progress,
            building,
            limits: admitted.job().limits,
            required: admitted.required_limits().to_vec(),
            engines,
            image: None,
            here: None,
            open: None,
            tried: BTreeSet::new(),
            notes: Vec::new(),
        })
    }

    /// Restricts the builder to the image of the job's container.
    pub(super) fn at(self, engine: &'s dyn Backend, place: BuildPlace, image: Option<&'s ImageName>) -> Self {
        // Wheels that were built for another image are built again for this one.
        let tried = BTreeSet::new();
        Self { here: Some(place.clone()), open: Some((engine, place)), image, tried, ..self }
    }

    /// Returns true if source distributions are built.
    pub(super) fn builds(&self) -> bool {
        self.building == Serves::Yes
    }

    /// Returns the fix for a package that is available only as a source distribution.
    pub(super) fn advice(&self) -> &'static str {
        match (self.building, self.provisions.settings.packages.building) {
            (Serves::No, Building::Forbidden) => {
                "request packages with wheels: the configuration does not allow building"
            }
            (Serves::No, _) => "build it in a separate container with --build",
            (Serves::Yes, _) => "",
        }
    }

    /// Returns the image in which packages for the job's container are built.
    pub(super) fn built_at(&self) -> Option<&BuildPlace> {
        self.here.as_ref().filter(|_| self.builds())
    }

    /// Returns the image that the user named for the job.
    pub(super) fn image(&self) -> Option<&'s ImageName> {
        self.image
    }

    fn sources(&self) -> Sources<'_> {
        match self.building {
            Serves::Yes => Sources::Built { house: &self.provisions.house, place: self.here.as_ref() },
            Serves::No => Sources::Refused,
        }
    }

    /// Runs a query of package indexes. Builds every source distribution whose metadata the query needs, and repeats
    /// the query until it succeeds.
    pub(super) async fn ask<T: Send>(
        &mut self,
        wanted: &[Requirement],
        question: impl AsyncFn(&Index<'_>, Sources<'_>) -> Result<T, ResolveError> + Send + Sync,
    ) -> Result<T, RunnerError> {
        for _ in 0..MOST_BUILT {
            let sources = self.sources();
            let answer = self.provisions.with_index(async |index| match question(index, sources).await {
                Ok(answer) => Ok(Ok(answer)),
                Err(error) => Ok(Err(index.told(error, wanted, sources).await)),
            })?;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(ResolveError::Unbuilt(sdist)) => drop(self.build(&sdist).await?),
                Err(error) => return Err(unresolved(error, self.advice())),
            }
        }
        let line = format!("more than {MOST_BUILT} packages must be built to determine their requirements");
        Err(RunnerError::new(ResultKind::InstallFailed, line))
    }

    /// Returns the wheel of a source distribution, building it if necessary.
    pub(super) async fn wheel(&mut self, sdist: &Sdist) -> Result<Wheel, RunnerError> {
        let kept = self.provisions.house.built(sdist, self.here.as_ref());
        let wheel = match kept {
            Some(wheel) => wheel,
            None => self.build(sdist).await?,
        };
        self.notes.push(format!("{} is built from {}", named(sdist), sdist.0.file));
        Ok(wheel)
    }

    async fn build(&mut self, sdist: &Sdist) -> Result<Wheel, RunnerError> {
        let what = named(sdist);
        if !self.tried.insert(sdist.0.sha256.clone()) {
            return Err(cannot(&what, "the built wheel no longer exists").with_fix("run it again"));
        }
        // A file that a list of hashes excludes is not built either, because a build runs its code.
        self.asked.check_hash(&sdist.0)?;
        let (engine, place) = self.opened(&what).await?;
        let house = &self.provisions.house;
        let source = match house.unpacked(sdist).map_err(not_installed)? {
            Some(source) => source,
            None => {
                self.provisions.with_index(async |index| house.source(sdist, index).await.map_err(not_installed))?
            }
        };
        // Another process may have built the wheel while this one waited for the lock.
        let waits = || self.progress.note(&format!("waiting for another run to build {what}"));
        let _turn = source.turn(&waits).map_err(not_installed)?;
        if let Some(wheel) = house.built(sdist, Some(&place)) {
            return Ok(wheel);
        }
        let bad = |error: BadBuildSystem| cannot(&what, &error.to_string());
        let system = BuildSystem::of(&source.tree).map_err(bad)?;
        self.progress.note(&format!("building {what} from source in a separate container"));
        let mut wanted = system.requires.clone();
        for step in ["ask", "build"] {
            let tools = self.tools(&what, &wanted, &place)?;
            let bench = house.workbench().map_err(not_installed)?;
            let out = bench.path().canonicalize().map_err(|error| cannot(&what, &error.to_string()))?;
            let words = [vec![step.to_owned(), system.backend.clone()], system.paths.clone()].concat();
            let report = self.run(engine, words, (&source, &tools), &out).await?;
            if !report.is_success() {
                return Err(self.failed(&what, &report));
            }
            let wants = match step {
                "ask" => wants(&out).and_then(|wants| BuildSystem::wanted(&wants).map_err(|e| e.to_string())),
                _ => Ok(Vec::new()),
            };
            let wants =
                wants.map_err(|why| cannot(&what, &format!("invalid requirements from its build backend: {why}")))?;
            if wants.is_empty() {
                let made = made(&out).ok_or_else(|| cannot(&what, "the build produced no wheel or more than one"))?;
                let wheel = house.keep_built(sdist, &place, &tools.key, &made).map_err(not_installed)?;
                self.progress.note(&format!("built {}", wheel.file));
                return Ok(wheel);
            }
            wanted.extend(wants);
        }
        Err(cannot(&what, "the build did not finish"))
    }

    /// Chooses the engine and the image of the builds: the first engine that answers, enforces the required limits and
    /// has or can pull the image.
    async fn opened(&mut self, what: &str) -> Result<(&'s dyn Backend, BuildPlace), RunnerError> {
        if let Some((engine, place)) = &self.open {
            return Ok((*engine, place.clone()));
        }
        if self.provisions.settings.isolations.is_some_and(|allowed| !allowed.contains(Isolation::Container)) {
            let line = format!(
                "cannot build {what}: it requires a container, but the configuration does not allow containers"
            );
            return Err(RunnerError::new(ResultKind::Denied, line).with_fix("allow containers in your configuration"));
        }
        let mut refused = None;
        for engine in self.engines.clone() {
            match self.place_at(engine).await {
                Ok(place) => {
                    self.open = Some((engine, place.clone()));
                    return Ok((engine, place));
                }
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
        let why = refused.as_ref().map_or("this build of codebox has no container engine", RunnerError::message);
        let line = format!("cannot build {what}: it requires a container, but none is available: {why}");
        Err(RunnerError::new(ResultKind::EngineUnavailable, line).with_fix("see codebox doctor"))
    }

    async fn place_at(&self, engine: &dyn Backend) -> Result<BuildPlace, RunnerError> {
        let able = engine.probe().await;
        let able = able.map_err(|why| RunnerError::new(ResultKind::EngineUnavailable, why.reason))?;
        if let Some(kind) = able.first_unheld(self.required.iter().copied()) {
            let line = format!("{} cannot enforce the {kind} limit", engine.id());
            return Err(RunnerError::new(ResultKind::EngineUnavailable, line));
        }
        if let Some(store) = engine.image_store() {
            let spec = InstanceSpec::bare(Language::Python, Isolation::Container);
            store.ensure(&spec, self.progress).await?;
        }
        image::of(&self.provisions.house, engine, None).await
    }

    /// Installs build requirements from indexes for the Python of the image. Only wheels are used, so that builds do
    /// not recurse.
    fn tools(&self, what: &str, wanted: &[Requirement], place: &BuildPlace) -> Result<Tools, RunnerError> {
        let (provisions, target) = (self.provisions, &place.target);
        if wanted.is_empty() {
            return Ok(Tools { environment: None, key: House::key(&()) });
        }
        let had = || {
            let resolved = provisions.wheels_alone(wanted, target, self.progress)?;
            provisions.bring(&resolved.wheels, None, self.progress)?;
            Ok(resolved.wheels)
        };
        // The shared lock protects downloaded wheels from pruning until they are part of an environment.
        let _turn = provisions.house.beside_others().map_err(not_installed)?;
        let wheels = had().map_err(|failure: RunnerError| {
            let line = format!("cannot build {what}: cannot install its build requirements: {}", failure.message());
            RunnerError::new(failure.kind(), line)
        })?;
        let (house, name) = (&provisions.house, super::container_name(target));
        let environment = house.environment(&wheels, &name, None, target.library()).map_err(not_installed)?;
        let contents: Vec<&str> = wheels.iter().map(|wheel| wheel.sha256.as_str()).collect();
        Ok(Tools { environment: Some(environment), key: House::key(&contents) })
    }

    /// Runs one step of a build and copies its output files to `out`.
    async fn run(
        &self,
        engine: &dyn Backend,
        words: Vec<String>,
        (source, tools): (&Unpacked, &Tools),
        out: &Path,
    ) -> Result<RunReport, RunnerError> {
        let internal = |error: &(dyn std::error::Error + 'static)| RunnerError::of(ResultKind::InternalError, error);
        let out = HostPath::native(out).map_err(|e| internal(&e))?;
        let job = Job { args: words, limits: self.limits, out: Some(out), ..Job::python(BUILD) };
        let tools = tools.environment.as_ref();
        let modules = tools.map(|environment| layer(&environment.modules, PYTHON_PACKAGES));
        let programs = tools.and_then(|environment| environment.programs.as_ref());
        let programs = programs.map(|programs| layer(programs, PROGRAMS));
        let layers = [Some(layer(&source.tree, SOURCE)), modules, programs];
        let spec = InstanceSpec {
            language: Language::Python,
            // A build has none of the job's grants: no directory, no host and no variable.
            grants: Grants::none(),
            limits: self.limits,
            image: self.image.map(|name| name.as_str().to_owned()),
            isolation: Isolation::Container,
            warm: None,
            layers: layers.into_iter().flatten().collect::<Result<_, _>>()?,
        };
        let mut instance = engine.open(&spec).await?;
        let report = instance.exec(&job, &mut ExecIo::none()).await;
        let closed = instance.close().await;
        let report = report?;
        closed?;
        Ok(report)
    }

    /// Reports a failed build: shows its last output lines as notes, and returns the reason in one line.
    fn failed(&self, what: &str, report: &RunReport) -> RunnerError {
        let said = [&report.stderr, &report.stdout].map(|stream| String::from_utf8_lossy(&stream.bytes()).into_owned());
        let said = said.into_iter().find(|said| !said.trim().is_empty()).unwrap_or_default();
        let (lines, width) = SHOWN;
        let last: Vec<String> = said
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| line.chars().take(width).collect())
            .collect();
        for line in &last[last.len().saturating_sub(lines)..] {
            self.progress.note(&format!("{what} | {line}"));
        }
        let told = last.last().map(|line| format!(": {}", line.trim())).unwrap_or_default();
        match &report.outcome {
            Outcome::LimitHit(kind) => cannot(what, &format!("the build was {}", limit_hit(*kind, &report.limits))),
            Outcome::Exited(status) => cannot(what, &format!("the build exited with status {status}{told}"))
                .with_fix("request a version that has wheels, or use an --image that has the missing build tools"),
            Outcome::Signalled(signal) => cannot(what, &format!("the build was killed by signal {signal}{told}")),
            Outcome::Trapped(_) | Outcome::Cancelled => cannot(what, &format!("the build was stopped{told}")),
        }
    }
}

/// Returns the name and version of a source distribution.
fn named(Sdist(file): &Sdist) -> String {
    format!("{} {}", file.name, file.version)
}

fn cannot(what: &str, why: &str) -> RunnerError {
    RunnerError::new(ResultKind::InstallFailed, format!("cannot build {what}: {why}"))
}

/// Reads the build requirements that a build backend returned.
fn wants(out: &Path) -> Result<Vec<String>, String> {
    let mut text = String::new();
    let file = File::open(out.join("wants.json")).map_err(|_| "no response".to_owned())?;
    file.take(LONGEST_ANSWER).read_to_string(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| "the response is not a list of strings".to_owned())
}

/// Returns the only file in the output directory of wheels.
fn made(out: &Path) -> Option<PathBuf> {
    let mut left = fs::read_dir(out.join("wheel")).ok()?;
    let (first, second) = (left.next()?.ok()?, left.next());
    (first.file_type().ok()?.is_file() && second.is_none()).then(|| first.path())
}
