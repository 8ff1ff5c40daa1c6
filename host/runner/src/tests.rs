//! The stages of a run, over a backend and a catalog that record their calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, CancelToken, Capabilities, CodeScope, Effects, EnvName, ExecIo,
    Instance, InstanceSpec, Isolation, Job, Language, LayerState, LimitOverrides, Missing, Outcome, Preparation,
    Progress, Provenance, ResultKind, RunReport, RunnerError, SandboxLayer, Support, TrapKind, Unavailable,
};
use codebox_service::catalog::{
    BundledPackage, Catalog, CatalogError, Description, EntryState, ImageEntry, ImageOrigin, PackageSource, Removal,
    RuntimeEntry, RuntimeLibrary,
};
use codebox_service::{Admitted, Check, EnvRequest, HostEnvironment, Policy, Preference, Program, Request, State};

use super::*;

/// A backend, a catalog, and the confinement of the process, which record their calls.
#[derive(Clone)]
struct Fake {
    isolation: Isolation,
    /// Code of an instance.
    code: CodeScope,
    lines: Arc<Mutex<Vec<String>>>,
    /// Cancels the job when its runtime is installed; the installation then continues until the sender is dropped.
    interruption: Option<(CancelToken, Arc<Mutex<Receiver<()>>>)>,
}

impl Default for Fake {
    fn default() -> Self {
        Self { isolation: Isolation::Wasm, code: CodeScope::Image, lines: Arc::default(), interruption: None }
    }
}

impl Fake {
    fn log(&self, line: impl Into<String>) {
        self.lines.lock().expect("no panic before").push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic before").clone()
    }
}

impl HostEnvironment for Fake {
    fn env_var(&self, name: &str) -> Option<OsString> {
        (name == "SEEN").then(|| "yes".into())
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/"))
    }
}

impl Confinement for Fake {
    fn confine(&self, _admitted: &Admitted, spec: &InstanceSpec) -> Result<Vec<SandboxLayer>, RunnerError> {
        self.log(format!("confine {}", spec.isolation));
        Ok(vec![SandboxLayer { name: "fake".to_owned(), state: LayerState::Held, detail: String::new() }])
    }
}

impl Backend for Fake {
    fn id(&self) -> BackendId {
        BackendId::new(if self.isolation == Isolation::Wasm { "fake" } else { "engine" })
    }

    fn isolation(&self) -> Isolation {
        self.isolation
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async {
            Ok(Capabilities {
                languages: vec![Language::Python, Language::JavaScript],
                forbidden: BTreeMap::new(),
                limits: BTreeMap::new(),
                snapshot: Support::No,
                fork: Support::No,
                network_filter: Support::No,
                offline: Vec::new(),
                fuel: Support::No,
                engine: None,
            })
        })
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        let code = if spec.code == CodeScope::All { " with all code" } else { "" };
        self.log(format!("open {}{code}", spec.image.as_deref().unwrap_or("?")));
        let instance = Self { code: spec.code, ..self.clone() };
        Box::pin(async { Ok(Box::new(instance) as Box<dyn Instance>) })
    }
}

