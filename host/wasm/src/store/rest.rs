//! Compilation of the code that no run has needed yet, in the background.

use codebox_core::Silent;

use crate::error::WasmError;
use crate::store::Store;
use crate::store::lock::StoreLock;
use crate::store::manifest::{INITIAL_IMAGE_FILE, Manifest};
use crate::store::prepare::Preparer;

impl Store {
    /// Returns true if a part of the code is prepared and another one is not compiled.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the list of prepared files cannot be read.
    pub fn lacks_code(&self) -> Result<bool, WasmError> {
        let dir = self.prepared_dir();
        let Some(manifest) = Manifest::read(&dir)? else { return Ok(false) };
        Ok(Preparer::new(self, &Silent, dir, manifest).has_missing_code())
    }

    /// Compiles the code that is missing. Other processes can prepare what they need meanwhile: the lock is held only while
    /// a finished file is added. Does nothing if another process compiles the same.
    ///
    /// # Errors
    /// As for a preparation.
    pub fn compile_rest(&self) -> Result<(), WasmError> {
        let dir = self.prepared_dir();
        if !self.lacks_code()? {
            return Ok(());
        }
        let Some(_only) = StoreLock::try_acquire(&dir) else { return Ok(()) };
        let store = self.with_own_engine()?;
        let is_usable = |manifest: &Manifest| manifest.seals.contains_key(INITIAL_IMAGE_FILE);
        let read = || -> Result<_, WasmError> { Ok(Manifest::read(&dir)?.filter(is_usable)) };
        let Some(manifest) = read()? else { return Ok(()) };
        let mut preparer = Preparer::new(&store, &Silent, dir.clone(), manifest);
        while let Some((file, bytes)) = preparer.compile_missing()? {
            let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
            let Some(manifest) = read()? else { return Ok(()) };
            preparer.add_code(manifest, &file, &bytes)?;
        }
        Ok(())
    }
}
