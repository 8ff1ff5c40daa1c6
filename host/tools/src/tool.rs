//! Tools.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebox_core::{Approval, BoxFuture, CancelToken, SecretValues, ToolDescription, ToolFailure, ToolName};
use serde_json::Value;
use thiserror::Error;

use crate::schema::{Schema, SchemaError};

/// Function of a tool.
pub(crate) type Handler = dyn Fn(Value, CallLimits) -> BoxFuture<'static, Result<Value, ToolFailure>> + Send + Sync;

/// Time in which a tool that holds its limits ends a call that has reached one.
const END_TIME: Duration = Duration::from_secs(5);

/// Limits of one call.
#[derive(Debug, Clone)]
pub struct CallLimits {
    /// Maximum wall time of the call.
    pub time: Duration,
    /// Token that is cancelled when the call has to end, and when its result is no longer waited for.
    pub cancel: CancelToken,
}

/// Definition of a tool that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ToolError {
    /// The name is invalid.
    #[error("the tool name {0:?} is invalid: use up to 128 letters, digits, '_', '-' and '.'")]
    Name(String),
    /// A schema of the tool is invalid.
    #[error("tool {tool}: {source}")]
    Schema {
        /// Name of the tool.
        tool: ToolName,
        /// Reason.
        source: SchemaError,
    },
    /// Two tools have the same name.
    #[error("there are two tools {0}")]
    Duplicate(ToolName),
}

/// Facts about the latest call of a tool that its function writes, for those who make single calls. They are no part of its output.
#[derive(Debug, Clone, Default)]
pub struct CallFacts(Arc<Mutex<Facts>>);

#[derive(Debug, Default)]
struct Facts {
    facts: Value,
    /// Ends of standard output and standard error, in which secrets are masked.
    written: Option<(String, String)>,
}

impl CallFacts {
    /// Replaces the facts, which are those of a call that wrote these ends of standard output and standard error.
    pub fn set(&self, facts: Value, stdout: String, stderr: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Facts { facts, written: Some((stdout, stderr)) };
    }

    /// Takes the facts about a call that has this failure; `null` if there are none. They have what a failed call wrote to standard output
    /// as `partial_output`, and a failure without standard error gets that of the call.
    #[must_use]
    pub fn take(&self, failure: Option<&mut ToolFailure>) -> Value {
        let Facts { mut facts, written } = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if let (Some(failure), Some((stdout, stderr))) = (failure, written) {
            facts["partial_output"] = stdout.into();
            failure.stderr.get_or_insert(stderr);
        }
        facts
    }
}

/// Function of the host that programs can call.
#[derive(Clone)]
pub struct Tool {
    pub(crate) description: ToolDescription,
    pub(crate) input: Schema,
    pub(crate) output: Option<Schema>,
    pub(crate) approval: Approval,
    pub(crate) timeout: Option<Duration>,
    /// Time beyond the timeout for a start that the tool does not count.
    pub(crate) start_time: Duration,
    /// Time for a tool that holds its limits to end a call.
    pub(crate) end_time: Duration,
    facts: CallFacts,
    /// Values that failures must not contain.
    pub(crate) secrets: SecretValues,
    pub(crate) handler: Arc<Handler>,
}

impl Tool {
    /// Creates a tool from an asynchronous function. `input` is the JSON Schema of its argument, an object.
    ///
    /// The future runs in the executor of the run, and is dropped if the run ends before it.
    ///
    /// # Errors
    /// Returns an error if the name or the schema is invalid.
    pub fn new<F, R>(name: &str, description: impl Into<String>, input: Value, function: F) -> Result<Self, ToolError>
    where
        F: Fn(Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
    {
        let handler = Arc::new(move |input, _| Box::pin(function(input)) as BoxFuture<'static, _>);
        Self::of(name, description.into(), input, handler)
    }

    /// Creates a tool as [`new`](Self::new) does, from a function that holds the limits of a call itself. It has five seconds to return
    /// after a limit is reached, for a result that says how its program ended and what it had written.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_limits<F, R>(
        name: &str,
        description: impl Into<String>,
        input: Value,
        function: F,
    ) -> Result<Self, ToolError>
    where
        F: Fn(Value, CallLimits) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, ToolFailure>> + Send + 'static,
    {
        let handler = Arc::new(move |input, limits| Box::pin(function(input, limits)) as BoxFuture<'static, _>);
        Ok(Self { end_time: END_TIME, ..Self::of(name, description.into(), input, handler)? })
    }

    /// Creates a tool from a function that may block. It runs on a thread for blocking work, and goes on if the run ends before it.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn blocking<F>(name: &str, description: impl Into<String>, input: Value, function: F) -> Result<Self, ToolError>
    where
        F: Fn(Value) -> Result<Value, ToolFailure> + Send + Sync + 'static,
    {
        let function = Arc::new(function);
        let handler = Arc::new(move |input, _| {
            let function = Arc::clone(&function);
            Box::pin(async move {
                let done = tokio::task::spawn_blocking(move || function(input)).await;
                done.unwrap_or_else(|_| Err(ToolFailure::new(ToolFailure::FAILED, "the tool ended with a panic")))
            }) as BoxFuture<'static, _>
        });
        Self::of(name, description.into(), input, handler)
    }

    fn of(name: &str, description: String, input: Value, handler: Arc<Handler>) -> Result<Self, ToolError> {
        let name = ToolName::new(name).map_err(|_| ToolError::Name(name.to_owned()))?;
        let schema = Schema::new(&input).map_err(|source| ToolError::Schema { tool: name.clone(), source })?;
        let description = ToolDescription { name, description, input, output: None };
        Ok(Self {
            description,
            input: schema,
            output: None,
            approval: Approval::Allow,
            timeout: None,
            start_time: Duration::ZERO,
            end_time: Duration::ZERO,
            facts: CallFacts::default(),
            secrets: SecretValues::default(),
            handler,
        })
    }

    /// Sets the JSON Schema of the output, which is checked.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid.
    pub fn with_output(mut self, output: Value) -> Result<Self, ToolError> {
        let failed = |source| ToolError::Schema { tool: self.description.name.clone(), source };
        self.output = Some(Schema::new(&output).map_err(failed)?.without_values());
        self.description.output = Some(output);
        Ok(self)
    }

    /// Sets the maximum wall time of a call, if it is lower than that of the [budgets](crate::ToolBudgets).
    #[must_use]
    pub fn with_timeout(self, time: Duration) -> Self {
        Self { timeout: Some(time), ..self }
    }

    /// Sets the time that a call may take beyond its maximum, for a tool that holds the maximum itself and does not count its start.
    #[must_use]
    pub fn with_start_time(self, time: Duration) -> Self {
        Self { start_time: time, ..self }
    }

    /// Sets the permission to call the tool.
    #[must_use]
    pub fn with_approval(self, approval: Approval) -> Self {
        Self { approval, ..self }
    }

    /// Sets values that are masked in failures.
    #[must_use]
    pub fn with_secrets(self, secrets: SecretValues) -> Self {
        Self { secrets, ..self }
    }

    /// Sets the place where the function writes facts about calls.
    #[must_use]
    pub fn with_facts(self, facts: CallFacts) -> Self {
        Self { facts, ..self }
    }

    /// Returns the facts about calls.
    #[must_use]
    pub fn facts(&self) -> &CallFacts {
        &self.facts
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &ToolName {
        &self.description.name
    }
}