impl Instance for Fake {
    /// Ends with status 3. With the argument `fail` the outcome is unknown, with `lack` WebAssembly lacks threads,
    /// and with `lack code` it lacks code that is not loaded at the start.
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        let streamed = io.stdout.is_some();
        self.log(format!("exec {:?} {:?} {streamed}", job.args, job.env));
        let asked = job.args.first().map(String::as_str).unwrap_or_default().to_owned();
        let from = Provenance::new(self.id(), self.isolation);
        let mut report = RunReport::new(Outcome::Exited(3), from, job.limits);
        if asked == "lack" && self.isolation == Isolation::Wasm {
            report.missing.push(Missing { what: "threads".to_owned(), hint: String::new() });
        }
        if asked == "lack code" && self.code == CodeScope::Image {
            report.outcome = Outcome::Trapped(TrapKind::MissingCode);
            report.effects = if job.args.len() > 1 { Effects::Possible } else { Effects::None };
        }
        Box::pin(async move {
            match asked.as_str() {
                "fail" => Err(BackendError::engine("run", "no")),
                _ => Ok(report),
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        self.log("close");
        Box::pin(async { Ok(()) })
    }
}

impl Catalog for Fake {
    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError> {
        Ok(Vec::new())
    }

    fn is_ready(&self, _: &Language, _: Preparation<'_>) -> bool {
        false
    }

    fn library(&self, language: &Language, _: &dyn Progress) -> Result<RuntimeLibrary, CatalogError> {
        Err(CatalogError::NotToAdd { language: language.clone() })
    }

    fn bundled_packages(&self, _language: &Language) -> Vec<codebox_service::catalog::BundledPackage> {
        Vec::new()
    }

    fn bundled_package(&self, _: &Language, _: &str) -> Option<BundledPackage> {
        None
    }

    fn ensure(&self, runtime: &str, _: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        self.log(format!("ensure {runtime}"));
        if let Some((cancel, ended)) = &self.interruption {
            cancel.cancel();
            let _ = ended.lock().expect("no panic before").recv();
        }
        Ok(RuntimeEntry {
            name: runtime.to_owned(),
            version: "1".to_owned(),
            language: Language::Python,
            language_version: None,
            state: EntryState::Installed,
            path: None,
            size: None,
        })
    }

    fn ensure_language(
        &self,
        language: &Language,
        _: Preparation<'_>,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        self.ensure(language.as_str(), progress)
    }

    fn add(&self, file: &Path, _: &Description, _: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        Err(CatalogError::NoRuntime { file: file.to_owned(), reason: "no runtime can be added".to_owned() })
    }

    fn install(&self, runtime: &str, _: &PackageSource, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        self.ensure(runtime, progress)
    }

    fn verify(&self, _: &str) -> Result<Vec<Check>, CatalogError> {
        Ok(Vec::new())
    }

    fn remove(&self, _: &str) -> Result<Removal, CatalogError> {
        Ok(Removal::NothingThere)
    }

    fn images(&self, language: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError> {
        let image = |name: &str, imports: &[&str]| ImageEntry {
            name: name.to_owned(),
            runtime: "cpython".to_owned(),
            imports: imports.iter().map(|module| (*module).to_owned()).collect(),
            state: EntryState::Missing,
            path: None,
            size: None,
            origin: ImageOrigin::BuiltIn,
        };
        let python = [image("python", &["json"]), image("python-data", &["numpy", "pandas"])];
        let javascript = [image("javascript", &[])];
        Ok(match language {
            None => [&python[..], &javascript].concat(),
            Some(Language::Python) => python.into(),
            Some(_) => javascript.into(),
        })
    }

    fn build_image(&self, name: &str, _: &[String], _: &dyn Progress) -> Result<ImageEntry, CatalogError> {
        Err(CatalogError::NameTaken { name: name.to_owned() })
    }

    fn remove_image(&self, _: &str) -> Result<Removal, CatalogError> {
        Ok(Removal::NothingThere)
    }
}

/// A directory for the analyzer and the journal, and the builder of a runner over fakes.
struct Bench {
    dir: tempfile::TempDir,
    fake: Fake,
}

impl Bench {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), fake: Fake::default() }
    }

    fn builder(&self) -> Builder {
        let (programs, jobs) = (self.dir.path().join("programs"), self.dir.path().join("jobs"));
        let (catalog, backend) = (self.fake.clone(), self.fake.clone());
        let analyzer = move || Ok(Analyzer::below(&programs));
        Runner::builder(analyzer, move || Ok(Arc::new(catalog.clone()) as Arc<dyn Catalog>))
            .environment(Arc::new(self.fake.clone()))
            .backend(move || Ok(Arc::new(backend.clone()) as Arc<dyn Backend>))
            .journal(move || Ok(codebox_service::JournalOptions::new(jobs.clone())))
    }

