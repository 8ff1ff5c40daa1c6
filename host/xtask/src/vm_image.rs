//! Images of virtual machines: Debian with Podman, made from the packages of the distribution.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use codebox_vm::VmImage;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::project::Project;

/// Release of Debian.
const RELEASE: &str = "bookworm";

/// Packages in addition to the essential ones.
const PACKAGES: [&str; 16] = [
    "aardvark-dns",
    "ca-certificates",
    "crun",
    "dbus",
    "e2fsprogs",
    "fuse-overlayfs",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "mount",
    "netavark",
    "passt",
    "podman",
    "slirp4netns",
    "udev",
    "uidmap",
];

/// Files that nothing in the machine reads.
const LEFT_OUT: &str = "path-exclude=/usr/share/{doc,man,locale,info}/*";

/// Modules that the kernel needs for its disk; those that it has built in are left out.
const DISK_MODULES: [&str; 3] = ["virtio_pci", "virtio_blk", "ext4"];

/// Size of the root file system. The machine extends it to its disk.
const ROOT_SIZE: &str = "6G";

/// Settings for WSL: nothing of Windows is in the machine but what codebox mounts.
const WSL_SETTINGS: &str = "\
[automount]
enabled=false
mountFsTab=false
ldconfig=false
[interop]
enabled=false
appendWindowsPath=false
[network]
generateHosts=true
generateResolvConf=true
hostname=codebox-vm
[user]
default=root
[gpu]
enabled=false
appendLibPath=false
[general]
guiApplications=false
[fileServer]
enabled=false
";

/// Program of the machine.
const PROGRAM: &str = "codebox-vm-guest";

/// Arguments of `vm-image`.
#[derive(Args)]
pub struct Options {
    /// Directory of the image
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Make the image again if there is one
    #[arg(long)]
    again: bool,
    /// Pack the image for machines of QEMU into this file, which `codebox vm install` installs
    #[arg(long, value_name = "FILE")]
    pack: Option<PathBuf>,
}

/// Makes the image, unless it exists.
///
/// # Errors
/// Fails if a program is missing, a package cannot be fetched, or the disk is full.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    let out = options.out.clone().unwrap_or_else(|| project.target.join("vm-image"));
    if !options.again && VmImage::open_all(&out).is_ok_and(|image| image.verify().is_ok()) {
        println!("{} is up to date", out.display());
    } else {
        make(&project, &out)?;
        println!("made {}", out.display());
    }
    if let Some(file) = &options.pack {
        VmImage::open(&out, &[VmImage::KERNEL, VmImage::INITRD, VmImage::ROOT])?.pack(file)?;
        println!("packed {}", file.display());
    }
    Ok(())
}

/// Makes the image.
fn make(project: &Project, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    let dir = tempfile::tempdir_in(&project.target).context("create a directory")?;
    let root = dir.path().join("root");
    let program = build_program(project)?;
    install(&root)?;
    let kernel = only(&root.join("boot"), "vmlinuz-")?;
    fs::copy(&kernel, out.join(VmImage::KERNEL)).context("copy the kernel")?;
    fs::write(out.join(VmImage::INITRD), initial_files(&root, &program)?).context("write the initial file system")?;
    configure(&root, &program)?;
    let image = out.join(VmImage::ROOT);
    let _ = fs::remove_file(&image);
    let mut make = Command::new("mkfs.ext4");
    make.args(["-q", "-L", "codebox", "-d"]).arg(&root).arg(&image).arg(ROOT_SIZE);
    succeed(&mut make, "mkfs.ext4, of the package e2fsprogs")?;
    fs::copy(&program, out.join(VmImage::GUEST)).context("copy the program of the machine")?;
    let mut pack = Command::new("tar");
    // WSL has a kernel of its own.
    pack.args(["--numeric-owner", "--xattrs", "--exclude=./usr/lib/modules/*", "-C"]).arg(&root);
    succeed(pack.arg("-cf").arg(out.join(VmImage::ARCHIVE)).arg("."), "tar")?;
    VmImage::seal(out)?;
    Ok(())
}

