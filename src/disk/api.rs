//! What the store asks of an operating system, as two traits.
//!
//! Paths are taken as they come; errors are `std::io`'s, and what they mean for the store is decided
//! by its caller (`error`). All reads and writes name their position, so nothing depends on a cursor.

use std::io;
use std::path::Path;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To be read. It must exist.
    Read,
    /// To be read and written. It must exist.
    Write,
    /// To be written, mode 0600. It must not exist.
    New,
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Opens a file.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a directory, mode 0700; false if there is one already. Its parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<bool>;
    /// Makes durable which names a directory holds.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, in no order. Names that are not UTF-8 are left out: none is ours.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether there is a file or directory.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Gives a file or directory another name; what had that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory, which must be empty.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Opens the file for reading and writing, making it if need be, and locks it against every other
    /// process for as long as what is returned lives; nothing if another one holds it, in which case
    /// nothing is written.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskFile>>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Reads from a position; 0 at the end of the file.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at a position, perhaps only a beginning of it.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// The length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the content durable, and the length with it.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the content and everything about the file durable.
    fn sync_all(&self) -> io::Result<()>;
}
