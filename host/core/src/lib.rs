//! Values and traits shared by every part of codebox.
//!
//! A [`Job`] names the program to run, its [`Grants`] and its [`Limits`]. A [`Backend`] opens an [`Instance`], which
//! runs the job and returns a [`RunReport`]. Paths are values ([`PathMap`]). Other programs read a separate, versioned
//! form of the report ([`wire::v1`]).
//!
//! Invariant: this crate does no I/O, does not read the environment and does not depend on an engine. The types of a
//! backend never appear in its signatures.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attached;
mod automatic_image;
mod backend;
mod backend_id;
mod boxes;
mod capped;
mod code;
mod error_chain;
mod grants;
mod guest_error;
mod handover;
mod image;
mod isolation;
mod job;
mod language;
mod limits;
mod mask;
mod name;
mod outcome;
mod output_shape;
pub mod path;
mod progress;
mod report;
mod runner_error;
mod session;
mod text_form;
mod tools;
pub mod wire;

pub use attached::{Attachment, ContainerHost, ContainerPower, FoundPower, RunningContainer};
pub use automatic_image::{AutomaticImage, ImageUse};
pub use backend::{
    Backend, BackendError, BoxFuture, BoxedError, CallbackGuard, CancelToken, Cancelled, Capabilities, Diagnosis,
    ExecIo, Finding, INITIAL_IMAGE, ImageStore, InputMode, InputModes, Instance, InstanceSpec, Layer, Leftover,
    LeftoverCollector, Leftovers, LocalImage, MAX_WARM_INSTANCES, OutputSink, PYTHON_PACKAGES, PartialOutput, Resizes,
    ResultSink, SessionSpec, Shown, Support, Sweep, Unavailable, WarmPool,
};
pub use backend_id::{BackendId, CONTAINER_ENGINES};
pub use boxes::{
    AgentLink, BoxCommand, BoxFacts, BoxHost, BoxInfo, BoxInstance, BoxSettings, CommandEnd, CommandEvent,
    CommandInput, CommandRules, NotRun, RunningCommand, ShimCall, Truncation, WindowSize, is_box_name,
};
pub use capped::{CappedSink, Completeness};
pub use code::{CodeScope, Preparation};
pub use error_chain::format_error_chain;
pub use grants::{
    AddressKind, DirGrantSpec, EnvName, GrantParseError, Grants, NetGrant, NetRules, Refusal, RefusalReason,
    SecretGrant, SecretName, SecretValue, ToolName,
};
pub use guest_error::{ErrorFrame, GuestError};
pub use handover::Handover;
pub use image::{ImageName, ImagePattern};
pub use isolation::{Isolation, IsolationSet};
pub use job::{InputFile, Job, OutGuard, Source, Stdin};
pub use language::{
    Adapter, Interpreter, Language, LanguageSpec, Languages, MAX_FRAMES, NamedLanguage, POPULAR_PACKAGES,
    PackageManager, check_extension, package_of_module,
};
pub use limits::{
    ByteSize, Cpus, Enforcement, EnforcementLevel, LayerState, Limit, LimitKind, LimitOverrides, LimitParseError,
    Limits, SandboxLayer, parse_count, parse_cpus, parse_duration, parse_size,
};
pub use mask::{SecretValues, mask_secrets, mask_words};
pub use name::{NameError, RuntimeName};
pub use outcome::{Outcome, ResultKind, TrapKind, exit, exit_status};
pub use output_shape::{OutputShape, OutputShaper, TRUNCATION_MARK, shorten_line};
pub use path::{Access, DirGrant, GuestPath, HostPath, NotMapped, PathMap, PathMapError, VmPath};
pub use progress::{Progress, Silent};
pub use report::{
    CapturedOutput, Denial, DenialKind, Effects, EscalatedFrom, FileChanges, FileKind, JsonBytes, MimeBundle,
    MissedFiles, Missing, NeedsEscalation, NetAttempt, NetVerdict, NetworkUsage, OutFile, Provenance, ResultRole,
    ReturnedFile, RunReport, SessionState, SkippedFile, SpilledOutput, Usage,
};
pub use runner_error::RunnerError;
pub use session::{
    InterpreterState, PAGES_FILE, SessionContainer, SessionInfo, earlier_pages_file, is_checkpoint_name,
};
pub use tools::{
    Approval, RunTools, SuspendedCall, TOOL_TAG, ToolCall, ToolCalls, ToolDescription, ToolFailure, ToolResult,
    encode_tool_result, parse_tool_call,
};
