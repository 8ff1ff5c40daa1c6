//! What a job's programs ask the host, while they wait.

use std::time::Duration;

use codebox_typescript::Question;

/// The longest that a question may take; a text that long is refused long before.
const PATIENCE: Duration = Duration::from_secs(20);

/// The answer to a question, which can hold anything; empty for one that is none.
pub(crate) async fn answer(question: Vec<u8>) -> Vec<u8> {
    let work = tokio::task::spawn_blocking(move || match serde_json::from_slice::<Question>(&question) {
        Ok(question) => question.answer(),
        Err(_) => Vec::new(),
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// A text without its types.
pub(crate) fn strip(file: &str, text: &str) -> Result<String, String> {
    codebox_typescript::strip(file, text).map(|stripped| stripped.code).map_err(|error| error.to_string())
}
