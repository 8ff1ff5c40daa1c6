//! Messages between the guest's prelude and the host, separate from the guest's standard streams.
//!
//! The guest calls `host.call` with a request, and the host writes the answer, if there is one, into memory that the
//! guest allocates. Requests are in JSON, unless their first byte marks a request about descriptors or the network.
//! Requests are as untrusted as the guest's output: a forged message can only misreport the guest's own job.

use std::sync::Arc;

use codebox_analysis::StripRequest;
use codebox_core::{
    BoxFuture, Effects, InputMode, InputModes, MAX_FRAMES, RunTools, TOOL_TAG, ToolResult, WindowSize,
    encode_tool_result, parse_tool_call,
};
use codebox_streams::{RESULT_TAG, RichResults};
use serde::Deserialize;
use tokio::sync::oneshot;
use wasmtime::{Caller, Extern, Linker};

use crate::guest::memory::{memory, range};
use crate::guest::strip::Stripper;
use crate::guest::{Guest, Net, Quota, descriptors, net};

/// Maximum length in bytes of a request that has no rich result.
const MAX_REQUEST_LEN: i32 = 2 << 20;
/// Maximum number of missing features kept. Further reports are answered but not stored.
const MAX_MISSING_FEATURES: usize = 256;

/// Maximum bytes kept of the name of a missing feature and of an error's name.
const MAX_NAME_LEN: usize = 1024;
/// Maximum bytes kept of an error's message and of its traceback.
const MAX_TEXT_LEN: usize = 256 << 10;

/// Maximum number of random number generators in an image.
pub(crate) const MAX_SEEDS: usize = 8;

/// Status: the host has no answer.
const NO_HOST: i32 = -1;
/// Status: the request could not be read or answered.
const FAULT: i32 = -2;

/// The messages of one job.
#[derive(Default)]
pub(crate) struct Channel {
    job: Option<Vec<u8>>,
    pub error: Option<UncaughtException>,
    pub missing: Vec<Missing>,
    /// The rich results, if they are collected.
    pub results: Option<RichResults>,
    pub facts: Option<serde_json::Value>,
    pub seeds: Vec<SeedHint>,
    /// The names of modules that the imports of programs added to an image.
    pub modules: Vec<String>,
    /// Paths that these imports looked up, and that may exist in some jobs.
    pub lookups: Vec<String>,
    /// The tools that the guest may call.
    tools: Option<RunTools>,
    /// True if the guest can change directories of the user.
    shares_files: bool,
    /// The TypeScript stripper, for guests of a language that loads TypeScript.
    stripper: Option<Stripper>,
    /// Modes of the terminal that the guest reads from.
    input_modes: Option<Arc<dyn InputModes>>,
    /// True while an image is made. Its modules may be packages, which are untrusted.
    imaging: bool,
}

/// The state of a random number generator in the guest's memory, identified by its first words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SeedHint {
    /// The words at the start of the state, which occur at no other place in memory.
    pub words: Vec<u32>,
    /// Number of bytes that must be random in every guest.
    pub len: u32,
}

/// An exception that ended the program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct UncaughtException {
    pub name: String,
    pub value: String,
    pub traceback: String,
    pub line: Option<u32>,
    /// The calls that led to the exception; the innermost is the last. Empty if the text alone has them.
    #[serde(default)]
    pub frames: Vec<SentFrame>,
}

/// A call that led to an exception.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct SentFrame {
    pub file: String,
    pub line: u32,
    pub function: Option<String>,
    pub code: Option<String>,
}

/// A feature that the program needs and this tier does not have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Missing {
    pub what: String,
}

