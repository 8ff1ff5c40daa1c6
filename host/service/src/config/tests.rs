use std::time::Duration;

use codebox_core::{Approval, ByteSize, Isolation, Limit};
use proptest::prelude::*;

use super::*;
use crate::journal::Audit;

fn parsed(text: &str) -> Result<Settings, ConfigError> {
    Settings::parse(text, Path::new("config.toml"))
}

fn settings(text: &str) -> Settings {
    parsed(text).expect("a good configuration")
}

fn narrowed(user: &Settings, project: &Settings) -> Result<Settings, ConfigError> {
    narrow(user, project, Path::new("codebox.toml"))
}

#[test]
fn tools_have_an_action_and_schemas() {
    let text = r#"
        [tools.double]
        description = "Doubles."
        run = "tools/double.py"
        input = { type = "object", properties = { n = { type = "integer" } } }
        approval = "ask"
        timeout = "5s"
        with = ["rich"]
        dirs = ["/tmp:/data"]
        [tools.log]
        command = ["git", "log"]
        [tools."git.commit"]
        approval = "deny"
    "#;
    let tools = Settings::parse(text, Path::new("/home/config.toml")).expect("valid").tools;
    let tool = |name: &str| &tools[&codebox_core::ToolName::new(name).expect("valid")];
    let double = tool("double");
    assert_eq!((double.approval, double.timeout), (Approval::Ask, Some(Duration::from_secs(5))));
    assert_eq!(double.input["properties"]["n"]["type"], "integer");
    let Some(ToolAction::Run(program)) = &double.action else { panic!("{double:?}") };
    let file = ToolProgram::File { dir: "/home".into(), path: "tools/double.py".into() };
    assert_eq!((&program.program, program.dirs.len(), program.packages.len()), (&file, 1, 1));
    assert_eq!(tool("log").action, Some(ToolAction::Command(vec!["git".to_owned(), "log".to_owned()])));
    assert_eq!((tool("git.commit").action.clone(), tool("git.commit").approval), (None, Approval::Deny));
}

#[test]
fn tools_with_faults_are_refused() {
    for (text, fault) in [
        ("[tools.\"a b\"]\nrun = 'a.py'", "tools.a b: the name is invalid"),
        ("[tools.a]\nrun = 'a.py'\ncommand = ['b']", "tools.a: it has run and command"),
        ("[tools.a]\ntimeout = '5s'", "tools.a: it has neither run nor command"),
        ("[tools.a]\ncommand = []", "tools.a.command: the command is empty"),
        ("[tools.a]\ncommand = ['b']\nnet = ['x.org']", "tools.a: only a tool with run has grants"),
        ("[tools.a]\nrun = '../a.py'", "tools.a.run: ../a.py is not a path below"),
        ("[tools.a]\nrun = '/a.py'", "tools.a.run: /a.py is not a path below"),
        ("[tools.a]\nrun = 'a.py'\ndirs = ['x:y']", "tools.a.dirs: "),
        ("[tools.a]\nrun = 'a.py'\ntimeout = 'unlimited'", "tools.a.timeout: a call has a time limit"),
        ("[tools.a]\nrun = 'a.py'\nisolation = 'x'", "tools.a.isolation: "),
        ("[tools.a]\nrun = 'a.py'\nprefer-isolation = 'auto'", "tools.a.prefer-isolation: "),
        ("[tools.a]\ncommand = ['b']\nprefer-isolation = 'wasm'", "tools.a: only a tool with run has grants"),
        ("[tools.a]\nrun = 'a.py'\napproval = 'maybe'", "unknown variant"),
        ("[tools.a]\nrun = 'a.py'\nshell = true", "unknown field"),
    ] {
        let error = Settings::parse(text, Path::new("config.toml")).expect_err(text).to_string();
        assert!(error.contains(fault), "{text}: {error}");
    }
}

