//! Warm containers of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::{Instance as _, MOST_WARM, Sweep};

use super::Shape;
use crate::backend::Shared;
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::gc;
use crate::instance::ContainerInstance;

/// Most shapes that are kept ready. A new one replaces the shape whose last request is the oldest.
const MOST_SHAPES: usize = 4;

/// Time after which a shape without requests is dropped.
pub(crate) const IDLE: Duration = Duration::from_secs(600);

/// Pool of warm containers, by shape.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    engine: Engine,
    shelves: Mutex<Shelves>,
    /// Held while a container is created: containers are created one at a time, because jobs run at the same time.
    making: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Shelves {
    all: Vec<Shelf>,
    /// Containers that have to be removed.
    discarded: Vec<ContainerInstance>,
}

struct Shelf {
    shape: Shape,
    wanted: usize,
    ready: Vec<ContainerInstance>,
    asked: Instant,
}

impl Pool {
    pub(crate) fn new(shared: Arc<Shared>, engine: Engine) -> Self {
        Self { shared, engine, shelves: Mutex::default(), making: tokio::sync::Mutex::default() }
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a container of this shape if one is ready, and sets the number to keep ready from then on. A number of 0
    /// drops all shapes.
    pub(crate) fn take(&self, shape: &Shape, count: u32) -> Option<ContainerInstance> {
        let wanted = count.min(MOST_WARM) as usize;
        let mut shelves = self.shelves();
        let shelves = &mut *shelves;
        if wanted == 0 {
            shelves.keep(|_| false);
            return None;
        }
        let shelf = shelves.of(shape);
        (shelf.wanted, shelf.asked) = (wanted, Instant::now());
        let many = shelf.ready.split_off(wanted.min(shelf.ready.len()));
        // A container may have ended since its creation, for example because the engine was restarted or a user removed
        // it.
        let (mut taken, mut ended) = (None, Vec::new());
        while let Some(mut ready) = shelf.ready.pop() {
            if ready.waits() {
                taken = Some(ready);
                break;
            }
            ended.push(ready);
        }
        shelves.discarded.extend(many.into_iter().chain(ended));
        taken
    }

    /// Removes the containers that are not wanted, and creates those that are missing. A shape whose creation fails is
    /// dropped.
    pub(crate) async fn fill(&self) {
        let _one = self.making.lock().await;
        let _ = self.is_wanted();
        loop {
            self.clear().await;
            let Some(shape) = self.missing() else { return };
            let made = self.make(&shape).await;
            let mut shelves = self.shelves();
            let shelf = shelves.all.iter_mut().find(|shelf| shelf.shape == shape);
            match (made, shelf) {
                (Ok(instance), Some(shelf)) if shelf.ready.len() < shelf.wanted => shelf.ready.push(instance),
                (Ok(instance), _) => shelves.discarded.push(instance),
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot prepare a warm container");
                    shelves.keep(|shelf| shelf.shape != shape);
                }
            }
        }
    }

    fn missing(&self) -> Option<Shape> {
        let shelves = self.shelves();
        shelves.all.iter().find(|shelf| shelf.ready.len() < shelf.wanted).map(|shelf| shelf.shape.clone())
    }

    async fn clear(&self) {
        let discarded = std::mem::take(&mut self.shelves().discarded);
        for instance in discarded {
            let _ = Box::new(instance).close().await;
        }
    }

    async fn make(&self, shape: &Shape) -> Result<ContainerInstance, ContainerError> {
        ContainerInstance::open(&self.shared, self.engine.clone(), shape.image()?, &shape.spec()?).await
    }

    /// Removes the leftovers of dead owners, because runs that receive a warm container do not.
    pub(crate) async fn sweep(&self) {
        let Self { shared, engine, .. } = self;
        let _ = gc::mounts(&shared.points(), shared.owners(), Sweep::Remove);
        let Ok(secret) = shared.secret() else { return };
        let _ = gc::containers(&engine, &shared.owner, secret, shared.owners(), Sweep::Remove).await;
    }

    /// Drops the shapes without recent requests. Returns true if any shape is left.
    pub(crate) fn is_wanted(&self) -> bool {
        let mut shelves = self.shelves();
        shelves.keep(|shelf| shelf.asked.elapsed() < IDLE);
        !shelves.all.is_empty()
    }

    /// Removes all containers.
    pub(crate) async fn close(&self) {
        // Waits for the container that is being created, so that it is removed too.
        self.shelves().keep(|_| false);
        let _none = self.making.lock().await;
        self.clear().await;
    }
}

impl Shelves {
    /// Returns the entry of a shape, and creates it if there is none.
    fn of(&mut self, shape: &Shape) -> &mut Shelf {
        if let Some(at) = self.all.iter().position(|shelf| shelf.shape == *shape) {
            return &mut self.all[at];
        }
        if self.all.len() >= MOST_SHAPES
            && let Some(oldest) = self.all.iter().map(|shelf| shelf.asked).min()
        {
            self.keep(|shelf| shelf.asked != oldest);
        }
        self.all.push(Shelf { shape: shape.clone(), wanted: 0, ready: Vec::new(), asked: Instant::now() });
        let last = self.all.len() - 1;
        &mut self.all[last]
    }

    /// Drops all shapes that `is_kept` rejects.
    fn keep(&mut self, is_kept: impl Fn(&Shelf) -> bool) {
        for shelf in self.all.extract_if(.., |shelf| !is_kept(shelf)) {
            self.discarded.extend(shelf.ready);
        }
    }
}
