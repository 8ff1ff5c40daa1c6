//! Cases of the benchmarks: jobs with their expected answers, and a process to compare them with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use codebox::{Job, Language, Outcome, RunReport, Source, Workbench};
use codebox_core::{Backend, ExecIo, InstanceSpec, Isolation};
use codebox_files::Scratch;
use codebox_wasm::WasmBackend;

/// Program and its expected output.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: &'static str,
    pub language: Language,
    /// Image that the program starts from.
    pub image: &'static str,
    pub code: &'static str,
    pub expected_stdout: &'static str,
}

impl Case {
    /// Creates the job that runs the program.
    pub fn job(&self) -> Job {
        Job::new(Source::Inline(self.code.to_owned()), self.language.clone())
    }
}

/// Smallest Python program whose output proves that it ran.
pub const PRINT: Case =
    Case { name: "print", language: Language::Python, image: "python", code: "print(1)", expected_stdout: "1\n" };

/// Smallest JavaScript program whose output proves that it ran.
pub const LOG: Case = Case {
    name: "log",
    language: Language::JavaScript,
    image: "javascript",
    code: "console.log(1)",
    expected_stdout: "1\n",
};

/// Small computation with numpy, from the image that has numpy and pandas imported.
pub const NUMPY: Case = Case {
    name: "numpy",
    language: Language::Python,
    image: "python-data",
    code: "import numpy as np; print(np.arange(10).sum())",
    expected_stdout: "45\n",
};

/// Creation, grouping and summing of a frame of 1,000 rows.
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
    expected_stdout: "49800.0\n",
};

/// Returns true for the quick benchmark, which shows that everything works and measures roughly.
pub fn is_quick() -> bool {
    env::args().any(|arg| arg == "--quick") || env::var_os("CODEBOX_BENCH_QUICK").is_some()
}

/// Returns the runtime's home: `CODEBOX_HOME`, or the home below the target directory that the tests share.
pub fn home() -> PathBuf {
    let shared = || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/codebox-home");
    env::var_os("CODEBOX_HOME").filter(|home| !home.is_empty()).map_or_else(shared, PathBuf::from)
}

/// Creates a runner, loads its images and checks its answers.
pub fn runner() -> Workbench {
    let runner = codebox::workbench(&home()).expect("the runtime is installed or can be");
    for case in [PRINT, NUMPY, GROUPBY, LOG] {
        let job = case.job();
        for _ in 0..3 {
            check(&case, &run(&runner, &job));
        }
    }
    runner
}

/// Runs a job as a user of the library does.
pub fn run(runner: &Workbench, job: &Job) -> RunReport {
    runner.run_with(job, &mut ExecIo::none()).expect("the job runs")
}

/// Panics if a job did not give its expected answer.
pub fn check(case: &Case, report: &RunReport) {
    assert_eq!(report.outcome, Outcome::Exited(0), "{}: {}", case.name, report.stderr.to_text_lossy());
    assert_eq!(report.stdout.bytes(), case.expected_stdout.as_bytes(), "{}", case.name);
    assert_eq!(report.provenance.image.as_deref(), Some(case.image), "{}", case.name);
}

/// Backend that maps memory afresh for each job: the same engine, with no regions kept.
pub struct ColdBackend {
    backend: WasmBackend,
    executor: tokio::runtime::Runtime,
}

impl ColdBackend {
    /// Creates a separate backend over the runner's stores.
    pub fn from_runner(runner: &Workbench) -> Self {
        let stores = [Language::Python, Language::JavaScript].map(|language| {
            let store = runner.backend().store(&language).expect("language is registered").clone();
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

    /// Opens an instance, runs the job in it and closes it.
    pub fn run(&self, case: &Case, job: &Job) -> RunReport {
        let spec = InstanceSpec {
            grants: job.grants.clone(),
            limits: job.limits,
            image: Some(case.image.to_owned()),
            ..InstanceSpec::bare(job.language.clone(), Isolation::Wasm)
        };
        self.executor.block_on(async {
            let mut instance = self.backend.open(&spec).await.expect("an instance opens");
            let report =
                instance.exec(job, &mut ExecIo { has_own_thread: true, ..ExecIo::none() }).await.expect("the job runs");
            instance.close().await.expect("the instance closes");
            report
        })
    }
}

/// Spawns and reaps the smallest available process, with which the bars compare.
pub fn spawn_minimal_process() {
    let mut command = Command::new(if cfg!(windows) { "hostname" } else { "/bin/true" });
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the smallest process runs");
}
