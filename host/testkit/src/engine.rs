//! The container engines that tests run on; `tests/engines/up` brings them up.

use anyhow::{Result, ensure};

use crate::Kit;

/// The image that both engines have for tests: Python and Node.
pub const BASE_IMAGE: &str = "localhost/codebox-test:1";

/// An image that is as hostile as one can be.
pub const HOSTILE_IMAGE: &str = "localhost/codebox-hostile:1";

/// Checks that an engine answers and runs a program in the image of the tests.
///
/// # Errors
/// What codebox says, where it does not.
pub fn engine_answers(kit: &Kit, engine: &str) -> Result<()> {
    let options = ["run", "--isolation", "container", "--engine", engine, "--image", BASE_IMAGE];
    let ran = kit.codebox().args(options).args(["--lang", "python", "-c", "print(6*7)"]).run()?;
    let said = ran.stderr_text();
    ensure!(ran.stdout_text() == "42\n", "{engine} cannot be used; run tests/engines/up: {}", said.trim());
    Ok(())
}
