//! Export of a session to a file, and import.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use codebox_core::{Backend, INITIAL_IMAGE, Isolation, Job, Language, ResultKind, RunnerError};
use codebox_files::open_last_dir;
use codebox_service::Request;

use super::file::{self, Header, SessionFile, SessionFileHead};
use super::{Checkpoint, Session, SessionDir, checkpoint};
use crate::runner::Runner;

impl Session {
    /// Writes the state of the session to a file that another machine with the same runtime can [import](Runner::import). The
    /// session goes on.
    ///
    /// The file contains the whole memory of the interpreter, compressed, and the private files. Its form is that of this version. It
    /// contains no grants.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint); also if the file cannot be written.
    pub async fn export(&self, to: impl Write + Send + 'static) -> Result<(), RunnerError> {
        self.export_checkpoint(&self.snapshot().await?, to).await
    }

    /// Saves the state of the session without making it the one to come back to.
    ///
    /// # Errors
    /// As for [`checkpoint`](Self::checkpoint).
    pub async fn snapshot(&self) -> Result<Checkpoint, RunnerError> {
        Ok(self.save(&mut *self.state.lock().await, "exported".to_owned()).await?.shared())
    }

    /// As [`export`](Self::export), with the state of one of its checkpoints.
    ///
    /// # Errors
    /// Returns an error if the checkpoint is malformed, or if the file cannot be written.
    pub async fn export_checkpoint(
        &self,
        checkpoint: &Checkpoint,
        mut to: impl Write + Send + 'static,
    ) -> Result<(), RunnerError> {
        let language = self.request.language.clone().ok_or_else(no_language)?;
        let (runner, checkpoint, packages) =
            (Arc::clone(&self.runner), checkpoint.clone(), self.request.packages.clone());
        let work = move || {
            let dir = runner.session_dir()?;
            let exported = unpacked_dir(&dir)?;
            let backend = runner.session_backend()?;
            backend.export_checkpoint(&language, checkpoint.image(), checkpoint.dir(), &exported)?;
            let codebox = env!("CARGO_PKG_VERSION").to_owned();
            let header = Header { codebox, language: language.as_str().to_owned(), packages };
            let opened = open_last_dir(&exported).map_err(|error| failed("export", &error))?;
            file::write(&header, &opened, &mut to).map_err(|error| failed("export", &error))
        };
        self.runner.parts.threads.start(work)?.finish().await?
    }
}

impl Runner {
    /// Creates a session from a file that [`Session::export`] has written, with the grants and limits of a request. The file is not
    /// trusted: it determines the state of the guest, and nothing else. The request has to name the packages of the session that was
    /// exported; without a language it takes that of the file.
    ///
    /// # Errors
    /// As for [`restore`](Self::restore); also if the file is damaged, has another form, language or packages, or was written with
    /// another runtime. The error has both values.
    pub async fn import<R>(
        self: &Arc<Self>,
        request: R,
        from: impl Read + Send + 'static,
    ) -> Result<Session, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let request: Request = request.try_into()?;
        let opened = self.parts.threads.start(move || SessionFile::open(from))?.finish().await??;
        let request = super::session_request(imported_request(request, &opened.header)?)?;
        let admitted = self.admit_stage(request.clone()).await?;
        let limits = admitted.job().limits;
        let max_bytes = limits.disk.at().map_or(u64::MAX, |disk| disk.get());
        let max_entries = limits.files.at().map_or(u64::MAX, u64::from);
        let dir = self.session_dir()?;
        let path = unpacked_dir(&dir)?;
        let into = path.clone();
        let unpack = move || {
            let created = std::fs::create_dir(&into).and_then(|()| open_last_dir(&into));
            opened.unpack(&created.map_err(|error| failed("import", &error))?, max_bytes, max_entries)
        };
        self.parts.threads.start(unpack)?.finish().await??;
        let imported = Checkpoint::new("imported".to_owned(), path, INITIAL_IMAGE.to_owned(), dir);
        let session = self.new_session(request);
        session.restore(&imported).await?;
        Ok(session)
    }

    /// Admits the request of a session that another process imports from a file, as [`prepare_session`](Self::prepare_session) does.
    ///
    /// # Errors
    /// As for [`prepare_session`](Self::prepare_session), and for [`import`](Self::import) about the language and the packages.
    pub fn prepare_import(&self, request: Request, head: &SessionFileHead) -> Result<Job, RunnerError> {
        self.prepare_session(imported_request(request, &head.header)?)
    }

    /// Returns the backend whose guests have checkpoints.
    fn session_backend(&self) -> Result<Arc<dyn Backend>, RunnerError> {
        let found = self.backends()?.into_iter().find(|backend| backend.isolation() == Isolation::Wasm);
        found.ok_or_else(|| RunnerError::new(ResultKind::InvalidRequest, "this runner has no sessions".to_owned()))
    }
}

/// Returns the request of a session from a file.
fn imported_request(request: Request, header: &Header) -> Result<Request, RunnerError> {
    let refused = |line: String, fix: &str| {
        Err(RunnerError::new(ResultKind::InvalidRequest, format!("cannot import the session: {line}")).with_fix(fix))
    };
    let language: Language = match header.language.parse() {
        Ok(language) => language,
        Err(_) => return refused("its language is unknown".to_owned(), "use a file of `codebox session export`"),
    };
    if let Some(own) = request.language.as_ref().filter(|own| **own != language) {
        return refused(format!("its language is {language}, and the request names {own}"), "name no language");
    }
    let sorted = |packages: &[String]| {
        let mut packages = packages.to_vec();
        packages.sort_unstable();
        packages.dedup();
        packages
    };
    let (exported, own) = (sorted(&header.packages), sorted(&request.packages));
    if exported != own {
        let line = format!("it was exported with {}, and the request names {}", listed(&exported), listed(&own));
        return refused(line, "request the packages with which it was exported");
    }
    Ok(Request { language: Some(language), ..request })
}

/// Returns packages for a message. Those of a file may have any content.
fn listed(packages: &[String]) -> String {
    if packages.is_empty() {
        return "no packages".to_owned();
    }
    let printable = |name: &String| -> String {
        name.chars().take(60).map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
    };
    let shown: Vec<String> = packages.iter().take(20).map(printable).collect();
    let more = if packages.len() > shown.len() { ", …" } else { "" };
    format!("the packages {}{more}", shown.join(", "))
}

fn unpacked_dir(dir: &SessionDir) -> Result<PathBuf, RunnerError> {
    let parent = dir.checkpoints.as_deref();
    let none =
        || RunnerError::new(ResultKind::InvalidRequest, "this runner has no directory for checkpoints".to_owned());
    Ok(parent.ok_or_else(none)?.join(checkpoint::unique_name()))
}

fn failed(action: &str, error: &std::io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot {action} the session: {error}"))
}

fn no_language() -> RunnerError {
    RunnerError::new(ResultKind::InvalidRequest, "the session has no language".to_owned())
}