    /// Returns a builder with a second backend, which provides containers.
    fn with_engine(&self) -> Builder {
        let engine = Fake { isolation: Isolation::Container, ..self.fake.clone() };
        self.builder().backend(move || Ok(Arc::new(engine.clone()) as Arc<dyn Backend>))
    }

    fn was_recorded(&self) -> bool {
        // A request that is refused is in the audit log alone.
        let entries = std::fs::read_dir(self.dir.path().join("jobs")).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.ends_with(".job") || name == "history.jsonl")
    }
}

fn request(args: &[&str]) -> Request {
    Request { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..Request::python("1") }
}

/// A front end that records the steps that it is called for.
struct Recorder(Fake);

impl FrontEnd for Recorder {
    fn opened(&mut self) {
        self.0.log("opened");
    }

    fn starting(&mut self, _io: &mut ExecIo) {
        self.0.log("starting");
    }
}

#[test]
fn only_cells_return_files() {
    let bench = Bench::new();
    let returns = vec![codebox_core::GuestPath::new("/work/a").expect("a path")];
    let error = bench.builder().build().run(Request { returns, ..request(&[]) }).expect_err("it is refused");
    assert!(error.kind() == ResultKind::InvalidRequest && error.message().contains("cells of sessions"), "{error:?}");
    assert!(!bench.was_recorded() && bench.fake.lines().is_empty());
}

#[test]
fn confines_between_open_and_exec() {
    let bench = Bench::new();
    let runner = bench.builder().confinement(Arc::new(bench.fake.clone())).single_job().build();
    let variable = EnvRequest::FromHost(EnvName::new("SEEN").expect("a name"));
    let request = Request { env: vec![variable], ..request(&["a", "--b"]) };
    let ended = runner.run_for(request, &mut ExecIo::none(), &mut Recorder(bench.fake.clone())).expect("it runs");
    let RunEnd::Report(report) = ended else { panic!("{ended:?}") };
    assert_eq!(
        bench.fake.lines(),
        [
            "ensure python",
            "open python",
            "opened",
            "confine wasm",
            "starting",
            "exec [\"a\", \"--b\"] {\"SEEN\": \"yes\"} false",
            "close",
        ]
    );
    assert_eq!((report.exit_status(), report.enforcement.layers.len()), (3, 1));
    let recorded = runner.jobs(9).expect("it can be read");
    let [recorded] = recorded.as_slice() else { panic!("{recorded:?}") };
    assert_eq!(
        (recorded.state, recorded.exit_code, Some(&recorded.id)),
        (State::Finished, Some(3), report.id.as_ref())
    );
}

#[test]
fn refused_requests_open_nothing() {
    let unseen = EnvRequest::FromHost(EnvName::new("UNSEEN").expect("a name"));
    let limited =
        LimitOverrides { cpu: Some(codebox_core::parse_duration("1s").expect("a duration")), ..Default::default() };
    for (request, kind) in [
        (Request { isolation: Preference::Only(Isolation::Vm), ..request(&[]) }, ResultKind::EngineUnavailable),
        (Request { env: vec![unseen], ..request(&[]) }, ResultKind::InvalidRequest),
        (Request { image: Some("nope".to_owned()), ..request(&[]) }, ResultKind::InvalidRequest),
        (Request { dirs: vec!["/proc:/p".parse().expect("a grant")], ..request(&[]) }, ResultKind::PathRejected),
        (Request::new(Program::File("/no/such/file.py".into())), ResultKind::InvalidRequest),
        (Request { limits: limited, ..request(&[]) }, ResultKind::InvalidRequest),
    ] {
        let bench = Bench::new();
        let error = bench.builder().build().run(request.clone()).expect_err("it is refused");
        assert_eq!(error.kind(), kind, "{request:?}: {error}");
        assert!(error.fix().is_some(), "{request:?}: {error}");
        assert!(bench.fake.lines().is_empty() && !bench.was_recorded(), "{request:?}: {:?}", bench.fake.lines());
    }
}

