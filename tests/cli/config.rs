//! `codebox config`.

use std::fs;

use serde_json::Value;

use crate::support::{folder, kit, run};

#[test]
fn values_are_shown_with_their_files() {
    let (home, dir) = (folder(), folder());
    let codebox = |args: &[&str]| {
        let codebox = kit().codebox().home(home.path()).folder(dir.path());
        run(codebox.args(args.iter().copied()))
    };
    let user = home.path().join("config/config.toml");
    let paths = codebox(&["config", "path"]).stdout_text();
    assert!(paths.contains(&format!("user     {}", user.display())) && paths.contains("missing"), "{paths}");
    fs::create_dir_all(user.parent().expect("a parent")).expect("a directory");
    fs::write(&user, "[limits]\ntimeout = '5s'\n").expect("it is ours");
    fs::write(dir.path().join("codebox.toml"), "isolation = 'wasm'\n").expect("it is ours");
    let shown = codebox(&["config", "show", "--json"]).stdout_text();
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let values = shown["values"].as_array().expect("values");
    let of = |key: &str| values.iter().find(|value| value["key"] == key).expect("it is set");
    assert_eq!((&of("limits.timeout")["value"], &of("limits.timeout")["from"]), (&"\"5s\"".into(), &"user".into()));
    assert_eq!((&of("isolation")["from"], &of("limits.memory")["from"]), (&"project".into(), &"default".into()));
    let table = codebox(&["config", "show"]).stdout_text();
    assert!(table.lines().any(|line| line.starts_with("limits.timeout") && line.contains("user: ")), "{table}");
    assert_eq!(codebox(&["config", "check"]).code, Some(0));
    fs::write(dir.path().join("codebox.toml"), "isolation = 'none'\n").expect("it is ours");
    let checked = codebox(&["config", "check"]);
    assert!(
        checked.code == Some(125) && checked.stderr_text().contains("codebox.toml: isolation: "),
        "{}",
        checked.stderr_text()
    );
    fs::remove_file(dir.path().join("codebox.toml")).expect("it is ours");
    // The editor gets the file, and what it leaves is checked.
    fs::remove_file(&user).expect("it is ours");
    let edit = |editor: &str| {
        let codebox = kit().codebox().home(home.path()).folder(dir.path()).env("EDITOR", editor).env("VISUAL", "");
        run(codebox.args(["config", "edit"]))
    };
    let edited = edit("sed -i $awarm=1");
    assert_eq!(edited.code, Some(0), "{}", edited.stderr_text());
    assert!(fs::read_to_string(&user).expect("it was created").ends_with("\nwarm=1\n"));
    let edited = edit("sed -i $awarm='x'");
    assert!(edited.code == Some(125) && edited.stderr_text().contains("config.toml"), "{}", edited.stderr_text());
    let edited = edit("");
    assert!(edited.code == Some(125) && edited.stderr_text().contains("set EDITOR"), "{}", edited.stderr_text());
}