#[test]
fn containers_have_powers_of_the_user_alone() {
    use codebox_core::ContainerPower::{Mounts, Sockets};
    let user = settings("[containers]\npowers = ['sockets', 'mounts']\ndev-container = 'prefer'");
    assert_eq!(user.containers.powers, [Mounts, Sockets].into());
    assert_eq!(user.containers.dev_container, Some(DevContainerUse::Preferred));
    let policy = narrowed(&user, &settings("")).expect("no conflict").policy(Vec::new());
    assert_eq!((policy.container_powers.len(), policy.dev_container), (2, DevContainerUse::Preferred));
    for (text, fault) in [
        ("powers = ['sockets']", "containers.powers: a project cannot give"),
        ("dev-container = 'require'", "containers.dev-container: a project cannot make"),
    ] {
        let error = narrowed(&user, &settings(&format!("[containers]\n{text}"))).expect_err(text).to_string();
        assert!(error.contains(fault), "{error}");
    }
    for text in ["powers = ['root']", "powers = 'sockets'", "dev-container = 'always'", "power = []"] {
        assert!(parsed(&format!("[containers]\n{text}")).is_err(), "{text}");
    }
}

#[test]
fn both_files_can_prefer_an_isolation() {
    let user = settings("isolation = 'wasm,container'\nprefer-isolation = 'container'");
    let levels = |project: &str| -> Vec<(Level, Option<String>, Option<String>)> {
        let both = narrowed(&user, &settings(project)).expect("no conflict");
        let text = |value: Option<Preference>| value.map(|value| value.to_string());
        both.levels.iter().map(|one| (one.level, text(one.requires), text(one.prefers))).collect()
    };
    let of_user = (Level::User, Some("wasm,container".to_owned()), Some("container".to_owned()));
    assert_eq!(levels(""), std::slice::from_ref(&of_user));
    assert_eq!(levels("prefer-isolation = 'wasm'"), [(Level::Project, None, Some("wasm".to_owned())), of_user]);
    for text in ["'auto'", "'wasm,container'", "'devcontainer'", "'x'"] {
        let error = parsed(&format!("prefer-isolation = {text}")).expect_err(text).to_string();
        assert!(error.contains("prefer-isolation: "), "{error}");
    }
}

#[test]
fn tools_of_a_project_have_no_powers() {
    let parsed = |text: &str, file: &str| Settings::parse(text, Path::new(file)).expect("valid");
    let user = parsed("[tools.log]\ncommand = ['git', 'log']", "config.toml");
    let narrowed = |text: &str| narrow(&user, &parsed(text, "codebox.toml"), Path::new("codebox.toml"));
    let tools = narrowed("[tools.a]\nrun = 'a.py'\nwith = ['rich']").expect("it is allowed").tools;
    assert_eq!(tools.len(), 2);
    for (text, fault) in [
        ("[tools.a]\ncommand = ['id']", "tools.a.command: a project cannot run commands"),
        ("[tools.a]\nrun = 'a.py'\ndirs = ['/:/host']", "tools.a.dirs: a project cannot give its tools grants"),
        ("[tools.a]\nrun = 'a.py'\nnet = ['x.org']", "tools.a.net: "),
        ("[tools.a]\nrun = 'a.py'\nenv = ['TOKEN']", "tools.a.env: "),
        ("[tools.a]\nrun = ['cat']\nimage = 'registry.internal/x'", "tools.a.image: "),
        (
            "[tools.a]\nrun = 'a.py'\nisolation = 'devcontainer'",
            "tools.a.isolation: a project cannot choose its dev container",
        ),
        ("[tools.log]\nrun = 'a.py'", "tools.log: the user configuration has a tool of this name"),
        ("[tools.log]\napproval = 'allow'", "tools.log: the user configuration has a tool of this name"),
    ] {
        let error = narrowed(text).expect_err(text).to_string();
        assert!(error.contains(fault), "{text}: {error}");
    }
}

#[test]
fn reads_every_key() {
    let all = settings(
        "isolation = \"wasm\"\nimage = \"python-data\"\n\
         [limits]\ntimeout = 5\ncpu = \"1m\"\nmemory = \"256M\"\noutput = 1024\ndisk = \"unlimited\"\n\
         files = 10\nopen-files = \"5\"\nprocesses = 3\nfuel = 100\n[ceilings]\nmemory = \"1G\"\n",
    );
    assert_eq!(all.isolations, Some(IsolationSet::only(Isolation::Wasm)));
    assert_eq!(all.limits.wall, Some(Limit::At(Duration::from_secs(5))));
    assert_eq!(all.limits.disk, Some(Limit::Unlimited));
    let policy = all.policy(Vec::new());
    assert_eq!(policy.ceilings.memory, Limit::At(ByteSize::gib(1)));
    assert_eq!(policy.ceilings.wall, Limit::Unlimited);
    assert_eq!(policy.image.as_deref(), Some("python-data"));
    assert_eq!(settings("").policy(Vec::new()), Policy::default());
}

