//! Runs a hundred programs concurrently on a tokio runtime, each in a fresh interpreter.
//!
//! ```sh
//! cargo run --release --example concurrent
//! ```

use std::sync::Arc;

use codebox::Request;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One runner serves all tasks. It keeps memory images and idle interpreters' memory between jobs.
    let runner = Arc::new(codebox::runner());
    let mut jobs = JoinSet::new();
    for number in 0..100 {
        let runner = Arc::clone(&runner);
        jobs.spawn(async move { runner.run_async(Request::python(format!("print({number} ** 2)"))).await });
    }
    let mut sum = 0;
    while let Some(report) = jobs.join_next().await {
        sum += report??.stdout.to_text_lossy().trim().parse::<u32>()?;
    }
    println!("sum of squares: {sum}");
    Ok(())
}
