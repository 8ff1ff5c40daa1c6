//! The analyzer interface for the rest of codebox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cache::Cache;
use super::error::AnalysisError;
use super::pool::{Pool, ProgramSource};
use crate::needs::{MAX_PYTHON_LEN, MAX_SCRIPT_LEN, Needs, may_have_needs, script_may_have_needs};
use crate::protocol::{Header, MAX_ANSWER, MAX_TEXT, ReportStatus, Task};
use crate::strip::{StripFault, StripRequest, encode_fault};

/// The timeout for an answer, including the wait for a free analyzer. The limits of a text end its analysis long
/// before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The bounds of the memory limit of a text in bytes: the least that is always allowed, and the most.
const MEMORY_LIMITS: [u64; 2] = [16 << 20, 256 << 20];

/// The fixed part of the memory limit of a text, and the part for each byte of the text. Programs take about 30 bytes
/// for each byte. Some constructs are parsed again at every level, which takes exponential time. Each attempt
/// allocates, so this limit ends their analysis long before the time limit.
const BASE_MEMORY: u64 = 48 << 20;
const MEMORY_PER_BYTE: u64 = 320;

/// The largest limit on the processor time of a text.
const MAX_CPU_TIME: Duration = Duration::from_secs(2);

/// The longest answer with needs, in bytes.
const MAX_NEEDS_LEN: usize = 1 << 20;

/// The longest file name that is passed on, in bytes. Only its end is relevant.
const MAX_FILE_NAME_LEN: usize = 256;

/// The limits on the analysis of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    memory: u64,
    cpu: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self::within(None, None)
    }
}

impl Budget {
    /// Returns the limits for a text of a job with these limits on memory, in bytes, and on processor time.
    #[must_use]
    pub fn within(memory: Option<u64>, cpu: Option<Duration>) -> Self {
        let [least, limit] = MEMORY_LIMITS;
        Self {
            memory: memory.map_or(limit, |memory| memory.clamp(least, limit)),
            cpu: cpu.map_or(MAX_CPU_TIME, |cpu| cpu.min(MAX_CPU_TIME)),
        }
    }
}

/// The resource usage of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceUsage {
    /// The processor time.
    pub cpu: Duration,
    /// The peak resident memory, in bytes.
    pub peak_memory: u64,
}

/// The answer to a program that loads TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripResponse {
    /// The converted program or the error, in the form that guests read. [`split_answer`](crate::split_answer) parses
    /// it.
    pub answer: Vec<u8>,
    /// The resource usage.
    pub used: ResourceUsage,
}

/// Parser of program text in separate processes.
///
/// Clones share the processes: at most four, and at most as many as there are processors. They are started on demand
/// and kept until the last clone is dropped. A process that fails is replaced, which affects only the text that it
/// served. Recent short answers are cached with their texts, within 4 MiB.
#[derive(Clone)]
pub struct Analyzer {
    pool: Arc<Pool>,
    cache: Arc<Cache>,
}

impl std::fmt::Debug for Analyzer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Analyzer").finish_non_exhaustive()
    }
}

