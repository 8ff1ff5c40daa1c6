//! Optional features of the backend: the image store, the leftovers, the pool daemons, and the checks of the engine.

use std::sync::Arc;

use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Diagnosis, Finding, ImageName, ImageStore, InstanceSpec, Leftover,
    LeftoverCollector, Leftovers, LocalImage, Progress, Sweep, Unavailable, WarmPool, format_error_chain,
};

use super::ContainerBackend;
use crate::engine::MACHINE_BACKEND;
use crate::error::ContainerError;
use crate::facts::{EngineFacts, Weakness};
use crate::shared::Shared;
use crate::warm::{self, Pool, PoolRequest};
use crate::{gc, images};

impl ContainerBackend {
    async fn has_image(&self, name: &ImageName) -> Result<bool, ContainerError> {
        match images::look_up(&self.engine().await?.client, name).await {
            Ok(_) => Ok(true),
            Err(ContainerError::NoImage(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn pull_image(&self, name: &ImageName, progress: &dyn Progress) -> Result<(), ContainerError> {
        progress.note(&format!("{} is pulling image {name}", Backend::id(self)));
        let mut before = None;
        let report = |done: u64, whole: Option<u64>| {
            let known = *before.get_or_insert_with(|| {
                progress.started(name.as_str(), whole);
                0
            });
            progress.advanced(done.saturating_sub(known));
            before = Some(done.max(known));
        };
        images::pull(&self.engine().await?.client, name, report).await?;
        progress.finished();
        Ok(())
    }

    /// Runs a pool daemon: keeps containers ready for other processes of the user, starting with `request`, until none
    /// are needed any more.
    async fn serve_pool(&self, request: &str) -> Result<(), ContainerError> {
        let pool_request: PoolRequest = serde_json::from_str(request).map_err(|error| ContainerError::Input {
            subject: "warm container request".to_owned(),
            why: error.to_string(),
        })?;
        let engine = self.engine().await?;
        if engine.facts.place != pool_request.place {
            let why = format!("the engine is at {}", engine.facts.place);
            return Err(ContainerError::Input { subject: pool_request.place, why });
        }
        let folder = self.daemon_sockets(&engine.facts);
        warm::run_pool_daemon(Pool::new(Arc::clone(&self.shared), engine.clone()), &folder, &pool_request).await
    }

    async fn leftover_containers(&self, sweep: Sweep) -> Result<Vec<Leftover>, ContainerError> {
        if self.is_off() {
            return Ok(Vec::new());
        }
        let Shared { owner, .. } = &*self.shared;
        let (secret, owners) = (self.shared.secret()?, self.shared.owners());
        gc::containers(self.engine().await?, owner, secret, owners, sweep).await
    }
}

impl ImageStore for ContainerBackend {
    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, BackendError>> {
        Box::pin(async move {
            let listed = async {
                match self.is_off() {
                    true => Ok(Vec::new()),
                    false => images::list(&self.engine().await?.client).await,
                }
            };
            listed.await.map_err(|error| self.convert_error(error))
        })
    }

    fn image_name(&self, spec: &InstanceSpec) -> Result<ImageName, BackendError> {
        self.image_of(spec).map_err(|error| self.convert_error(error))
    }

    fn image_id<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<String, BackendError>> {
        Box::pin(async move {
            let name = self.image_name(spec)?;
            let found = async { images::look_up(&self.engine().await?.client, &name).await };
            found.await.map(|facts| facts.id).map_err(|error| self.convert_error(error))
        })
    }

    fn pull<'a>(&'a self, name: &'a ImageName, progress: &'a dyn Progress) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move { self.pull_image(name, progress).await.map_err(|error| self.convert_error(error)) })
    }

    fn ensure<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let name = self.image_name(spec)?;
            if self.has_image(&name).await.map_err(|error| self.convert_error(error))? {
                return Ok(());
            }
            self.pull(&name, progress).await
        })
    }
}

impl LeftoverCollector for ContainerBackend {
    fn sweep(&self, sweep: Sweep) -> BoxFuture<'_, Leftovers> {
        Box::pin(async move {
            // The mounts belong to this machine, regardless of the engine that they were made for.
            let mut leftovers = Leftovers {
                found: gc::mounts(&self.shared.mounts_dir(), self.shared.owners(), sweep),
                unreachable: Vec::new(),
            };
            if let Some(machine) = &self.machine {
                let leftover = |kept| Leftover {
                    kind: "virtual machine".to_owned(),
                    name: "codebox".to_owned(),
                    place: "this machine".to_owned(),
                    kept,
                };
                let found = match machine.sweep(sweep).await {
                    Ok(false) => None,
                    Ok(true) => Some(leftover(None)),
                    Err(error) => Some(leftover(Some(error.reason))),
                };
                if let Some(found) = found {
                    // Its containers end with it.
                    leftovers.found.push(found);
                    return leftovers;
                }
            }
            match self.leftover_containers(sweep).await {
                Ok(containers) => leftovers.found.extend(containers),
                // An engine that does not exist has no leftovers.
                Err(ContainerError::NoEngine { unresponsive: false, .. }) => {}
                Err(error) => leftovers.unreachable.push((Backend::id(self).to_string(), format_error_chain(&error))),
            }
            leftovers
        })
    }
}

impl WarmPool for ContainerBackend {
    fn serve<'a>(&'a self, request: &'a str) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move { self.serve_pool(request).await.map_err(|error| self.convert_error(error)) })
    }

    fn stop_all(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async move {
            warm::stop_daemons(&self.shared.folder.join("warm")).await;
            Ok(())
        })
    }
}

/// Returns the findings about an engine: its state, and its weaknesses.
pub(super) fn diagnosis(id: &BackendId, facts: Result<EngineFacts, BackendError>) -> Diagnosis {
    let findings = match facts {
        Ok(facts) => {
            let detail = format!("{}, API {}, at {} ({})", facts.summary(), facts.api, facts.place, facts.named_by);
            let weak = facts.weaknesses().into_iter();
            let weak = weak.map(|Weakness { what, fix }| Finding { detail: what, fix: Some(fix) });
            [Finding { detail, fix: None }].into_iter().chain(weak).collect()
        }
        Err(error) => {
            let fix = error.fix().unwrap_or_else(|| "see the error message".to_owned());
            vec![Finding { detail: format_error_chain(&error), fix: Some(fix) }]
        }
    };
    Diagnosis { subject: format!("engine {id}"), findings }
}

/// Returns the diagnosis of a virtual machine that does not run.
pub(super) fn machine_diagnosis(probed: Result<(), Unavailable>) -> Diagnosis {
    let finding = match probed {
        Ok(()) => Finding { detail: "a virtual machine is started when it is needed".to_owned(), fix: None },
        Err(Unavailable { reason, fix }) => Finding { detail: reason, fix: Some(fix) },
    };
    Diagnosis { subject: format!("engine {MACHINE_BACKEND}"), findings: vec![finding] }
}