#[test]
fn errors_name_file_and_line() {
    for (text, part) in [
        ("[limits]\ntimout = 5", "line 2: unknown field `timout`"),
        ("isolation = \"docker\"", "isolation: invalid isolation \"docker\""),
        ("[limits]\nmemory = \"lots\"", "limits.memory: invalid size \"lots\""),
        ("[ceilings]\ntimeout = 0", "ceilings.timeout: invalid duration \"0\""),
        ("[limits]\nprocesses = 5000000000", "limits.processes: it is too large"),
        ("[limits]\nfiles = true", "limits.files: expected a string or a number, found boolean"),
        ("image = \"node:22\"", "image: \"node:22\" is not the name of a memory image"),
        ("x = [", "line 1: "),
    ] {
        let error = parsed(text).expect_err(text);
        let message = error.to_string();
        assert!(message.starts_with("invalid configuration in config.toml: "), "{message}");
        assert!(message.contains(part), "{message}");
        assert!(!message.contains('\n') && !error.fix.is_empty(), "{message}");
        assert!(!message.contains(&error.fix), "{message}");
    }
}

#[test]
fn a_project_can_only_require_the_audit_log() {
    for (user, project, expected) in [
        ("", "", None),
        ("audit = false", "", Some(Audit::Off)),
        ("audit = true", "audit = false", Some(Audit::On)),
        ("", "audit = false", Some(Audit::On)),
        ("require-audit = true", "audit = false", Some(Audit::Required)),
        ("", "require_audit = true", Some(Audit::Required)),
        ("audit = false", "require-audit = true", Some(Audit::Required)),
    ] {
        let both = narrowed(&settings(user), &settings(project)).expect("nothing contradicts");
        assert_eq!(both.audit, expected, "{user} {project}");
    }
    let error = parsed("audit = false\nrequire-audit = true").expect_err("they contradict");
    assert!(error.to_string().contains("require-audit: the audit log is turned off"), "{error}");
}

#[test]
fn project_only_narrows() {
    let user = settings("isolation = \"wasm,container\"\n[limits]\ntimeout = 10\n");
    let project = settings("isolation = \"wasm,vm\"\n[limits]\ntimeout = 20\nmemory = \"4G\"\n");
    let both = narrowed(&user, &project).expect("wasm is left");
    assert_eq!(both.isolations, Some(IsolationSet::only(Isolation::Wasm)));
    assert_eq!(both.limits.wall, user.limits.wall);
    assert_eq!(both.limits.memory, Some(Limits::default().memory));
    let project = settings("[limits]\ntimeout = 5\n[ceilings]\nmemory = \"64M\"\n");
    let both = narrowed(&user, &project).expect("nothing contradicts");
    assert_eq!(both.limits.wall, Some(Limit::At(Duration::from_secs(5))));
    assert_eq!(both.ceilings.memory, Some(Limit::At(ByteSize::mib(64))));
    let error = narrowed(&user, &settings("isolation = \"vm\"")).expect_err("none is left");
    assert!(error.to_string().contains("codebox.toml: isolation: vm"), "{error}");
}

#[test]
fn empty_project_changes_nothing() {
    let user = settings("image = \"a\"\n[limits]\ntimeout = 10\n[ceilings]\nfiles = 3\n");
    assert_eq!(narrowed(&user, &Settings::default()), Ok(user));
}

