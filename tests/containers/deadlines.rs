//! L7: every job ends at its deadline, several at a time, and leaves nothing behind.

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Codebox, Input, soak};

use crate::parallel_map::parallel_map;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("L7::deadlines_hold", deadlines_hold)]
}

const CONCURRENCY: usize = 6;

/// Programs that never end, by name.
const PROGRAMS: [(&str, &str); 9] = [
    ("busy", "while True: pass"),
    ("sleep", "import time\ntime.sleep(1e9)"),
    ("input", "import sys\nsys.stdin.read()"),
    ("fifo", "import os\nos.mkfifo('/tmp/fifo')\nopen('/tmp/fifo')"),
    ("poll", "import select\nread, write = __import__('os').pipe()\nwhile True: select.select([read], [], [], 0.001)"),
    ("recursion", "def deep(): deep()\nwhile True:\n    try: deep()\n    except RecursionError: pass"),
    ("flood", "while True: print('x' * 1000)"),
    ("listing", "import os\nfor n in range(5000): open(f'/tmp/{n}', 'w').close()\nwhile True: os.listdir('/tmp')"),
    (
        "deaf",
        "import os, signal\nfor n in (1, 2, 3, 13, 15): signal.signal(n, signal.SIG_IGN)\nos.fork() or os.setsid()\nwhile True: pass",
    ),
];

fn deadlines_hold(test_env: &TestEnvironment) -> Result<()> {
    let jobs: Vec<usize> = (0..PROGRAMS.len() * soak().of(2, 100)).collect();
    parallel_map(CONCURRENCY, &jobs, |number| {
        let (name, program) = PROGRAMS[number % PROGRAMS.len()];
        check_deadline(test_env, name, test_env.run().input(Input::Silent).args(["--lang", "python", "-c", program]))
            .with_context(|| format!("{name}, job {number}"))
    })?;
    test_env.check_nothing_left()
}

/// Checks that the deadline ended the job. The clocks of the agent and the host differ, so the time is not compared.
fn check_deadline(test_env: &TestEnvironment, name: &str, job: Codebox) -> Result<()> {
    let report = test_env.check_run(&job.args(["--timeout", "1s"]).run()?)?;
    let limit = match report.kind() {
        "timeout_wall" => "wall",
        // The job may exceed its output limit before its deadline.
        "output_limit" if name == "flood" => "output",
        other => anyhow::bail!("unexpected result {other}: {:.600}", report.json().to_string()),
    };
    ensure!(report.at("/outcome/limit") == limit, "the outcome is {}", report.at("/outcome"));
    Ok(())
}
