//! Admission: turns a front end's request into a job that is allowed to run.
//!
//! Admission reads every host file that the request names once, and makes every path absolute and free of links once.
//! Its result is complete: a backend needs neither the host's environment nor a path as typed.

use std::path::{Path, PathBuf};

use codebox_core::path::{MappedPath as _, Mount, PathMap, resolve_overlaps};
use codebox_core::{
    Access, Attachment, DirGrant, Grants, GuestPath, HostPath, ImageName, InputFile, Isolation, IsolationSet, Job,
    Language, Languages, LimitKind, OutGuard, ResultKind, Source, ToolName,
};

use crate::levels::{Level, LevelSetting};

mod attached;
mod ceilings;
mod denied;
mod dirs;
mod env_file;
mod environment;
mod host_environment;
mod hosts;
mod image;
mod language;
mod links;
mod mounts;
mod out;
mod output_file;
mod place;
mod policy;
mod project;
mod request;
mod reserved_paths;
mod script;
mod secrets;
mod work_dir;

pub use denied::Denied;
pub use env_file::read_env_file;
pub use host_environment::{HostEnvironment, Process};
use image::Image;
pub use image::is_allowed_image;
pub use output_file::open_output_file;
pub use policy::{Escalation, LinkPolicy, Policy};
pub use project::{Manifest, Project, is_left_out, leads_out};
pub use request::{ContainerTarget, EnvRequest, EnvRequestError, Preference, Program, Request};
pub use reserved_paths::NODE_MODULES;
pub use script::MAX_PROGRAM;
pub use secrets::{SecretOrigin, SecretRequest, SecretRequestError, SecretSource};

/// Packages of a job, and their effect on the choice of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageNeeds {
    /// Requested packages.
    pub names: Vec<String>,
    /// Packages that only a container can have, the requested ones first.
    pub native: Vec<String>,
    /// Packages that a WebAssembly guest has, by their normalized names, with dependencies and built-in packages; empty
    /// if a package is native.
    pub pure: Vec<String>,
    /// Notes for the user about the packages, each in one line.
    pub notes: Vec<String>,
}

/// A request that may be executed. Only [`admit`] creates one.
#[derive(Debug, Clone)]
pub struct Admitted {
    job: Job,
    image: Image,
    out: Option<HostPath>,
    required: Vec<LimitKind>,
    map: PathMap<HostPath, GuestPath>,
    warm: Option<u32>,
    requirements: Vec<PathBuf>,
    project: Option<Project>,
    build: bool,
    script: Option<PathBuf>,
    is_repeatable: bool,
    engine: Option<String>,
    native: Option<String>,
    pure: Vec<String>,
    attachment: Option<Box<Attachment>>,
    levels: Vec<LevelSetting>,
    tool: Option<ToolName>,
}

