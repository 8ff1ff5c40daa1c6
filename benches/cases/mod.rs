//! What the benches run: jobs with the answers they must give, and something to hold them against.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use codebox::{Job, Language, Outcome, RunReport, Runner, Source};
use codebox_core::{Backend, ExecIo, InstanceSpec, Isolation};
use codebox_files::Scratch;
use codebox_wasm::WasmBackend;

/// A program and what it prints.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub language: Language,
    /// The image that it starts from.
    pub image: &'static str,
    pub code: &'static str,
    pub answer: &'static str,
}

impl Case {
    /// The job that runs it.
    pub fn job(&self) -> Job {
        Job::new(Source::Inline(self.code.to_owned()), self.language.clone())
    }
}

/// The smallest program that can be seen to have run.
pub const PRINT: Case =
    Case { name: "print", language: Language::Python, image: "python", code: "print(1)", answer: "1\n" };

/// The same in JavaScript.
pub const LOG: Case =
    Case { name: "log", language: Language::JavaScript, image: "javascript", code: "console.log(1)", answer: "1\n" };

/// A small computation with numpy, from the image that has numpy and pandas imported.
pub const NUMPY: Case = Case {
    name: "numpy",
    language: Language::Python,
    image: "python-data",
    code: "import numpy as np; print(np.arange(10).sum())",
    answer: "45\n",
};

/// A frame of 1,000 rows made, grouped and summed.
pub const GROUPBY: Case = Case {
    name: "groupby",
    language: Language::Python,
    image: "python-data",
    code: "\
import numpy as np
import pandas as pd
frame = pd.DataFrame({'key': np.arange(1000) % 10, 'value': np.arange(1000.0)})
print(frame.groupby('key')['value'].sum().loc[3])
",
    answer: "49800.0\n",
};

/// The smaller bench: shows that everything works, and measures roughly.
pub fn is_quick() -> bool {
    env::args().any(|arg| arg == "--quick") || env::var_os("CODEBOX_BENCH_QUICK").is_some()
}

/// Where the runtime is: `CODEBOX_HOME`, or the home below the target directory that the tests share.
pub fn home() -> PathBuf {
    let shared = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/codebox-home");
    env::var_os("CODEBOX_HOME").filter(|home| !home.is_empty()).map_or_else(shared, PathBuf::from)
}

/// A runner whose images have been loaded and whose answers have been checked.
pub fn runner() -> Runner {
    let runner = Runner::below(&home()).expect("the runtime is installed or can be");
    for case in [PRINT, NUMPY, GROUPBY, LOG] {
        let job = case.job();
        for _ in 0..3 {
            check(&case, &run(&runner, &job));
        }
    }
    runner
}

/// Runs a job as users of the library do.
pub fn run(runner: &Runner, job: &Job) -> RunReport {
    runner.run_with(job, &mut ExecIo::none()).expect("the job runs")
}

/// Stops the bench where a job did anything but give its answer.
pub fn check(case: &Case, report: &RunReport) {
    assert_eq!(report.outcome, Outcome::Exited(0), "{}: {}", case.name, report.stderr.to_text_lossy());
    assert_eq!(report.stdout.bytes(), case.answer.as_bytes(), "{}", case.name);
    assert_eq!(report.provenance.image.as_deref(), Some(case.image), "{}", case.name);
}

/// Jobs on memory that is mapped afresh for each: the same engine, keeping no region.
pub struct Cold {
    backend: WasmBackend,
    executor: tokio::runtime::Runtime,
}

impl Cold {
    /// A backend of its own over the runner's stores.
    pub fn of(runner: &Runner) -> Self {
        let stores = [Language::Python, Language::JavaScript].map(|language| {
            let store = runner.backend().store(&language).expect("the language is there").clone();
            (language, store)
        });
        let scratch = home().join("cache/scratch");
        let scratch = Scratch::new(&scratch).expect("the scratch directory can be made");
        let backend = WasmBackend::new(stores, Arc::new(scratch), 0);
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an executor");
        let cold = Self { backend, executor };
        for case in [PRINT, NUMPY, LOG] {
            check(&case, &cold.run(&case, &case.job()));
        }
        cold
    }

    /// Opens an instance, runs the job in it, closes it.
    pub fn run(&self, case: &Case, job: &Job) -> RunReport {
        let spec = InstanceSpec {
            language: job.language.clone(),
            grants: job.grants.clone(),
            limits: job.limits,
            image: Some(case.image.to_owned()),
            isolation: Isolation::Wasm,
            warm: None,
            layers: Vec::new(),
        };
        self.executor.block_on(async {
            let mut instance = self.backend.open(&spec).await.expect("an instance opens");
            let report = instance.exec(job, &mut ExecIo::none()).await.expect("the job runs");
            instance.close().await.expect("the instance closes");
            report
        })
    }
}

/// Spawns and reaps the smallest process there is, which the bars are held against.
pub fn smallest_process() {
    let mut command = Command::new(if cfg!(windows) { "hostname" } else { "/bin/true" });
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the smallest process runs");
}
