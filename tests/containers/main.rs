//! Hostile jobs, images and requests in containers, and engines and hosts that die: the first-order rows of the threat
//! table, on each engine, through the program itself.
//!
//! Trials are named `ENGINE::ROW`. Each row has a separate home, so that its label identifies its containers;
//! afterwards no container, mount, process, control group or private directory of the row may remain. The trials of an
//! unavailable engine are ignored with the reason; if `CODEBOX_REQUIRE` names the engine, they fail.

mod asked_to_end;
mod asking;
mod audit;
mod below_links;
mod chance;
mod changing;
mod consecutive;
mod crowd;
mod cut;
mod deadlines;
mod dying;
mod engine;
mod faulty;
mod flood;
mod full;
mod grants;
mod ground;
mod hostile;
mod inspected;
mod killed;
mod left;
mod lost;
mod many;
mod memory;
mod net;
mod network;
mod processes;
mod proxied;
mod racing;
mod requests;
mod residue;
mod row;
mod secrets;
mod touched;
mod warm;
mod watched;

use std::sync::Arc;

use anyhow::Result;
use codebox_testkit::Kit;
use libtest_mimic::{Arguments, Completion, Trial};

use engine::{Engine, Ready};
use ground::Ground;
use row::Row;

fn main() {
    let args = Arguments::from_args();
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let mut trials = Vec::new();
    for engine in Engine::ALL {
        let ready = Arc::new(engine.lazily_ready(kit.clone()));
        trials.extend(rows().into_iter().map(|row| trial(&kit, engine, row, &ready)));
    }
    libtest_mimic::run(&args, trials).exit();
}

fn rows() -> Vec<Row> {
    let topics = [
        processes::rows(),
        memory::rows(),
        audit::rows(),
        inspected::rows(),
        requests::rows(),
        network::rows(),
        net::rows(),
        secrets::rows(),
        flood::rows(),
        hostile::rows(),
        left::rows(),
        racing::rows(),
        grants::rows(),
        killed::rows(),
        asked_to_end::rows(),
        lost::rows(),
        warm::rows(),
        asking::rows(),
        below_links::rows(),
        changing::rows(),
        touched::rows(),
        faulty::rows(),
        cut::rows(),
        consecutive::rows(),
        crowd::rows(),
        deadlines::rows(),
        dying::rows(),
        full::rows(),
    ];
    topics.into_iter().flatten().collect()
}

fn trial(kit: &Kit, engine: Engine, row: Row, ready: &Arc<Ready>) -> Trial {
    let (kit, ready) = (kit.clone(), Arc::clone(ready));
    Trial::ignorable_test(format!("{}::{}", engine.name(), row.name), move || match &**ready {
        Err(reason) if engine.is_required() => Err(reason.clone().into()),
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(()) => match row.impossible_on(engine) {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => match tried(&kit, engine, &row) {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(format!("{error:#}").into()),
            },
        },
    })
}

fn tried(kit: &Kit, engine: Engine, row: &Row) -> Result<()> {
    let ground = Ground::new(kit, engine)?;
    if let Err(error) = (row.run)(&ground) {
        // The remains of a failed row must not affect the next row.
        let _ = ground.codebox().arg("gc").run();
        return Err(error);
    }
    let left = ground.check_nothing_left();
    ground.canaries.check_host()?;
    left
}
