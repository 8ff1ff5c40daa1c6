//! Containers that codebox has not made: finds the container of a request, and checks what it could do to this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use codebox_core::{
    Attachment, Backend, BackendId, CancelToken, ContainerPower, EnforcementLevel, FoundPower, GuestPath, Isolation,
    LimitKind, ResultKind, RunnerError, RunningContainer,
};
use codebox_devcontainer::{Description, DevContainer, DevContainerError};
use codebox_service::config::DevContainerUse;
use codebox_service::levels::{Level, LevelSetting};
use codebox_service::{ContainerTarget, Preference, Program, Request, is_allowed_image};
use tracing::field::Empty;
use tracing::info_span;

use crate::cancelled::unless_cancelled;
use crate::runner::Runner;
use crate::spans;

/// Receiver of the log lines of the official program.
type Log = dyn FnMut(&str) + Send;

impl Runner {
    /// Finds the container of a request that names one, and brings up a dev container. Another request is returned as it is.
    pub(crate) async fn find_container(&self, request: Request, cancel: &CancelToken) -> Result<Request, RunnerError> {
        let request = self.with_dev_container(request)?;
        let Some(target) = request.target() else { return Ok(request) };
        if matches!(target, ContainerTarget::Found(_)) {
            return Ok(request);
        }
        let span = info_span!("find_container", outcome = Empty);
        Box::pin(spans::stage(span, self.find_target(request, target, cancel))).await
    }

    /// Adds the level of the project's dev container to a request, and takes that container if the policy says so.
    pub(crate) fn with_dev_container(&self, mut request: Request) -> Result<Request, RunnerError> {
        let policy = self.parts.policy.get()?;
        if request.container.is_some() || policy.dev_container == DevContainerUse::Named {
            return Ok(request);
        }
        let Some(found) = self.described()? else { return Ok(request) };
        let dev = Some(Preference::DevContainer);
        let is_required = policy.dev_container == DevContainerUse::Required;
        let (requires, prefers) = if is_required { (dev, None) } else { (None, dev) };
        request.levels.push(LevelSetting { level: Level::DevContainer, requires, prefers, source: found });
        let in_container =
            !request.isolation.acceptable().contains(Isolation::Wasm) || matches!(request.program, Program::Command(_));
        let taken = Request { isolation: Preference::DevContainer, ..request.clone() };
        if is_required {
            if !request.isolation.acceptable().contains(Isolation::Container) {
                let line = format!(
                    "the isolation is {}, but the user configuration requires the dev container of the project",
                    request.isolation
                );
                let fix = "use --isolation devcontainer, or change containers.dev-container";
                return Err(RunnerError::new(ResultKind::Denied, line).with_fix(fix));
            }
            return Ok(taken);
        }
        // A job that the dev container cannot run has a container of its own.
        Ok(if in_container && taken.fits_running_container() { taken } else { request })
    }

