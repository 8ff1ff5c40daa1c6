use std::error::Error;

/// Formats an error and its chain of causes in one line, as `message: cause: its cause`.
///
/// A cause whose text is already in the line is left out, because many libraries repeat their causes. Line breaks
/// become spaces.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let words = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = words;
        } else if !line.contains(&words) {
            line.push_str(": ");
            line.push_str(&words);
        }
        next = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Said(&'static str, Option<Box<Said>>);

    impl fmt::Display for Said {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Said {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_ref().map(|cause| &**cause as _)
        }
    }

    fn because(words: &'static str, cause: Said) -> Said {
        Said(words, Some(Box::new(cause)))
    }

    #[test]
    fn every_cause_is_told_once() {
        let cause = because("no route", because("no route", Said("os error\n  113", None)));
        assert_eq!(with_causes(&because("cannot connect", cause)), "cannot connect: no route: os error 113");
        assert_eq!(with_causes(&Said("alone", None)), "alone");
    }
}
