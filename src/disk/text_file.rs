//! Small text files beside the log: the configuration, a script, the tokens.
//!
//! Knows nothing of what stands in them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Tells the versions of a file apart without reading it: a file that was written or replaced has
/// another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    inode: u64,
    len: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Changes with the content even where `modified` was set back.
    changed: (i64, i64),
}

/// The version of a file. Reading from anything that is no regular file, a pipe above all, could wait
/// for ever, so it has none.
pub fn version(path: &Path) -> io::Result<Version> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(Version {
        inode: about.ino(),
        len: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

/// Reads a whole file, which must be UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

/// Makes a file that only its owner may read (mode 0600), and writes `text` to it. The file must not
/// exist: an older one might have other readers.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_for_its_owner_alone_and_is_not_overwritten() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        write_private(&path, "secret\n").expect("it can be made");
        assert_eq!(read_to_string(&path).expect("it can be read"), "secret\n");
        assert_eq!(fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        let again = write_private(&path, "other").expect_err("it is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_that_was_written_or_replaced_has_another_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&path, "1").expect("it can be written");
        let first = version(&path).expect("it is there");
        assert_eq!(version(&path).expect("it is there"), first);
        fs::write(&path, "12").expect("it can be written");
        let second = version(&path).expect("it is there");
        assert_ne!(second, first);
        fs::write(&other, "12").expect("it can be written");
        fs::rename(&other, &path).expect("it can be renamed");
        assert_ne!(version(&path).expect("it is there"), second);
        assert!(version(&other).is_err());
        assert!(version(dir.path()).is_err(), "only a regular file can be watched");
    }
}
