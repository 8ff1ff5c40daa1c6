//! A component's files: the file system functions of WASI, with the checks of the mounts' guards and of the quotas in
//! front of those that change a file.
//!
//! Each function checks the call and then delegates it to `wasmtime-wasi`. No function here accesses the host's files
//! itself.

use wasmtime::component::Resource;
use wasmtime_wasi::filesystem::Descriptor;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, Filesize, HostDescriptor,
    HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult, ReaddirIterator};

use crate::component::descriptors::OpenDescriptor;
use crate::component::devices::{self, Placeholder, VirtualFile};
use crate::component::state::Files;
use crate::component::writes::{QuotaStream, charge_quota};
use crate::guest::Quota;
use crate::mounts::FinalSymlink;

type Fd = Resource<Descriptor>;

impl Files<'_> {
    fn quota(&self) -> std::sync::MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Checks that a change at a path is allowed, and records that the guest may have changed files.
    fn record_change(&mut self, fd: &Fd, path: &str, final_symlink: FinalSymlink) -> FsResult<()> {
        self.descriptors.check_change(fd.rep(), path, final_symlink)?;
        self.quota().record_change();
        Ok(())
    }

    /// Checks a change as [`record_change`](Self::record_change) does, and counts the new file or directory at the path. If the
    /// operation fails, `created` reverts the count.
    fn count_creation(&mut self, fd: &Fd, path: &str) -> FsResult<()> {
        self.record_change(fd, path, FinalSymlink::NoFollow)?;
        self.quota().count_creation().map_err(|_| ErrorCode::Quota.into())
    }

    fn created<T>(&self, result: FsResult<T>) -> FsResult<T> {
        if result.is_err() {
            self.quota().uncount_creation();
        }
        result
    }

    /// Refuses hard links and renames from one mount into another: they would give the file the permissions of the
    /// other mount.
    fn require_same_mount(&self, one: &Fd, other: &Fd) -> FsResult<()> {
        match self.descriptors.mount(one.rep()) == self.descriptors.mount(other.rep()) {
            true => Ok(()),
            false => Err(ErrorCode::CrossDevice.into()),
        }
    }

    /// Refuses to rename or link a virtual file, or to rename or link a file into `/dev`.
    fn reject_virtual(&self, fd: &Fd, old: &str, to: &Fd, new: &str) -> FsResult<()> {
        let from = self.descriptors.find_virtual(fd.rep(), old);
        match (from, self.descriptors.find_virtual(to.rep(), new)) {
            (None, None) => Ok(()),
            (Some(from), Some(_)) => Err(from.err().unwrap_or(ErrorCode::Access).into()),
            _ => Err(ErrorCode::CrossDevice.into()),
        }
    }

    fn open_virtual(
        &mut self,
        found: Result<VirtualFile, ErrorCode>,
        open_flags: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<Fd> {
        let file = VirtualFile::open(found, open_flags, to)?;
        let handle = self.inner.table.push(Placeholder)?.rep();
        self.descriptors.insert(handle, OpenDescriptor { mount: None, is_mount_root: false, virtual_file: Some(file) });
        Ok(Resource::new_own(handle))
    }

    fn quota_stream(&mut self, stream: Resource<DynOutputStream>) -> FsResult<Resource<DynOutputStream>> {
        let inner = self.inner.table.delete(stream)?;
        let quota_stream: DynOutputStream = Box::new(QuotaStream { inner, quota: self.quota.clone() });
        Ok(self.inner.table.push(quota_stream)?)
    }

    /// Checks an open and returns true if it creates a file.
    ///
    /// As for the other guests, files other than directories, regular files and symbolic links are refused: opening
    /// some of them blocks in the kernel, where the call cannot be interrupted.
    async fn prepare_open(
        &mut self,
        fd: &Fd,
        path_flags: PathFlags,
        path: &str,
        open_flags: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<bool> {
        let again = Resource::new_borrow(fd.rep());
        let found = self.inner.stat_at(again, path_flags, path.to_owned()).await.ok().map(|stat| stat.type_);
        match found {
            None | Some(DescriptorType::Directory | DescriptorType::RegularFile | DescriptorType::SymbolicLink) => {}
            Some(_) => return Err(ErrorCode::Access.into()),
        }
        let final_symlink =
            if path_flags.contains(PathFlags::SYMLINK_FOLLOW) { FinalSymlink::Follow } else { FinalSymlink::NoFollow };
        let creates_or_truncates = open_flags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let writes = to.contains(DescriptorFlags::WRITE) && found != Some(DescriptorType::Directory);
        if creates_or_truncates || writes {
            self.record_change(fd, path, final_symlink)?;
        }
        let creates = found.is_none() && open_flags.contains(OpenFlags::CREATE);
        if creates {
            self.quota().count_creation().map_err(|_| FsError::from(ErrorCode::Quota))?;
        }
        Ok(creates)
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let directories = preopens::Host::get_directories(&mut self.inner)?;
        for (index, (fd, _)) in directories.iter().enumerate() {
            let mount = self.descriptors.preopened(index);
            self.descriptors.insert(fd.rep(), OpenDescriptor { mount, is_mount_root: true, virtual_file: None });
        }
        Ok(directories)
    }
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.inner.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        if let Some(error) = self.inner.table.get(&error)?.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::QuotaExceeded
        {
            return Ok(Some(ErrorCode::Quota));
        }
        self.inner.filesystem_error_code(error)
    }
}