/// The answer to a request.
enum Answer {
    Ready(Vec<u8>),
    Pending(oneshot::Receiver<Vec<u8>>),
    Tool(BoxFuture<'static, ToolResult>),
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Request {
    /// Request for the job's description.
    Job,
    /// Request for the descriptions of the tools.
    Tools,
    /// Report of the exception that ended the program.
    Error(UncaughtException),
    /// Report of a feature that the program lacked.
    Missing(Missing),
    /// Change of the mode in which the terminal passes keys.
    InputMode { mode: InputMode },
    /// Request for the size of the terminal: its columns and rows.
    TerminalSize,
    /// Request for a TypeScript text without its types.
    Strip(StripRequest),
    /// Report of the interpreter's facts, while an image is made.
    Facts { facts: serde_json::Value },
    /// Report of a state that must be random in every guest, while an image is made.
    Seed(SeedHint),
    /// Report of the modules that the imports of programs added, while an image is made.
    Modules { modules: Vec<String> },
}

impl Channel {
    /// Creates a channel that answers the guest's first job request with this job.
    pub(crate) fn new(job: Vec<u8>) -> Self {
        Self { job: Some(job), ..Self::default() }
    }

    /// Adds the stripper for a guest that may have types stripped.
    pub(crate) fn with_stripper(self, stripper: Option<Stripper>) -> Self {
        Self { stripper, ..self }
    }

    /// Adds the tools that the guest may call. `shares_files` is true if the guest can change directories of the user.
    pub(crate) fn with_tools(self, tools: Option<RunTools>, shares_files: bool) -> Self {
        Self { tools, shares_files, ..self }
    }

    /// Collects rich results.
    pub(crate) fn with_results(self, collects: bool) -> Self {
        Self { results: collects.then(RichResults::default), ..self }
    }

    /// Adds the modes of the terminal that the guest reads from.
    pub(crate) fn with_input_modes(self, input_modes: Option<Arc<dyn InputModes>>) -> Self {
        Self { input_modes, ..self }
    }

    /// Creates a channel for a guest from which an image is made.
    pub(crate) fn imaging() -> Self {
        Self { imaging: true, ..Self::default() }
    }

    /// Returns true if the guest reported an error or a missing feature.
    fn has_report(&self) -> bool {
        self.error.is_some() || !self.missing.is_empty()
    }

    /// Stores the error that ended the program. A later error replaces an earlier one.
    pub(crate) fn record_error(&mut self, mut error: UncaughtException) {
        truncate_to(&mut error.name, MAX_NAME_LEN);
        truncate_to(&mut error.value, MAX_TEXT_LEN);
        truncate_to(&mut error.traceback, MAX_TEXT_LEN);
        error.frames.truncate(MAX_FRAMES);
        for SentFrame { file, line: _, function, code } in &mut error.frames {
            [Some(file), function.as_mut(), code.as_mut()]
                .into_iter()
                .flatten()
                .for_each(|text| truncate_to(text, MAX_NAME_LEN));
        }
        self.error = Some(error);
    }

    /// Stores a feature that the program lacked.
    pub(crate) fn record_missing(&mut self, mut missing: Missing) {
        truncate_to(&mut missing.what, MAX_NAME_LEN);
        if self.missing.len() < MAX_MISSING_FEATURES && !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// Starts the call of a tool: a mark, the name of the tool, a zero byte, and the input as JSON text.
    fn call_tool(&self, request: &[u8], quota: &Quota, net: Option<&Net>) -> Result<Answer, i32> {
        let tools = self.tools.as_ref().ok_or(NO_HOST)?;
        let (name, input) = parse_tool_call(request).ok_or(FAULT)?;
        let has_connected = net.is_some_and(|net| net.used().may_have_connected());
        let effects = match has_connected || self.shares_files && quota.touched_disk() {
            true => Effects::Possible,
            false => Effects::None,
        };
        Ok(Answer::Tool(tools.call(name, input.to_vec(), effects)))
    }

    /// Returns the answer to a request. It is [`Answer::Pending`] if another thread computes it.
    fn answer(&mut self, request: &[u8]) -> Result<Answer, i32> {
        match serde_json::from_slice(request).map_err(|_| FAULT)? {
            Request::Job => return self.job.take().map(Answer::Ready).ok_or(NO_HOST),
            Request::Tools => {
                let tools = self.tools.as_ref().ok_or(NO_HOST)?;
                return serde_json::to_vec(&tools.list()).map(Answer::Ready).map_err(|_| FAULT);
            }
            Request::Strip(request) => {
                let stripper = self.stripper.as_ref().ok_or(FAULT)?;
                return stripper.start(request).map(Answer::Pending).map_err(|_| FAULT);
            }
            Request::InputMode { mode } => self.input_modes.as_ref().ok_or(NO_HOST)?.set(mode),
            Request::TerminalSize => {
                let WindowSize { rows, columns } =
                    self.input_modes.as_ref().and_then(|modes| modes.size()).ok_or(NO_HOST)?;
                return Ok(Answer::Ready(format!("[{columns},{rows}]").into_bytes()));
            }
            Request::Error(error) => self.record_error(error),
            Request::Missing(missing) => self.record_missing(missing),
            Request::Facts { .. } | Request::Seed(_) | Request::Modules { .. } if !self.imaging => return Err(FAULT),
            Request::Facts { facts } => self.facts = Some(facts),
            Request::Seed(_) if self.seeds.len() == MAX_SEEDS => return Err(FAULT),
            Request::Seed(seed) => self.seeds.push(seed),
            Request::Modules { modules } => self.modules = modules,
        }
        Ok(Answer::Ready(Vec::new()))
    }
}

/// Truncates a text to at most `max_len` bytes and frees the rest of its memory.
fn truncate_to(text: &mut String, max_len: usize) {
    if text.len() > max_len {
        text.truncate(text.floor_char_boundary(max_len));
        text.shrink_to_fit();
    }
}

pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap_async(
        "host",
        "call",
        |mut caller: Caller<'_, Guest>, (ptr, len, out_ptr, out_len): (i32, i32, i32, i32)| {
            Box::new(async move { call(&mut caller, ptr, len, out_ptr, out_len).await })
        },
    )?;
    Ok(())
}

async fn call(caller: &mut Caller<'_, Guest>, ptr: i32, len: i32, out_ptr: i32, out_len: i32) -> wasmtime::Result<i32> {
    let answer = {
        let (bytes, guest) = memory(caller)?.data_and_store_mut(&mut *caller);
        match range(bytes, ptr, len) {
            Some(request) if bytes[request.clone()].first() == Some(&RESULT_TAG) => {
                let request = net::mask_text(guest.net.as_ref(), &bytes[request]);
                match guest.channel.results.as_mut().and_then(|results| results.record(&request)) {
                    Some(recorded) => {
                        if guest.delivery.shows_results()
                            && let Some(shown) = recorded.into_shown()
                        {
                            // The report has the result too.
                            let _ = guest.delivery.show(shown).await;
                        }
                        Ok(Answer::Ready(Vec::new()))
                    }
                    None => Err(FAULT),
                }
            }
            Some(request) if (0..=MAX_REQUEST_LEN).contains(&len) => {
                let request = &bytes[request];
                if request.first() == Some(&TOOL_TAG) {
                    guest.channel.call_tool(request, &guest.quota, guest.net.as_ref())
                } else if let Some(request) = descriptors::parse(request) {
                    match descriptors::answer(guest, request).await? {
                        Some(answer) => Ok(Answer::Ready(answer)),
                        None => Err(FAULT),
                    }
                } else {
                    if let Some(witness) = guest.witness.as_ref().filter(|_| request.first() == Some(&net::REQUEST_TAG))
                    {
                        witness.use_network();
                    }
                    match (&mut guest.net, request.first()) {
                        (Some(net), Some(&net::REQUEST_TAG)) => {
                            net.answer(request).await.map(Answer::Ready).ok_or(FAULT)
                        }
                        (None, Some(&net::REQUEST_TAG)) => Ok(Answer::Ready(net::not_granted().into_bytes())),
                        _ => {
                            let answer = guest.channel.answer(&net::mask_text(guest.net.as_ref(), request));
                            if let (Some(witness), true) = (&guest.witness, guest.channel.has_report()) {
                                witness.report();
                            }
                            answer
                        }
                    }
                }
            }
            _ => Err(FAULT),
        }
    };
    let answer = match answer {
        Ok(Answer::Ready(answer)) => answer,
        Ok(Answer::Pending(answer)) => match answer.await {
            Ok(answer) => answer,
            Err(_) => return Ok(FAULT),
        },
        Ok(Answer::Tool(call)) => encode_tool_result(call.await),
        Err(status) => return Ok(status),
    };
    let address = if answer.is_empty() { 0 } else { allocate(caller, answer.len()).await? };
    let bytes = memory(caller)?.data_mut(&mut *caller);
    let (Some(into), Some(ptr_out), Some(len_out)) =
        (range(bytes, address, answer.len() as i32), range(bytes, out_ptr, 4), range(bytes, out_len, 4))
    else {
        return Ok(FAULT);
    };
    if address == 0 && !answer.is_empty() {
        return Ok(FAULT);
    }
    bytes[into].copy_from_slice(&answer);
    bytes[ptr_out].copy_from_slice(&address.to_le_bytes());
    bytes[len_out].copy_from_slice(&(answer.len() as u32).to_le_bytes());
    Ok(0)
}

/// Returns the answer to the call of a tool: one byte that is 1 for a success, and then the output or the failure as JSON.
async fn allocate(caller: &mut Caller<'_, Guest>, len: usize) -> wasmtime::Result<i32> {
    let Some(Extern::Func(allocate)) = caller.get_export("host_alloc") else {
        return Err(wasmtime::Error::msg("the guest exports no host_alloc"));
    };
    let allocate = allocate.typed::<i32, i32>(&*caller)?;
    allocate.call_async(caller, len as i32).await
}
