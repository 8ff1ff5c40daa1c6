//! Determines the needs of arbitrary programs.
#![no_main]

use codebox_analysis::Needs;
use libfuzzer_sys::fuzz_target;
use panics::catch_parser_panic;

mod panics;

fuzz_target!(|text: &str| {
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let check = |needs: Needs| {
        assert!(needs.powers.len() <= 64);
        for need in &needs.powers {
            assert!((1..=lines).contains(&(need.line as usize)), "{need}");
            assert!(need.words.len() <= 128 && !need.words.chars().any(char::is_control), "{need}");
        }
        let names: usize = needs.imports.iter().map(String::len).sum();
        assert!(names <= 2 * text.len(), "{names} bytes of names");
    };
    catch_parser_panic(|| codebox_analyzer::python_needs(text)).map(check);
    catch_parser_panic(|| codebox_analyzer::can_be_python(text));
    for file in ["a.ts", "a.cjs", "a.mjs"] {
        catch_parser_panic(|| codebox_analyzer::script_needs(file, text)).map(check);
    }
});
