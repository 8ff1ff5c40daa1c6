use std::error::Error;

/// Formats an error and its chain of causes in one line, as `message: cause: its cause`.
///
/// A cause whose text is already in the line is left out, because many libraries repeat their causes. Line breaks
/// become spaces.
#[must_use]
pub fn format_error_chain(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let message = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = message;
        } else if !line.contains(&message) {
            line.push_str(": ");
            line.push_str(&message);
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
    struct TestError(&'static str, Option<Box<TestError>>);

    impl fmt::Display for TestError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for TestError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_ref().map(|cause| &**cause as _)
        }
    }

    fn caused_by(message: &'static str, cause: TestError) -> TestError {
        TestError(message, Some(Box::new(cause)))
    }

    #[test]
    fn lists_each_cause_once() {
        let cause = caused_by("no route", caused_by("no route", TestError("os error\n  113", None)));
        assert_eq!(format_error_chain(&caused_by("cannot connect", cause)), "cannot connect: no route: os error 113");
        assert_eq!(format_error_chain(&TestError("alone", None)), "alone");
    }
}