impl Admitted {
    /// Returns the job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the memory image that the request names.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        match &self.image {
            Image::Memory(name) => Some(name),
            Image::Default(_) | Image::Container(_) | Image::Any => None,
        }
    }

    /// Returns the memory image that the policy names for languages that have it, if the request names no image.
    #[must_use]
    pub fn default_image(&self) -> Option<&str> {
        match &self.image {
            Image::Default(name) => Some(name),
            Image::Memory(_) | Image::Container(_) | Image::Any => None,
        }
    }

    /// Returns the container image that the request names.
    #[must_use]
    pub fn container_image(&self) -> Option<&ImageName> {
        match &self.image {
            Image::Container(name) => Some(name),
            Image::Memory(_) | Image::Default(_) | Image::Any => None,
        }
    }

    /// Returns the directory that files are copied to. It exists and its path is free of links.
    #[must_use]
    pub fn out(&self) -> Option<&HostPath> {
        self.out.as_ref()
    }

    /// Returns the limits that the request set, which the backend must enforce.
    #[must_use]
    pub fn required_limits(&self) -> &[LimitKind] {
        &self.required
    }

    /// Returns the mapping between host and guest paths, for messages.
    #[must_use]
    pub fn path_map(&self) -> &PathMap<HostPath, GuestPath> {
        &self.map
    }

    /// Returns the number of containers like the job's own to keep ready for later jobs.
    #[must_use]
    pub fn warm(&self) -> Option<u32> {
        self.warm
    }

    /// Returns the files that list further packages for the job, as typed.
    #[must_use]
    pub fn requirements(&self) -> &[PathBuf] {
        &self.requirements
    }

    /// Returns the project whose files the program gets.
    #[must_use]
    pub fn project(&self) -> Option<&Project> {
        self.project.as_ref()
    }

    /// Returns true if the request asks to build packages that have no wheels.
    #[must_use]
    pub fn may_build(&self) -> bool {
        self.build
    }

    /// Returns the path of the program's file as typed, if the program was read from a file.
    #[must_use]
    pub fn script(&self) -> Option<&Path> {
        self.script.as_deref()
    }

    /// Returns true if another process can admit the same request and gets the same program. A program from a pipe can be
    /// read only once.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Returns the container engine that the request or the policy names.
    #[must_use]
    pub fn engine(&self) -> Option<&str> {
        self.engine.as_deref()
    }

    /// Returns the running container in which the job runs, if codebox does not make one.
    #[must_use]
    pub fn attachment(&self) -> Option<&Attachment> {
        self.attachment.as_deref()
    }

    /// Returns the settings of all levels, in order.
    #[must_use]
    pub fn levels(&self) -> &[LevelSetting] {
        &self.levels
    }

    /// Returns the tool that the program implements.
    #[must_use]
    pub fn tool(&self) -> Option<&ToolName> {
        self.tool.as_ref()
    }

    /// Restricts the job to containers, on this machine or in a virtual one. A memory image that the request or the policy names is dropped.
    #[must_use]
    pub fn in_container(mut self) -> Self {
        let containers = self.job.isolations.iter().filter(|isolation| *isolation != Isolation::Wasm);
        self.job.isolations = IsolationSet::of(containers).unwrap_or(IsolationSet::only(Isolation::Container));
        if let Image::Memory(_) | Image::Default(_) = self.image {
            self.image = Image::Any;
        }
        self
    }

    /// Returns the package that only a container can have, if the job has one.
    #[must_use]
    pub fn native(&self) -> Option<&str> {
        self.native.as_deref()
    }

    /// Returns the normalized names of the packages that the job has in WebAssembly.
    #[must_use]
    pub fn pure(&self) -> &[String] {
        &self.pure
    }

    /// Sets the job's packages, and the package that restricts the job to containers, if there is one.
    #[must_use]
    pub fn with_packages(mut self, packages: &PackageNeeds) -> Self {
        self.job.packages.clone_from(&packages.names);
        self.native = packages.native.first().cloned();
        self.pure.clone_from(&packages.pure);
        self
    }

    /// Returns the granted directories, free of links. Backends resolve overlaps between them.
    #[must_use]
    pub fn dirs(&self) -> &[DirGrant] {
        &self.job.grants.dirs
    }

    /// Returns the directory through which the job can change the host file `file`: a writable grant that contains it, or
    /// the directory that files are copied to. The path is absolute and free of links.
    #[must_use]
    pub fn writable_dir_of(&self, file: &Path) -> Option<&HostPath> {
        // A part of the path that is not UTF-8 does not matter below a directory.
        let above: Vec<HostPath> = file.ancestors().filter_map(|path| HostPath::native(path).ok()).collect();
        let writable = self.dirs().iter().filter(|grant| grant.access == Access::ReadWrite).map(|grant| &grant.host);
        writable.chain(&self.out).find(|dir| above.iter().any(|path| path.is_within(dir)))
    }
}

