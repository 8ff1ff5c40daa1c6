//! Parts of the interpreter's code that a program loads while it runs.

use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, LimitKind, Outcome, Workbench};
use codebox_testkit::{Guest, Kit, soak};

use crate::support::{JOB_TIMEOUT, job, run_successfully, text, with_memory_limit};

/// Start of programs whose imports the analysis does not see, so that they run in the image without packages.
const IMPORT: &str = "from importlib import import_module as load\n";

/// Programs that load one or two parts, and their output.
const PROGRAMS: &[(&str, &str)] = &[
    ("print(load('num' + 'py').arange(4).sum())", "6"),
    ("print(load('lx' + 'ml.etree').fromstring('<a><b/></a>')[0].tag)", "b"),
    ("load('num' + 'py')\nprint(load('sci' + 'py.linalg').det([[2, 0], [0, 3]]))", "6.0"),
    // An exception of C++ passes through functions of a later part.
    ("try: load('kiwi' + 'solver').Variable(1)\nexcept TypeError: print('caught')", "caught"),
    // A name that only looks like a part of the code.
    ("try: load('num' + 'pie')\nexcept ImportError: print('absent')", "absent"),
    ("print(load('reg' + 'ex').compile('a+b').findall('aab ab'))", "['aab', 'ab']"),
    ("print(1)", "1"),
];

/// Runs programs that load parts, each in a region that another program has used.
pub fn load_in_mid_program(runner: &Workbench, _kit: &Kit) -> Result<()> {
    for round in 0..soak().of(3, 100) {
        for (program, output) in PROGRAMS {
            let report = run_successfully(runner, job(Guest::Python, &format!("{IMPORT}{program}"), JOB_TIMEOUT))?;
            let printed = text(&report.stdout.bytes());
            ensure!(printed.trim_end() == *output, "round {round}: {program} printed {printed:?}");
            ensure!(
                report.provenance.image.as_deref() == Some("python"),
                "{program} ran in {:?}",
                report.provenance.image
            );
        }
        ensure!(runner.backend().idle_regions_are_clean(), "round {round}: idle memory differs from its image");
    }
    Ok(())
}

/// Imports each extension module alone into a guest that starts with the interpreter's own code. The short form takes one
/// of eight: a module of scipy imports its package first, which takes a second.
pub fn every_extension_module(runner: &Workbench, _kit: &Kit) -> Result<()> {
    let list = job(Guest::Python, "import sys\nprint(*sys.builtin_module_names)", JOB_TIMEOUT);
    let names = text(&run_successfully(runner, list)?.stdout.bytes());
    let names: Vec<&str> = names.split_whitespace().collect();
    ensure!(names.len() > 300, "only {} extension modules", names.len());
    // Some modules cannot be imported without their package. That is an exception, and not a trap.
    let program = "import sys\ntry: __import__(sys.argv[1])\nexcept Exception: pass\nprint('done')";
    for name in names.iter().step_by(soak().of(24, 1)) {
        let mut importing = job(Guest::Python, program, JOB_TIMEOUT);
        importing.args = vec![(*name).to_owned()];
        let report = runner.run(importing)?;
        let is_done = report.outcome == Outcome::Exited(0) && text(&report.stdout.bytes()).ends_with("done\n");
        ensure!(is_done, "import of {name} ended with {:?}: {}", report.outcome, text(&report.stderr.bytes()));
    }
    Ok(())
}

/// Stops programs in functions of a later part.
pub fn limits_hold_in_later_part(runner: &Workbench, _kit: &Kit) -> Result<()> {
    let endless = format!("{IMPORT}numpy = load('num' + 'py')\nm = numpy.ones((64, 64))\nwhile True: m = m @ m * 0");
    let report = runner.run(job(Guest::Python, &endless, Duration::from_secs(2)))?;
    ensure!(report.outcome == Outcome::LimitHit(LimitKind::Wall), "{:?}", report.outcome);
    let greedy = format!("{IMPORT}numpy = load('num' + 'py')\nheld = [numpy.ones(1 << 20) for _ in range(1000)]");
    let report = runner.run(with_memory_limit(job(Guest::Python, &greedy, JOB_TIMEOUT), ByteSize::mib(256)))?;
    ensure!(report.outcome == Outcome::LimitHit(LimitKind::Memory), "{:?}", report.outcome);
    let deep =
        format!("{IMPORT}load('num' + 'py')\ndef f(): return f()\ntry: f()\nexcept RecursionError: print('deep')");
    let report = run_successfully(runner, job(Guest::Python, &deep, JOB_TIMEOUT))?;
    ensure!(text(&report.stdout.bytes()) == "deep\n");
    Ok(())
}
