//! Description of a machine for Lima.

use crate::spec::VmSpec;

/// Images of Debian, by architecture, with their sha512.
const IMAGES: [(&str, &str, &str); 2] = [
    (
        "x86_64",
        "https://cloud.debian.org/images/cloud/trixie/20260712-2537/debian-13-genericcloud-amd64-20260712-2537.qcow2",
        "7ae53e9dbee282bfc16f289dec483dde3a8598769c38a267948310f7a2a52c662620198603bc52c142627efba379863d16079698a10b34102d55bcedd40e8d32",
    ),
    (
        "aarch64",
        "https://cloud.debian.org/images/cloud/trixie/20260712-2537/debian-13-genericcloud-arm64-20260712-2537.qcow2",
        "8543d795f2fde630eb66c492f245a8c1da19dedc636e0a8e7b3d0f95920e1a05aa911ef2d82d177d41cc53ced5fccbd2a3945d07fa5e15018914c4d864bb07ed",
    ),
];

/// Installs Podman where it is missing, or older than the version that codebox needs. Runs as root at every start.
const PROVISION: &str = r#"#!/bin/sh
set -eu
version=$(podman --version 2>/dev/null | tr -dc '0-9.' | cut -d. -f1)
if [ "${version:-0}" -lt 4 ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends podman crun fuse-overlayfs netavark aardvark-dns passt slirp4netns uidmap
fi
mkdir -p /etc/containers
printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "crun"\n' >/etc/containers/containers.conf
"#;

/// Checks that the machine has what codebox needs, because a failure of the script above does not fail the start.
const PROBE: &str = "#!/bin/sh\nset -eu\ncommand -v podman >/dev/null && command -v crun >/dev/null\n";

/// Returns the description: Debian with Podman, without directories and ports of this machine.
pub(super) fn template(spec: &VmSpec) -> String {
    let block = |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let images: String = IMAGES
        .iter()
        .map(|(arch, location, digest)| {
            format!("- location: \"{location}\"\n  arch: \"{arch}\"\n  digest: \"sha512:{digest}\"\n")
        })
        .collect();
    format!(
        "minimumLimaVersion: \"1.0.0\"\n\
         images:\n{images}\
         cpus: {cpus}\n\
         memory: \"{memory}MiB\"\n\
         disk: \"{disk}GiB\"\n\
         mounts: []\n\
         mountTypesUnsupported: [\"9p\"]\n\
         user:\n  name: \"codebox\"\n  uid: 1000\n  home: \"/home/codebox\"\n\
         ssh:\n  loadDotSSHPubKeys: false\n  forwardAgent: false\n\
         containerd:\n  system: false\n  user: false\n\
         propagateProxyEnv: true\n\
         portForwards:\n\
         - guestIP: \"0.0.0.0\"\n  guestIPMustBeZero: false\n  proto: any\n  guestPortRange: [1, 65535]\n  ignore: true\n\
         provision:\n- mode: system\n  script: |\n{provision}\
         probes:\n- mode: readiness\n  description: \"Podman\"\n  script: |\n{probe}\
         \x20 hint: \"Podman could not be installed: see /var/log/cloud-init-output.log in the machine\"\n",
        cpus = spec.cpus,
        memory = spec.memory,
        disk = spec.disk,
        provision = block(PROVISION),
        probe = block(PROBE),
    )
}
