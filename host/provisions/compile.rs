//! Packages' modules as bytecode, made by the interpreter that will run it: in a guest that runs none of them, in a
//! process of its own, since a run confines its process before any guest.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use codebox_cli::{COMPILE_COMMAND, Failure};
use codebox_core::{
    Access, ByteSize, DirGrant, ExecIo, Grants, GuestPath, HostPath, Instance, InstanceSpec, Isolation, Job, Language,
    Limit, Limits, ResultKind,
};
use codebox_packages::{House, Wheel};
use serde::{Deserialize, Serialize};

/// Wheels that one guest compiles: each is a directory that it is shown.
const AT_ONCE: usize = 24;

/// Compiles every module below /in/N to /out/N, in the place that its import looks at. What cannot be compiled is left to
/// the import, which tells of it.
const COMPILE: &str = r#"
import importlib.util, os
from importlib._bootstrap_external import _code_to_hash_pyc
for wheel in os.listdir("/in"):
    top = "/in/" + wheel
    for folder, folders, names in os.walk(top):
        inside = folder[len(top):]
        for name in names:
            if not name.endswith(".py"):
                continue
            try:
                with open(folder + "/" + name, "rb") as file:
                    source = file.read()
                code = compile(source, "PLACE" + inside + "/" + name, "exec", dont_inherit=True)
                data = _code_to_hash_pyc(code, importlib.util.source_hash(source), False)
            except Exception:
                continue
            place = importlib.util.cache_from_source("/out/" + wheel + inside + "/" + name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(data)
"#;

/// What is to be compiled.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    modules: Vec<PathBuf>,
    out: PathBuf,
}

/// Has wheels compiled, and keeps what comes of it; whether all were. One that was not costs time at each import, and
/// nothing else.
pub(super) fn start(house: &House, wheels: &[&Wheel], runtime: &str) -> Result<bool, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::of(ResultKind::InstallFailed, error);
    let mut whole = true;
    for some in wheels.chunks(AT_ONCE) {
        let bench = house.workbench().map_err(|e| failed(&e))?;
        let out = bench.path().to_owned();
        let work = Work { modules: some.iter().map(|wheel| house.modules_of(wheel)).collect(), out: out.clone() };
        let asked = serde_json::to_string(&work).map_err(|e| failed(&e))?;
        if !elsewhere(&asked).is_ok_and(|done| done) {
            // Part of a wheel would be taken for all of it.
            whole = false;
            continue;
        }
        for (number, wheel) in some.iter().enumerate() {
            let made = out.join(number.to_string());
            if !made.is_dir() {
                std::fs::create_dir(&made).map_err(|e| failed(&e))?;
            }
            house.keep_compiled(wheel, runtime, &made).map_err(|e| failed(&e))?;
        }
    }
    Ok(whole)
}

/// Has another process do it; whether it did.
fn elsewhere(asked: &str) -> std::io::Result<bool> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(COMPILE_COMMAND).env_remove(codebox_cli::STANDBY_VARIABLE);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(asked.as_bytes())?;
    }
    child.wait().map(|status| status.success())
}

impl Work {
    /// What another process of codebox wrote.
    pub(crate) fn read(asked: &str) -> Result<Self, Failure> {
        serde_json::from_str(asked).map_err(|error| Failure::of(ResultKind::InvalidRequest, &error))
    }

    /// The guest for it: it reads the modules, and writes beside them.
    pub(crate) fn spec(&self) -> Result<InstanceSpec, Failure> {
        let grant = |host: &Path, guest: String, access| -> Result<DirGrant, Failure> {
            let bad = |error: &(dyn std::error::Error + 'static)| Failure::of(ResultKind::InternalError, error);
            let host = HostPath::native(host).map_err(|e| bad(&e))?;
            Ok(DirGrant { host, guest: GuestPath::new(&guest).map_err(|e| bad(&e))?, access })
        };
        let modules = self.modules.iter().enumerate();
        let modules = modules.map(|(number, host)| grant(host, format!("/in/{number}"), Access::ReadOnly));
        let out = grant(&self.out, "/out".to_owned(), Access::ReadWrite);
        Ok(InstanceSpec {
            language: Language::Python,
            grants: Grants { dirs: modules.chain([out]).collect::<Result<_, _>>()?, ..Grants::none() },
            limits: self.limits(),
            image: None,
            isolation: Isolation::Wasm,
            warm: None,
            layers: Vec::new(),
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            wall: Limit::At(Duration::from_secs(300)),
            memory: Limit::At(ByteSize::mib(2048)),
            disk: Limit::At(ByteSize::mib(2048)),
            files: Limit::Unlimited,
            ..Limits::default()
        }
    }

    /// Does it in a guest that is open.
    pub(crate) async fn done_in(&self, mut instance: Box<dyn Instance>) -> Result<(), Failure> {
        let mut job = Job::python(COMPILE.replace("PLACE", codebox_core::PYTHON_PACKAGES));
        job.limits = self.limits();
        let report = instance.exec(&job, &mut ExecIo::none()).await;
        instance.close().await?;
        match report?.is_success() {
            true => Ok(()),
            false => Err(Failure::new(ResultKind::InstallFailed, "the modules could not be compiled")),
        }
    }
}
