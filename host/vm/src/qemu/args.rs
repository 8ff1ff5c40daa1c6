//! Command line of QEMU.

use std::ffi::OsString;
use std::path::Path;

use codebox_vm_guest::PORT_NAME;

use super::Files;
use crate::spec::VmSpec;

/// Memory in MiB for translated instructions. It is never given back, and the default of 1 GiB fills up within minutes.
const CODE_MEMORY: u32 = 128;

/// Way in which QEMU runs the instructions of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accelerator {
    /// The processor runs them, over KVM.
    Kvm,
    /// QEMU translates them.
    Translation,
}

/// Returns the arguments. The machine has no device but those that are named here.
pub(super) fn arguments(spec: &VmSpec, files: &Files, accelerator: Accelerator) -> Vec<OsString> {
    let (accelerator, cpu) = match accelerator {
        Accelerator::Kvm => ("kvm".to_owned(), "host"),
        Accelerator::Translation => (format!("tcg,thread=multi,tb-size={CODE_MEMORY}"), "max"),
    };
    let mut args: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: OsString| {
        args.push(name.into());
        args.push(value);
    };
    add("-name", "codebox".into());
    add("-accel", accelerator.into());
    add("-cpu", cpu.into());
    add("-smp", spec.cpus.to_string().into());
    add("-m", format!("{}M", spec.memory).into());
    add("-display", "none".into());
    add("-serial", with_path("file:", &files.dir.log(), ""));
    add("-kernel", files.kernel().into());
    add("-initrd", files.initrd().into());
    add("-append", "console=ttyS0 quiet panic=-1".into());
    add("-drive", with_path("if=none,id=root,format=raw,discard=unmap,file=", &files.disk(), ""));
    add("-device", "virtio-blk-pci,drive=root".into());
    add("-netdev", "user,id=net".into());
    // The boot program of the network card is not needed.
    add("-device", "virtio-net-pci,netdev=net,romfile=".into());
    add("-device", "virtio-balloon-pci,free-page-reporting=on".into());
    add("-device", "virtio-serial-pci".into());
    add("-chardev", with_path("socket,id=port,server=on,wait=off,path=", &files.port(), ""));
    add("-device", format!("virtserialport,chardev=port,name={PORT_NAME}").into());
    add("-qmp", with_path("unix:", &files.monitor(), ",server=on,wait=off"));
    args.extend(["-nodefaults", "-no-user-config", "-no-reboot", "-daemonize"].map(OsString::from));
    args
}

/// Returns an option with a path. QEMU reads a comma in it as two.
fn with_path(before: &str, path: &Path, after: &str) -> OsString {
    let mut text = OsString::from(before);
    match path.to_str() {
        Some(path) => text.push(path.replace(',', ",,")),
        None => text.push(path),
    }
    text.push(after);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MachineDir;

    #[test]
    fn paths_are_quoted_and_nothing_else_is_reachable() {
        let spec = VmSpec::for_machine(2, 4096);
        let args = arguments(&spec, &Files { dir: MachineDir::new("/data/a,b".into()) }, Accelerator::Translation);
        let text: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
        assert!(text.contains(&"if=none,id=root,format=raw,discard=unmap,file=/data/a,,b/disk.img"), "{text:?}");
        assert!(text.contains(&"unix:/data/a,,b/monitor.sock,server=on,wait=off"), "{text:?}");
        assert!(text.contains(&"1024M") && text.contains(&"2"), "{text:?}");
        for name in ["hostfwd", "-fsdev", "-virtfs", "-monitor", "-vnc"] {
            assert!(!text.iter().any(|arg| arg.contains(name)), "{name}: {text:?}");
        }
        assert!(text.contains(&"-nodefaults") && text.contains(&"-no-user-config"));
    }
}