#[test]
fn packages_without_a_provider_are_refused() {
    let bench = Bench::new();
    let request = Request { packages: vec!["requests".to_owned()], ..request(&[]) };
    let error = bench.builder().build().run(request).expect_err("there is no provider");
    assert!(error.message().contains("requests"), "{error}");
    assert!(bench.fake.lines().is_empty());
}

#[test]
fn image_depends_on_imports() {
    let bench = Bench::new();
    let report = bench.builder().build().run(Request::python("import pandas")).expect("it runs");
    assert_eq!(bench.fake.lines(), ["ensure python", "open python-data", "exec [] {} false", "close"]);
    assert_eq!(report.provenance.image.as_deref(), Some("python-data"));
    assert_eq!(report.provenance.reason, "wasm is the lightest isolation that can run this python program");
}

/// A program that needs threads.
const THREADS: &str = "import threading\nthreading.Thread(target=print).start()";

#[test]
fn memory_image_has_no_effect_in_container() {
    let data = |request: Request| Request { image: Some("python-data".to_owned()), ..request };
    let bench = Bench::new();
    let runner = bench.with_engine().build();
    let explanation = runner.explain(data(Request::python(THREADS))).expect("it can be explained");
    assert_eq!(explanation.choice.map(|choice| choice.isolation), Ok(Isolation::Container));
    assert_eq!(explanation.image, None);
    let report = runner.run(data(Request::python(THREADS))).expect("it runs");
    assert_eq!(report.provenance.backend.as_str(), "engine");
    assert_eq!(bench.fake.lines(), ["open ?", "exec [] {} false", "close"]);
    // A mistake in the name is an error wherever the program would run.
    let mistake = Request { image: Some("python-dta".to_owned()), ..Request::python(THREADS) };
    let error = runner.run(mistake.clone()).expect_err("there is no such image");
    assert_eq!(error.message(), "unknown image \"python-dta\" for python; available: python, python-data");
    assert_eq!(runner.explain(mistake).expect_err("there is no such image"), error);
}

#[test]
fn finds_language_of_text() {
    for (text, runtime) in [("print(1)", "python"), ("const x = 1", "javascript"), ("console.log(1)", "javascript")] {
        let bench = Bench::new();
        bench.builder().build().run(Request::new(Program::Inline(text.to_owned()))).expect("it runs");
        assert_eq!(bench.fake.lines()[0], format!("ensure {runtime}"), "{text}");
    }
}

#[test]
fn image_of_another_language_is_refused() {
    let bench = Bench::new();
    let runner = bench.builder().build();
    let request = Request { image: Some("python-data".to_owned()), ..Request::javascript("1") };
    let error = runner.run(request.clone()).expect_err("it is an image of Python");
    assert_eq!(error.message(), "unknown image \"python-data\" for javascript; available: javascript");
    assert_eq!(runner.explain(request).expect_err("it is an image of Python"), error);
    assert!(bench.fake.lines().is_empty());
}

#[test]
fn configured_image_applies_to_languages_that_have_it() {
    let with_image = |bench: &Bench, name: &'static str| {
        bench.builder().policy(move || Ok(Policy { image: Some(name.to_owned()), ..Policy::default() })).build()
    };
    for (request, image) in [(Request::python("1"), "python-data"), (Request::javascript("1"), "javascript")] {
        let bench = Bench::new();
        let runner = with_image(&bench, "python-data");
        let explained = runner.explain(request.clone()).expect("it can be explained").image;
        assert_eq!(explained.map(|image| image.name).as_deref(), Some(image));
        runner.run(request).expect("it runs");
        assert_eq!(bench.fake.lines()[1], format!("open {image}"));
        // No language has the image, which is a mistake in the configuration.
        let bench = Bench::new();
        let error = with_image(&bench, "python-dta").run(Request::javascript("1")).expect_err("there is no such image");
        assert_eq!(error.kind(), ResultKind::InvalidRequest);
        assert!(error.message().contains("python-dta") && error.fix().is_some(), "{error}");
        assert!(bench.fake.lines().is_empty());
    }
}

