//! The analyzer as the rest of codebox sees it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cache::Cache;
use super::error::AnalysisError;
use super::pool::{Pool, Source};
use crate::needs::{LONGEST_PYTHON, LONGEST_SCRIPT, Needs, can_need, script_can_need};
use crate::protocol::{End, Header, MAX_ANSWER, MAX_TEXT, Task};
use crate::strip::{StripFault, StripRequest, encode_fault};

/// The longest wait for an answer, with the wait for an analyzer that is free. What a text may take ends long before.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most memory that any text may take, and the least that it always may.
const MEMORY: [u64; 2] = [16 << 20, 256 << 20];

/// Memory that a text may take whatever its length, and for each byte of it. Programs take about 30 bytes for a byte. Some forms
/// are parsed anew at every level, which takes time that doubles with each; they allocate at each try, so that this bound
/// ends them long before their time is over.
const MEMORY_OF_ANY: u64 = 48 << 20;
const MEMORY_PER_BYTE: u64 = 320;

/// The most processor time that any text may take.
const CPU: Duration = Duration::from_secs(2);

/// The longest answer that tells needs.
const MAX_NEEDS: usize = 1 << 20;

/// The longest name of a file that is passed on: only its ending counts.
const MAX_NAME: usize = 256;

/// What the analysis of one text may take.
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
    /// The budget of a text whose job has these limits on memory, in bytes, and processor time.
    #[must_use]
    pub fn within(memory: Option<u64>, cpu: Option<Duration>) -> Self {
        let [least, most] = MEMORY;
        Self {
            memory: memory.map_or(most, |memory| memory.clamp(least, most)),
            cpu: cpu.map_or(CPU, |cpu| cpu.min(CPU)),
        }
    }
}

/// What the analysis of a text took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Processor time.
    pub cpu: Duration,
    /// The most memory that was resident, in bytes.
    pub peak_memory: u64,
}

/// The answer to a program that loads TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// The program or what is wrong, in the form in which guests read it; [`split_answer`](crate::split_answer) reads it.
    pub answer: Vec<u8>,
    /// What it took.
    pub used: Used,
}

/// Parses program text, in processes of its own.
///
/// Copies share these processes: at most four, or as many as there are processors. They are started when they are needed
/// and kept until the last copy is dropped. One that fails is replaced, and harms no text but its own. The latest short answers
/// are kept, within 4 MiB, with their texts.
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
    /// An analyzer whose program file is kept below `folder`, a private directory that is made when it is needed.
    #[must_use]
    pub fn below(folder: &Path) -> Self {
        Self::of(Pool::new(Source::BuiltIn(folder.to_owned()), TIMEOUT))
    }

    /// An analyzer that starts another program, and waits so long for it; for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn of_program(path: PathBuf, timeout: Duration) -> Self {
        Self::of(Pool::new(Source::At(path), timeout))
    }

    fn of(pool: Pool) -> Self {
        Self { pool: Arc::new(pool), cache: Arc::default() }
    }

    /// Starts the first process beside what the calling thread does next.
    pub fn start_ahead(&self) {
        self.pool.start_ahead();
    }

    /// Starts no process from now on, for a process that is about to confine itself. One that was started goes on serving.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Finds what a Python program needs.
    ///
    /// # Errors
    /// When the text is too long or takes more than `budget`, or no analyzer can be had.
    pub fn python_needs(&self, text: &str, budget: Budget) -> Result<Needs, AnalysisError> {
        if !can_need(text) {
            return Ok(Needs::default());
        }
        check_length(text, LONGEST_PYTHON)?;
        self.needs(Task::PythonNeeds, text, budget)
    }

    /// Finds what the JavaScript or TypeScript program in `file` needs.
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

    /// Returns true if a text can be Python. One that is too long to be parsed can.
    ///
    /// # Errors
    /// As for [`python_needs`](Self::python_needs).
    pub fn is_python(&self, text: &str, budget: Budget) -> Result<bool, AnalysisError> {
        if text.len() > LONGEST_PYTHON {
            return Ok(true);
        }
        if can_need(text) {
            // One answer serves for what follows too.
            return Ok(self.needs(Task::PythonNeeds, text, budget)?.syntax_error.is_none());
        }
        let (answer, _) = self.ask(Task::IsPython, text, budget, 16);
        serde_json::from_slice(&answer?).map_err(|_| malformed())
    }

    /// Takes the types out of TypeScript. Where that fails, the answer says why.
    #[must_use]
    pub fn strip(&self, request: &StripRequest, budget: Budget) -> Stripped {
        let task = Task::Strip { file: ending(&request.file) };
        let (answer, used) = self.ask(task, &request.text, budget, MAX_ANSWER);
        let answer = answer.unwrap_or_else(|error| {
            let message = format!("cannot take the types out of this TypeScript: {error}");
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
    AnalysisError::Analyzer("malformed answer".to_owned())
}

/// The end of a file's name.
fn ending(file: &str) -> String {
    file[file.ceil_char_boundary(file.len().saturating_sub(MAX_NAME))..].to_owned()
}