/// Decides whether `request` may be executed, and resolves everything that it names on this machine.
///
/// Creates the output directory, if one is requested, as the last step, and changes nothing else.
///
/// # Errors
/// Returns an error if something that the request names is missing, unusable, contradictory or not allowed.
pub fn admit(request: Request, policy: &Policy, host_environment: &dyn HostEnvironment) -> Result<Admitted, Denied> {
    if request.target().is_some() {
        attached::check(&request)?;
    }
    let Request {
        program,
        language,
        args,
        dirs,
        net,
        env,
        secrets,
        limits,
        cpus,
        isolation,
        image,
        out,
        stdin,
        warm,
        packages,
        requirements,
        build,
        files,
        project,
        work_dir,
        terminal,
        returns,
        cell_number,
        engine,
        results,
        // The runner cuts the output.
        output_shape: _,
        tools,
        container,
        powers: _,
        prefers,
        levels,
        tool,
    } = request;
    if let Some(bad) = args.iter().find(|arg| arg.contains('\0')) {
        return Err(Denied::new(
            ResultKind::InvalidRequest,
            "pass argument",
            format!("{bad:?}"),
            "it contains a NUL",
            "pass it in a file or on standard input",
        ));
    }
    let attachment = match container {
        Some(ContainerTarget::Found(attachment)) => Some(attachment),
        Some(ContainerTarget::Running(_) | ContainerTarget::Dev { .. }) | None => None,
    };
    // A container that has been found is the only one that the job accepts.
    let isolation = if attachment.is_some() { Preference::Only(Isolation::Container) } else { isolation };
    let isolations = ceilings::isolations(isolation, policy)?;
    let levels = all_levels(isolation, prefers, levels, policy);
    let limits_in_force = ceilings::limits(&limits, policy)?;
    let mut environment = environment::resolve(env, host_environment)?;
    let typed = dirs.clone();
    let dirs = match &attachment {
        // The container has them already.
        Some(attachment) => attached::dirs(attachment),
        None => dirs::admit(dirs, policy, host_environment)?,
    };
    let net = hosts::admit(net, policy)?;
    let secrets = secrets::admit(secrets, &net, isolations, &mut environment.values, host_environment)?;
    let map = map_of(&dirs, attachment.is_some())?;
    let named = match &program {
        Program::File(path) => project::named_directory(path, host_environment),
        _ => None,
    };
    let project_dir = project.or_else(|| match &program {
        Program::File(path) if named.is_some() => Some(path.clone()),
        _ => None,
    });
    let project = project_dir.map(|path| project::admit(&path, &dirs, policy, host_environment)).transpose()?;
    let (project, project_files) = project.map_or((None, Vec::new()), |(project, files)| (Some(project), files));
    let script = match &program {
        Program::File(path) if named.is_none() => Some(path.clone()),
        _ => None,
    };
    let hidden = attachment.as_ref().map(|attachment| attachment.container.hidden.as_slice()).unwrap_or_default();
    let loaded = match (named, &project, &program) {
        (Some(dir), Some(project), Program::File(typed)) => {
            project_entry((typed, &dir), project, &project_files, language, &policy.languages, host_environment)?
        }
        _ => load(
            (program, &args),
            language,
            &policy.languages,
            Places { map: &map, hidden, project: project.as_ref() },
            host_environment,
        )?,
    };
    let LoadedProgram { source, language, file, is_repeatable } = loaded;
    // The program of a project is one of its files, unless they do not have it.
    let file = file.filter(|file| project_files.iter().all(|other| other.path != file.path));
    let default_dir = || project.as_ref().map_or_else(GuestPath::work, |project| project.work_dir(host_environment));
    let work_dir = match work_dir {
        Some(dir) => work_dir::check(dir, &map, &source, isolations)?,
        None => default_dir(),
    };
    if language == Language::Python {
        project::add_sources(&project_files, &mut environment.values);
    }
    if !packages.is_empty() {
        dirs::check_package_paths(&typed, &language)?;
    }
    let image = image::admit(image, &language, isolations, policy)?;
    let out = match out {
        None => None,
        Some(path) => Some(out::admit(&path, policy, host_environment)?),
    };
    let job = Job {
        args,
        stdin,
        env: environment.values,
        files: file.into_iter().chain(project_files).chain(files).collect(),
        work_dir,
        out: out.clone(),
        out_guard: project.as_ref().zip(out.as_ref()).map_or(OutGuard::None, |(project, out)| project.guard(out)),
        // The streams of a container that codebox has not made are pipes.
        terminal: terminal.filter(|_| attachment.is_none()),
        returns,
        cell_number,
        grants: Grants {
            dirs,
            project: project.as_ref().map(|project| project.host.clone()),
            net,
            env: environment.from_host,
            secrets,
            tools,
        },
        limits: limits_in_force,
        cpus,
        isolations,
        packages,
        results,
        ..Job::new(source, language)
    };
    let (required, warm) = (limits.required().collect(), warm.or(policy.warm));
    let engine = engine.or_else(|| policy.engine.clone());
    let (native, pure) = (None, Vec::new());
    Ok(Admitted {
        job,
        image,
        out,
        required,
        map,
        warm,
        requirements,
        project,
        build,
        script,
        is_repeatable,
        engine,
        native,
        pure,
        attachment,
        levels,
        tool,
    })
}

