//! Powers over this machine that a description gives its container.

use std::path::Path;

use codebox_core::{ContainerPower, FoundPower};
use serde_json::Value;

use crate::find::DevContainer;
use crate::mounts::{PlainMount, leads_into, plain_mount, shown as shown_mount};

/// Description of a dev container, as the official program has read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Powers over this machine, in order.
    pub powers: Vec<FoundPower>,
    /// Image, if the description neither builds one nor adds to it.
    pub image: Option<String>,
}

/// Options of the engine that give no power over the machine, with the number of words after them.
const HARMLESS_OPTIONS: [(&str, usize); 16] = [
    ("--name", 1),
    ("--hostname", 1),
    ("--init", 0),
    ("--rm", 0),
    ("--memory", 1),
    ("--memory-swap", 1),
    ("--cpus", 1),
    ("--cpu-shares", 1),
    ("--pids-limit", 1),
    ("--shm-size", 1),
    ("--env", 1),
    ("-e", 1),
    ("--label", 1),
    ("--cap-drop", 1),
    ("--platform", 1),
    ("--read-only", 0),
];

/// Beginnings of labels that a description must not set.
const OWN_LABELS: [&str; 2] = ["devcontainer.", "codebox."];

impl Description {
    /// Reads the answer of the official program: the description itself, and the one that it has merged with those of the image and of
    /// an existing container. Both count, because each of them leaves out settings of the other.
    pub(crate) fn read(answer: &Value, container: &DevContainer) -> Self {
        let own = &answer["configuration"];
        let mut powers = Vec::new();
        for config in [own, &answer["mergedConfiguration"]] {
            add_settings(config, container, &mut powers);
        }
        let workspace = &answer["workspace"]["workspaceMount"];
        let is_workspace = plain_mount(workspace) == Some(PlainMount::Dir(container.workspace.clone()));
        if !workspace.is_null() && !is_workspace {
            let detail = format!("workspace mount {}", shown_mount(workspace));
            powers.push(FoundPower::new(ContainerPower::Mounts, detail));
        }
        powers.sort();
        powers.dedup();
        let is_built = ["build", "dockerFile", "dockerComposeFile"].iter().any(|key| own.get(*key).is_some())
            || own["features"].as_object().is_some_and(|features| !features.is_empty());
        let image = own["image"].as_str().filter(|_| !is_built).map(str::to_owned);
        Self { powers: powers.into_iter().map(in_one_line).collect(), image }
    }
}

fn in_one_line(found: FoundPower) -> FoundPower {
    let text: String = found.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    FoundPower::new(found.power, text)
}

