//! A directory for the time being.
//!
//! Invariant: it lies in the system's directory for temporary files, nobody else can look into it,
//! and it is gone when its value is dropped.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::os;

/// A directory that is removed, with all that is in it, when this is dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one, whose name begins with `name`.
    pub fn new(name: &str) -> io::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("{name}-{:016x}", os::random_u64()));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the temporary files.
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_private_and_goes_with_its_value() {
        use std::os::unix::fs::PermissionsExt as _;
        let scratch = Scratch::new("terret-test").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
