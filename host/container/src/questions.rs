//! What a job's programs ask the host, while the job goes on.

use std::sync::Arc;
use std::time::Duration;

use codebox_agent::MAX_ASKED;
use codebox_core::BoxFuture;
use codebox_typescript::Question;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;

use crate::error::ContainerError;

/// The longest that a question may take; a text that long is refused long before.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most threads that are at the questions of one job. One that takes too long is not rid of by not waiting for it.
const WORKERS: usize = 4;

/// The questions of a job that have no answer yet, each on its own. Dropped, they are forgotten.
pub(crate) struct Questions {
    open: FuturesUnordered<BoxFuture<'static, (u32, Vec<u8>)>>,
    workers: Arc<Semaphore>,
}

impl Default for Questions {
    fn default() -> Self {
        Self { open: FuturesUnordered::new(), workers: Arc::new(Semaphore::new(WORKERS)) }
    }
}

impl Questions {
    /// Sets about a question, which can hold anything. One more than an agent passes on is not looked at.
    ///
    /// # Errors
    /// When the agent goes on all the same: refusals wait to be sent, and an agent of ours does not add to them.
    pub(crate) fn ask(&mut self, number: u32, question: Vec<u8>) -> Result<(), ContainerError> {
        if self.open.len() >= 2 * MAX_ASKED {
            return Err(ContainerError::Agent(format!("it asked more than {} questions at once", 2 * MAX_ASKED)));
        }
        let answer = (self.open.len() < MAX_ASKED).then(|| answer(question, Arc::clone(&self.workers)));
        self.open.push(Box::pin(async move {
            match answer {
                Some(answer) => (number, answer.await),
                None => (number, Vec::new()),
            }
        }));
        Ok(())
    }

    /// The next answer, empty for a question that is none; never, while nothing is asked. The wait can be given up.
    pub(crate) async fn answered(&mut self) -> (u32, Vec<u8>) {
        match self.open.next().await {
            Some(answered) => answered,
            None => std::future::pending().await,
        }
    }
}

async fn answer(question: Vec<u8>, workers: Arc<Semaphore>) -> Vec<u8> {
    let work = async {
        // Never closed.
        let worker = workers.acquire_owned().await.ok()?;
        let work = tokio::task::spawn_blocking(move || {
            let _worker = worker;
            serde_json::from_slice::<Question>(&question).ok().map(|question| question.answer())
        });
        work.await.ok()?
    };
    tokio::time::timeout(PATIENCE, work).await.ok().flatten().unwrap_or_default()
}

/// A text without its types.
pub(crate) fn strip(file: &str, text: &str) -> Result<String, String> {
    codebox_typescript::strip(file, text).map(|stripped| stripped.code).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_bear_the_number_of_their_question() {
        let mut questions = Questions::default();
        questions.ask(7, br#"{"file": "a.ts", "text": "let a: number = 1"}"#.to_vec()).expect("room");
        questions.ask(8, b"nonsense".to_vec()).expect("room");
        let mut answers = [questions.answered().await, questions.answered().await];
        answers.sort_unstable();
        assert_eq!((answers[0].0, answers[1].0), (7, 8));
        let answer = String::from_utf8_lossy(&answers[0].1);
        let (_map, code) = answer.split_once('\n').expect("a line before the program");
        assert!(code.starts_with("let a") && !code.contains("number"), "{answer}");
        assert!(answers[1].1.is_empty());
    }

    #[tokio::test]
    async fn an_agent_that_takes_no_answers_is_given_up() {
        let mut questions = Questions::default();
        let mut asked = (0..u32::MAX).map(|number| questions.ask(number, vec![0; 100]));
        let given_up = asked.position(|asked| asked.is_err());
        assert_eq!(given_up, Some(2 * MAX_ASKED));
    }

    #[tokio::test]
    async fn no_more_are_at_work_than_an_agent_may_pass_on() {
        let mut questions = Questions::default();
        // Nobody works at them, so they stay open.
        let busy = Arc::clone(&questions.workers).acquire_many_owned(WORKERS as u32).await;
        for number in 0..=MAX_ASKED as u32 {
            questions.ask(number, br#"{"file": "a.ts", "text": "1"}"#.to_vec()).expect("room");
        }
        assert_eq!(questions.answered().await, (MAX_ASKED as u32, Vec::new()));
        drop(busy);
        for _ in 0..MAX_ASKED {
            assert!(!questions.answered().await.1.is_empty());
        }
    }
}