/// Builds the program of the machine, statically linked.
fn build_program(project: &Project) -> Result<PathBuf> {
    let target = project.target.join("vm-guest");
    let mut build = project.cargo();
    build.args(["build", "--release", "--package", PROGRAM, "--target", "x86_64-unknown-linux-gnu"]);
    build.env("CARGO_TARGET_DIR", &target).env("RUSTFLAGS", "-C target-feature=+crt-static");
    succeed(&mut build, "cargo")?;
    Ok(target.join("x86_64-unknown-linux-gnu/release").join(PROGRAM))
}

/// Installs Debian in a directory.
fn install(root: &Path) -> Result<()> {
    let mut install = Command::new("mmdebstrap");
    install.args(["--variant=minbase", "--format=directory", "--quiet"]);
    install.arg(format!("--include={}", PACKAGES.join(","))).arg(format!("--dpkgopt={LEFT_OUT}"));
    succeed(install.arg(RELEASE).arg(root), "mmdebstrap, of the package mmdebstrap")
}

/// Returns the initial file system: the program and the modules for the disk, as a compressed archive.
fn initial_files(root: &Path, program: &Path) -> Result<Vec<u8>> {
    let modules = only(&root.join("usr/lib/modules"), "")?;
    let mut archive = Archive::default();
    for dir in ["dev", "modules", "proc", "sys"] {
        archive.add(dir, Node::Dir);
    }
    archive.add("init", Node::File(&fs::read(program).context("read the program of the machine")?));
    archive.add("dev/console", Node::Device(5, 1));
    let mut order = String::new();
    for module in load_order(&fs::read_to_string(modules.join("modules.dep")).context("read modules.dep")?) {
        let name = Path::new(&module).file_name().unwrap_or_default().to_string_lossy().into_owned();
        archive.add(&format!("modules/{name}"), Node::File(&fs::read(modules.join(&module)).context("read a module")?));
        order.push_str(&format!("{name}\n"));
    }
    archive.add("modules/order", Node::File(order.as_bytes()));
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(&archive.finish()).context("compress the initial file system")?;
    compressed.finish().context("compress the initial file system")
}

/// Returns the paths of the modules for the disk, each after those that it needs. `list` has the form of `modules.dep`.
fn load_order(list: &str) -> Vec<String> {
    let needs: BTreeMap<&str, Vec<&str>> = list
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(module, needs)| (module, needs.split_whitespace().collect()))
        .collect();
    let named = |name: &str| {
        let is_named = |path: &&&str| {
            let file = path.rsplit('/').next().unwrap_or_default();
            file.split('.').next().is_some_and(|stem| stem.replace('-', "_") == name)
        };
        needs.keys().find(is_named).copied()
    };
    let mut order: Vec<String> = Vec::new();
    for module in DISK_MODULES.into_iter().filter_map(named) {
        // The list has all needs of a module, the deepest last.
        let all = needs.get(module).into_iter().flatten().rev().copied().chain([module]);
        for path in all {
            if !order.iter().any(|one| one == path) {
                order.push(path.to_owned());
            }
        }
    }
    order
}