impl Analyzer {
    /// Creates an analyzer whose program file is kept below `folder`, a private directory that is created on demand.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self::installed_or_below(None, folder)
    }

    /// Creates an analyzer whose program file is in `installed`, where [`pack`](Self::pack) has written it. If it is missing there,
    /// or other users can change it, it is kept below `folder` as with [`below`](Self::below).
    #[must_use]
    pub fn installed_or_below(installed: Option<PathBuf>, folder: &Path) -> Self {
        let source = ProgramSource::BuiltIn { installed, folder: folder.to_owned() };
        Self::from_pool(Pool::new(source, ANSWER_TIMEOUT))
    }

    /// Writes the program file into a directory of an installation.
    ///
    /// # Errors
    /// The system's error if the file cannot be written, or if this build has no analyzer.
    pub fn pack(dir: &Path) -> std::io::Result<()> {
        super::program::pack(dir)
    }

    /// Creates an analyzer that starts another program with another timeout, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_program(path: PathBuf, timeout: Duration) -> Self {
        Self::from_pool(Pool::new(ProgramSource::At(path), timeout))
    }

    fn from_pool(pool: Pool) -> Self {
        Self { pool: Arc::new(pool), cache: Arc::default() }
    }

    /// Starts the first process on a background thread.
    pub fn prestart(&self) {
        self.pool.prestart();
    }

    /// Prevents the start of further processes, for a process that is about to confine itself. Started processes stay
    /// usable.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Determines the needs of a Python program.
    ///
    /// # Errors
    /// An error if the text is too long or exceeds `budget`, or if no analyzer is available.
    pub fn python_needs(&self, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        if !may_have_needs(text) {
            return Ok(Needs::default());
        }
        check_length(text, MAX_PYTHON_LEN)?;
        self.needs(Task::PythonNeeds, text, budget)
    }

    /// Determines the needs of the JavaScript or TypeScript program in `file`.
    ///
    /// # Errors
    /// As for [`python_needs`](Self::python_needs).
    pub fn script_needs(&self, file: &str, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        if !script_may_have_needs(text) {
            return Ok(Needs::default());
        }
        check_length(text, MAX_SCRIPT_LEN)?;
        self.needs(Task::ScriptNeeds { file: file_name_end(file) }, text, budget)
    }

    fn needs(&self, task: Task, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        let (answer, _) = self.run_task(task, text, budget, MAX_NEEDS_LEN);
        let needs: Needs = serde_json::from_slice(&answer?).map_err(|_| malformed())?;
        if needs.is_well_formed() { Ok(needs) } else { Err(malformed()) }
    }

    /// Returns true if a text may be Python, which includes every text that is too long to be parsed.
    ///
    /// # Errors
    /// As for [`python_needs`](Self::python_needs).
    pub fn is_python(&self, text: &str, budget: Budget) -> Result<bool, AnalysisError> {
        if text.len() > MAX_PYTHON_LEN {
            return Ok(true);
        }
        if may_have_needs(text) {
            // The answer to this task is cached and is also needed later.
            return Ok(self.needs(Task::PythonNeeds, text, budget)?.syntax_error.is_none());
        }
        let (answer, _) = self.run_task(Task::IsPython, text, budget, 16);
        serde_json::from_slice(&answer?).map_err(|_| malformed())
    }

    /// Removes the types from TypeScript. If that fails, the answer contains the error.
    #[must_use]
    pub fn strip(&self, request: &StripRequest, budget: Budget) -> StripResponse {
        let task = Task::Strip { file: file_name_end(&request.file) };
        let (answer, used) = self.run_task(task, &request.text, budget, MAX_ANSWER);
        let answer = answer.unwrap_or_else(|error| {
            let message = format!("cannot strip types from this TypeScript program: {error}");
            encode_fault(StripFault { message, line: None, column: None })
        });
        StripResponse { answer, used }
    }

    fn run_task(
        &self,
        task: Task,
        text: &str,
        budget: Budget,
        max_answer_len: usize,
    ) -> (Result<Vec<u8>, AnalysisError>, ResourceUsage) {
        let Budget { memory, cpu } = budget;
        let memory = memory.min(BASE_MEMORY + MEMORY_PER_BYTE * text.len() as u64);
        if let Some(answer) = self.cache.get(&task, text) {
            return (Ok(answer.to_vec()), ResourceUsage::default());
        }
        let cpu_ms = u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX).max(1);
        let header = Header { task, memory, cpu_ms };
        let Some(request) = header.request(text) else {
            return (Err(AnalysisError::Long { length: text.len(), limit: MAX_TEXT }), ResourceUsage::default());
        };
        let (report, answer) = match self.pool.exchange(&request, max_answer_len) {
            Ok(exchanged) => exchanged,
            Err(error) => return (Err(error), ResourceUsage::default()),
        };
        let used = ResourceUsage {
            cpu: Duration::from_micros(report.cpu_us),
            peak_memory: report.peak_kib.saturating_mul(1024),
        };
        let answer = match report.end {
            ReportStatus::Done => {
                self.cache.put(header.task, text, &answer);
                Ok(answer)
            }
            ReportStatus::Memory => Err(AnalysisError::Memory { limit: memory }),
            ReportStatus::Cpu => Err(AnalysisError::Cpu { limit: cpu }),
            ReportStatus::Stack => Err(AnalysisError::Stack),
            ReportStatus::Crashed => Err(AnalysisError::Crashed),
        };
        (answer, used)
    }
}

fn check_length(text: &str, limit: usize) -> Result<(), AnalysisError> {
    let length = text.len();
    if length > limit { Err(AnalysisError::Long { length, limit }) } else { Ok(()) }
}

fn malformed() -> AnalysisError {
    AnalysisError::Analyzer("malformed response".to_owned())
}

/// Returns the end of a file name.
fn file_name_end(file: &str) -> String {
    file[file.ceil_char_boundary(file.len().saturating_sub(MAX_FILE_NAME_LEN))..].to_owned()
}
