use std::sync::OnceLock;

use codebox_core::RunnerError;

type Create<T> = Box<dyn Fn() -> Result<T, RunnerError> + Send + Sync>;

/// Value that is created on first use. A failed creation is tried again at the next use.
pub struct Lazy<T> {
    value: OnceLock<T>,
    create: Create<T>,
}

impl<T> Lazy<T> {
    /// Creates a lazy value from the function that creates it.
    pub fn new(create: impl Fn() -> Result<T, RunnerError> + Send + Sync + 'static) -> Self {
        Self { value: OnceLock::new(), create: Box::new(create) }
    }

    /// Returns the value, and creates it on the first call.
    ///
    /// # Errors
    /// Returns the error of the creation.
    pub fn get(&self) -> Result<&T, RunnerError> {
        get_or_create(&self.value, &self.create)
    }
}

/// Returns the value of a cell, and creates it if the cell is empty. A failed creation leaves the cell empty.
///
/// # Errors
/// Returns the error of the creation.
pub fn get_or_create<T>(
    cell: &OnceLock<T>,
    create: impl FnOnce() -> Result<T, RunnerError>,
) -> Result<&T, RunnerError> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = create()?;
    Ok(cell.get_or_init(|| value))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use codebox_core::ResultKind;

    use super::*;

    #[test]
    fn is_created_once_and_retried_after_a_failure() {
        let tries = AtomicU32::new(0);
        let lazy = Lazy::new(move || match tries.fetch_add(1, Ordering::Relaxed) {
            0 => Err(RunnerError::new(ResultKind::Busy, "not yet")),
            count => Ok(count),
        });
        assert!(lazy.get().is_err());
        assert_eq!((lazy.get(), lazy.get()), (Ok(&1), Ok(&1)));
    }
}
