//! Facts about the Python of a container image, which a program in a container without grants determines once for each
//! image.

use crate::{BuildPlace, House, Image, ImageChoice, Target};
use codebox_core::{Backend, ExecIo, Grants, InstanceSpec, Isolation, Job, Language, Limits, ResultKind, RunnerError};

/// The program that prints the facts on which the choice of wheels depends.
const ASK: &str = r#"
import importlib.metadata, json, os, platform, re, sys
try:
    name, version = "glibc", os.confstr("CS_GNU_LIBC_VERSION").split()[1]
except Exception:
    name, version = "musl", "1.2"
    try:
        import subprocess
        said = subprocess.run(["ldd"], capture_output=True, text=True).stderr
        version = next(line.split()[1] for line in said.splitlines() if line.startswith("Version"))
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
pub(super) async fn of(house: &House, engine: &dyn Backend, named: Option<&str>) -> Result<BuildPlace, RunnerError> {
    let job = Job::python(ASK);
    let spec = InstanceSpec {
        language: Language::Python,
        grants: Grants::none(),
        limits: Limits::default(),
        image: named.map(str::to_owned),
        isolation: Isolation::Container,
        warm: None,
        layers: Vec::new(),
    };
    let store = engine.image_store().ok_or_else(|| {
        let line = format!("cannot choose packages for backend {}: it has no images", engine.id());
        RunnerError::new(ResultKind::EngineUnavailable, line)
    })?;
    let number = store.image_id(&spec).await?;
    let choice = if named.is_some() { ImageChoice::Named } else { ImageChoice::Usual };
    let place = |image, number| BuildPlace { target: Target::Container(image), image: number, choice };
    let key = House::key(&("image with packages", &number));
    // The content of an image with a given number never changes.
    if let Some((image, _)) = house.remembered(&key) {
        return Ok(place(image, number));
    }
    let mut instance = engine.open(&spec).await?;
    let report = instance.exec(&job, &mut ExecIo::none()).await;
    let closed = instance.close().await;
    let report = report?;
    closed?;
    let silent = || {
        let line = format!("cannot choose packages for image {}: it has no usable Python", named.unwrap_or(&number));
        RunnerError::new(ResultKind::InstallFailed, line).with_fix("choose another image with --image")
    };
    let image: Image = serde_json::from_slice(report.stdout.bytes().as_ref()).map_err(|_| silent())?;
    house.remember(&key, &image);
    Ok(place(image, number))
}
