use std::num::NonZeroU64;
use std::time::Duration;

use thiserror::Error;

use super::{ByteSize, Limit};

/// Error for text that is not a valid limit.
///
/// The message is one line that contains the value and the expected form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid {what} {text:?}: {rule}; {fix}")]
pub struct LimitParseError {
    /// Kind of the value: "size", "duration" or "count".
    pub what: &'static str,
    /// The original text.
    pub text: String,
    /// Violated rule.
    pub rule: &'static str,
    /// Description of the expected form.
    pub fix: &'static str,
}

const SIZE_HINT: &str = "write a number of bytes or one with a unit, such as 512k, 256M or 1.5GiB, or unlimited";
const DURATION_HINT: &str = "write seconds or a number with a unit, such as 500ms, 5s, 2m or 1h30m, or unlimited";
const COUNT_HINT: &str = "write a whole number above 0, or unlimited";

const EMPTY: &str = "it is empty";
const NEGATIVE: &str = "it is negative";
const ZERO: &str = "it must be greater than 0";
const NOT_A_NUMBER: &str = "it does not start with a number";
const UNKNOWN_UNIT: &str = "its unit is unknown";
pub(super) const TOO_LARGE: &str = "it is too large";

/// Parses a size: plain bytes, or a number with `k`, `M`, `G` or `T` (also `KiB`, `MB`, …), each 1024 of the last.
///
/// # Errors
/// Returns an error if the size is zero, below one byte, negative, too large or not a number, or has an unknown unit.
pub fn parse_size(text: &str) -> Result<Limit<ByteSize>, LimitParseError> {
    let size = |rule| LimitParseError { what: "size", text: text.to_owned(), rule, fix: SIZE_HINT };
    if text == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let (number, unit) = Decimal::parse_prefix(text).map_err(size)?;
    let power = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(size(UNKNOWN_UNIT)),
    };
    match number.scaled_by(1 << power).and_then(|n| u64::try_from(n).ok()) {
        // No machine has more than this, and sums of a few larger sizes could overflow.
        Some(bytes) if bytes > i64::MAX as u64 => Err(size(TOO_LARGE)),
        None => Err(size(TOO_LARGE)),
        Some(0) if number.is_zero() => Err(size(ZERO)),
        Some(0) => Err(size("it is less than a byte")),
        Some(bytes) => Ok(Limit::At(ByteSize::bytes(bytes))),
    }
}

/// Parses a duration: plain seconds, or numbers with `ms`, `s`, `m`, `h` or `d`, the largest unit first (`1m30s`).
///
/// # Errors
/// Returns an error if the duration is zero, negative, above a hundred years or not a number, or has an unknown or
/// misplaced unit.
pub fn parse_duration(text: &str) -> Result<Limit<Duration>, LimitParseError> {
    let fault = |rule| LimitParseError { what: "duration", text: text.to_owned(), rule, fix: DURATION_HINT };
    if text == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    let mut last_unit = u128::MAX;
    loop {
        let (number, after) = Decimal::parse_prefix(rest).map_err(fault)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let unit = match &after[..end] {
            "" if rest.len() == text.len() => 1_000_000_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(fault(UNKNOWN_UNIT)),
        };
        if unit >= last_unit {
            return Err(fault("its units must be in descending order"));
        }
        last_unit = unit;
        let part = number.scaled_by(unit).ok_or_else(|| fault(TOO_LARGE))?;
        total = total.checked_add(part).ok_or_else(|| fault(TOO_LARGE))?;
        rest = &after[end..];
        if rest.is_empty() {
            break;
        }
    }
    const CENTURY: u128 = 36_525 * 86_400 * 1_000_000_000;
    match total {
        0 => Err(fault(ZERO)),
        nanos if nanos > CENTURY => Err(fault(TOO_LARGE)),
        nanos => {
            let nanos = u64::try_from(nanos).map_err(|_| fault(TOO_LARGE))?;
            Ok(Limit::At(Duration::from_nanos(nanos)))
        }
    }
}

/// Parses a count.
///
/// # Errors
/// Returns an error if the count is zero, negative, too large or not a whole number.
pub fn parse_count(text: &str) -> Result<Limit<NonZeroU64>, LimitParseError> {
    let fault = |rule| LimitParseError { what: "count", text: text.to_owned(), rule, fix: COUNT_HINT };
    if text == "unlimited" {
        return Ok(Limit::Unlimited);
    }
    let (number, rest) = Decimal::parse_prefix(text).map_err(fault)?;
    if !rest.is_empty() || number.scale != 1 {
        return Err(fault("it is not a whole number"));
    }
    let count = u64::try_from(number.digits).map_err(|_| fault(TOO_LARGE))?;
    NonZeroU64::new(count).map(Limit::At).ok_or_else(|| fault(ZERO))
}

/// Exact decimal number: `digits / scale`.
#[derive(Clone, Copy)]
pub(super) struct Decimal {
    digits: u128,
    pub(super) scale: u128,
}

impl Decimal {
    /// Parses the number at the start of `text` and returns it with the rest of the text.
    pub(super) fn parse_prefix(text: &str) -> Result<(Self, &str), &'static str> {
        match text.chars().next() {
            None => return Err(EMPTY),
            Some('-' | '\u{2212}') => return Err(NEGATIVE),
            Some(c) if !(c.is_ascii_digit() || c == '.') => return Err(NOT_A_NUMBER),
            Some(_) => {}
        }
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (number.contains('.') && fraction.is_empty()) || whole.is_empty() {
            return Err("it is not a number");
        }
        if fraction.len() > 9 {
            return Err("it has more than nine decimals");
        }
        let mut digits: u128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let digit = u128::from(digit - b'0');
            digits = digits.checked_mul(10).and_then(|n| n.checked_add(digit)).ok_or(TOO_LARGE)?;
        }
        let scale = fraction.bytes().fold(1, |scale: u128, _| scale * 10);
        Ok((Self { digits, scale }, rest))
    }

    const fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// Returns the number multiplied by `unit`, rounded down; `None` if the multiplication overflows.
    pub(super) fn scaled_by(self, unit: u128) -> Option<u128> {
        Some(self.digits.checked_mul(unit)? / self.scale)
    }
}

#[cfg(test)]
mod tests;
