//! JSON report of a run.

use serde_json::Value;

/// Output of `codebox run --json`: a report, or an error of codebox itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Report(Value);

impl Report {
    /// Wraps a parsed report.
    #[must_use]
    pub fn new(document: Value) -> Self {
        Self(document)
    }

    /// Returns the whole document.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// Returns the value at a JSON pointer, or null if it is absent.
    #[must_use]
    pub fn at(&self, pointer: &str) -> &Value {
        self.0.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or("")
    }

    /// Returns the kind of the outcome or of the error.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self.text("/kind") {
            "" => self.text("/error/kind"),
            kind => kind,
        }
    }

    /// Formats the outcome like the headers of hostile programs: "exited 0", "limit wall", "trapped stack".
    #[must_use]
    pub fn outcome(&self) -> String {
        match self.text("/outcome/type") {
            "exited" => format!("exited {}", self.at("/outcome/status").as_i64().unwrap_or(i64::MIN) & 0xff),
            "limit_hit" => format!("limit {}", self.text("/outcome/limit")),
            "trapped" if self.text("/outcome/trap") == "stack_overflow" => "trapped stack".to_owned(),
            "trapped" => "trapped other".to_owned(),
            "" => format!("failed {}", self.kind()),
            other => other.to_owned(),
        }
    }

    /// Returns the exit status that the report contains.
    #[must_use]
    pub fn exit_code(&self) -> Option<i64> {
        self.at("/exit_code").as_i64().or_else(|| self.at("/error/exit_code").as_i64())
    }

    /// Returns the program's standard output.
    #[must_use]
    pub fn stdout(&self) -> &str {
        self.text("/stdout")
    }

    /// Returns the program's standard error.
    #[must_use]
    pub fn stderr(&self) -> &str {
        self.text("/stderr")
    }

    /// Returns the lines of standard output that are JSON objects.
    #[must_use]
    pub fn lines(&self) -> Vec<Value> {
        let parsed = self.stdout().lines().filter_map(|line| serde_json::from_str(line).ok());
        parsed.filter(Value::is_object).collect()
    }

    /// Returns the capabilities that the program lacked.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        let missing = self.at("/missing").as_array().map(Vec::as_slice).unwrap_or_default();
        missing.iter().filter_map(|one| one["what"].as_str()).collect()
    }

    /// Returns the guest paths of the files in one of the report's lists.
    #[must_use]
    pub fn files(&self, list: &str) -> Vec<&str> {
        let files = self.at(&format!("/files/{list}")).as_array().map(Vec::as_slice).unwrap_or_default();
        files.iter().filter_map(|file| file["guest_path"].as_str()).collect()
    }

    /// Returns one file of the report's lists by its guest path.
    #[must_use]
    pub fn file(&self, guest: &str) -> Option<&Value> {
        let lists =
            ["created", "modified"].into_iter().filter_map(|list| self.at(&format!("/files/{list}")).as_array());
        lists.flatten().find(|file| file["guest_path"] == guest)
    }
}
