//! One turn of a guest, from its start to what it left behind.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use codebox_core::Job;
use codebox_files::file_time;
use codebox_streams::LAST_WORDS;

use crate::code::CodeImage;
use crate::component::{self, ComponentCode};
use crate::error::WasmError;
use crate::guest::Told;
use crate::interrupt::Interrupt;
use crate::launch::{Live, Setup};
use crate::region::RegionPool;
use crate::run::classify::{End, Evidence, classify};

/// What came of a turn.
pub(crate) struct Turn {
    pub end: End,
    pub told: Told,
    /// When the program began, after its guest was made.
    pub began: Instant,
    /// The same as files tell the time.
    pub began_at: SystemTime,
    pub took: Duration,
    /// Processor time.
    pub used: Duration,
}

/// Runs a job in a guest that is restored from an image.
pub(crate) async fn of_image(
    code: &CodeImage,
    pool: &Arc<RegionPool>,
    setup: Setup<'_>,
    interrupt: &Interrupt,
) -> Result<Turn, WasmError> {
    let mut live = Live::start(code, pool, setup)?;
    let entry = pool.image().facts().entry.ok_or_else(|| WasmError::Prelude("the image has no entry".into()))?;
    let (began, began_at) = (Instant::now(), file_time());
    // A program has ended when its output has been taken.
    let turn = async {
        let end = live.turn(entry).await;
        live.guest().delivery.finish().await;
        end
    };
    let (end, used) = interrupt.watch(turn).await;
    let took = began.elapsed();
    if end.is_err() {
        let _ = tokio::time::timeout(LAST_WORDS, live.guest().delivery.finish()).await;
    }
    let guest = live.guest();
    let end = classify(end, Evidence { channel: &guest.channel, limiter: &guest.limiter, quota: &guest.quota });
    if end.sound {
        live.clean();
    }
    Ok(Turn { end, told: live.end().told(), began, began_at, took, used })
}

/// Runs a job in a component, which is instantiated for it.
pub(crate) async fn of_component(
    code: &ComponentCode,
    setup: Setup<'_>,
    interrupt: &Interrupt,
    job: &Job,
) -> Result<Turn, WasmError> {
    let mut live = component::Live::new(code, setup, job)?;
    let (began, began_at) = (Instant::now(), file_time());
    // As above; the instantiation runs code of the user's, so it is under the limits too.
    let turn = async {
        let end = live.run(job).await;
        live.finish().await;
        end
    };
    let (end, used) = interrupt.watch(turn).await;
    let took = began.elapsed();
    if end.is_err() {
        let _ = tokio::time::timeout(LAST_WORDS, live.finish()).await;
    }
    let told = live.end();
    let end = classify(end, Evidence { channel: &told.channel, limiter: &told.limiter, quota: &told.quota });
    Ok(Turn { end, told, began, began_at, took, used })
}
