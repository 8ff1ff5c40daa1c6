//! One turn of a guest, from its start to its results.

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

/// The result of a turn.
pub(crate) struct Turn {
    pub end: End,
    pub told: Told,
    /// Start of the program, after its guest was created.
    pub began: Instant,
    /// Start of the program, by the clock of file timestamps.
    pub began_at: SystemTime,
    pub took: Duration,
    /// Processor time used by the turn.
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
    // A program has ended once its output is delivered.
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

/// Runs a job in a component, which is instantiated for the job.
pub(crate) async fn of_component(
    code: &ComponentCode,
    setup: Setup<'_>,
    interrupt: &Interrupt,
    job: &Job,
) -> Result<Turn, WasmError> {
    let mut live = component::Live::new(code, setup, job)?;
    let (began, began_at) = (Instant::now(), file_time());
    // As above. The instantiation runs the user's code, so the limits apply to it too.
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
