//! The table of packages in a configuration file.

use std::path::Path;

use serde::Deserialize;

use super::ConfigError;

/// The table as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    allow: Option<Vec<String>>,
    index: Option<String>,
}

/// Which packages may be had, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packages {
    /// The only ones that may be asked for; any, where there is no list. What they need themselves comes with them.
    pub allow: Option<Vec<String>>,
    /// The only index that is asked; the user's own settings for indexes count where there is none.
    pub index: Option<String>,
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<Packages, ConfigError> {
        let Self { allow, index } = self;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '/');
        if let Some(bad) = allow.iter().flatten().find(|name| name.is_empty() || !name.chars().all(plain)) {
            let detail = format!("{bad:?} is not the name of a package");
            return Err(ConfigError::new(file, "packages.allow", detail, "write names alone, without versions"));
        }
        if let Some(bad) =
            index.as_deref().filter(|index| !index.starts_with("http://") && !index.starts_with("https://"))
        {
            let detail = format!("{bad:?} is not an address");
            return Err(ConfigError::new(file, "packages.index", detail, "write an address that begins with https://"));
        }
        Ok(Packages { allow, index })
    }
}

impl Packages {
    /// Whether a package may be asked for, by its name in any spelling.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        let name = spelled(name);
        self.allow.as_ref().is_none_or(|allowed| allowed.iter().any(|one| spelled(one) == name))
    }

    /// These, narrowed by a project's, which cannot say where packages come from.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        if project.index.is_some() {
            let fix = "leave it out, or put it into your own configuration";
            return Err(ConfigError::new(
                file,
                "packages.index",
                "a project cannot choose where packages come from",
                fix,
            ));
        }
        let allow = match (&self.allow, &project.allow) {
            (Some(_), Some(theirs)) => Some(theirs.iter().filter(|name| self.allows(name)).cloned().collect()),
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        };
        Ok(Self { allow, index: self.index.clone() })
    }
}

/// A name as indexes compare it.
fn spelled(name: &str) -> String {
    let mut spelled = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if spelled.ends_with('-') => {}
            '-' | '_' | '.' => spelled.push('-'),
            c => spelled.push(c.to_ascii_lowercase()),
        }
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(allow: Option<&[&str]>, index: Option<&str>) -> Packages {
        let allow = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Packages { allow, index: index.map(str::to_owned) }
    }

    #[test]
    fn a_project_only_narrows() {
        let file = Path::new("codebox.toml");
        let none = packages(None, None);
        let user = packages(Some(&["requests", "Rich"]), Some("https://index.invalid/simple"));
        let both = user.narrowed(&packages(Some(&["rich", "numpy"]), None), file).expect("it narrows");
        assert_eq!(both, packages(Some(&["rich"]), Some("https://index.invalid/simple")));
        assert!(both.allows("RICH") && !both.allows("numpy") && !both.allows("requests"));
        assert_eq!(none.narrowed(&packages(Some(&["a"]), None), file), Ok(packages(Some(&["a"]), None)));
        assert!(none.narrowed(&packages(None, Some("https://other.invalid/")), file).is_err());
        assert_eq!(user.narrowed(&none, file), Ok(user));
    }
}
