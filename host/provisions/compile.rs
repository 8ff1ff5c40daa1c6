//! Compilation of packages to bytecode by the interpreter that will run it. A guest compiles the modules without
//! running them. The guest is in a process of its own, because a run confines its process before any guest.

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

/// The number of wheels that one guest compiles. Each wheel is a granted directory.
const AT_ONCE: usize = 24;

/// The program that compiles every module below /in/N to the path below /out/N at which the import looks for bytecode.
/// It skips modules that cannot be compiled, because their import reports the error.
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

/// The modules that a compiling process reads, and its output directory.
#[derive(Serialize, Deserialize)]
pub(crate) struct Work {
    modules: Vec<PathBuf>,
    out: PathBuf,
}

/// Compiles wheels and stores the bytecode. Returns true if all of them were compiled. The missing bytecode of a wheel
/// only costs time at each import.
pub(super) fn start(house: &House, wheels: &[&Wheel], runtime: &str) -> Result<bool, Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| Failure::of(ResultKind::InstallFailed, error);
    let mut whole = true;
    for some in wheels.chunks(AT_ONCE) {
        let bench = house.workbench().map_err(|e| failed(&e))?;
        let out = bench.path().to_owned();
        let work = Work { modules: some.iter().map(|wheel| house.modules_of(wheel)).collect(), out: out.clone() };
        let asked = serde_json::to_string(&work).map_err(|e| failed(&e))?;
        if !elsewhere(&asked).is_ok_and(|done| done) {
            // The partial bytecode of a wheel would be mistaken for the complete one.
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

/// Runs the compilation in another process. Returns true if it succeeded.
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
    /// Parses the description that another process of codebox wrote.
    pub(crate) fn read(asked: &str) -> Result<Self, Failure> {
        serde_json::from_str(asked).map_err(|error| Failure::of(ResultKind::InvalidRequest, &error))
    }

    /// Returns the spec of the compiling guest, which reads the modules and writes to the output directory.
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

    /// Compiles the modules in an open instance.
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
