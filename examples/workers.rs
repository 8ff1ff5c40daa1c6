//! Runs each program in a process of its own, and prints the sandbox layers of that process.
//!
//! ```sh
//! cargo build --release && cargo run --release --example workers -- target/release/codebox
//! ```

use codebox::{AppDirs, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let codebox = std::env::args().nth(1).unwrap_or_else(|| "/usr/bin/codebox".to_owned());
    let runner = codebox::builder(AppDirs::from_env()?).workers(codebox).build();
    for program in ["print(1)", "open('/etc/passwd')"] {
        let report = runner.run(Request::python(program))?;
        println!("{program}: {:?}", report.outcome);
        for layer in report.enforcement.layers {
            println!("  {}: {}", layer.name, layer.state.as_str());
        }
    }
    Ok(())
}
