//! From what a front end asks for to what may be done.
//!
//! Every host file that admission takes is read here, once, and every path is made absolute and link-free here,
//! once. What comes out is complete: a backend needs neither the host's environment nor a path as typed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use codebox_core::path::{Mount, PathMap, settle};
use codebox_core::{
    DirGrant, Grants, GuestPath, HostPath, ImageName, InputFile, Job, Language, LimitKind, ResultKind, Source,
};

mod ceilings;
mod denied;
mod dirs;
mod encoding;
mod environment;
mod guest_places;
mod hosts;
mod image;
mod language;
mod links;
mod mounts;
mod out;
mod place;
mod policy;
mod request;
mod script;
mod surroundings;

pub use denied::Denied;
pub use guest_places::NODE_MODULES;
use image::Image;
pub use place::SCRIPT_DIR;
pub use policy::Policy;
pub use request::{EnvRequest, EnvRequestError, Preference, Program, Request};
pub use script::MAX_PROGRAM;
pub use surroundings::{Process, Surroundings};

/// What packages a job has, and what that means for where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageNeeds {
    /// What was asked for.
    pub names: Vec<String>,
    /// The packages that only a container can have, what was asked for first.
    pub native: Vec<String>,
    /// The packages that a guest of WebAssembly has, what they need and what is built in among them, each by its name as
    /// indexes compare it; none where one is native.
    pub pure: Vec<String>,
    /// What there is to say about them, each in one line.
    pub notes: Vec<String>,
}

/// A request that may be carried out. Only [`admit`] makes one.
#[derive(Debug, Clone)]
pub struct Admitted {
    job: Job,
    image: Image,
    out: Option<HostPath>,
    required: Vec<LimitKind>,
    map: PathMap<HostPath, GuestPath>,
    warm: Option<u32>,
    requirements: Vec<PathBuf>,
    build: bool,
    native: Option<String>,
    pure: Vec<String>,
}

impl Admitted {
    /// The job.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The image of WebAssembly that the request or the policy names.
    #[must_use]
    pub fn image(&self) -> Option<&str> {
        match &self.image {
            Image::Memory(name) => Some(name),
            Image::Container(_) | Image::Any => None,
        }
    }

    /// The container image that the request names.
    #[must_use]
    pub fn container_image(&self) -> Option<&ImageName> {
        match &self.image {
            Image::Container(name) => Some(name),
            Image::Memory(_) | Image::Any => None,
        }
    }

    /// Where files are copied to: an existing directory, free of links.
    #[must_use]
    pub fn out(&self) -> Option<&HostPath> {
        self.out.as_ref()
    }

    /// The limits that must be held, because the request set them.
    #[must_use]
    pub fn required_limits(&self) -> &[LimitKind] {
        &self.required
    }

    /// What the guest sees where, for messages.
    #[must_use]
    pub fn path_map(&self) -> &PathMap<HostPath, GuestPath> {
        &self.map
    }

    /// How many containers like its own are to be ready for later.
    #[must_use]
    pub fn warm(&self) -> Option<u32> {
        self.warm
    }

    /// The files that list packages which the job is to have beside those in it, as they were typed.
    #[must_use]
    pub fn requirements(&self) -> &[PathBuf] {
        &self.requirements
    }

    /// Whether the request asks for packages without wheels to be built.
    #[must_use]
    pub fn asks_to_build(&self) -> bool {
        self.build
    }

    /// The package that ties the job to containers, if one does.
    #[must_use]
    pub fn native(&self) -> Option<&str> {
        self.native.as_deref()
    }

    /// The packages that the job has in WebAssembly, by their names as indexes compare them.
    #[must_use]
    pub fn pure(&self) -> &[String] {
        &self.pure
    }

    /// The same job, of which is known which packages it has, and whether one of them ties it to containers.
    #[must_use]
    pub fn with_packages(mut self, packages: &PackageNeeds) -> Self {
        self.job.packages.clone_from(&packages.names);
        self.native = packages.native.first().cloned();
        self.pure.clone_from(&packages.pure);
        self
    }

    /// The granted directories, free of links; backends settle their overlaps.
    #[must_use]
    pub fn dirs(&self) -> &[DirGrant] {
        &self.job.grants.dirs
    }
}