    /// Returns the description of the project's dev container, if there is one.
    fn described(&self) -> Result<Option<String>, RunnerError> {
        let dir = self.working_dir()?;
        match codebox_devcontainer::find(&dir, None) {
            Ok(found) => Ok(Some(found.config.display().to_string())),
            Err(DevContainerError::None { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn working_dir(&self) -> Result<std::path::PathBuf, RunnerError> {
        self.parts.environment.current_dir().map_err(|error| {
            RunnerError::new(ResultKind::InternalError, format!("cannot read the working directory: {error}"))
        })
    }

    /// Describes the container of a request that names one, for an explanation that starts nothing.
    pub(crate) fn explain_target(&self, request: Request) -> Result<(Request, Option<String>), RunnerError> {
        let mut request = self.with_dev_container(request)?;
        if request.container.is_some() && request.isolation == Preference::Auto {
            request.isolation = Preference::Only(Isolation::Container);
        }
        let note = match request.target() {
            None => {
                if let Ok(Some(source)) = self.described()
                    && request.levels.iter().all(|setting| setting.level != Level::DevContainer)
                {
                    let source = format!("{source}, used with --isolation devcontainer");
                    let level = Level::DevContainer;
                    request.levels.push(LevelSetting { level, requires: None, prefers: None, source });
                }
                return Ok((request, None));
            }
            Some(ContainerTarget::Running(id)) => format!("it would run in the running container {id}"),
            Some(ContainerTarget::Dev { config }) => {
                let found = codebox_devcontainer::find(&self.working_dir()?, config.as_deref())?;
                format!("it would run in the dev container that {} describes", found.config.display())
            }
            Some(ContainerTarget::Found(attachment)) => format!("it would run in {}", attachment.origin),
        };
        Ok((request, Some(note)))
    }

    async fn find_target(
        &self,
        request: Request,
        target: ContainerTarget,
        cancel: &CancelToken,
    ) -> Result<Request, RunnerError> {
        // Everything but the program is checked first, because a dev container takes long. The program may be a pipe, which is read once.
        let program = Program::Inline(String::new());
        let language = Some(codebox_core::Language::Python);
        self.admit(Request { program, language, ..request.clone() }).await?;
        let engines = self.container_engines(request.engine.as_deref())?;
        let attachment = match target {
            ContainerTarget::Running(id) => {
                let found = unless_cancelled(cancel, self.running(&id, &engines, &request)).await?;
                found.ok_or(DevContainerError::Cancelled)?
            }
            ContainerTarget::Dev { config } => {
                let dir = self.working_dir()?;
                let container = codebox_devcontainer::find(&dir, config.as_deref())?;
                self.dev_container(container, &engines, &request, cancel).await?
            }
            ContainerTarget::Found(attachment) => *attachment,
        };
        let engine = attachment.container.backend.clone();
        let backend = engines.iter().find(|backend| backend.id() == engine);
        self.check_limits(&request, backend.and_then(|backend| backend.containers()).map(|host| host.limits()))?;
        Ok(Request {
            isolation: Preference::Only(Isolation::Container),
            engine: Some(engine.as_str().to_owned()),
            container: Some(ContainerTarget::Found(Box::new(attachment))),
            ..request
        })
    }

    /// Returns the engines that have a way into running containers, the preferred one first.
    fn container_engines(&self, named: Option<&str>) -> Result<Vec<Arc<dyn Backend>>, RunnerError> {
        let preferred = self.parts.policy.get()?.engine.clone();
        let mut engines = self.backends_for(named.or(preferred.as_deref()))?;
        engines.retain(|backend| backend.containers().is_some() && backend.may_be_available());
        if engines.is_empty() {
            let line = "no container engine found";
            return Err(RunnerError::new(ResultKind::EngineUnavailable, line).with_fix("see codebox doctor"));
        }
        Ok(engines)
    }

    /// Returns the attachment of a running container, which one of the engines has.
    async fn running(
        &self,
        id: &str,
        engines: &[Arc<dyn Backend>],
        request: &Request,
    ) -> Result<Attachment, RunnerError> {
        let (mut found, mut failures): (Vec<RunningContainer>, Vec<RunnerError>) = (Vec::new(), Vec::new());
        for host in engines.iter().filter_map(|engine| engine.containers()) {
            match host.inspect(id).await.map_err(RunnerError::from) {
                Ok(container) => found.push(container),
                Err(error) => failures.push(error),
            }
        }
        if found.len() > 1 {
            let line = format!("cannot use container {id}: both engines have one of this name");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("name the engine with --engine"));
        }
        let Some(container) = found.pop() else {
            // An engine that answers knows more than one that does not.
            let (answers, others): (Vec<_>, Vec<_>) =
                failures.into_iter().partition(|failure| failure.kind() == ResultKind::InvalidRequest);
            if answers.is_empty() {
                let none = || RunnerError::new(ResultKind::EngineUnavailable, "no engine answers");
                return Err(others.into_iter().next().unwrap_or_else(none));
            }
            let line = format!("cannot use container {id}: ");
            let reasons: Vec<&str> = answers
                .iter()
                .map(|answer| answer.message())
                .map(|text| text.strip_prefix(&line).unwrap_or(text))
                .collect();
            return Err(RunnerError::new(ResultKind::InvalidRequest, line + &reasons.join("; "))
                .with_fix("use a container of podman ps or docker ps"));
        };
        self.check_image(&container.image)?;
        let origin = format!("container {}", container.name);
        // Its mounts are what the user names it for.
        self.check_powers(&origin, container.powers.clone(), request)?;
        Ok(Attachment { container, user: None, cwd: None, env: BTreeMap::new(), origin })
    }

    /// Brings up a dev container, unless it has powers that are not allowed.
    async fn dev_container(
        &self,
        found: DevContainer,
        engines: &[Arc<dyn Backend>],
        request: &Request,
        cancel: &CancelToken,
    ) -> Result<Attachment, RunnerError> {
        let origin = format!("the dev container of {}", found.workspace.display());
        let mut failure = None;
        for engine in engines {
            if let Err(why) = engine.probe().await {
                failure = failure.or(Some(why));
                continue;
            }
            let Some(host) = engine.containers() else { continue };
            let id = engine.id();
            let read = async |found: &DevContainer, engine: &str, log: &mut Log| found.read(engine, log).await;
            let Description { powers, image } = self.with_program(&found, &id, cancel, read).await?;
            self.check_dev_image(image.as_deref())?;
            self.check_powers(&origin, powers, request)?;
            self.parts.progress.note(&format!("using {origin}; its first start can take minutes"));
            let up = async |found: &DevContainer, engine: &str, log: &mut Log| found.up(engine, log).await;
            let up = self.with_program(&found, &id, cancel, up).await?;
            let container = host.inspect(&up.container_id).await.map_err(|error| {
                let fix = format!(
                    "check that the programs {id} and devcontainer use the same engine as codebox doctor shows"
                );
                RunnerError::from(error).with_fix(fix)
            })?;
            // The description may have had less power than the container that it has brought up, or than an older one.
            let powers = container.powers.iter().cloned().chain(mounts(&container, &found.workspace)).collect();
            self.check_powers(&origin, powers, request).map_err(|error| {
                let line = format!("{}; its container {} is running", error.message(), container.name);
                let fix =
                    format!("{}; otherwise remove it: {id} rm -f {}", error.fix().unwrap_or_default(), container.name);
                RunnerError::new(error.kind(), line).with_fix(fix)
            })?;
            let cwd = up.workspace_folder.and_then(|dir| GuestPath::new(dir).ok());
            return Ok(Attachment { container, user: up.user, cwd, env: up.env, origin });
        }
        Err(failure.map_or_else(
            || RunnerError::new(ResultKind::EngineUnavailable, "no container engine found"),
            |why| RunnerError::new(ResultKind::EngineUnavailable, why.reason).with_fix(why.fix),
        ))
    }

    /// Calls the official program on an executor of its own, because that of the caller may not start processes. The program is killed
    /// when the run is cancelled.
    async fn with_program<T: Send + 'static>(
        &self,
        found: &DevContainer,
        engine: &BackendId,
        cancel: &CancelToken,
        call: impl AsyncFnOnce(&DevContainer, &str, &mut Log) -> Result<T, DevContainerError> + Send + 'static,
    ) -> Result<T, RunnerError> {
        let (found, engine, cancel) = (found.clone(), engine.as_str().to_owned(), cancel.clone());
        let progress = Arc::clone(&self.parts.progress);
        let work = async move || {
            let mut log = move |line: &str| progress.detail(&format!("devcontainer: {line}"));
            tokio::select! {
                called = call(&found, &engine, &mut log) => called,
                () = cancel.cancelled() => Err(DevContainerError::Cancelled),
            }
        };
        Ok(self.parts.threads.block_on(work).await??)
    }

    /// Refuses powers that neither the policy nor the request allows.
    fn check_powers(&self, origin: &str, powers: Vec<FoundPower>, request: &Request) -> Result<(), RunnerError> {
        let policy = self.parts.policy.get()?;
        let is_allowed =
            |power: &ContainerPower| policy.container_powers.contains(power) || request.powers.contains(power);
        let refused: Vec<FoundPower> = powers.into_iter().filter(|found| !is_allowed(&found.power)).collect();
        if refused.is_empty() {
            return Ok(());
        }
        let shown: Vec<String> = refused.iter().map(ToString::to_string).collect();
        let names: BTreeSet<&str> = refused.iter().map(|found| found.power.as_str()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(",");
        let line = format!("{origin} has powers over this machine that are not allowed: {}", shown.join("; "));
        let fix = format!("if you trust it, use --allow-power {names}, or containers.powers in your configuration");
        Err(RunnerError::new(ResultKind::Denied, line).with_fix(fix))
    }

    fn check_image(&self, image: &str) -> Result<(), RunnerError> {
        if is_allowed_image(self.parts.policy.get()?, image) {
            return Ok(());
        }
        let line = format!("cannot use image {image}: the configuration does not allow it");
        Err(RunnerError::new(ResultKind::Denied, line).with_fix("use an allowed image, or add it to images.allowed"))
    }

    fn check_dev_image(&self, image: Option<&str>) -> Result<(), RunnerError> {
        match image {
            Some(image) => self.check_image(image),
            None if self.parts.policy.get()?.allowed_images.is_none() => Ok(()),
            None => {
                let line = "the dev container builds its image, but the configuration has a list of allowed images";
                Err(RunnerError::new(ResultKind::Denied, line).with_fix("use an image without features and builds"))
            }
        }
    }

    /// Refuses limits that cannot be enforced in a running container.
    fn check_limits(
        &self,
        request: &Request,
        levels: Option<BTreeMap<LimitKind, EnforcementLevel>>,
    ) -> Result<(), RunnerError> {
        let is_enforced = |kind: &LimitKind| {
            let level = levels.as_ref().and_then(|levels| levels.get(kind));
            level.is_some_and(|level| *level != EnforcementLevel::Unsupported)
        };
        if let Some(kind) = request.limits.required().find(|kind| !is_enforced(kind)) {
            let line = format!("cannot enforce the {kind} limit in a container that codebox has not made");
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove the limit"));
        }
        let ceilings = self.parts.policy.get()?.ceilings;
        match LimitKind::ALL.into_iter().find(|kind| ceilings.is_limited(*kind) && !is_enforced(kind)) {
            None => Ok(()),
            Some(kind) => {
                let line = format!(
                    "the configuration limits {kind}, which cannot be enforced in a container that codebox has not made"
                );
                Err(RunnerError::new(ResultKind::Denied, line).with_fix("use a container that codebox makes"))
            }
        }
    }
}

/// Returns the mounts of a dev container other than those of its workspace.
fn mounts(container: &RunningContainer, workspace: &Path) -> Vec<FoundPower> {
    let dirs = container.dirs.iter().filter(|dir| dir.host.to_path_buf() != workspace);
    let dirs = dirs.map(|dir| format!("{} at {}", dir.host, dir.guest));
    let mounts = dirs.chain(container.other_mounts.iter().cloned());
    mounts.map(|mount| FoundPower::new(ContainerPower::Mounts, mount)).collect()
}

/// Refuses a request for a container that codebox has not made, and limits on what the caller gets of the output, for uses that
/// have neither.
pub(crate) fn refuse_settings_of_runs(request: &Request, what: &str) -> Result<(), RunnerError> {
    if request.output_shape.is_some() {
        let line = format!("{what} takes no `output_shape`: it applies to single runs");
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("remove it from the request"));
    }
    if request.target().is_none() {
        return Ok(());
    }
    let line = format!("{what} cannot use a container that codebox has not made");
    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use codebox run"))
}