#[test]
fn closes_guest_with_unknown_outcome() {
    let bench = Bench::new();
    let runner = bench.builder().build();
    let error = runner.run(request(&["fail"])).expect_err("it fails");
    assert_eq!(error.kind(), ResultKind::InternalError);
    assert_eq!(bench.fake.lines().last().map(String::as_str), Some("close"));
    let recorded = runner.jobs(1).expect("it can be read");
    assert_eq!((recorded[0].state, recorded[0].exit_code), (State::Finished, Some(125)));
}

#[test]
fn cancellation_ends_a_job_whose_runtime_is_being_installed() {
    let mut bench = Bench::new();
    let (cancel, (running, ended)) = (CancelToken::new(), channel());
    bench.fake.interruption = Some((cancel.clone(), Arc::new(Mutex::new(ended))));
    let runner = bench.builder().build();
    // The thread ends although the installation goes on.
    let run = move || runner.run_with(request(&[]), &mut ExecIo { cancel, ..ExecIo::none() });
    let report = std::thread::spawn(run).join().expect("no panic").expect("the outcome is known");
    assert_eq!((report.outcome, report.provenance.backend.as_str()), (Outcome::Cancelled, "fake"));
    assert_eq!(bench.fake.lines(), ["ensure python"]);
    drop(running);
}

#[test]
fn futures_of_runs_can_move_between_threads() {
    fn assert_send(_: impl Send) {}
    let runner = Bench::new().builder().build();
    assert_send(runner.run_async(request(&[])));
    assert_send(runner.run_async_with(request(&[]), &mut ExecIo::none()));
}

#[test]
fn reruns_job_with_missing_feature_in_container() {
    let bench = Bench::new();
    let runner = bench.with_engine().build();
    let report = runner.run(request(&["lack"])).expect("it runs");
    let exec = "exec [\"lack\"] {} false";
    assert_eq!(bench.fake.lines(), ["ensure python", "open python", exec, "close", "open ?", exec, "close"]);
    assert_eq!(report.provenance.backend.as_str(), "engine");
    assert_eq!(report.provenance.escalated_from.map(|from| from.reason).as_deref(), Some("threads"));
    assert_eq!(runner.jobs(9).expect("it can be read").len(), 1);
}

#[test]
fn reruns_job_that_lacks_code_with_all_code() {
    let bench = Bench::new();
    let only_wasm = Preference::Only(Isolation::Wasm);
    let runner = bench.builder().build();
    let report = runner.run(Request { isolation: only_wasm, ..request(&["lack code"]) }).expect("it runs");
    let (ensure, exec) = ("ensure python", "exec [\"lack code\"] {} false");
    let calls = [ensure, "open python", exec, "close", ensure, "open python with all code", exec, "close"];
    assert_eq!(bench.fake.lines(), calls);
    assert_eq!(report.outcome, Outcome::Exited(3));
    assert_eq!(report.provenance.reason, "run again with all code of its runtime");
    assert!(report.missing.is_empty() && report.needs_escalation.is_none(), "{report:?}");
}

#[test]
fn job_that_lacks_code_after_effects_is_not_rerun() {
    let bench = Bench::new();
    let report = bench.builder().build().run(request(&["lack code", "after effects"])).expect("it runs");
    assert_eq!(report.outcome, Outcome::Trapped(TrapKind::MissingCode));
    let hints: Vec<&str> = report.missing.iter().map(|missing| missing.hint.as_str()).collect();
    assert!(matches!(&*hints, [hint] if hint.contains("codebox runtime prepare python")), "{hints:?}");
}

