use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use codebox_core::{
    BackendId, BoxFuture, Capabilities, Held, Isolation, Job, Language, LimitKind, LimitOverrides, Outcome, Provenance,
    Support, Unavailable,
};

use super::*;
use crate::admission::{Policy, Preference, Program, Request, Surroundings, admit};
use crate::router::probe;

struct Nowhere;

impl Surroundings for Nowhere {
    fn env_var(&self, _name: &str) -> Option<OsString> {
        None
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        Ok(PathBuf::from("/"))
    }
}

/// A backend that records its calls.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Vec<String>>>);

impl Fake {
    fn log(&self, line: String) {
        self.0.lock().expect("no test panics while holding it").push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().expect("no test panics while holding it").clone()
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
                limits: BTreeMap::from([(LimitKind::Wall, Held::Enforced)]),
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
    fn exec<'a>(&'a mut self, job: &'a Job, _io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        let name = job.source.file_name();
        self.log(format!("exec {name}"));
        let failed = job.args == ["fail"];
        Box::pin(async move {
            if failed {
                return Err(BackendError::engine("run", "no"));
            }
            let from = Provenance::new(BackendId::new("fake"), Isolation::Wasm);
            Ok(RunReport::new(Outcome::Exited(0), from, job.limits))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        self.log("close".to_owned());
        Box::pin(async { Ok(()) })
    }
}

fn images() -> Vec<ImageFacts> {
    let image = |name: &str, imports: &[&str]| ImageFacts {
        name: name.to_owned(),
        imports: imports.iter().map(|module| (*module).to_owned()).collect(),
        size: 1,
    };
    vec![image("python", &["json"]), image("python-data", &["numpy", "pandas"])]
}

fn request(program: &str) -> Request {
    Request::new(Program::Inline(program.to_owned()))
}

fn admitted(request: Request) -> Admitted {
    admit(request, &Policy::default(), &Nowhere).expect("it is allowed")
}

fn pandas() -> Needs {
    Needs { imports: ["pandas".to_owned()].into(), ..Needs::default() }
}

#[tokio::test]
async fn a_run_opens_the_planned_image_executes_and_closes() {
    let fake = Fake::default();
    let probed = [probe(&fake).await];
    let admitted = admitted(request("import pandas"));
    let plan = plan(&admitted, &pandas(), &probed, &images()).expect("fake can");
    let report = run(&admitted, &plan, &fake, &mut ExecIo::none()).await.expect("it runs");
    assert_eq!(fake.lines(), ["open python-data", "exec <string>", "close"]);
    assert_eq!(report.provenance.reason, plan.choice.reason);
    assert_eq!(report.provenance.image.as_deref(), Some("python-data"));
}

#[tokio::test]
async fn a_guest_is_closed_also_when_the_run_fails_or_never_starts() {
    let fake = Fake::default();
    let probed = [probe(&fake).await];
    let failing = admitted(Request { args: vec!["fail".to_owned()], ..request("") });
    let plan = plan(&failing, &Needs::default(), &probed, &images()).expect("fake can");
    let error = run(&failing, &plan, &fake, &mut ExecIo::none()).await.expect_err("it fails");
    assert_eq!(error.kind(), ResultKind::InternalError);
    assert_eq!(fake.lines().last().map(String::as_str), Some("close"));

    let prepared = prepare(&failing, &plan, &fake, Vec::new()).await.expect("it opens");
    assert_eq!(prepared.spec().isolation, Isolation::Wasm);
    prepared.close().await.expect("it closes");
    assert_eq!(fake.lines().len(), 5);
}

#[tokio::test]
async fn what_cannot_be_planned_says_so() {
    let probed = [probe(&Fake::default()).await];
    let unknown = admitted(Request { image: Some("mine".to_owned()), ..request("") });
    let error = plan(&unknown, &Needs::default(), &probed, &images()).expect_err("there is no such image");
    assert_eq!(error.kind(), ResultKind::InvalidRequest);

    let container = admitted(Request { isolation: Preference::Only(Isolation::Container), ..request("") });
    let error = plan(&container, &Needs::default(), &probed, &images()).expect_err("there is no container backend");
    assert_eq!(error.kind(), ResultKind::EngineUnavailable);

    let cpu = codebox_core::parse_duration("1s").expect("a duration");
    let unheld =
        admitted(Request { limits: LimitOverrides { cpu: Some(cpu), ..LimitOverrides::default() }, ..request("") });
    let error = plan(&unheld, &Needs::default(), &probed, &images()).expect_err("fake cannot hold it");
    assert!(error.fix().contains("cpu"), "{}", error.fix());
}
