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

use crate::component::descriptors::Opened;
use crate::component::devices::{self, Placeholder, VirtualFile};
use crate::component::state::Files;
use crate::component::writes::{Counted, ask};
use crate::guest::Quota;
use crate::mounts::Last;

type Fd = Resource<Descriptor>;

impl Files<'_> {
    fn quota(&self) -> std::sync::MutexGuard<'_, Quota> {
        self.quota.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Checks that a change at a path is allowed, and records that the guest may have changed files.
    fn change(&mut self, fd: &Fd, path: &str, last: Last) -> FsResult<()> {
        self.descriptors.allow_change(fd.rep(), path, last)?;
        self.quota().change();
        Ok(())
    }

    /// Checks a change as [`change`](Self::change) does, and counts the new file or directory at the path. If the
    /// operation fails, `made` reverts the count.
    fn make(&mut self, fd: &Fd, path: &str) -> FsResult<()> {
        self.change(fd, path, Last::Itself)?;
        self.quota().make().map_err(|_| ErrorCode::Quota.into())
    }

    fn made<T>(&self, result: FsResult<T>) -> FsResult<T> {
        if result.is_err() {
            self.quota().unmake();
        }
        result
    }

    /// Refuses hard links and renames from one mount into another: they would give the file the permissions of the
    /// other mount.
    fn same_mount(&self, one: &Fd, other: &Fd) -> FsResult<()> {
        match self.descriptors.mount(one.rep()) == self.descriptors.mount(other.rep()) {
            true => Ok(()),
            false => Err(ErrorCode::CrossDevice.into()),
        }
    }

    /// Refuses to rename or link a virtual file, or to rename or link a file into `/dev`.
    fn not_virtual(&self, fd: &Fd, old: &str, to: &Fd, new: &str) -> FsResult<()> {
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
        how: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<Fd> {
        let file = VirtualFile::open(found, how, to)?;
        let handle = self.behind.table.push(Placeholder)?.rep();
        self.descriptors.insert(handle, Opened { mount: None, own: false, virtual_file: Some(file) });
        Ok(Resource::new_own(handle))
    }

    fn counted(&mut self, stream: Resource<DynOutputStream>) -> FsResult<Resource<DynOutputStream>> {
        let behind = self.behind.table.delete(stream)?;
        let counted: DynOutputStream = Box::new(Counted { behind, quota: self.quota.clone() });
        Ok(self.behind.table.push(counted)?)
    }

    /// Checks an open and returns true if it creates a file.
    ///
    /// As for the other guests, files other than directories, regular files and symbolic links are refused: opening
    /// some of them blocks in the kernel, where the call cannot be interrupted.
    async fn prepare_open(
        &mut self,
        fd: &Fd,
        at: PathFlags,
        path: &str,
        how: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<bool> {
        let again = Resource::new_borrow(fd.rep());
        let found = self.behind.stat_at(again, at, path.to_owned()).await.ok().map(|stat| stat.type_);
        match found {
            None | Some(DescriptorType::Directory | DescriptorType::RegularFile | DescriptorType::SymbolicLink) => {}
            Some(_) => return Err(ErrorCode::Access.into()),
        }
        let last = if at.contains(PathFlags::SYMLINK_FOLLOW) { Last::Followed } else { Last::Itself };
        let makes_or_empties = how.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE);
        let writes = to.contains(DescriptorFlags::WRITE) && found != Some(DescriptorType::Directory);
        if makes_or_empties || writes {
            self.change(fd, path, last)?;
        }
        let makes = found.is_none() && how.contains(OpenFlags::CREATE);
        if makes {
            self.quota().make().map_err(|_| FsError::from(ErrorCode::Quota))?;
        }
        Ok(makes)
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let directories = preopens::Host::get_directories(&mut self.behind)?;
        for (index, (fd, _)) in directories.iter().enumerate() {
            // The root comes first, then the mounts in their order.
            self.descriptors.insert(fd.rep(), Opened { mount: index.checked_sub(1), own: true, virtual_file: None });
        }
        Ok(directories)
    }
}

impl types::Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.behind.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        if let Some(error) = self.behind.table.get(&error)?.downcast_ref::<std::io::Error>()
            && error.kind() == std::io::ErrorKind::QuotaExceeded
        {
            return Ok(Some(ErrorCode::Quota));
        }
        self.behind.filesystem_error_code(error)
    }
}

