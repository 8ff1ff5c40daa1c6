//! Hostile jobs, images and requests in containers, and engines and hosts that die: the first-order rows of the threat
//! table, on each engine, through the program itself.
//!
//! Trials are named `ENGINE::ROW`. Each row has a separate home, so that its label identifies its containers;
//! afterwards no container, mount, process, control group or private directory of the row may remain. The trials of an
//! unavailable engine are ignored with the reason; if `CODEBOX_REQUIRE` names the engine, they fail.

mod agent_socket;
mod attached;
mod audit;
mod boxes;
mod broken_streams;
mod changing_files;
mod concurrent_jobs;
mod consecutive;
mod container_settings;
mod deadlines;
mod engine;
mod engine_faults;
mod engine_proxy;
mod flood;
mod full_disk;
mod grants;
mod hostile_image;
mod killed_host;
mod leftovers;
mod links;
mod lost_engine;
mod memory;
mod metadata_calls;
mod net;
mod network;
mod parallel_map;
mod processes;
mod projects;
mod rejected_requests;
mod repeated_kills;
mod residue;
mod rng;
mod row;
mod running_jobs;
mod secrets;
mod shell_scripts;
mod symlink_races;
mod terminal;
mod termination;
mod test_env;
mod warm;

use std::sync::Arc;

use anyhow::Result;
use codebox_testkit::{Kit, is_full};
use libtest_mimic::{Arguments, Completion, Trial};

use engine::{Availability, Engine};
use row::Row;
use test_env::TestEnvironment;

fn main() {
    let mut args = Arguments::from_args();
    // The rows wait for engines a part of their time.
    args.test_threads.get_or_insert(1 + std::thread::available_parallelism().map_or(1, usize::from));
    let kit = Kit::new(env!("CARGO_BIN_EXE_codebox"), env!("CARGO_TARGET_TMPDIR"));
    let mut trials = Vec::new();
    for engine in Engine::ALL {
        let ready = Arc::new(engine.lazy_availability(kit.clone()));
        let rows = rows().into_iter().filter(|row| runs(engine, row));
        trials.extend(rows.map(|row| trial(&kit, engine, row, &ready)));
    }
    libtest_mimic::run(&args, trials).exit();
}

fn rows() -> Vec<Row> {
    let topics = [
        processes::rows(),
        memory::rows(),
        attached::rows(),
        audit::rows(),
        boxes::rows(),
        container_settings::rows(),
        rejected_requests::rows(),
        network::rows(),
        net::rows(),
        secrets::rows(),
        projects::rows(),
        shell_scripts::rows(),
        terminal::rows(),
        flood::rows(),
        hostile_image::rows(),
        leftovers::rows(),
        symlink_races::rows(),
        grants::rows(),
        killed_host::rows(),
        termination::rows(),
        lost_engine::rows(),
        warm::rows(),
        agent_socket::rows(),
        links::rows(),
        changing_files::rows(),
        metadata_calls::rows(),
        engine_faults::rows(),
        broken_streams::rows(),
        consecutive::rows(),
        concurrent_jobs::rows(),
        deadlines::rows(),
        repeated_kills::rows(),
        full_disk::rows(),
    ];
    topics.into_iter().flatten().collect()
}

/// Rows about faults, deadlines and concurrency in codebox's own code, which the second engine runs only in the full form.
const ONE_ENGINE: &[&str] = &[
    "L5::",
    "L6::",
    "L7::",
    "L12::",
    "O6::",
    "P8::",
    "P10::names_on",
    "P10::options",
    "warm::",
    "attached::ends_its_processes",
    "attached::killed_host",
    "attached::limits",
    "attached::paths_are_mapped",
    "attached::refused_requests",
    "attached::runs_as",
    "attached::dev::descriptions",
    "attached::dev::preferred_and_required",
    "attached::dev::secrets_stay_here",
    "attached::dev::stronger",
    "box::many_commands",
    "box::missing_records",
    "box::output_is_cut",
    "box::records",
];

/// Returns true if a row runs on an engine.
fn runs(engine: Engine, row: &Row) -> bool {
    engine != Engine::Docker || is_full() || !ONE_ENGINE.iter().any(|begin| row.name.starts_with(begin))
}

fn trial(kit: &Kit, engine: Engine, row: Row, ready: &Arc<Availability>) -> Trial {
    let (kit, ready) = (kit.clone(), Arc::clone(ready));
    Trial::ignorable_test(format!("{}::{}", engine.name(), row.name), move || match &**ready {
        Err(reason) if engine.is_required() => Err(reason.clone().into()),
        Err(reason) => Ok(Completion::ignored_with(reason)),
        Ok(()) => match row.exclusion_reason(engine) {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => match run_trial(&kit, engine, &row) {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(format!("{error:#}").into()),
            },
        },
    })
}

fn run_trial(kit: &Kit, engine: Engine, row: &Row) -> Result<()> {
    let test_env = TestEnvironment::new(kit, engine)?;
    if let Err(error) = (row.run)(&test_env) {
        // The remains of a failed row must not affect the next row.
        let _ = test_env.codebox().arg("gc").run();
        return Err(error);
    }
    let leftovers = test_env.check_nothing_left();
    test_env.canaries.check_host()?;
    leftovers
}
