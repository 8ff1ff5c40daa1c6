//! Warm containers of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::{Instance as _, MAX_WARM_INSTANCES, Sweep};

use super::Shape;
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::gc;
use crate::instance::ContainerInstance;
use crate::shared::Shared;

/// Most shapes that are kept ready. A new one replaces the shape whose last request is the oldest.
const MAX_SHAPES: usize = 4;

/// Time after which a shape without requests is dropped.
pub(crate) const IDLE: Duration = Duration::from_secs(600);

/// Pool of warm containers, by shape.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    engine: Engine,
    shape_pools: Mutex<ShapePools>,
    /// Held while a container is created: containers are created one at a time, because jobs run at the same time.
    creation_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ShapePools {
    all: Vec<ShapePool>,
    /// Containers that have to be removed.
    discarded: Vec<ContainerInstance>,
}

struct ShapePool {
    shape: Shape,
    target: usize,
    ready: Vec<ContainerInstance>,
    last_request: Instant,
}

impl Pool {
    pub(crate) fn new(shared: Arc<Shared>, engine: Engine) -> Self {
        Self { shared, engine, shape_pools: Mutex::default(), creation_lock: tokio::sync::Mutex::default() }
    }

    fn shape_pools(&self) -> MutexGuard<'_, ShapePools> {
        self.shape_pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a container of this shape if one is ready, and sets the number to keep ready from then on. A number of 0
    /// drops all shapes.
    pub(crate) fn take(&self, shape: &Shape, count: u32) -> Option<ContainerInstance> {
        let target = count.min(MAX_WARM_INSTANCES) as usize;
        let mut shape_pools = self.shape_pools();
        let shape_pools = &mut *shape_pools;
        if target == 0 {
            shape_pools.retain(|_| false);
            return None;
        }
        let shape_pool = shape_pools.of(shape);
        (shape_pool.target, shape_pool.last_request) = (target, Instant::now());
        let surplus = shape_pool.ready.split_off(target.min(shape_pool.ready.len()));
        // A container may have ended since its creation, for example because the engine was restarted or a user removed
        // it.
        let (mut found, mut ended) = (None, Vec::new());
        while let Some(mut ready) = shape_pool.ready.pop() {
            if ready.is_waiting() {
                found = Some(ready);
                break;
            }
            ended.push(ready);
        }
        shape_pools.discarded.extend(surplus.into_iter().chain(ended));
        found
    }

    /// Removes the containers that are not needed, and creates those that are missing. A shape whose creation fails is
    /// dropped.
    pub(crate) async fn fill(&self) {
        let _one = self.creation_lock.lock().await;
        let _ = self.has_active_shapes();
        loop {
            self.remove_discarded().await;
            let Some(shape) = self.missing_shape() else { return };
            let made = self.create_instance(&shape).await;
            let mut shape_pools = self.shape_pools();
            let shape_pool = shape_pools.all.iter_mut().find(|shape_pool| shape_pool.shape == shape);
            match (made, shape_pool) {
                (Ok(instance), Some(shape_pool)) if shape_pool.ready.len() < shape_pool.target => {
                    shape_pool.ready.push(instance)
                }
                (Ok(instance), _) => shape_pools.discarded.push(instance),
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot prepare a warm container");
                    shape_pools.retain(|shape_pool| shape_pool.shape != shape);
                }
            }
        }
    }

    fn missing_shape(&self) -> Option<Shape> {
        let shape_pools = self.shape_pools();
        shape_pools
            .all
            .iter()
            .find(|shape_pool| shape_pool.ready.len() < shape_pool.target)
            .map(|shape_pool| shape_pool.shape.clone())
    }

    async fn remove_discarded(&self) {
        let discarded = std::mem::take(&mut self.shape_pools().discarded);
        for instance in discarded {
            let _ = Box::new(instance).close().await;
        }
    }

    async fn create_instance(&self, shape: &Shape) -> Result<ContainerInstance, ContainerError> {
        ContainerInstance::open(&self.shared, self.engine.clone(), shape.image()?, &shape.spec()?).await
    }

    /// Removes the leftovers of dead owners, because runs that receive a warm container do not.
    pub(crate) async fn sweep(&self) {
        let Self { shared, engine, .. } = self;
        let _ = gc::mounts(&shared.mounts_dir(), shared.owners(), Sweep::Remove);
        let Ok(secret) = shared.secret() else { return };
        let _ = gc::containers(engine, &shared.owner, secret, shared.owners(), Sweep::Remove).await;
    }

    /// Drops the shapes without recent requests. Returns true if any shape is left.
    pub(crate) fn has_active_shapes(&self) -> bool {
        let mut shape_pools = self.shape_pools();
        shape_pools.retain(|shape_pool| shape_pool.last_request.elapsed() < IDLE);
        !shape_pools.all.is_empty()
    }

    /// Removes all containers.
    pub(crate) async fn close(&self) {
        // Waits for the container that is being created, so that it is removed too.
        self.shape_pools().retain(|_| false);
        let _none = self.creation_lock.lock().await;
        self.remove_discarded().await;
    }
}

impl ShapePools {
    /// Returns the entry of a shape, and creates it if there is none.
    fn of(&mut self, shape: &Shape) -> &mut ShapePool {
        if let Some(at) = self.all.iter().position(|shape_pool| shape_pool.shape == *shape) {
            return &mut self.all[at];
        }
        if self.all.len() >= MAX_SHAPES
            && let Some(oldest) = self.all.iter().map(|shape_pool| shape_pool.last_request).min()
        {
            self.retain(|shape_pool| shape_pool.last_request != oldest);
        }
        self.all.push(ShapePool { shape: shape.clone(), target: 0, ready: Vec::new(), last_request: Instant::now() });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// Drops all shapes that `is_kept` rejects.
    fn retain(&mut self, is_kept: impl Fn(&ShapePool) -> bool) {
        for shape_pool in self.all.extract_if(.., |shape_pool| !is_kept(shape_pool)) {
            self.discarded.extend(shape_pool.ready);
        }
    }
}
