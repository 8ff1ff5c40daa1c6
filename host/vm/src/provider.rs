use codebox_core::{BoxFuture, Progress};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::error::VmError;
use crate::image::VmImage;
use crate::spec::VmSpec;

/// Byte stream to the program in a virtual machine.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// State of a virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VmState {
    /// It has not been made.
    Missing,
    /// It does not run.
    Stopped,
    /// It runs, or starts.
    Running,
    /// It cannot run, for this reason.
    Damaged(String),
}

/// Program of this machine that runs virtual machines. Each user has one machine of codebox.
pub trait Provider: Send + Sync {
    /// Returns the name in configuration files and messages.
    fn name(&self) -> &'static str;

    /// Returns the names of the files of an image that it needs.
    fn image_files(&self) -> &'static [&'static str];

    /// Returns true if the machine ends when its program turns it off. Otherwise the program only ends all processes and writes the disk, and
    /// [`kill`](Self::kill) ends the machine.
    fn ends_with_system(&self) -> bool {
        false
    }

    /// Checks that the program is installed, starting nothing.
    ///
    /// # Errors
    /// Returns an error that names the missing part and the command that installs it.
    fn probe(&self) -> Result<(), VmError>;

    /// Returns the state of the machine.
    ///
    /// # Errors
    /// Returns an error if the provider does not answer.
    fn state(&self) -> Result<VmState, VmError>;

    /// Makes the machine from an image, unless it exists.
    ///
    /// # Errors
    /// Returns an error if the image is damaged or the disk is full. Nothing is left then.
    fn create(&self, image: &VmImage, spec: &VmSpec, progress: &dyn Progress) -> Result<(), VmError>;

    /// Starts the machine, unless it runs, and returns before it is ready.
    ///
    /// # Errors
    /// Returns an error if the machine is missing or the hypervisor refuses it.
    fn start(&self, image: &VmImage, spec: &VmSpec) -> Result<(), VmError>;

    /// Connects to the program in a machine that runs. One connection exists at a time.
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn ByteStream>, VmError>>;

    /// Ends the machine at once, as if its power failed. One that does not run is no error.
    ///
    /// # Errors
    /// Returns an error if it cannot be ended.
    fn kill(&self) -> Result<(), VmError>;

    /// Returns the messages of the machine since its last start.
    fn log(&self) -> String;

    /// Ends the machine, and removes it with its disk.
    ///
    /// # Errors
    /// Returns an error if it cannot be removed.
    fn delete(&self) -> Result<(), VmError>;
}
