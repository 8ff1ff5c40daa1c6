//! The worker process, which parses one text.

use std::io::{self, Read, Write};

use codebox_analysis::protocol::{Header, MAX_ANSWER, REQUEST_LENGTHS_SIZE, request_lengths};
use codebox_analyzer::answer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{MEMORY, sys};

/// Exit status of a worker whose parser panicked.
pub const EXIT_PANIC: i32 = 4;

/// Exit status of a worker whose request was malformed or whose answer could not be written.
pub const EXIT_REQUEST: i32 = 5;

/// The address space beside the limit of a text, in bytes: for the program itself, the request and the answer.
const BASE_ADDRESS_SPACE: u64 = 64 << 20;

/// The smallest and the largest stack of a worker, in bytes. The stack is part of the memory limit.
const STACK_SIZES: [u64; 2] = [8 << 20, 64 << 20];

/// Reads one request, executes it within its limits, and writes the result of `head` followed by the answer. Ends the
/// process.
pub fn run_request(mut requests: impl Read, mut answers: impl Write, head: impl FnOnce(&[u8]) -> Vec<u8>) -> ! {
    std::panic::set_hook(Box::new(|_| {
        // A parser that grows its stack panics if it cannot allocate the new part.
        let is_memory = io::Error::last_os_error().kind() == io::ErrorKind::OutOfMemory;
        sys::exit(if is_memory { sys::EXIT_MEMORY } else { EXIT_PANIC })
    }));
    sys::reset_fault_handlers();
    let served = serve(&mut requests).and_then(|answer| {
        answers.write_all(&head(&answer))?;
        answers.write_all(&answer)?;
        answers.flush()
    });
    sys::exit(if served.is_ok() { 0 } else { EXIT_REQUEST })
}

fn serve(requests: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut lengths = [0; REQUEST_LENGTHS_SIZE];
    requests.read_exact(&mut lengths)?;
    let (header, text) = request_lengths(lengths).map_err(io::Error::other)?;
    let mut header = vec![0; header];
    requests.read_exact(&mut header)?;
    let mut bytes = vec![0; text];
    requests.read_exact(&mut bytes)?;
    let Header { task, memory, cpu_ms } = serde_json::from_slice(&header)?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    set_limits(memory, cpu_ms)?;
    let answer = answer(&task, &text);
    if answer.len() > MAX_ANSWER {
        sys::exit(sys::EXIT_MEMORY);
    }
    Ok(answer)
}

/// Limits the resources of the process from now on.
fn set_limits(memory: u64, cpu_ms: u64) -> io::Result<()> {
    let [least, most] = STACK_SIZES;
    let stack = (memory / 4).clamp(least, most);
    lower_limit(Resource::Stack, stack)?;
    lower_limit(Resource::As, memory.saturating_add(BASE_ADDRESS_SPACE))?;
    // This limit is at least one second above the timer's. It is needed because a compromised process could disable the
    // timer.
    lower_limit(Resource::Cpu, cpu_ms / 1000 + 2)?;
    MEMORY.allow(usize::try_from(memory.saturating_sub(stack).max(least)).unwrap_or(usize::MAX));
    sys::set_cpu_timer(cpu_ms)
}

/// Lowers a limit, and leaves a limit that is already lower.
fn lower_limit(resource: Resource, to: u64) -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let to = maximum.map_or(to, |maximum| maximum.min(to));
    // The stack cannot exceed the limit at the start of the program, and may be smaller.
    Ok(setrlimit(resource, Rlimit { current: Some(to), maximum: Some(to) })?)
}
