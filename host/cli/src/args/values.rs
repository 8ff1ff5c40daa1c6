//! Parsers of option values.

use std::ffi::OsStr;
use std::num::{NonZeroU32, NonZeroU64};

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use codebox_core::{CONTAINER_ENGINES, Language, Limit, LimitParseError, parse_count};
use codebox_service::Preference;

/// Parses `--isolation` of a session, with a list of the possible values.
pub(super) fn session_preference() -> impl TypedValueParser<Value = Preference> {
    PossibleValuesParser::new(["auto", "wasm", "container", "vm"]).try_map(|text| text.parse::<Preference>())
}

/// Parses `--isolation` of a run, with a list of the possible values.
pub(super) fn preference() -> impl TypedValueParser<Value = Preference> {
    PossibleValuesParser::new(["auto", "wasm", "container", "devcontainer", "vm"])
        .try_map(|text| text.parse::<Preference>())
}

/// Parses `--prefer`, with a list of the possible values.
pub(super) fn preferred() -> impl TypedValueParser<Value = Preference> {
    PossibleValuesParser::new(["wasm", "container", "vm"]).try_map(|text| text.parse::<Preference>())
}

/// Parser of `--lang`. Its possible values are those that completions offer; added runtimes have further ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct LanguageParser;

impl TypedValueParser for LanguageParser {
    type Value = Language;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        StringValueParser::new().try_map(|text| text.parse::<Language>()).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["python", "javascript", "typescript", "shell"].into_iter().map(PossibleValue::new)))
    }
}

/// Parses `--engine`.
pub(super) fn engine() -> PossibleValuesParser {
    PossibleValuesParser::new(CONTAINER_ENGINES)
}

/// Parses a count that has to fit into 32 bits.
pub(super) fn parse_small_count(text: &str) -> Result<Limit<NonZeroU32>, LimitParseError> {
    let small = |count: NonZeroU64| {
        NonZeroU32::try_from(count).map_err(|_| LimitParseError {
            what: "count",
            text: text.to_owned(),
            rule: "it is too large",
            fix: "write a whole number above 0, or unlimited",
        })
    };
    match parse_count(text)? {
        Limit::Unlimited => Ok(Limit::Unlimited),
        Limit::At(count) => small(count).map(Limit::At),
    }
}

/// Parses the version of an interpreter: up to three numbers.
pub(super) fn version(text: &str) -> Result<String, &'static str> {
    let is_number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split('.').count() <= 3 && text.split('.').all(is_number) {
        true => Ok(text.to_owned()),
        false => Err("write numbers with dots, such as 3.12"),
    }
}