#[test]
fn project_cannot_widen_network() {
    let hosts =
        |texts: &[&str]| Some(texts.iter().map(|text| text.parse().expect("a grant")).collect::<Vec<NetGrant>>());
    let user = settings("[network]\nallow = [\"*.example.org\", \"10.0.0.0/8\"]\n");
    let project = settings("[network]\nallow = [\"a.example.org:443\"]\n");
    let both = narrowed(&user, &project).expect("it is less");
    assert_eq!(both.policy(Vec::new()).allowed_hosts, hosts(&["a.example.org:443"]));
    assert_eq!(narrowed(&user, &Settings::default()).map(|both| both.allowed_hosts), Ok(user.allowed_hosts.clone()));
    // A project can restrict the hosts if the user's file does not, and its list never grants a host.
    let alone = narrowed(&Settings::default(), &project).expect("it is less than any");
    assert_eq!(alone.allowed_hosts, hosts(&["a.example.org:443"]));
    for (text, host) in [("evil.com", "evil.com"), ("0.0.0.0/0", "0.0.0.0/0"), ("169.254.169.254", "169.254.169.254")] {
        let hostile = settings(&format!("[network]\nallow = [\"{text}\"]\n"));
        let error = narrowed(&user, &hostile).expect_err(text);
        assert!(
            error
                .to_string()
                .contains(&format!("codebox.toml: network.allow: {host} is not allowed by the user configuration")),
            "{error}"
        );
    }
    for bad in ["[network]\ngrant = [\"a.org\"]", "net = [\"a.org\"]", "[network]\nallow = [\"http://a.org\"]"] {
        assert!(parsed(bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn project_settings_only_narrow(ours in 1u64..9, theirs in 1u64..9, ceiling in 1u64..9) {
        let user = settings(&format!("[limits]\nmemory = {ours}\n[ceilings]\nmemory = {ceiling}\n"));
        let project = settings(&format!("[limits]\nmemory = {theirs}\n[ceilings]\nmemory = {theirs}\n"));
        let both = narrowed(&user, &project).expect("no isolation is named").policy(Vec::new());
        let alone = user.policy(Vec::new());
        prop_assert_eq!(both.defaults.min(alone.defaults), both.defaults);
        prop_assert_eq!(both.ceilings.min(alone.ceilings), both.ceilings);
    }

    #[test]
    fn arbitrary_text_is_never_a_panic(text in any::<String>()) {
        let _ = parsed(&text);
    }
}

#[test]
fn either_file_disables_automatic_images() {
    for (user, project, expected) in [
        ("", "", None),
        ("automatic-images = true", "", Some(true)),
        ("automatic-images = true", "automatic-images = false", Some(false)),
        ("automatic-images = false", "automatic-images = true", Some(false)),
    ] {
        let both = narrowed(&settings(user), &settings(project)).expect("no conflict");
        assert_eq!(both.automatic_images, expected, "{user:?} {project:?}");
    }
}

#[test]
fn only_the_user_configures_the_host_process() {
    let user = settings("[host]\nenabled = false\nautostart = true\nidle = 5\n");
    let expected = HostProcess { enabled: false, autostart: true, idle: Limit::At(Duration::from_secs(5)) };
    assert_eq!(user.host, expected);
    assert_eq!(narrowed(&user, &settings("")).expect("no conflict").host, expected);
    for text in ["[host]\nenabled = false", "[host]\nautostart = true", "[host]\nidle = \"unlimited\""] {
        let refused = narrowed(&Settings::default(), &settings(text)).expect_err("a project's setting");
        assert_eq!(refused.key, "host", "{text}");
    }
    for (text, key) in [("[host]\nidle = \"soon\"", "host.idle"), ("[host]\nidel = 5", "")] {
        assert_eq!(parsed(text).expect_err("a bad value").key, key);
    }
}

#[test]
fn the_virtual_machine_belongs_to_the_user() {
    let text = "[vm]\ncpus = 2\nmemory = '1G'\ndisk = '8G'\nidle = '5m'\nimage = 'image'";
    let user = Settings::parse(text, Path::new("/config/config.toml")).expect("it is valid");
    assert_eq!(user.vm.memory, Some(codebox_core::ByteSize::gib(1)));
    assert_eq!(user.vm.idle, Some(Limit::At(Duration::from_secs(300))));
    assert_eq!(user.vm.image.as_deref(), Some(Path::new("/config/image")));
    assert_eq!(narrowed(&user, &settings("")).expect("no conflict").vm, user.vm);
    let error = narrowed(&user, &settings("[vm]\ncpus = 1")).expect_err("it is refused").to_string();
    assert!(error.contains("vm: a project cannot configure the virtual machine"), "{error}");
    for (text, fault) in [
        ("memory = '1M'", "vm.memory: 1 MiB is too small"),
        ("disk = 'unlimited'", "vm.disk: a machine has a size"),
        ("cpus = 0", "expected a nonzero"),
        ("port = 1", "unknown field"),
    ] {
        let error = parsed(&format!("[vm]\n{text}")).expect_err(text).to_string();
        assert!(error.contains(fault), "{text}: {error}");
    }
}
