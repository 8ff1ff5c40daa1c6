//! Settings of the environment of a job over six levels, of which each can require something or only prefer it.
//!
//! Requirements of all levels apply together. Of several preferences, that of the first level that the requirements allow counts.

use std::fmt;

use codebox_core::{Isolation, IsolationSet};

use crate::admission::{Escalation, Preference};

/// Level of a setting, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The call: options of the command line, or the request of a program.
    Call,
    /// The definition of a tool or of a session.
    Tool,
    /// The file `codebox.toml` of the project.
    Project,
    /// The dev container that the project describes.
    DevContainer,
    /// The configuration of the user.
    User,
    /// The behaviour without any setting.
    Default,
}

impl Level {
    /// Returns the name in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Tool => "tool",
            Self::Project => "project",
            Self::DevContainer => "dev-container",
            Self::User => "user",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Setting of one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSetting {
    /// The level.
    pub level: Level,
    /// Environment that it requires.
    pub requires: Option<Preference>,
    /// Environment that it prefers.
    pub prefers: Option<Preference>,
    /// Place of the setting, such as an option, a key or a file.
    pub source: String,
}

impl LevelSetting {
    /// Returns the setting that applies without any other.
    #[must_use]
    pub fn default_level() -> Self {
        Self {
            level: Level::Default,
            requires: None,
            prefers: Some(Preference::Only(Isolation::Wasm)),
            source: "built in".to_owned(),
        }
    }
}

/// Isolation that a level prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreferredIsolation {
    /// The isolation.
    pub isolation: Isolation,
    /// The level.
    pub level: Level,
    /// Place of the setting.
    pub source: String,
}

/// Returns the isolation that the first level with a preference among the accepted ones prefers; `None` if it is that of the default.
///
/// Under a policy that forbids escalation, only the user can prefer a weaker isolation: by the call or by the configuration.
#[must_use]
pub fn preferred(
    settings: &[LevelSetting],
    accepted: IsolationSet,
    escalation: Escalation,
) -> Option<PreferredIsolation> {
    let of_user = |level| matches!(level, Level::Call | Level::User);
    let usable = |setting: &LevelSetting| {
        let isolation = match setting.prefers? {
            Preference::Only(isolation) => isolation,
            Preference::DevContainer | Preference::Auto | Preference::Among(_) => return None,
        };
        let is_allowed = escalation == Escalation::Allowed || isolation == Isolation::Wasm || of_user(setting.level);
        (accepted.contains(isolation) && is_allowed).then_some(PreferredIsolation {
            isolation,
            level: setting.level,
            source: setting.source.clone(),
        })
    };
    let mut levels: Vec<&LevelSetting> = settings.iter().collect();
    levels.sort_by_key(|setting| setting.level);
    levels.into_iter().find_map(usable).filter(|found| found.level != Level::Default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefers(level: Level, isolation: Isolation) -> LevelSetting {
        let prefers = Some(Preference::Only(isolation));
        LevelSetting { level, requires: None, prefers, source: level.to_string() }
    }

    #[test]
    fn the_first_level_that_is_allowed_counts() {
        use Isolation::{Container, Vm, Wasm};
        let found = |settings: &[LevelSetting], accepted: &[Isolation], escalation| {
            let accepted = IsolationSet::of(accepted.iter().copied()).expect("one isolation");
            preferred(settings, accepted, escalation).map(|found| (found.isolation, found.level))
        };
        let all = [prefers(Level::User, Container), prefers(Level::Call, Vm), LevelSetting::default_level()];
        let allowed = Escalation::Allowed;
        assert_eq!(found(&all, &[Wasm, Container, Vm], allowed), Some((Vm, Level::Call)));
        assert_eq!(found(&all, &[Wasm, Container], allowed), Some((Container, Level::User)));
        assert_eq!(found(&all, &[Wasm], allowed), None);
        let project = [prefers(Level::Project, Container)];
        assert_eq!(found(&project, &[Wasm, Container], allowed), Some((Container, Level::Project)));
        assert_eq!(found(&project, &[Wasm, Container], Escalation::Forbidden), None);
        let user = [prefers(Level::Project, Wasm), prefers(Level::User, Container)];
        assert_eq!(found(&user, &[Wasm, Container], Escalation::Forbidden), Some((Wasm, Level::Project)));
    }
}
