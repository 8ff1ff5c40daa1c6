//! Runs a program with a granted directory, a memory limit and an argument, and prints its report.
//!
//! ```sh
//! cargo run --release --example run -- DIRECTORY
//! ```

use codebox::{ByteSize, Limit, Outcome, Request};

const PROGRAM: &str = "
import os, sys
print(sys.argv[1], sorted(os.listdir('/data')))
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    // The runner creates and installs its parts when a job first needs them.
    let runner = codebox::runner();
    let mut request = Request::python(PROGRAM);
    request.args = vec!["the files are".to_owned()];
    request.dirs = vec![format!("{dir}:/data:ro").parse()?];
    request.limits.memory = Some(Limit::At(ByteSize::mib(256)));
    let report = runner.run(request)?;
    print!("{}", report.stdout.to_text_lossy());
    match report.outcome {
        Outcome::Exited(0) => println!("ran in {} for {:?}", report.provenance.isolation, report.usage.wall),
        other => println!("{other:?}: {}", report.stderr.to_text_lossy()),
    }
    Ok(())
}