/// Returns the settings of all levels, in order.
fn all_levels(
    isolation: Preference,
    prefers: Option<Preference>,
    others: Vec<LevelSetting>,
    policy: &Policy,
) -> Vec<LevelSetting> {
    let mut levels = others;
    let requires = Some(isolation).filter(|isolation| *isolation != Preference::Auto);
    // Requirements of a tool, and a dev container that is preferred, are in their own settings.
    let is_other = |other: &LevelSetting, own| {
        other.requires == Some(own) || (other.level == Level::DevContainer && other.prefers == Some(own))
    };
    let requires = requires.filter(|own| !levels.iter().any(|other| is_other(other, *own)));
    if requires.is_some() || prefers.is_some() {
        levels.push(LevelSetting { level: Level::Call, requires, prefers, source: "the request".to_owned() });
    }
    levels.extend(policy.levels.iter().cloned());
    levels.push(LevelSetting::default_level());
    levels.sort_by_key(|setting| setting.level);
    levels
}

/// A program as a job's source.
struct LoadedProgram {
    source: Source,
    language: Language,
    /// File to place in the guest.
    file: Option<InputFile>,
    is_repeatable: bool,
}

impl LoadedProgram {
    fn text(source: Source, language: Language) -> Self {
        Self { source, language, file: None, is_repeatable: true }
    }
}

/// Places of the files that a program can be.
#[derive(Clone, Copy)]
struct Places<'a> {
    /// Granted directories.
    map: &'a PathMap<HostPath, GuestPath>,
    /// Guest paths at which other mounts hide the granted directories.
    hidden: &'a [GuestPath],
    project: Option<&'a Project>,
}

/// Returns the program of a project's directory, which is given as typed and as an absolute path.
fn project_entry(
    (typed, dir): (&Path, &Path),
    project: &Project,
    files: &[InputFile],
    language: Option<Language>,
    languages: &Languages,
    host_environment: &dyn HostEnvironment,
) -> Result<LoadedProgram, Denied> {
    let shown = typed.display().to_string();
    let guest_dir = dir.canonicalize().ok().and_then(|dir| project.guest_path(&dir));
    let guest_dir = guest_dir.ok_or_else(|| {
        let fix = "name a directory of the project, or remove --project";
        Denied::new(ResultKind::InvalidRequest, "run", &shown, "it is a directory outside of the project", fix)
    })?;
    let project::Entry { name, text } = project::entry(&guest_dir, files, &shown)?;
    let path = PathBuf::from(name.as_str());
    let language = language.map(|language| languages.described(language));
    let language = language.or_else(|| language::of(&path, &text, languages, host_environment));
    let language = language.ok_or_else(|| language::unknown(&path, &shown))?;
    script::check_size(text.len() as u64, &shown)?;
    Ok(LoadedProgram::text(Source::File { argv0: shown, name, text }, language))
}

