//! Compilation of packages to bytecode by the interpreter that will run it. A guest compiles the modules without
//! running them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::package_store::PackageStore;
use crate::wheel::Wheel;
use codebox_core::{
    Access, Backend, ByteSize, DirGrant, ExecIo, Grants, GuestPath, HostPath, Instance, InstanceSpec, Isolation, Job,
    Language, Limit, Limits, ResultKind, RunnerError,
};
use serde::{Deserialize, Serialize};

/// The number of wheels that one guest compiles. Each wheel is a granted directory.
const WHEELS_PER_GUEST: usize = 24;

/// The program that compiles every module below /in/N to the path below /out/N at which the import looks for bytecode.
/// It skips modules that cannot be compiled, because their import reports the error.
const COMPILE_SCRIPT: &str = r#"
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

/// Function that runs a compilation in the Python runtime, and returns true if it succeeded.
pub type Compiler = Box<dyn Fn(&CompileWork) -> bool + Send + Sync>;

/// The modules that a compiling guest reads, and its output directory.
#[derive(Serialize, Deserialize)]
pub struct CompileWork {
    modules: Vec<PathBuf>,
    out: PathBuf,
}

/// Compiles wheels with `compiler` and stores the bytecode. Returns true if all of them were compiled. The missing bytecode of a wheel
/// only costs time at each import.
pub(super) fn compile_wheels(
    package_store: &PackageStore,
    compiler: &Compiler,
    wheels: &[&Wheel],
    runtime: &str,
) -> Result<bool, RunnerError> {
    let failed = |error: &(dyn std::error::Error + 'static)| RunnerError::of(ResultKind::InstallFailed, error);
    let mut all_compiled = true;
    for chunk in wheels.chunks(WHEELS_PER_GUEST) {
        let work_dir = package_store.create_work_dir().map_err(|e| failed(&e))?;
        let out = work_dir.path().to_owned();
        let work = CompileWork {
            modules: chunk.iter().map(|wheel| package_store.modules_dir(wheel)).collect(),
            out: out.clone(),
        };
        if !compiler(&work) {
            // The partial bytecode of a wheel would be mistaken for the complete one.
            all_compiled = false;
            continue;
        }
        for (number, wheel) in chunk.iter().enumerate() {
            let bytecode_dir = out.join(number.to_string());
            if !bytecode_dir.is_dir() {
                std::fs::create_dir(&bytecode_dir).map_err(|e| failed(&e))?;
            }
            package_store.store_compiled(wheel, runtime, &bytecode_dir).map_err(|e| failed(&e))?;
        }
    }
    Ok(all_compiled)
}

impl CompileWork {
    /// Parses the text of [`to_text`](Self::to_text).
    ///
    /// # Errors
    /// Returns an error if the text is no such description.
    pub fn parse(text: &str) -> Result<Self, RunnerError> {
        serde_json::from_str(text).map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))
    }

    /// Returns this description as text, for another process.
    ///
    /// # Errors
    /// Returns an error if a path is not UTF-8.
    pub fn to_text(&self) -> Result<String, RunnerError> {
        serde_json::to_string(self).map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))
    }

    /// Returns the spec of the compiling guest, which reads the modules and writes to the output directory.
    ///
    /// # Errors
    /// Returns an error if a path cannot be granted.
    pub fn spec(&self) -> Result<InstanceSpec, RunnerError> {
        let grant = |host: &Path, guest: String, access| -> Result<DirGrant, RunnerError> {
            let bad = |error: &(dyn std::error::Error + 'static)| RunnerError::of(ResultKind::InternalError, error);
            let host = HostPath::native(host).map_err(|e| bad(&e))?;
            Ok(DirGrant { host, guest: GuestPath::new(&guest).map_err(|e| bad(&e))?, access })
        };
        let modules = self.modules.iter().enumerate();
        let modules = modules.map(|(number, host)| grant(host, format!("/in/{number}"), Access::ReadOnly));
        let out = grant(&self.out, "/out".to_owned(), Access::ReadWrite);
        Ok(InstanceSpec {
            grants: Grants { dirs: modules.chain([out]).collect::<Result<_, _>>()?, ..Grants::none() },
            limits: self.limits(),
            ..InstanceSpec::bare(Language::Python, Isolation::Wasm)
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

    /// Compiles the modules on a backend, on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if the modules cannot be compiled.
    pub fn run_on(&self, backend: &dyn Backend) -> Result<(), RunnerError> {
        let work = || {
            let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
            let spec = self.spec()?;
            executor.block_on(async { self.run_in(backend.open(&spec).await?).await })
        };
        // The caller may be in async code, where an executor cannot be entered.
        std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Compiles the modules in an open instance.
    ///
    /// # Errors
    /// Returns an error if the modules cannot be compiled.
    pub async fn run_in(&self, mut instance: Box<dyn Instance>) -> Result<(), RunnerError> {
        let mut job = Job::python(COMPILE_SCRIPT.replace("PLACE", codebox_core::PYTHON_PACKAGES));
        job.limits = self.limits();
        let report = instance.exec(&job, &mut ExecIo::none()).await;
        instance.close().await?;
        match report?.is_success() {
            true => Ok(()),
            false => Err(RunnerError::new(ResultKind::InstallFailed, "cannot compile the modules")),
        }
    }
}
