//! Properties of a job that are fixed when its container is created.

use std::num::NonZeroU32;
use std::path::PathBuf;

use codebox_core::path::resolve_overlaps;
use codebox_core::{
    Access, ByteSize, Cpus, DirGrant, Grants, GuestPath, HostPath, ImageName, InstanceSpec, Isolation, Language, Limit,
    Limits, NetGrant,
};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, caller};
use crate::error::ContainerError;
use crate::images::ImageFacts;

/// Shape of a container. Jobs of one shape can use each other's containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    image: String,
    image_id: String,
    volumes: Vec<String>,
    memory: Option<u64>,
    disk: Option<u64>,
    open_files: Option<NonZeroU32>,
    processes: Option<NonZeroU32>,
    cpus: Option<Cpus>,
    dirs: Vec<GrantedDir>,
    /// The granted hosts, whose names are known in the container.
    net: Vec<String>,
    /// The caller, who determines the job's user.
    caller: Caller,
}

/// A granted directory, identified by device and inode and not only by path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct GrantedDir {
    host: String,
    device: u64,
    inode: u64,
    guest: String,
    writable: bool,
}

impl Shape {
    /// Returns the shape of an instance's container, or `None` if a granted directory cannot be identified.
    pub(crate) fn of(image: &ImageFacts, spec: &InstanceSpec) -> Option<Self> {
        let ImageFacts { name, id, volumes, path: _ } = image;
        // Limits on time, output, the number of files and the network are enforced per job.
        let Limits {
            wall: _,
            cpu: _,
            memory,
            output: _,
            disk,
            files: _,
            open_files,
            processes,
            fuel: _,
            net_bytes: _,
            net_connections: _,
        } = spec.limits;
        let dirs = resolve_overlaps(&spec.grants.dirs).ok()?;
        let bytes = |limit: Limit<ByteSize>| limit.at().map(|size| size.get());
        Some(Self {
            image: name.to_string(),
            image_id: id.clone(),
            volumes: volumes.clone(),
            memory: bytes(memory),
            disk: bytes(disk),
            open_files: open_files.at(),
            processes: processes.at(),
            cpus: spec.cpus,
            dirs: dirs.iter().map(GrantedDir::of).collect::<Option<_>>()?,
            net: spec.grants.net.iter().map(ToString::to_string).collect(),
            caller: caller(),
        })
    }

    /// Returns the image as it was looked up.
    pub(crate) fn image(&self) -> Result<ImageFacts, ContainerError> {
        let name: ImageName =
            self.image.parse().map_err(|error: codebox_core::NameError| input_error(&self.image, &error))?;
        Ok(ImageFacts { name, id: self.image_id.clone(), volumes: self.volumes.clone(), path: None })
    }

    /// Returns the specification of an instance of this shape, for any program.
    ///
    /// Returns an error if a directory has been replaced, or if the shape belongs to another user or group.
    pub(crate) fn spec(&self) -> Result<InstanceSpec, ContainerError> {
        if self.caller != caller() {
            return Err(input_error(
                "a container for another user or group",
                &"this process has another user or group",
            ));
        }
        let size = |bytes: Option<u64>| bytes.map_or(Limit::Unlimited, |bytes| Limit::At(ByteSize::bytes(bytes)));
        let count = |count: Option<NonZeroU32>| count.map_or(Limit::Unlimited, Limit::At);
        let limits = Limits {
            memory: size(self.memory),
            disk: size(self.disk),
            open_files: count(self.open_files),
            processes: count(self.processes),
            ..Limits::unlimited()
        };
        let dirs = self.dirs.iter().map(GrantedDir::grant).collect::<Result<_, _>>()?;
        let net = self.net.iter().map(|text| text.parse::<NetGrant>().map_err(|error| input_error(text, &error)));
        let net = net.collect::<Result<_, _>>()?;
        Ok(InstanceSpec {
            grants: Grants { dirs, net, ..Grants::none() },
            limits,
            cpus: self.cpus,
            image: Some(self.image.clone()),
            ..InstanceSpec::bare(Language::Command, Isolation::Container)
        })
    }
}