/// Returns the text of a program that runs a Python module as `python -m` does.
fn module_program(name: &str, language: Option<&Language>) -> Result<String, Denied> {
    let refused = |detail, fix| Denied::new(ResultKind::InvalidRequest, "run the module", name, detail, fix);
    if language.is_some_and(|language| *language != Language::Python) {
        return Err(refused("only Python has modules that can be run by name", "remove -m or --lang"));
    }
    let is_identifier = |part: &str| {
        let is_start = |c: char| c.is_alphabetic() || c == '_';
        part.starts_with(is_start) && part.chars().all(|c| is_start(c) || c.is_numeric())
    };
    if !name.split('.').all(is_identifier) {
        return Err(refused("it is not the name of a module", "pass a name such as json.tool"));
    }
    // The first line is shown in lists of jobs. The value of the module, its global variables, is no result.
    Ok(format!("# -m {name}\nimport runpy\n_ = runpy.run_module({name:?}, run_name='__main__', alter_sys=True)\n"))
}

/// Returns a program, which has these arguments, as a job's source.
fn load(
    (program, args): (Program, &[String]),
    language: Option<Language>,
    languages: &Languages,
    places: Places<'_>,
    host_environment: &dyn HostEnvironment,
) -> Result<LoadedProgram, Denied> {
    let Places { map, hidden, project } = places;
    let language = language.map(|language| languages.described(language));
    let (source, text_of) = match program {
        Program::File(path) => {
            let script = script::read(&path, args, language, languages, host_environment)?;
            let (language, is_repeatable) = (script.language.clone(), script.is_regular);
            let (source, file) = place::place(script, map, hidden, project)?;
            return Ok(LoadedProgram { source, language, file, is_repeatable });
        }
        Program::Command(words) => {
            let source = Source::Command(image::command(words)?);
            return Ok(LoadedProgram::text(source, Language::Command));
        }
        Program::Source(source) => {
            let language = language.ok_or_else(|| language::unknown(Path::new(""), source.file_name()))?;
            if let Some(text) = source.text() {
                script::check_size(text.len() as u64, source.file_name())?;
            }
            if let Source::Command(words) = source {
                let source = Source::Command(image::command(words)?);
                return Ok(LoadedProgram::text(source, Language::Command));
            }
            return Ok(LoadedProgram::text(source, language));
        }
        Program::Module(name) => {
            let text = module_program(&name, language.as_ref())?;
            return Ok(LoadedProgram::text(Source::Inline(text), Language::Python));
        }
        Program::Inline(text) => (Source::Inline(text), "the program text"),
        Program::Stdin(text) => (Source::Stdin(text), "the program on standard input"),
    };
    let text = source.text().unwrap_or_default();
    script::check_size(text.len() as u64, text_of)?;
    let language = match (language, &source) {
        (Some(language), _) => language,
        (None, Source::Stdin(_)) => return Err(language::unknown(Path::new(""), text_of)),
        (None, _) => language::of_text(text, languages, host_environment)
            .ok_or_else(|| language::unknown(Path::new(""), text_of))?,
    };
    Ok(LoadedProgram::text(source, language))
}

/// Maps granted directories to guest paths. `/work` and `/tmp` are private to the guest unless they are granted, or the container is
/// none of codebox.
fn map_of(dirs: &[DirGrant], is_attached: bool) -> Result<PathMap<HostPath, GuestPath>, Denied> {
    let rejected = |detail: String| {
        let shown = dirs.first().map_or("", |dir| dir.host.as_str());
        dirs::rejected(shown, detail, "grant each directory once, at a separate guest path")
    };
    let settled = resolve_overlaps(dirs).map_err(|error| rejected(error.to_string()))?;
    let private: Vec<GuestPath> = [GuestPath::work(), GuestPath::tmp()]
        .into_iter()
        .filter(|own| !is_attached && settled.iter().all(|dir| dir.guest != *own))
        .collect();
    let mounts = settled.into_iter().map(|dir| Mount { from: dir.host, to: dir.guest, access: dir.access });
    PathMap::with_private(mounts, private).map_err(|error| rejected(error.to_string()))
}

#[cfg(test)]
mod tests;
