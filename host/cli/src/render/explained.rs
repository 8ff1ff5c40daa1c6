//! Output of `codebox explain`.

use std::fmt::{self, Display};

use codebox_core::{RunnerError, wire};
use codebox_runner::{Explanation, TierReport};
use codebox_service::levels::LevelSetting;
use codebox_service::{ImageChoice, Need, Preference, Project};
use serde::Serialize;

use super::Escaped;

/// Backend that a program would use, the reason, and the reasons against the other backends.
#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    program: String,
    isolation: Option<&'static str>,
    backend: Option<String>,
    reason: Option<String>,
    image: Option<Image>,
    packages: Vec<String>,
    needs: Vec<NeedLine>,
    would_need: Vec<NeedLine>,
    settings: Vec<Setting>,
    tiers: Vec<Tier>,
    project: Option<ProjectReport>,
    error: Option<wire::v1::ErrorReport>,
    /// Same error, as the failure of the command.
    #[serde(skip)]
    pub failure: Option<RunnerError>,
}

/// Image of a WebAssembly run.
#[derive(Debug, Serialize)]
pub(crate) struct Image {
    pub name: String,
    pub reason: String,
}

/// A need, with the line and the words of the program that show it.
#[derive(Debug, Serialize)]
pub(crate) struct NeedLine {
    power: String,
    weight: &'static str,
    line: u32,
    shown_by: String,
}

impl From<&Need> for NeedLine {
    fn from(need: &Need) -> Self {
        let Need { power, weight, line, words } = need;
        Self { power: power.report_name(), weight: weight.as_str(), line: *line, shown_by: words.clone() }
    }
}

/// Setting of one level.
#[derive(Debug, Serialize)]
pub(crate) struct Setting {
    level: &'static str,
    requires: Option<String>,
    prefers: Option<String>,
    source: String,
}

impl From<&LevelSetting> for Setting {
    fn from(setting: &LevelSetting) -> Self {
        let LevelSetting { level, requires, prefers, source } = setting;
        let text = |value: &Option<Preference>| value.map(|value| value.to_string());
        Self { level: level.as_str(), requires: text(requires), prefers: text(prefers), source: source.clone() }
    }
}

impl Setting {
    fn line(&self) -> String {
        let Self { level, requires, prefers, source } = self;
        let parts = [("requires", requires), ("prefers", prefers)];
        let parts = parts.into_iter().filter_map(|(verb, value)| Some(format!("{verb} {}", value.as_ref()?)));
        let said = parts.collect::<Vec<_>>().join(" and ");
        let said = if said.is_empty() { "found".to_owned() } else { said };
        format!("setting {level}: {said} ({source})")
    }
}

/// A backend, with the features that it lacks.
#[derive(Debug, Serialize)]
pub(crate) struct Tier {
    pub backend: String,
    pub isolation: &'static str,
    pub chosen: bool,
    pub available: bool,
    pub against: Option<String>,
    pub fix: Option<String>,
    pub lacks: Vec<String>,
}