impl HostDescriptor for Files<'_> {
    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.behind.table.push(file.input(self.stdio)?)?);
        }
        self.behind.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.behind.table.push(file.output(self.stdio)?)?);
        }
        let stream = self.behind.write_via_stream(fd, offset)?;
        self.counted(stream)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(self.behind.table.push(file.output(self.stdio)?)?);
        }
        let stream = self.behind.append_via_stream(fd)?;
        self.counted(stream)
    }

    async fn advise(&mut self, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Ok(());
        }
        self.behind.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::Invalid.into());
        }
        self.behind.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.flags());
        }
        self.behind.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.descriptor_type());
        }
        self.behind.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::Invalid.into());
        }
        // The whole new size counts, as for the other guests.
        ask(self.quota, size).map_err(|_| FsError::from(ErrorCode::Quota))?;
        self.behind.set_size(fd, size).await
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        if self.descriptors.virtual_file(fd.rep()).is_some() {
            return Err(ErrorCode::NotPermitted.into());
        }
        self.change(&fd, "", Last::Followed)?;
        self.behind.set_times(fd, accessed, modified).await
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return file.read(length);
        }
        self.behind.read(fd, length, offset).await
    }

    async fn write(&mut self, fd: Fd, buffer: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return file.write(buffer.len());
        }
        ask(self.quota, buffer.len() as u64).map_err(|_| FsError::from(ErrorCode::Quota))?;
        self.behind.write(fd, buffer, offset).await
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
        let listing = self.behind.read_directory(fd).await;
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
        self.behind.sync(fd).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(devices::addition(found).into());
        }
        self.make(&fd, &path)?;
        let made = self.behind.create_directory_at(fd, path).await;
        self.made(made)
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.stat());
        }
        self.behind.stat(fd).await
    }

    async fn stat_at(&mut self, fd: Fd, at: PathFlags, path: String) -> FsResult<DescriptorStat> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Ok(found?.stat());
        }
        self.behind.stat_at(fd, at, path).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        at: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found.err().unwrap_or(ErrorCode::NotPermitted).into());
        }
        let last = if at.contains(PathFlags::SYMLINK_FOLLOW) { Last::Followed } else { Last::Itself };
        self.change(&fd, &path, last)?;
        self.behind.set_times_at(fd, at, path, accessed, modified).await
    }

    async fn link_at(&mut self, fd: Fd, at: PathFlags, old: String, to: Fd, new: String) -> FsResult<()> {
        self.not_virtual(&fd, &old, &to, &new)?;
        self.same_mount(&fd, &to)?;
        // A second name for a protected file would permit changing the file, so both ends are checked.
        self.change(&fd, &old, Last::Itself)?;
        self.make(&to, &new)?;
        let made = self.behind.link_at(fd, at, old, to, new).await;
        self.made(made)
    }

    async fn open_at(
        &mut self,
        fd: Fd,
        at: PathFlags,
        path: String,
        how: OpenFlags,
        to: DescriptorFlags,
    ) -> FsResult<Fd> {
        self.quota().open().map_err(|_| FsError::from(ErrorCode::InsufficientMemory))?;
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            let opened = self.open_virtual(found, how, to);
            if opened.is_err() {
                self.quota().close();
            }
            return opened;
        }
        let mount = self.descriptors.mount(fd.rep());
        let opened = match self.prepare_open(&fd, at, &path, how, to).await {
            Ok(makes) => {
                let opened = self.behind.open_at(fd, at, path, how, to).await;
                if makes { self.made(opened) } else { opened }
            }
            Err(refused) => Err(refused),
        };
        match &opened {
            Ok(opened) => self.descriptors.insert(opened.rep(), Opened { mount, own: false, virtual_file: None }),
            Err(_) => self.quota().close(),
        }
        opened
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(found.err().unwrap_or(ErrorCode::Invalid).into());
        }
        self.behind.readlink_at(fd, path).await
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
        self.change(&fd, &path, Last::Itself)?;
        self.behind.remove_directory_at(fd, path).await
    }

    async fn rename_at(&mut self, fd: Fd, old: String, to: Fd, new: String) -> FsResult<()> {
        self.not_virtual(&fd, &old, &to, &new)?;
        self.same_mount(&fd, &to)?;
        self.change(&fd, &old, Last::Itself)?;
        self.change(&to, &new, Last::Itself)?;
        self.behind.rename_at(fd, old, to, new).await
    }

    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Err(devices::addition(found).into());
        }
        self.make(&fd, &path)?;
        let made = self.behind.symlink_at(fd, target, path).await;
        self.made(made)
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
        self.change(&fd, &path, Last::Itself)?;
        self.behind.unlink_file_at(fd, path).await
    }

    async fn is_same_object(&mut self, one: Fd, other: Fd) -> wasmtime::Result<bool> {
        let (first, second) = (self.descriptors.virtual_file(one.rep()), self.descriptors.virtual_file(other.rep()));
        if first.is_some() || second.is_some() {
            return Ok(first.map(VirtualFile::metadata_hash).map(|hash| hash.lower)
                == second.map(VirtualFile::metadata_hash).map(|hash| hash.lower));
        }
        self.behind.is_same_object(one, other).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        if let Some(file) = self.descriptors.virtual_file(fd.rep()) {
            return Ok(file.metadata_hash());
        }
        self.behind.metadata_hash(fd).await
    }

    async fn metadata_hash_at(&mut self, fd: Fd, at: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        if let Some(found) = self.descriptors.find_virtual(fd.rep(), &path) {
            return Ok(found?.metadata_hash());
        }
        self.behind.metadata_hash_at(fd, at, path).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        let opened = self.descriptors.remove(fd.rep());
        if opened.is_some_and(|opened| !opened.own) {
            self.quota().close();
        }
        if opened.is_some_and(|opened| opened.virtual_file.is_some()) {
            self.behind.table.delete(devices::placeholder(&fd))?;
            return Ok(());
        }
        HostDescriptor::drop(&mut self.behind, fd)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(&mut self, stream: Resource<ReaddirIterator>) -> FsResult<Option<DirectoryEntry>> {
        self.behind.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<ReaddirIterator>) -> wasmtime::Result<()> {
        self.descriptors.end_listing();
        self.quota().close();
        HostDirectoryEntryStream::drop(&mut self.behind, stream)
    }
}
