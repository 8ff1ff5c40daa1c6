//! Runs a program with packages of the Python index, which are installed once and read from the cache afterwards.
//!
//! ```sh
//! cargo run --release --example packages
//! ```

use codebox::Request;

const PROGRAM: &str = "
import humanize
print(humanize.intword(123_456_789))
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runner = codebox::runner();
    let request = Request { packages: vec!["humanize==4.12".to_owned()], ..Request::python(PROGRAM) };
    let report = runner.run(request)?;
    print!("{}", report.stdout.to_text_lossy());
    println!("stored packages: {}", runner.packages()?.list().len());
    Ok(())
}