#[test]
fn policy_without_containers_suggests_no_rerun() {
    let bench = Bench::new();
    let only_wasm = codebox_core::IsolationSet::only(Isolation::Wasm);
    let runner = bench.with_engine().policy(move || Ok(Policy { isolations: only_wasm, ..Policy::default() })).build();
    let report = runner.run(request(&["lack"])).expect("it runs");
    let needs = report.needs_escalation.expect("it lacks threads");
    assert!(needs.reason.ends_with("by the configuration") && needs.command.is_empty(), "{needs:?}");
}

#[test]
fn policy_with_machines_suggests_one() {
    let bench = Bench::new();
    let accepted = codebox_core::IsolationSet::of([Isolation::Wasm, Isolation::Vm]).expect("two isolations");
    let runner = bench.builder().policy(move || Ok(Policy { isolations: accepted, ..Policy::default() })).build();
    let report = runner.run(request(&["lack"])).expect("it runs");
    let needs = report.needs_escalation.expect("it lacks threads");
    assert!(!needs.reason.contains("by the configuration"), "{needs:?}");
    assert!(needs.command.ends_with("Preference::Only(Isolation::Vm)"), "{needs:?}");
}

#[test]
fn enforces_ceilings_unless_disabled() {
    let bench = Bench::new();
    let minute = codebox_core::parse_duration("1m").expect("a duration");
    let ceilings = codebox_core::Limits {
        wall: codebox_core::parse_duration("1s").expect("a duration"),
        ..codebox_core::Limits::unlimited()
    };
    let policy = move || Ok(Policy { ceilings, ..Policy::default() });
    let long = Request { limits: LimitOverrides { wall: Some(minute), ..Default::default() }, ..request(&[]) };
    let error = bench.builder().policy(policy).build().run(long.clone()).expect_err("it is above the ceiling");
    assert_eq!(error.kind(), ResultKind::Denied);
    // The order of the calls does not matter.
    for builder in
        [bench.builder().policy(policy).without_ceilings(), bench.builder().without_ceilings().policy(policy)]
    {
        let error = builder.build().run(long.clone()).expect_err("no backend enforces the limit");
        assert_ne!(error.kind(), ResultKind::Denied);
    }
}

#[test]
fn links_below_the_working_directory_are_refused_or_followed() {
    let bench = Bench::new();
    let real = bench.dir.path().canonicalize().expect("it exists").join("real");
    std::fs::create_dir(&real).expect("the directory is created");
    let link = real.with_file_name("link");
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let grant = format!("{}:/data:ro", link.display()).parse().expect("a grant");
    let linked = Request { dirs: vec![grant], ..request(&[]) };
    let error = bench.builder().build().run(linked.clone()).expect_err("it is a link");
    assert_eq!(error.kind(), ResultKind::PathRejected);
    assert!(bench.builder().follow_links().build().run(linked).is_ok());
}

#[test]
fn job_becomes_request_with_changed_limits() {
    let mut job = Job::python("1");
    job.limits.wall = codebox_core::parse_duration("5s").expect("a duration");
    let request = Request::try_from(&job).expect("a request");
    assert_eq!(request.limits, LimitOverrides { wall: Some(job.limits.wall), ..Default::default() });
    job.env.insert("A=B".to_owned(), String::new());
    assert!(Request::try_from(&job).is_err());
}

#[test]
fn explains_without_opening_anything() {
    let bench = Bench::new();
    let explanation =
        bench.with_engine().build().explain(Request::python("import pandas")).expect("it can be explained");
    assert_eq!(explanation.choice.map(|choice| choice.isolation), Ok(Isolation::Wasm));
    assert_eq!(explanation.image.map(|image| image.name).as_deref(), Some("python-data"));
    let tiers: Vec<_> = explanation.tiers.iter().map(|tier| (tier.backend.as_str(), tier.chosen)).collect();
    assert_eq!(tiers, [("fake", true), ("engine", false)]);
    assert!(bench.fake.lines().is_empty() && !bench.was_recorded());
}
