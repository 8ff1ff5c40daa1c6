use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use clap::Parser;
use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Capabilities, ExecIo, Instance, InstanceSpec, Isolation, Job,
    Language, Outcome, Provenance, Support, Unavailable, Wall, WallState,
};
use codebox_service::catalog::{
    Catalog, CatalogError, EntryState, ImageEntry, ImageOrigin, PackageSource, Progress, Removal, RuntimeEntry,
};
use codebox_service::{Admitted, Check, Journal, Policy, State, Surroundings};

use super::*;
use crate::args::{Cli, Command};
use crate::commands::run::attempt::Done;
use crate::host::{Confinement, EngineImage, Sweep, SweptPlaces};
use crate::voice::Loudness;

/// A composition root with one backend and one runtime that records its calls.
#[derive(Clone, Default)]
struct Fake {
    lines: Arc<Mutex<Vec<String>>>,
    journal: Arc<OnceLock<(tempfile::TempDir, Journal)>>,
    analyzer: Arc<OnceLock<(tempfile::TempDir, Analyzer)>>,
}

impl Fake {
    fn log(&self, line: impl Into<String>) {
        self.lines.lock().expect("no panic before").push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic before").clone()
    }
}

impl Host for Fake {
    fn policy(&self) -> Result<Policy, Failure> {
        Ok(Policy::default())
    }

    fn surroundings(&self) -> &dyn Surroundings {
        self
    }

    fn catalog(&self) -> Result<&dyn Catalog, Failure> {
        Ok(self)
    }

    fn journal(&self) -> Result<&Journal, Failure> {
        let (_, journal) = self.journal.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a directory");
            let journal = Journal::open(folder.path()).expect("room");
            (folder, journal)
        });
        Ok(journal)
    }

    fn analyzer(&self) -> Result<&Analyzer, Failure> {
        let (_, analyzer) = self.analyzer.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a directory");
            let analyzer = Analyzer::below(&folder.path().join("programs"));
            (folder, analyzer)
        });
        Ok(analyzer)
    }

    fn backends(&self, _engine: Option<&str>) -> Result<Vec<&dyn Backend>, Failure> {
        Ok(vec![self])
    }

    fn may_have_engine(&self) -> bool {
        false
    }

    fn waiter(&self) -> Option<std::process::Command> {
        None
    }

    fn ensure_image<'a>(
        &'a self,
        _backend: &'a BackendId,
        _language: &'a Language,
        _image: Option<&'a str>,
        _progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn engine_images(&self, _engine: &str) -> Result<Vec<EngineImage>, Failure> {
        Ok(Vec::new())
    }

    fn pull_image(&self, _engine: Option<&str>, name: &str, _progress: &dyn Progress) -> Result<String, Failure> {
        Ok(name.to_owned())
    }

    fn keep(&self, _: &str, _: &str) -> Result<(), Failure> {
        unreachable!("only a keeper asks for it")
    }

    fn connect_for_others(&self) -> Result<(), Failure> {
        unreachable!("only a broker is asked for it")
    }

    fn end_keepers(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn sweep(&self, _how: Sweep) -> Result<SweptPlaces, Failure> {
        Ok(SweptPlaces::default())
    }

    fn packages(
        &self,
        _admitted: &Admitted,
        _engine: Option<&str>,
        _progress: &dyn codebox_service::Progress,
    ) -> Result<codebox_service::PackageNeeds, Failure> {
        Ok(codebox_service::PackageNeeds::default())
    }

    fn load_ahead(&self, _language: &codebox_core::Language) {}

    fn layers<'a>(
        &'a self,
        _admitted: &'a Admitted,
        _plan: &'a codebox_service::Plan,
        _progress: &'a dyn codebox_service::Progress,
    ) -> codebox_core::BoxFuture<'a, Result<crate::host::Provided, Failure>> {
        Box::pin(std::future::ready(Ok(crate::host::Provided::default())))
    }

    fn compile(&self, _asked: &str) -> Result<(), Failure> {
        unreachable!("no module is compiled")
    }

    fn lock(
        &self,
        _admitted: &Admitted,
        _script: &std::path::Path,
        _progress: &dyn codebox_service::Progress,
    ) -> Result<std::path::PathBuf, Failure> {
        unreachable!("nothing is locked")
    }

    fn kept_packages(&self) -> Result<Vec<crate::host::KeptPackage>, Failure> {
        unreachable!("no package is asked for")
    }

    fn prune_packages(&self, _progress: &dyn codebox_service::Progress) -> Result<(usize, u64), Failure> {
        unreachable!("no package is removed")
    }

    fn confine(
        &self,
        _admitted: &Admitted,
        spec: &InstanceSpec,
        confinement: Confinement,
    ) -> Result<Vec<Wall>, Failure> {
        self.log(format!("confine {} {confinement:?}", spec.isolation));
        let state = match confinement {
            Confinement::On => WallState::Held,
            Confinement::Off => WallState::Off,
        };
        Ok(vec![Wall { name: "fake".to_owned(), state, detail: String::new() }])
    }

    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }
}

