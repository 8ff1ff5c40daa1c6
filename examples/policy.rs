//! Restricts what jobs may ask for, explains where a program would run, and leaves out one check by name.
//!
//! ```sh
//! cargo run --release --example policy
//! ```

use std::time::Duration;

use codebox::{AppDirs, IsolationSet, Limit, Limits, Policy, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let places = AppDirs::from_env()?;
    let runner = codebox::builder(places)
        .adjust_policy(|policy| Policy {
            ceilings: Limits { wall: Limit::At(Duration::from_secs(10)), ..policy.ceilings },
            isolations: IsolationSet::only(codebox::Isolation::Wasm),
            ..policy
        })
        // Links below the working directory are refused unless this check is left out.
        .follow_links()
        .build();
    let explanation = runner.explain(Request::python("import pandas"))?;
    println!("{:?}", explanation.image.map(|image| image.name));
    let mut request = Request::python("print(1)");
    request.limits.wall = Some(Limit::At(Duration::from_secs(60)));
    match runner.run(request) {
        Ok(report) => println!("{:?}", report.outcome),
        Err(error) => println!("{}: {error}", error.kind()),
    }
    Ok(())
}
