use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::parse::{Decimal, TOO_LARGE};
use super::{Limit, LimitParseError};

/// Number of processors that a program may keep busy at one time, in thousandths of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cpus(NonZeroU32);

/// Thousandths of a processor.
const THOUSANDTHS: u128 = 1000;

/// Lowest number, in thousandths: engines refuse less.
const MIN: u32 = 10;

/// Highest number of processors.
const MAX: u32 = 100_000;

const HINT: &str = "write a number of processors, such as 2 or 0.5, or unlimited";

impl Cpus {
    /// Returns the number in thousandths of a processor.
    #[must_use]
    pub fn thousandths(self) -> u32 {
        self.0.get()
    }

    /// Returns true for less than one processor, which a program with a single thread can exceed.
    #[must_use]
    pub fn is_part_of_one(self) -> bool {
        u128::from(self.thousandths()) < THOUSANDTHS
    }
}

/// Parses a number of processors, or `unlimited`.
///
/// # Errors
/// Returns an error if the number is zero, negative or too large, or has more than three decimals.
pub fn parse_cpus(text: &str) -> Result<Limit<Cpus>, LimitParseError> {
    if text == "unlimited" { Ok(Limit::Unlimited) } else { text.parse().map(Limit::At) }
}

impl FromStr for Cpus {
    type Err = LimitParseError;

    /// Parses a number of processors with at most three decimals, such as `2` or `0.5`.
    fn from_str(text: &str) -> Result<Self, LimitParseError> {
        let fault = |rule| LimitParseError { what: "number of processors", text: text.to_owned(), rule, fix: HINT };
        let digits = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        let (number, rest) = Decimal::parse_prefix(digits).map_err(fault)?;
        if !rest.is_empty() {
            return Err(fault("it is not a number"));
        }
        if number.scale > THOUSANDTHS {
            return Err(fault("it has more than three decimals"));
        }
        let count = number.scaled_by(THOUSANDTHS).and_then(|count| u32::try_from(count).ok());
        match count.map(NonZeroU32::new) {
            Some(Some(count)) if count.get() < MIN => Err(fault("it is less than 0.01")),
            Some(Some(count)) if u128::from(count.get()) <= u128::from(MAX) * THOUSANDTHS => Ok(Self(count)),
            Some(None) => Err(fault("it must be greater than 0")),
            _ => Err(fault(TOO_LARGE)),
        }
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.thousandths()) / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_decimals() {
        for (text, thousandths) in [("1", 1000), ("0.5", 500), ("1.25", 1250), ("0.01", 10), ("64", 64_000)] {
            let cpus: Cpus = text.parse().expect("a number");
            assert_eq!((cpus.thousandths(), cpus.to_string().as_str()), (thousandths, text));
        }
        assert_eq!("1.5000".parse::<Cpus>().expect("a number").to_string(), "1.5");
        for text in ["", "0", "0.0", "0.009", "0.0001", "-1", "x", "1x", ".5", "100001", "99999999999", "unlimited"] {
            let error = text.parse::<Cpus>().expect_err(text);
            assert!(error.to_string().starts_with("invalid number of processors"), "{error}");
        }
    }
}
