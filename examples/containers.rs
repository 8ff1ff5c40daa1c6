//! Runs a shell command in a container, and a program that needs threads, for which the tier is selected automatically.
//!
//! ```sh
//! cargo run --release --example containers
//! ```

use codebox::{Isolation, Preference, Program, Request};

const PROGRAM: &str = "
import threading
thread = threading.Thread(target=lambda: print('from a thread'))
thread.start()
thread.join()
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runner = codebox::runner();
    let words = ["sh", "-c", "uname -s; id -u"].map(str::to_owned).to_vec();
    let command =
        Request { isolation: Preference::Only(Isolation::Container), ..Request::new(Program::Command(words)) };
    for request in [command, Request::python(PROGRAM)] {
        match runner.run(request) {
            Ok(report) => {
                print!("{}", report.stdout.to_text_lossy());
                println!("ran in {}: {}", report.provenance.backend, report.provenance.reason);
            }
            // Without a container engine, the error names the missing engine and how to get one.
            Err(error) => println!("{}: {error}; fix: {}", error.kind(), error.fix().unwrap_or("none")),
        }
    }
    Ok(())
}
