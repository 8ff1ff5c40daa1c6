//! A job in the types of the contract.

use codebox_core::{Job, Limits, Source};
use rand::Rng as _;

use crate::component::bind::codebox::guest::limits;
use crate::component::bind::exports::codebox::guest::start;
use crate::guest::argv0;

/// Bytes of entropy passed to a guest, as the contract specifies.
const ENTROPY: usize = 32;

/// Converts a job for a component. Returns `None` for a source that this tier cannot run.
pub(crate) fn contract_job(job: &Job) -> Option<start::Job> {
    let source = match &job.source {
        Source::Inline(text) => start::Source::Inline(text.clone()),
        Source::Stdin(text) => start::Source::StandardInput(text.clone()),
        Source::File { text, .. } => start::Source::Script(start::Script {
            path: argv0(job).to_owned(),
            // A file that is not UTF-8 was refused when it was read.
            text: String::from_utf8_lossy(text).into_owned(),
        }),
        Source::Command(_) | Source::Tool { .. } => return None,
    };
    let mut entropy = vec![0; ENTROPY];
    rand::rng().fill_bytes(&mut entropy);
    Some(start::Job {
        source,
        arguments: job.args.clone(),
        environment: job.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        working_directory: job.work_dir.as_str().to_owned(),
        entropy,
        limits: contract_limits(&job.limits),
    })
}

fn contract_limits(limits: &Limits) -> limits::Limits {
    let Limits {
        wall,
        cpu,
        memory,
        output,
        disk,
        files,
        open_files,
        processes: _,
        fuel: _,
        net_bytes: _,
        net_connections: _,
    } = limits;
    let nanoseconds = |span: std::time::Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    limits::Limits {
        wall_time: wall.at().map(nanoseconds),
        cpu_time: cpu.at().map(nanoseconds),
        memory: memory.at().map(|size| size.get()),
        output: output.at().map(|size| size.get()),
        disk: disk.at().map(|size| size.get()),
        open_files: open_files.at().map(|count| count.get()),
        files: files.at().map(|count| u32::try_from(u64::from(count)).unwrap_or(u32::MAX)),
    }
}