impl Explained {
    pub(crate) fn new(program: String, explanation: Explanation) -> Self {
        let Explanation { choice, image, notes, needs, levels, tiers, project } = explanation;
        let (choice, failure) = match choice {
            Ok(choice) => (Some(choice), None),
            Err(failure) => (None, Some(failure)),
        };
        Self {
            program,
            isolation: choice.as_ref().map(|choice| choice.isolation.as_str()),
            backend: choice.as_ref().map(|choice| choice.backend.to_string()),
            would_need: choice.iter().flat_map(|choice| &choice.would_need).map(NeedLine::from).collect(),
            reason: choice.map(|choice| choice.reason),
            image: image.map(|ImageChoice { name, reason }| Image { name, reason }),
            packages: notes,
            needs: needs.iter().map(NeedLine::from).collect(),
            settings: levels.iter().map(Setting::from).collect(),
            tiers: tiers.into_iter().map(Tier::from).collect(),
            project: project.map(ProjectReport::from),
            error: failure.as_ref().map(RunnerError::to_wire),
            failure,
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match (self.isolation, &self.backend, &self.reason) {
            (Some(isolation), Some(backend), Some(reason)) => {
                let by = if backend == isolation { String::new() } else { format!(" ({backend})") };
                lines.push(format!("{} would run in {isolation}{by}: {reason}", self.program));
            }
            _ => lines.push(format!("{} would not run", self.program)),
        }
        if let Some(Image { name, reason }) = &self.image {
            lines.push(format!("it would start from image {name}: {reason}"));
        }
        lines.extend(self.project.iter().flat_map(ProjectReport::lines));
        lines.extend(self.packages.iter().cloned());
        for NeedLine { power, weight, line, shown_by } in &self.needs {
            let verb = if *weight == "required" { "needs" } else { "optionally uses" };
            lines.push(format!("line {line} {verb} {power}: {shown_by}"));
        }
        // The default alone says nothing.
        if self.settings.len() > 1 {
            lines.extend(self.settings.iter().map(Setting::line));
        }
        lines.extend(self.tiers.iter().flat_map(Tier::lines));
        lines
    }
}

/// Project whose files the program would get.
#[derive(Debug, Serialize)]
struct ProjectReport {
    directory: String,
    files: usize,
    left_out: Vec<LeftOutLine>,
}

/// Entry of a project that is not copied.
#[derive(Debug, Serialize)]
struct LeftOutLine {
    path: String,
    reason: String,
}

impl From<Project> for ProjectReport {
    fn from(project: Project) -> Self {
        let Project { host, files, left_out, manifests: _ } = project;
        let left_out = left_out
            .into_iter()
            .map(|entry| LeftOutLine { path: entry.path, reason: entry.reason.to_string() })
            .collect();
        Self { directory: host.to_string(), files, left_out }
    }
}

impl ProjectReport {
    fn lines(&self) -> Vec<String> {
        let Self { directory, files, left_out } = self;
        let first = format!("it would get copies of {files} files of {directory} in /work");
        let others = left_out.iter().map(|LeftOutLine { path, reason }| format!("left out {path}: {reason}"));
        std::iter::once(first).chain(others).collect()
    }
}

impl From<TierReport> for Tier {
    fn from(report: TierReport) -> Self {
        let TierReport { backend, isolation, chosen, available, against, fix, lacks } = report;
        Self { backend, isolation: isolation.as_str(), chosen, available, against, fix, lacks }
    }
}

impl Tier {
    fn lines(&self) -> Vec<String> {
        let Self { backend, isolation, chosen, available, against, fix, lacks } = self;
        let state = match (chosen, available, against) {
            (true, ..) => "chosen".to_owned(),
            (false, true, None) => "also suitable".to_owned(),
            (false, true, Some(reason)) => format!("rejected: {reason}"),
            (false, false, reason) => format!("not available: {}", reason.as_deref().unwrap_or("not probed")),
        };
        let name = if backend == isolation { backend.clone() } else { format!("{backend} ({isolation})") };
        let mut lines = vec![format!("tier {name}: {state}")];
        if !lacks.is_empty() {
            lines.push(format!("  lacks {}", lacks.join(", ")));
        }
        if let Some(fix) = fix.as_ref().filter(|fix| !chosen && !fix.is_empty()) {
            lines.push(format!("  fix: {fix}"));
        }
        lines
    }
}

impl Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|line| writeln!(f, "{}", Escaped(line)))
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, Isolation, ResultKind};
    use codebox_service::{Capability, Choice, Weight};

    use super::*;

    fn need(weight: Weight) -> Need {
        Need { power: Capability::Threads, weight, line: 3, words: "threading.Thread".to_owned() }
    }

    fn tier(backend: &str, isolation: Isolation) -> TierReport {
        TierReport {
            backend: backend.to_owned(),
            isolation,
            chosen: false,
            available: true,
            against: None,
            fix: None,
            lacks: Vec::new(),
        }
    }

    #[test]
    fn explains_backend_reason_and_missing_features() {
        let choice = Choice {
            backend: BackendId::new("podman"),
            isolation: Isolation::Container,
            reason: "line 3 needs threads".to_owned(),
            rejected: Vec::new(),
            would_need: Vec::new(),
        };
        let needs = vec![need(Weight::Required), need(Weight::Optional)];
        let tiers = vec![
            TierReport { lacks: vec!["threads".to_owned(), "processes".to_owned()], ..tier("wasm", Isolation::Wasm) },
            TierReport {
                chosen: true,
                fix: Some("no fix is needed".to_owned()),
                ..tier("podman", Isolation::Container)
            },
            TierReport {
                available: false,
                against: Some("no\nsocket".to_owned()),
                fix: Some("start dockerd".to_owned()),
                ..tier("docker", Isolation::Container)
            },
        ];
        let notes = vec!["packages: rich 13.0".to_owned()];
        let explanation =
            Explanation { choice: Ok(choice), image: None, notes, needs, levels: Vec::new(), tiers, project: None };
        let explained = Explained::new("a.py".to_owned(), explanation);
        assert_eq!(
            explained.to_string(),
            "a.py would run in container (podman): line 3 needs threads\n\
             packages: rich 13.0\n\
             line 3 needs threads: threading.Thread\n\
             line 3 optionally uses threads: threading.Thread\n\
             tier wasm: also suitable\n  lacks threads, processes\n\
             tier podman (container): chosen\n\
             tier docker (container): not available: no\\nsocket\n  fix: start dockerd\n"
        );
    }

    #[test]
    fn document_contains_error() {
        let failure = RunnerError::new(ResultKind::EngineUnavailable, "no backend").with_fix("start podman");
        let (notes, needs, tiers) = (Vec::new(), Vec::new(), Vec::new());
        let explanation =
            Explanation { choice: Err(failure), image: None, notes, needs, levels: Vec::new(), tiers, project: None };
        let explained = Explained::new("a.py".to_owned(), explanation);
        assert_eq!(explained.to_string(), "a.py would not run\n");
        let json = serde_json::to_value(&explained).expect("it is plain data");
        assert!(json["isolation"].is_null() && json["error"].is_object(), "{json}");
    }
}