impl HostDescriptor for Files<'_> {
    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.inner.table.push(file.input(self.stdio)?)?);
        }
        self.inner.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.inner.table.push(file.output(self.stdio)?)?);
        }
        let stream = self.inner.write_via_stream(fd, offset)?;
        self.quota_stream(stream)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.inner.table.push(file.output(self.stdio)?)?);
        }
        let stream = self.inner.append_via_stream(fd)?;
        self.quota_stream(stream)
    }

    async fn advise(&mut self, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Ok(());
        }
        self.inner.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::Invalid.into());
        }
        self.inner.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.flags());
        }
        self.inner.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.descriptor_type());
        }
        self.inner.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::Invalid.into());
        }
        // The whole new size counts, as for the other guests.
        charge_quota(self.quota, size).map_err(|_| FsError::from(ErrorCode::Quota))?;
        self.inner.set_size(fd, size).await
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::NotPermitted.into());
        }
        self.record_change(&fd, "", FinalSymlink::Follow)?;
        self.inner.set_times(fd, accessed, modified).await
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return file.read(length);
        }
        self.inner.read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, buffer: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return file.write(buffer.len());
        }
        charge_quota(self.quota, buffer.len() as u64).map_err(|_| FsError::from(ErrorCode::Quota))?;
        self.inner.write(fd, buffer, offset).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<ReaddirIterator>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Err(if file.is_directory() { ErrorCode::Unsupported } else { ErrorCode::NotDirectory }.into());
        }
        // The whole listing stays in memory until it is dropped, so it counts as an open file, and the number of
        // listings is limited.
        if !self.descriptors.begin_listing() {
            return Err(ErrorCode::InsufficientMemory.into());
        }
        if self.quota().open().is_err() {
            self.descriptors.end_listing();
            return Err(ErrorCode::InsufficientMemory.into());
        }
        let listing = self.inner.read_directory(fd).await;
        if listing.is_err() {
            self.descriptors.end_listing();
            self.quota().close();
        }
        listing
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::Invalid.into());
        }
        self.inner.sync(fd).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(devices::creation_error(found).into());
        }
        self.count_creation(&fd, &path)?;
        let created = self.inner.create_directory_at(fd, path).await;
        self.created(created)
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.stat());
        }
        self.inner.stat(fd).await
    }

    async fn stat_at(&mut self, fd: Fd, path_flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Ok(found?.stat());
        }
        self.inner.stat_at(fd, path_flags, path).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found.err().unwrap_or(ErrorCode::NotPermitted).into());
        }
        let final_symlink =
            if path_flags.contains(PathFlags::SYMLINK_FOLLOW) { FinalSymlink::Follow } else { FinalSymlink::NoFollow };
        self.record_change(&fd, &path, final_symlink)?;
        self.inner.set_times_at(fd, path_flags, path, accessed, modified).await
    }

    async fn link_at(&mut self, fd: Fd, path_flags: PathFlags, old: String, to: Fd, new: String) -> FsResult<()> {
        self.reject_virtual(&fd, &old, &to, &new)?;
        self.require_same_mount(&fd, &to)?;
        // A second name for a protected file would permit changing the file, so both ends are checked.
        self.record_change(&fd, &old, FinalSymlink::NoFollow)?;
        self.count_creation(&to, &new)?;
        let created = self.inner.link_at(fd, path_flags, old, to, new).await;
        self.created(created)
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<Fd> {
        self.quota().open().map_err(|_| FsError::from(ErrorCode::InsufficientMemory))?;
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            let opened = self.open_virtual(found, open_flags, to);
            if opened.is_err() {
                self.quota().close();
            }
            return opened;
        }
        let mount = self.descriptors.mount(fd.rep());
        let opened = match self.prepare_open(&fd, path_flags, &path, open_flags, to).await {
            Ok(creates) => {
                let opened = self.inner.open_at(fd, path_flags, path, open_flags, to).await;
                if creates { self.created(opened) } else { opened }
            }
            Err(refused) => Err(refused),
        };
        match &opened {
            Ok(opened) => self
                .descriptors
                .insert(opened.rep(), OpenDescriptor { mount, is_mount_root: false, virtual_file: None }),
            Err(_) => self.quota().close(),
        }
        opened
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found.err().unwrap_or(ErrorCode::Invalid).into());
        }
        self.inner.readlink_at(fd, path).await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found
                .map_or_else(
                    |error| error,
                    |file| if file.is_directory() { ErrorCode::Access } else { ErrorCode::NotDirectory },
                )
                .into());
        }
        self.record_change(&fd, &path, FinalSymlink::NoFollow)?;
        self.inner.remove_directory_at(fd, path).await
    }

    async fn rename_at(&mut self, fd: Fd, old: String, to: Fd, new: String) -> FsResult<()> {
        self.reject_virtual(&fd, &old, &to, &new)?;
        self.require_same_mount(&fd, &to)?;
        self.record_change(&fd, &old, FinalSymlink::NoFollow)?;
        self.record_change(&to, &new, FinalSymlink::NoFollow)?;
        self.inner.rename_at(fd, old, to, new).await
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(devices::creation_error(found).into());
        }
        self.count_creation(&fd, &path)?;
        let created = self.inner.symlink_at(fd, target, path).await;
        self.created(created)
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found
                .map_or_else(
                    |error| error,
                    |file| if file.is_directory() { ErrorCode::IsDirectory } else { ErrorCode::Access },
                )
                .into());
        }
        self.record_change(&fd, &path, FinalSymlink::NoFollow)?;
        self.inner.unlink_file_at(fd, path).await
    }

    async fn is_same_object(&mut self, one: Fd, other: Fd) -> wasmtime::Result<bool> {
        let (first, second) = (self.descriptors.virtual_file(one.rep()), self.descriptors.virtual_file(other.rep()));
        if first.is_some() || second.is_some() {
            return Ok(first.map(VirtualFile::metadata_hash).map(|hash| hash.lower)
                == second.map(VirtualFile::metadata_hash).map(|hash| hash.lower));
        }
        self.inner.is_same_object(one, other).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.metadata_hash());
        }
        self.inner.metadata_hash(fd).await
    }

    async fn metadata_hash_at(&mut self, fd: Fd, path_flags: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Ok(found?.metadata_hash());
        }
        self.inner.metadata_hash_at(fd, path_flags, path).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        let opened = self.descriptors.remove(fd.rep());
        if opened.is_some_and(|opened| !opened.is_mount_root) {
            self.quota().close();
        }
        if opened.is_some_and(|opened| opened.virtual_file.is_some()) {
            self.inner.table.delete(devices::placeholder(&fd))?;
            return Ok(());
        }
        HostDescriptor::drop(&mut self.inner, fd)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(&mut self, stream: Resource<ReaddirIterator>) -> FsResult<Option<DirectoryEntry>> {
        self.inner.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.descriptors.end_listing();
        self.quota().close();
        HostDirectoryEntryStream::drop(&mut self.inner, stream)
    }
}
