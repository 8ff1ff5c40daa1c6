//! The analyzer interface for the rest of codebox.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cache::Cache;
use super::error::AnalysisError;
use super::pool::{Pool, Source};
use crate::needs::{LONGEST_PYTHON, LONGEST_SCRIPT, Needs, can_need, script_can_need};
use crate::protocol::{End, Header, MAX_ANSWER, MAX_TEXT, Task};
use crate::strip::{StripFault, StripRequest, encode_fault};

/// The timeout for an answer, including the wait for a free analyzer. The limits of a text end its analysis long
/// before.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The bounds of the memory limit of a text in bytes: the least that is always allowed, and the most.
const MEMORY: [u64; 2] = [16 << 20, 256 << 20];

/// The fixed part of the memory limit of a text, and the part for each byte of the text. Programs take about 30 bytes
/// for each byte. Some constructs are parsed again at every level, which takes exponential time. Each attempt
/// allocates, so this limit ends their analysis long before the time limit.
const MEMORY_OF_ANY: u64 = 48 << 20;
const MEMORY_PER_BYTE: u64 = 320;

/// The largest limit on the processor time of a text.
const CPU: Duration = Duration::from_secs(2);

/// The longest answer with needs, in bytes.
const MAX_NEEDS: usize = 1 << 20;

/// The longest file name that is passed on, in bytes. Only its end is relevant.
const MAX_NAME: usize = 256;

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
        let [least, most] = MEMORY;
        Self {
            memory: memory.map_or(most, |memory| memory.clamp(least, most)),
            cpu: cpu.map_or(CPU, |cpu| cpu.min(CPU)),
        }
    }
}

/// The resource usage of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// The processor time.
    pub cpu: Duration,
    /// The peak resident memory, in bytes.
    pub peak_memory: u64,
}

/// The answer to a program that loads TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// The converted program or the error, in the form that guests read. [`split_answer`](crate::split_answer) parses
    /// it.
    pub answer: Vec<u8>,
    /// The resource usage.
    pub used: Used,
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
        Self::of(Pool::new(Source::BuiltIn(folder.to_owned()), TIMEOUT))
    }

    /// Creates an analyzer that starts another program with another timeout, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn of_program(path: PathBuf, timeout: Duration) -> Self {
        Self::of(Pool::new(Source::At(path), timeout))
    }

    fn of(pool: Pool) -> Self {
        Self { pool: Arc::new(pool), cache: Arc::default() }
    }

    /// Starts the first process on a background thread.
    pub fn start_ahead(&self) {
        self.pool.start_ahead();
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
        if !can_need(text) {
            return Ok(Needs::default());
        }
        check_length(text, LONGEST_PYTHON)?;
        self.needs(Task::PythonNeeds, text, budget)
    }

    /// Determines the needs of the JavaScript or TypeScript program in `file`.
    ///
    /// # Errors
    /// As for [`python_needs`](Self::python_needs).
    pub fn script_needs(&self, file: &str, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        if !script_can_need(text) {
            return Ok(Needs::default());
        }
        check_length(text, LONGEST_SCRIPT)?;
        self.needs(Task::ScriptNeeds { file: ending(file) }, text, budget)
    }

    fn needs(&self, task: Task, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        let (answer, _) = self.ask(task, text, budget, MAX_NEEDS);
        let needs: Needs = serde_json::from_slice(&answer?).map_err(|_| malformed())?;
        if needs.is_well_formed() { Ok(needs) } else { Err(malformed()) }
    }

    /// Returns true if a text may be Python, which includes every text that is too long to be parsed.
    ///
    /// # Errors
    /// As for [`python_needs`](Self::python_needs).
    pub fn is_python(&self, text: &str, budget: Budget) -> Result<bool, AnalysisError> {
        if text.len() > LONGEST_PYTHON {
            return Ok(true);
        }
        if can_need(text) {
            // The answer to this task is cached and is also needed later.
            return Ok(self.needs(Task::PythonNeeds, text, budget)?.syntax_error.is_none());
        }
        let (answer, _) = self.ask(Task::IsPython, text, budget, 16);
        serde_json::from_slice(&answer?).map_err(|_| malformed())
    }

    /// Removes the types from TypeScript. If that fails, the answer contains the error.
    #[must_use]
    pub fn strip(&self, request: &StripRequest, budget: Budget) -> Stripped {
        let task = Task::Strip { file: ending(&request.file) };
        let (answer, used) = self.ask(task, &request.text, budget, MAX_ANSWER);
        let answer = answer.unwrap_or_else(|error| {
            let message = format!("cannot strip types from this TypeScript program: {error}");
            encode_fault(StripFault { message, line: None, column: None })
        });
        Stripped { answer, used }
    }

    fn ask(
        &self,
        task: Task,
        text: &str,
        budget: Budget,
        most_answer: usize,
    ) -> (Result<Vec<u8>, AnalysisError>, Used) {
        let Budget { memory, cpu } = budget;
        let memory = memory.min(MEMORY_OF_ANY + MEMORY_PER_BYTE * text.len() as u64);
        if let Some(answer) = self.cache.get(&task, text) {
            return (Ok(answer.to_vec()), Used::default());
        }
        let cpu_ms = u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX).max(1);
        let header = Header { task, memory, cpu_ms };
        let Some(request) = header.request(text) else {
            return (Err(AnalysisError::Long { length: text.len(), most: MAX_TEXT }), Used::default());
        };
        let (report, answer) = match self.pool.exchange(&request, most_answer) {
            Ok(reported) => reported,
            Err(error) => return (Err(error), Used::default()),
        };
        let used =
            Used { cpu: Duration::from_micros(report.cpu_us), peak_memory: report.peak_kib.saturating_mul(1024) };
        let answer = match report.end {
            End::Done => {
                self.cache.put(header.task, text, &answer);
                Ok(answer)
            }
            End::Memory => Err(AnalysisError::Memory { most: memory }),
            End::Cpu => Err(AnalysisError::Cpu { most: cpu }),
            End::Stack => Err(AnalysisError::Stack),
            End::Crashed => Err(AnalysisError::Crashed),
        };
        (answer, used)
    }
}

fn check_length(text: &str, most: usize) -> Result<(), AnalysisError> {
    let length = text.len();
    if length > most { Err(AnalysisError::Long { length, most }) } else { Ok(()) }
}

fn malformed() -> AnalysisError {
    AnalysisError::Analyzer("malformed response".to_owned())
}

/// Returns the end of a file name.
fn ending(file: &str) -> String {
    file[file.ceil_char_boundary(file.len().saturating_sub(MAX_NAME))..].to_owned()
}