impl GrantedDir {
    fn of(grant: &DirGrant) -> Option<Self> {
        let (device, inode) = device_and_inode(&grant.host.to_path_buf())?;
        Some(Self {
            host: grant.host.as_str().to_owned(),
            device,
            inode,
            guest: grant.guest.as_str().to_owned(),
            writable: grant.access == Access::ReadWrite,
        })
    }

    fn grant(&self) -> Result<DirGrant, ContainerError> {
        let path = PathBuf::from(&self.host);
        if device_and_inode(&path) != Some((self.device, self.inode)) {
            return Err(ContainerError::Grant { path, why: "the directory has been replaced".to_owned() });
        }
        let host = HostPath::native(&path).map_err(|error| input_error(&self.host, &error))?;
        let guest = GuestPath::new(&self.guest).map_err(|error| input_error(&self.guest, &error))?;
        let access = if self.writable { Access::ReadWrite } else { Access::ReadOnly };
        Ok(DirGrant { host, guest, access })
    }
}

/// Returns the device and inode of a directory, which identify it under any path.
#[cfg(unix)]
fn device_and_inode(path: &std::path::Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(not(unix))]
fn device_and_inode(_path: &std::path::Path) -> Option<(u64, u64)> {
    None
}

fn input_error(subject: &str, why: &dyn std::fmt::Display) -> ContainerError {
    ContainerError::Input { subject: subject.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dirs: Vec<DirGrant>, memory: Limit<ByteSize>) -> Option<Shape> {
        let name: ImageName = "docker.io/library/x:1".parse().expect("a name");
        let image = ImageFacts { name, id: "sha256:1".to_owned(), volumes: vec!["/v".to_owned()], path: None };
        let spec = InstanceSpec {
            grants: Grants { dirs, ..Grants::none() },
            limits: Limits { memory, ..Limits::default() },
            warm: Some(1),
            ..InstanceSpec::bare(Language::Python, Isolation::Container)
        };
        Shape::of(&image, &spec)
    }

    fn grant(path: &std::path::Path, access: Access) -> DirGrant {
        let host = HostPath::native(path).expect("an absolute path");
        DirGrant { host, guest: GuestPath::work(), access }
    }

    #[test]
    fn shape_round_trips_through_instance_spec() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = shape(vec![grant(dir.path(), Access::ReadWrite)], Limit::At(ByteSize::mib(7))).expect("it is there");
        let spec = made.spec().expect("the directory still exists");
        assert_eq!(Shape::of(&made.image().expect("a name"), &spec), Some(made));
    }

    #[test]
    fn shapes_differ_by_limits_and_grants() {
        let dir = tempfile::tempdir().expect("a directory");
        let plain = shape(Vec::new(), Limit::Unlimited);
        assert_eq!(plain, shape(Vec::new(), Limit::Unlimited));
        assert_ne!(plain, shape(Vec::new(), Limit::At(ByteSize::mib(7))));
        let read = shape(vec![grant(dir.path(), Access::ReadOnly)], Limit::Unlimited);
        assert_ne!(plain, read);
        assert_ne!(read, shape(vec![grant(dir.path(), Access::ReadWrite)], Limit::Unlimited));
    }

    #[test]
    fn rejects_replaced_directory() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("granted");
        std::fs::create_dir(&path).expect("the directory is created");
        let made = shape(vec![grant(&path, Access::ReadOnly)], Limit::Unlimited).expect("it is there");
        // Moved instead of removed, so that its inode number is not reused.
        std::fs::rename(&path, parent.path().join("moved")).expect("the directory is renamed");
        std::fs::create_dir(&path).expect("the directory is created");
        assert!(matches!(made.spec(), Err(ContainerError::Grant { .. })));
        assert_ne!(shape(vec![grant(&path, Access::ReadOnly)], Limit::Unlimited), Some(made));
    }
}
