//! Boxes of backends on an executor of their own.

use std::sync::Arc;

use codebox_core::{
    BackendError, BoxCommand, BoxFacts, BoxFuture, BoxHost, BoxInstance, BoxSettings, InstanceSpec, RunningCommand,
    ShimCall,
};

use super::{Detached, Shared};

impl BoxHost for Detached {
    fn open<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        settings: &'a BoxSettings,
    ) -> BoxFuture<'a, Result<Box<dyn BoxInstance>, BackendError>> {
        Box::pin(async move {
            let (spec, settings) = (spec.clone(), settings.clone());
            let opened = self.run(|inner| async move {
                match inner.boxes() {
                    Some(boxes) => boxes.open(&spec, &settings).await,
                    None => Err(BackendError::Interrupted { during: "opening a box".to_owned() }),
                }
            });
            let inner = opened.await??;
            Ok(Box::new(DetachedBox { inner: Some(inner), shared: Arc::clone(&self.shared) }) as Box<dyn BoxInstance>)
        })
    }
}

/// Box on the executor of its backend, which passes commands on over channels. Dropping it drops the box there.
struct DetachedBox {
    /// `None` only while the box is closed.
    inner: Option<Box<dyn BoxInstance>>,
    shared: Arc<Shared>,
}

impl DetachedBox {
    fn inner(&self) -> &dyn BoxInstance {
        self.inner.as_deref().expect("closing the box consumes it")
    }
}

impl BoxInstance for DetachedBox {
    fn facts(&self) -> &BoxFacts {
        self.inner().facts()
    }

    fn start(&self, command: BoxCommand) -> BoxFuture<'_, Result<Box<dyn RunningCommand>, BackendError>> {
        self.inner().start(command)
    }

    fn next_shim_call(&self) -> BoxFuture<'_, Option<ShimCall>> {
        self.inner().next_shim_call()
    }

    fn ended(&self) -> BoxFuture<'_, String> {
        self.inner().ended()
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async move {
            let Some(inner) = self.inner.take() else { return Ok(()) };
            self.shared.run(inner.close()).await?
        })
    }
}

impl Drop for DetachedBox {
    fn drop(&mut self) {
        if let (Some(inner), Ok(executor)) = (self.inner.take(), self.shared.executor()) {
            let _inside = executor.enter();
            drop(inner);
        }
    }
}