/// Adds the program, the user and the settings to the root file system, and removes what the machine does not need.
fn configure(root: &Path, program: &Path) -> Result<()> {
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        fs::write(&path, text)
    };
    let add = |path: &str, line: &str| {
        let text = fs::read_to_string(root.join(path))?;
        fs::write(root.join(path), text + line)
    };
    let written = (|| {
        for dir in ["boot", "var/lib/apt/lists", "var/cache/apt"] {
            fs::remove_dir_all(root.join(dir))?;
            fs::create_dir(root.join(dir))?;
        }
        let to = root.join("usr/lib/codebox/vm-guest");
        fs::create_dir_all(root.join("usr/lib/codebox"))?;
        fs::copy(program, &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755))?;
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        write("etc/wsl.conf", WSL_SETTINGS)?;
        write("etc/codebox-image", &format!("{}\n", codebox_vm::IMAGE_VERSION))?;
        add("etc/passwd", "codebox:x:1000:1000::/home/codebox:/bin/sh\n")?;
        add("etc/group", "codebox:x:1000:\n")?;
        write("etc/subuid", "codebox:100000:65536\n")?;
        write("etc/subgid", "codebox:100000:65536\n")?;
        fs::create_dir_all(root.join("home/codebox"))?;
        std::os::unix::fs::chown(root.join("home/codebox"), Some(1000), Some(1000))?;
        // It shows the files of an image to the user of a job without a copy of the image for each mapping of users.
        write(
            "etc/containers/storage.conf",
            "[storage]\ndriver = \"overlay\"\n[storage.options.overlay]\nmount_program = \"/usr/bin/fuse-overlayfs\"\n",
        )?;
        write(
            "etc/containers/containers.conf",
            "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"crun\"\n",
        )
    })();
    written.context("configure the root file system")
}

/// Returns the only entry of a directory with this beginning.
fn only(dir: &Path, beginning: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))?.flatten();
    let has_beginning = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(beginning);
    let found: Vec<PathBuf> = entries.filter(has_beginning).map(|entry| entry.path()).collect();
    let [one] = found.as_slice() else { anyhow::bail!("{} has {} entries {beginning}*", dir.display(), found.len()) };
    Ok(one.clone())
}

fn succeed(command: &mut Command, name: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("start {name}"))?;
    ensure!(status.success(), "{name} has ended with {status}");
    Ok(())
}

/// Archive of the form `newc`, which the kernel unpacks.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    nodes: u32,
}

/// Node of an archive.
enum Node<'n> {
    Dir,
    File(&'n [u8]),
    /// Character device with its numbers.
    Device(u32, u32),
}

impl Archive {
    fn add(&mut self, name: &str, node: Node<'_>) {
        let (mode, content, (major, minor)) = match node {
            Node::Dir => (0o40_755, &[][..], (0, 0)),
            Node::File(content) => (0o100_755, content, (0, 0)),
            Node::Device(major, minor) => (0o20_600, &[][..], (major, minor)),
        };
        self.nodes += 1;
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_length = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        self.bytes.extend(b"070701");
        // Number, mode, owner, group, links, time, length, device, device of the node, length of the name, sum.
        for field in [self.nodes, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0] {
            self.bytes.extend(format!("{field:08X}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", Node::File(&[]));
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_follow_those_that_they_need() {
        let list = "\
kernel/fs/ext4/ext4.ko: kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko
kernel/fs/mbcache.ko:
kernel/fs/jbd2/jbd2.ko:
kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio-pci.ko.xz: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko
kernel/drivers/virtio/virtio_ring.ko:
";
        let order = load_order(list);
        let names: Vec<&str> = order.iter().filter_map(|path| path.rsplit('/').next()).collect();
        let expected =
            ["virtio_ring.ko", "virtio.ko", "virtio-pci.ko.xz", "virtio_blk.ko", "jbd2.ko", "mbcache.ko", "ext4.ko"];
        assert_eq!(names, expected);
        // A kernel that has them built in needs none.
        assert_eq!(load_order(""), Vec::<String>::new());
    }

    #[test]
    fn archives_have_padded_nodes() {
        let mut archive = Archive::default();
        archive.add("a", Node::File(b"12345"));
        archive.add("d", Node::Dir);
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..14], b"07070100000001");
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[112..117], b"12345");
        assert_eq!(&bytes[120..126], b"070701");
        assert!(bytes.windows(10).any(|part| part == b"TRAILER!!!"));
    }
}