impl Surroundings for Fake {
    fn env_var(&self, name: &str) -> Option<OsString> {
        (name == "SEEN").then(|| "yes".into())
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/"))
    }
}

impl Backend for Fake {
    fn id(&self) -> BackendId {
        BackendId::new("fake")
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async {
            Ok(Capabilities {
                languages: vec![Language::Python],
                forbidden: BTreeMap::new(),
                isolation: Isolation::Wasm,
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
        self.log(format!("open {}", spec.image.as_deref().unwrap_or("?")));
        Box::pin(async { Ok(Box::new(self.clone()) as Box<dyn Instance>) })
    }
}

impl Instance for Fake {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        let streamed = io.stdout.is_some();
        self.log(format!("exec {:?} {:?} {streamed}", job.args, job.env));
        Box::pin(async {
            let from = Provenance::new(BackendId::new("fake"), Isolation::Wasm);
            Ok(RunReport::new(Outcome::Exited(3), from, job.limits))
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

    fn ensure(&self, runtime: &str, _: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        self.log(format!("ensure {runtime}"));
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

    fn ensure_language(&self, language: &Language, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        self.ensure(language.as_str(), progress)
    }

    fn add(&self, _: &Path, language: &Language, _: &[String], _: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        Err(CatalogError::NotToAdd { language: language.clone() })
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

    fn images(&self, _: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError> {
        Ok(vec![ImageEntry {
            name: "python".to_owned(),
            runtime: "cpython".to_owned(),
            imports: Vec::new(),
            state: EntryState::Missing,
            path: None,
            size: None,
            origin: ImageOrigin::BuiltIn,
        }])
    }

    fn build_image(&self, name: &str, _: &[String], _: &dyn Progress) -> Result<ImageEntry, CatalogError> {
        Err(CatalogError::NameTaken { name: name.to_owned() })
    }

    fn remove_image(&self, _: &str) -> Result<Removal, CatalogError> {
        Ok(Removal::NothingThere)
    }
}

fn done(words: &[&str], streams: Streams, host: &Fake) -> Result<Done, Failure> {
    let line = [&["codebox", "run"], words].concat();
    let cli = Cli::try_parse_from(line).expect("a good line");
    let Command::Run(args) = cli.command else {
        panic!("another command");
    };
    match attempt(*args, streams, (Voice::new(Loudness::Quiet), host), None)? {
        Attempt::Done(done) => Ok(*done),
        Attempt::TakenOver(status) => panic!("nobody stands by, and took over with {status}"),
    }
}

#[test]
fn the_process_is_confined_between_open_and_exec() {
    let host = Fake::default();
    let words = ["--env", "SEEN", "-c", "1", "a", "--b"];
    let done = done(&words, Streams::collected(), &host).expect("it runs");
    assert_eq!(
        host.lines(),
        ["ensure python", "open python", "confine wasm On", "exec [\"a\", \"--b\"] {\"SEEN\": \"yes\"} false", "close",]
    );
    assert_eq!(done.report.exit_status(), 3);
    let noted = host.journal().and_then(|journal| Ok(journal.recent(9)?)).expect("it can be read");
    let [noted] = noted.as_slice() else { panic!("{noted:?}") };
    assert_eq!((noted.state, noted.exit_code, Some(&noted.id)), (State::Finished, Some(3), done.report.id.as_ref()));
    assert_eq!(done.report.enforcement.walls.len(), 1);
    assert!(matches!(done.delivery, Delivery::Whole));
}

#[test]
fn walls_that_are_off_are_reported_as_off() {
    let host = Fake::default();
    let done = done(&["--no-confine", "-c", "1"], Streams::live(), &host).expect("it runs");
    assert_eq!(done.report.enforcement.walls[0].state, WallState::Off);
    assert!(host.lines().iter().any(|line| line.ends_with(" true")));
}

#[test]
fn what_cannot_run_opens_nothing() {
    for (words, status) in [
        (&["-c", "1", "--isolation", "vm"][..], 125),
        (&["--env", "UNSEEN", "-c", "1"], 125),
        (&["--image", "nope", "-c", "1"], 125),
        (&["--dir", "/proc:/p", "-c", "1"], 126),
        (&["/no/such/file.py"], 125),
        (&[], 125),
    ] {
        let host = Fake::default();
        let Err(failure) = done(words, Streams::collected(), &host) else {
            panic!("{words:?} ran");
        };
        assert_eq!(failure.exit_status(), status, "{words:?}: {failure:?}");
        assert!(failure.fix().is_some(), "{words:?}: {failure:?}");
        assert!(host.lines().is_empty(), "{words:?}: {:?}", host.lines());
        assert!(host.journal.get().is_none(), "{words:?} was noted");
    }
}

#[test]
fn a_program_from_standard_input_is_text() {
    assert_eq!(program_text(&b"print(1)"[..]).expect("text"), "print(1)");
    let failure = program_text(&b"\xff"[..]).expect_err("no text");
    assert_eq!(failure.kind(), ResultKind::InvalidRequest);
}
