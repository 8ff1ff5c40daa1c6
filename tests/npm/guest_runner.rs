//! Runs of one program in the guest and in Node, with the same packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use codebox::{
    Access, DirGrant, ExecIo, Grants, GuestPath, HostPath, Isolation, Job, Language, Outcome, Source, Workbench,
};
use codebox_core::{Backend as _, InstanceSpec, Layer};
use codebox_testkit::Kit;

/// Name of the JavaScript image.
const IMAGE: &str = "javascript";

/// Output and exit status of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Backend of the guest.
pub struct GuestRunner {
    runner: Workbench,
}

impl GuestRunner {
    pub fn new(kit: &Kit) -> Result<Self> {
        kit.prepare()?;
        Ok(Self { runner: codebox::workbench(kit.home())? })
    }

    /// Runs a program of this name in the guest, with `modules` as its packages and `work`, if given, as /work.
    pub fn run_in_guest(&self, name: &str, text: &str, modules: &Path, work: Option<&Path>) -> Result<ProgramOutput> {
        let language = if name.ends_with("ts") { Language::TypeScript } else { Language::JavaScript };
        let source = Source::File {
            argv0: name.to_owned(),
            name: GuestPath::new(format!("/work/{name}"))?,
            text: text.as_bytes().to_vec(),
        };
        let mut job = Job::new(source, language);
        let host = |path: &Path| -> Result<HostPath> { Ok(HostPath::native(&fs::canonicalize(path)?)?) };
        if let Some(work) = work {
            let grant = DirGrant { host: host(work)?, guest: GuestPath::work(), access: Access::ReadOnly };
            job.grants = Grants { dirs: vec![grant], ..Grants::none() };
        }
        let spec = InstanceSpec {
            grants: job.grants.clone(),
            limits: job.limits,
            image: Some(IMAGE.to_owned()),
            layers: vec![Layer { host: fs::canonicalize(modules)?, guest: GuestPath::new("/node_modules")? }],
            ..InstanceSpec::bare(job.language.clone(), Isolation::Wasm)
        };
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let report = executor.block_on(async {
            let mut instance = self.runner.backend().open(&spec).await?;
            let report = instance.exec(&job, &mut ExecIo::none()).await;
            instance.close().await?;
            report
        })?;
        let status = match report.outcome {
            Outcome::Exited(status) => status,
            other => anyhow::bail!("unexpected result {other:?}: {}", report.stderr.to_text_lossy()),
        };
        let (stdout, stderr) = (report.stdout.to_text_lossy(), report.stderr.to_text_lossy());
        Ok(ProgramOutput { status, stdout: stdout.clone(), stderr: stderr.clone() })
    }
}

/// Runs the program in Node.
pub fn run_in_node(name: &str, text: &str, modules: &Path) -> Result<ProgramOutput> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join(name), text)?;
    #[cfg(unix)]
    std::os::unix::fs::symlink(modules, dir.path().join("node_modules"))?;
    let result =
        Command::new("node").arg(name).current_dir(dir.path()).env("NO_COLOR", "1").env_remove("NODE_PATH").output();
    let result = result.context("no node")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(ProgramOutput {
        status: result.status.code().unwrap_or(-1),
        stdout: text(&result.stdout),
        stderr: text(&result.stderr),
    })
}

/// Returns true if this machine has Node.
pub fn has_node() -> bool {
    Command::new("node").arg("--version").output().is_ok_and(|result| result.status.success())
}
