//! The packages of jobs as the provider that the pipeline sees.

use std::path::{Path, PathBuf};

use codebox_core::{Backend, BoxFuture, Progress, RunnerError};
use codebox_service::{
    Admitted, LayerTarget, PackageLayers, PackageNeeds, PackageProvider, StoredPackage, may_request_packages,
};

use super::JobPackages;

impl PackageProvider for JobPackages {
    fn may_be_requested(&self, admitted: &Admitted) -> bool {
        may_request_packages(admitted)
    }

    fn resolve<'a>(
        &'a self,
        admitted: &'a Admitted,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageNeeds, RunnerError>> {
        Box::pin(self.needs(admitted, engines.to_vec(), progress))
    }

    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        target: LayerTarget<'a>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageLayers, RunnerError>> {
        Box::pin(async move {
            match target {
                LayerTarget::Wasm => self.wasm_layers(admitted, progress).await,
                LayerTarget::Container { engine, imports } => {
                    let bundled = super::bundled::bundled_imports(&*self.catalog, &admitted.job().language, imports);
                    self.container_layers(admitted, &bundled, progress, engine).await
                }
            }
        })
    }

    fn lock<'a>(
        &'a self,
        admitted: &'a Admitted,
        script: &'a Path,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PathBuf, RunnerError>> {
        Box::pin(self.lock_script(admitted, script, engines, progress))
    }

    fn list(&self) -> Vec<StoredPackage> {
        self.stored()
    }

    fn prune(&self, progress: &dyn Progress) -> Result<(usize, u64), RunnerError> {
        self.prune_stores(progress)
    }
}