fn add_settings(config: &Value, container: &DevContainer, powers: &mut Vec<FoundPower>) {
    use ContainerPower::{
        Capabilities, Compose, Devices, EngineArguments, HostCommands, Mounts, Ports, Privileged, SecurityOptions,
        Sockets,
    };
    let mut add = |power, detail: String| powers.push(FoundPower::new(power, detail));
    // The program tests some settings for their presence alone, and others for values that JavaScript takes for true, such as `{}`.
    let is_present = |name: &str| config.get(name).is_some();
    let is_true = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    if is_true(&config["privileged"]) {
        add(Privileged, "it is privileged".to_owned());
    }
    for capability in list(&config["capAdd"]) {
        add(Capabilities, format!("capability {}", shown(capability)));
    }
    for option in list(&config["securityOpt"]) {
        add(SecurityOptions, format!("security option {}", shown(option)));
    }
    for mount in list(&config["mounts"]) {
        if shown_mount(mount).contains(".sock") {
            add(Sockets, shown_mount(mount));
        }
        if plain_mount(mount) != Some(PlainMount::Temporary) {
            add(Mounts, shown_mount(mount));
        }
    }
    for option in unknown_options(&config["runArgs"]) {
        add(EngineArguments, option);
    }
    // An image is a word of the engine's command line.
    for image in [&config["image"], &config["containerUser"], &config["remoteUser"]] {
        if image.as_str().is_some_and(|text| text.starts_with('-')) {
            add(EngineArguments, shown(image));
        }
    }
    if let Some(folder) = config["workspaceFolder"].as_str()
        && ["/proc", "/sys", "/dev"].iter().any(|dir| Path::new(folder).starts_with(dir))
    {
        add(EngineArguments, format!("workspace folder {folder}"));
    }
    if is_true(&config["build"]["options"]) && !is_empty_list(&config["build"]["options"]) {
        add(EngineArguments, format!("build options {}", shown(&config["build"]["options"])));
    }
    let folder = container.config.parent().unwrap_or(&container.workspace);
    // The directory of the file is the context if none is named.
    let build = &config["build"];
    for (what, path) in [
        ("build context", &build["context"]),
        ("build context", &config["context"]),
        ("Dockerfile", &build["dockerfile"]),
        ("Dockerfile", &build["dockerFile"]),
        ("Dockerfile", &config["dockerFile"]),
    ] {
        let is_inside = |path: &str| leads_into(&folder.join(path), &container.workspace);
        if !path.is_null() && !path.as_str().is_some_and(is_inside) {
            add(Mounts, format!("{what} {}", shown(path)));
        }
    }
    if is_present("dockerComposeFile") {
        add(Compose, format!("Compose file {}", shown(&config["dockerComposeFile"])));
    }
    if is_present("initializeCommand") {
        add(HostCommands, format!("initializeCommand {}", shown(&config["initializeCommand"])));
    }
    if is_true(&config["hostRequirements"]["gpu"]) {
        add(Devices, "GPUs".to_owned());
    }
    for port in list(&config["appPort"]) {
        add(Ports, format!("port {}", shown(port)));
    }
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the values of a list, or the single value in place of one.
fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(list) => list.iter().collect(),
        single => vec![single],
    }
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the options of the engine that may give a power over the machine.
fn unknown_options(value: &Value) -> Vec<String> {
    let words: Vec<String> = list(value).into_iter().map(shown).collect();
    let mut words = words.iter();
    let mut unknown = Vec::new();
    while let Some(word) = words.next() {
        let (name, has_value) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        // By these labels, the official program and codebox tell their containers apart.
        let label = word.strip_prefix("--label=").or_else(|| words.as_slice().first().map(String::as_str));
        if name == "--label" && label.is_some_and(|label| OWN_LABELS.iter().any(|own| label.starts_with(own))) {
            unknown.push(format!("--label {}", label.unwrap_or_default()));
        }
        match HARMLESS_OPTIONS.iter().find(|(harmless, _)| *harmless == name) {
            // Without its value it would take the next word of the program.
            Some((_, count)) if !has_value && words.by_ref().take(*count).count() < *count => {
                unknown.push(word.clone())
            }
            Some(_) => {}
            None => unknown.push(word.clone()),
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn powers(own: Value, merged: Value) -> Vec<String> {
        let container = DevContainer {
            workspace: "/home/me/project".into(),
            config: "/home/me/project/.devcontainer/devcontainer.json".into(),
            text: String::new(),
        };
        let mount = "type=bind,source=/home/me/project,target=/workspaces/project";
        let answer = json!({
            "configuration": own, "mergedConfiguration": merged, "workspace": {"workspaceMount": mount}
        });
        Description::read(&answer, &container).powers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn labels_of_other_programs_are_found() {
        for args in
            [json!(["--label", "devcontainer.local_folder=/home/me/other"]), json!(["--label=codebox.box=x", "--init"])]
        {
            let found = powers(json!({ "image": "debian", "runArgs": args }), json!({}));
            assert!(found.iter().any(|power| power.contains("--label ")), "{found:?}");
        }
        let plain = json!({ "image": "debian", "runArgs": ["--label", "a=devcontainer.x"] });
        assert_eq!(powers(plain, json!({})), Vec::<String>::new());
    }

    #[test]
    fn a_plain_description_gives_none() {
        let plain = json!({
            "image": "debian", "features": {}, "postCreateCommand": "make", "forwardPorts": [1],
            "runArgs": ["--name", "--privileged", "--memory=1g", "--init", "-e", "A=1"],
            "build": {"dockerfile": "Dockerfile", "options": []},
            "mounts": ["type=tmpfs,target=/t", {"type": "tmpfs", "target": "/u"}],
        });
        assert_eq!(powers(plain.clone(), plain), Vec::<String>::new());
    }

    #[test]
    fn each_setting_gives_its_power() {
        for (setting, expected) in [
            (json!({"privileged": true}), "privileged (it is privileged)"),
            (json!({"capAdd": ["SYS_ADMIN"]}), "capabilities (capability SYS_ADMIN)"),
            (json!({"securityOpt": ["seccomp=unconfined"]}), "security-options (security option seccomp=unconfined)"),
            (
                json!({"mounts": ["type=bind,source=/home/me,target=/h"]}),
                "mounts (type=bind,source=/home/me,target=/h)",
            ),
            (
                json!({"mounts": ["type=tmpfs,TYPE=bind,SOURCE=/,target=/h"]}),
                "mounts (type=tmpfs,TYPE=bind,SOURCE=/,target=/h)",
            ),
            (json!({"mounts": [{"type": "volume", "source": "v", "target": "/v"}]}), "mounts (v at /v)"),
            (json!({"runArgs": ["--privileged"]}), "engine-arguments (--privileged)"),
            (json!({"runArgs": ["-v/:/host"]}), "engine-arguments (-v/:/host)"),
            (json!({"runArgs": ["--init", "--pid=host"]}), "engine-arguments (--pid=host)"),
            (
                json!({"build": {"options": ["--network=host"]}}),
                "engine-arguments (build options [\"--network=host\"])",
            ),
            (json!({"build": {"context": "../.."}}), "mounts (build context ../..)"),
            (json!({"build": {"dockerfile": "../../Dockerfile"}}), "mounts (Dockerfile ../../Dockerfile)"),
            (json!({"runArgs": ["--init", "--hostname"]}), "engine-arguments (--hostname)"),
            (json!({"dockerComposeFile": []}), "compose (Compose file [])"),
            (json!({"dockerComposeFile": "c.yml"}), "compose (Compose file c.yml)"),
            (json!({"initializeCommand": "make"}), "host-commands (initializeCommand make)"),
            (json!({"initializeCommand": ["a", "b"]}), "host-commands (initializeCommand [\"a\",\"b\"])"),
            (json!({"hostRequirements": {"gpu": "optional"}}), "devices (GPUs)"),
            (json!({"hostRequirements": {"gpu": {}}}), "devices (GPUs)"),
            (json!({"image": "--privileged"}), "engine-arguments (--privileged)"),
            (json!({"workspaceFolder": "/proc/self/fd/7"}), "engine-arguments (workspace folder /proc/self/fd/7)"),
            (json!({"dockerComposeFile": null}), "compose (Compose file null)"),
            (json!({"initializeCommand": {"a": "b"}}), "host-commands (initializeCommand {\"a\":\"b\"})"),
            (json!({"appPort": 80}), "ports (port 80)"),
        ] {
            assert_eq!(powers(setting.clone(), json!({})), [expected], "{setting}");
            // An image, or a container that exists already, can give it as well.
            assert_eq!(powers(json!({}), setting.clone()), [expected], "{setting}");
        }
        let socket = json!({"mounts": ["type=bind,source=/var/run/docker.sock,target=/s"]});
        let both = [
            "mounts (type=bind,source=/var/run/docker.sock,target=/s)",
            "sockets (type=bind,source=/var/run/docker.sock,target=/s)",
        ];
        assert_eq!(powers(socket, json!({})), both);
    }
}
