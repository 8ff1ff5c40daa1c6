//! Directories of a box that its agent and its shims need.

use std::io;
use std::path::{Path, PathBuf};

use codebox_agent::AGENT_PATH;
use codebox_agent::command::{SHIM_DIR, SOCKET_DIR};
use codebox_core::{Access, BoxSettings, GuestPath, Job, Language, Source};
use codebox_files::InstanceScratch;

use super::search_path;
use crate::error::ContainerError;
use crate::harden::EngineExec;
use crate::images::ImageFacts;
use crate::mounts::Bind;

/// Scratch directory of the shims.
pub(super) const SHIMS: &str = "shims";

/// Scratch directory of the socket.
pub(super) const SOCKET: &str = "socket";

/// Name of the socket in its directory.
pub(super) const SOCKET_NAME: &str = "host";

/// File that login shells read after they have set the search path anew, on the systems that images are made of.
const PROFILE: &str = "/etc/profile.d/codebox.sh";

/// Returns the path of the socket in the container.
pub(super) fn socket_path() -> String {
    format!("{SOCKET_DIR}/{SOCKET_NAME}")
}

/// Additional directories, variables and links of a container that is a box.
pub(crate) struct BoxLayout<'s> {
    settings: &'s BoxSettings,
    /// A job with the variables of the box.
    job: Job,
}

impl<'s> BoxLayout<'s> {
    pub(super) fn new(settings: &'s BoxSettings) -> Self {
        let mut job = Job::new(Source::Inline(String::new()), Language::Command);
        job.env.clone_from(&settings.env);
        Self { settings, job }
    }

    pub(super) fn settings(&self) -> &BoxSettings {
        self.settings
    }

    /// Returns the name of the container, if one is given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.settings.name.as_deref()
    }

    pub(crate) fn job(&self) -> &Job {
        &self.job
    }

    /// Creates the directories, and returns them as binds. The links of the shims are created once the agent knows which commands
    /// exist.
    pub(crate) fn binds(&self, scratch: &mut InstanceScratch) -> Result<Vec<Bind>, ContainerError> {
        let profile = format!("case \":$PATH:\" in *:{SHIM_DIR}:*) ;; *) PATH={SHIM_DIR}:$PATH ;; esac\n");
        let profile_file = scratch.path("profile");
        let made = scratch.add(SHIMS).and_then(|()| scratch.add(SOCKET));
        let made = made.and_then(|()| scratch.put("profile", profile.as_bytes()));
        let profile_file = made.map_err(ContainerError::io("create", &profile_file))?;
        let bind = |host: PathBuf, guest: &str| Bind { host, guest: guest.to_owned(), access: Access::ReadOnly };
        Ok(vec![
            bind(scratch.path(SHIMS), SHIM_DIR),
            bind(scratch.path(SOCKET), SOCKET_DIR),
            bind(profile_file, PROFILE),
        ])
    }

    /// Returns the environment of programs that the engine starts in the box, which finds the shims as well. The engine shows it to
    /// its users, so it has no variables of the user.
    pub(crate) fn engine_exec(&self, image: &ImageFacts, proxies: Vec<(String, String)>) -> EngineExec {
        let own = [("PATH".to_owned(), search_path(image)), ("HOME".to_owned(), "/tmp".to_owned())];
        EngineExec { cwd: GuestPath::work().as_str().to_owned(), env: own.into_iter().chain(proxies).collect() }
    }

    /// Creates the links of the shims.
    pub(super) fn link_shims(&self, dir: &Path, names: &[String]) -> Result<(), ContainerError> {
        let link = |name: &String| -> io::Result<()> {
            #[cfg(unix)]
            std::os::unix::fs::symlink(AGENT_PATH, dir.join(name))?;
            #[cfg(not(unix))]
            let _ = (AGENT_PATH, dir, name);
            Ok(())
        };
        names.iter().try_for_each(link).map_err(ContainerError::io("create links in", dir))
    }
}
