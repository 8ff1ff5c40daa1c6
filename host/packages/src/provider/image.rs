//! Facts about the Python of a container image, which a program in a container without grants determines once for each
//! image.

use crate::package_store::{BuildImage, ImageChoice, PackageStore};
use crate::target::{ImageInterpreter, Target};
use codebox_core::{Backend, ExecIo, InstanceSpec, Isolation, Job, Language, ResultKind, RunnerError};

/// The program that prints the facts on which the choice of wheels depends.
const PROBE_SCRIPT: &str = r#"
import importlib.metadata, json, os, platform, re, sys
try:
    name, version = "glibc", os.confstr("CS_GNU_LIBC_VERSION").split()[1]
except Exception:
    name, version = "musl", "1.2"
    try:
        import subprocess
        output = subprocess.run(["ldd"], capture_output=True, text=True).stderr
        version = next(line.split()[1] for line in output.splitlines() if line.startswith("Version"))
    except Exception:
        pass
major, minor = (int(part) for part in version.split(".")[:2])
print(json.dumps({
    "python": platform.python_version(), "machine": platform.machine(), "libc": name, "libc_version": [major, minor],
    "library": sorted(getattr(sys, "stdlib_module_names", ())),
    "installed": sorted({
        re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower()
        for one in importlib.metadata.distributions() if one.metadata["Name"]
    }),
}))
"#;

/// Returns the image of a Python job and the facts about it, from the cache or from a container.
pub(super) async fn of(
    package_store: &PackageStore,
    engine: &dyn Backend,
    named: Option<&str>,
) -> Result<BuildImage, RunnerError> {
    let job = Job::python(PROBE_SCRIPT);
    let spec =
        InstanceSpec { image: named.map(str::to_owned), ..InstanceSpec::bare(Language::Python, Isolation::Container) };
    let store = engine.image_store().ok_or_else(|| {
        let line = format!("cannot choose packages for backend {}: it has no images", engine.id());
        RunnerError::new(ResultKind::EngineUnavailable, line)
    })?;
    let image_id = store.image_id(&spec).await?;
    let choice = if named.is_some() { ImageChoice::Named } else { ImageChoice::Usual };
    let build_image = |image, image_id| BuildImage { target: Target::Container(image), image: image_id, choice };
    let key = PackageStore::key(&("image with packages", &image_id));
    // The content of an image with a given number never changes.
    if let Some((image, _)) = package_store.cached_answer(&key) {
        return Ok(build_image(image, image_id));
    }
    let mut instance = engine.open(&spec).await?;
    let report = instance.exec(&job, &mut ExecIo::none()).await;
    let closed = instance.close().await;
    let report = report?;
    closed?;
    let no_python = || {
        let line = format!("cannot choose packages for image {}: it has no usable Python", named.unwrap_or(&image_id));
        RunnerError::new(ResultKind::InstallFailed, line).with_fix("choose another image with --image")
    };
    let image: ImageInterpreter = serde_json::from_slice(report.stdout.bytes().as_ref()).map_err(|_| no_python())?;
    package_store.cache_answer(&key, &image);
    Ok(build_image(image, image_id))
}