/// Decides whether `request` may be carried out, and finds everything on the machine that it takes.
///
/// Makes the output directory, if one is wanted, as the last thing; otherwise changes nothing.
///
/// # Errors
/// When something that it names is missing, unusable, contradictory or not allowed.
pub fn admit(request: Request, policy: &Policy, surroundings: &dyn Surroundings) -> Result<Admitted, Denied> {
    let Request {
        program,
        language,
        args,
        dirs,
        net,
        env,
        limits,
        isolation,
        image,
        out,
        stdin,
        warm,
        packages,
        requirements,
        build,
    } = request;
    if let Some(bad) = args.iter().find(|arg| arg.contains('\0')) {
        let subject = ("pass argument", format!("{bad:?}"));
        return Err(Denied::new(
            ResultKind::InvalidRequest,
            subject,
            "it holds a NUL",
            "pass it in a file or on standard input",
        ));
    }
    let isolations = ceilings::isolations(isolation, policy)?;
    let limits_in_force = ceilings::limits(&limits, policy)?;
    let environment = environment::resolve(env, surroundings)?;
    let typed = dirs.clone();
    let dirs = dirs::admit(dirs, &policy.protected, surroundings)?;
    let net = hosts::admit(net, policy)?;
    let map = map_of(&dirs)?;
    let (source, language, file) = load(program, language, &policy.endings, &map, surroundings)?;
    if !packages.is_empty() {
        dirs::beside_packages(&typed, &language)?;
    }
    let image = image::admit(image, &language, isolations, policy)?;
    let out = match out {
        None => None,
        Some(path) => Some(out::admit(&path, &policy.protected, surroundings)?),
    };
    let job = Job {
        args,
        stdin,
        env: environment.values,
        files: file.into_iter().collect(),
        out: out.clone(),
        grants: Grants { dirs, net, env: environment.from_host, tools: Vec::new() },
        limits: limits_in_force,
        isolations,
        packages,
        ..Job::new(source, language)
    };
    let (required, warm) = (limits.required().collect(), warm.or(policy.warm));
    Ok(Admitted { job, image, out, required, map, warm, requirements, build, native: None, pure: Vec::new() })
}

/// The program as a job's source, with the file to put in for it.
fn load(
    program: Program,
    language: Option<Language>,
    endings: &BTreeMap<String, Language>,
    map: &PathMap<HostPath, GuestPath>,
    surroundings: &dyn Surroundings,
) -> Result<(Source, Language, Option<InputFile>), Denied> {
    let (source, text_of) = match program {
        Program::File(path) => {
            let script = script::read(&path, language, endings, surroundings)?;
            let language = script.language.clone();
            let (source, file) = place::place(script, map)?;
            return Ok((source, language, file));
        }
        Program::Command(words) => {
            let source = Source::Command(image::command(words)?);
            return Ok((source, Language::Command, None));
        }
        Program::Inline(text) => (Source::Inline(text), "the program text"),
        Program::Stdin(text) => (Source::Stdin(text), "the program on standard input"),
    };
    let text = source.text().unwrap_or_default();
    script::check_size(text.len() as u64, ("run", text_of))?;
    let language = match (language, &source) {
        (Some(language), _) => language,
        (None, Source::Stdin(_)) => return Err(language::unknown(text_of)),
        (None, _) => language::of_text(text, endings, surroundings).ok_or_else(|| language::unknown(text_of))?,
    };
    Ok((source, language, None))
}

/// What the guest sees where. `/work` and `/tmp` are its own unless they are granted.
pub(crate) fn map_of(dirs: &[DirGrant]) -> Result<PathMap<HostPath, GuestPath>, Denied> {
    let rejected = |detail: String| {
        let shown = dirs.first().map_or("", |dir| dir.host.as_str());
        dirs::rejected(shown, detail, "grant each directory once, each at its own place")
    };
    let settled = settle(dirs).map_err(|error| rejected(error.to_string()))?;
    let private: Vec<GuestPath> = [GuestPath::work(), GuestPath::tmp()]
        .into_iter()
        .filter(|own| settled.iter().all(|dir| dir.guest != *own))
        .collect();
    let mounts = settled.into_iter().map(|dir| Mount { from: dir.host, to: dir.guest, access: dir.access });
    PathMap::with_private(mounts, private).map_err(|error| rejected(error.to_string()))
}

#[cfg(test)]
mod tests;
