//! Strips types from arbitrary text.
#![no_main]

use codebox_analysis::protocol::Task;
use codebox_analysis::{StripFault, split_answer};
use libfuzzer_sys::fuzz_target;
use panics::catch_parser_panic;

mod panics;

fuzz_target!(|text: &str| {
    for file in ["a.ts", "a.cts"] {
        let task = Task::Strip { file: file.to_owned() };
        let Some(answer) = catch_parser_panic(|| codebox_analyzer::answer(&task, text)) else { continue };
        match split_answer(&answer) {
            Ok(_) => {}
            Err(StripFault { message, .. }) => {
                assert!(!message.starts_with("malformed") && !message.contains('\n'), "{message}");
            }
        }
    }
});
