//! A file system of its own under a server's data directory, so small that a test can fill it.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted tmpfs; dropping it unmounts it.
pub(crate) struct SmallDisk {
    at: PathBuf,
}

/// What is short on a disk that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Bytes,
    Inodes,
}

impl SmallDisk {
    /// Mounts one in `folder`, where a server has its data directory. Nothing, and a message that says
    /// why, where this is not allowed.
    pub(crate) fn mount(folder: &Path) -> Option<Self> {
        let at = folder.join("terret-data");
        fs::create_dir(&at).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=2m,nr_inodes=200", "tmpfs"];
        let failure = match Command::new("mount").args(arguments).arg(&at).output() {
            Ok(output) if output.status.success() => return Some(Self { at }),
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        eprintln!("skipped, a small disk cannot be mounted here: {failure}");
        None
    }

    /// Leaves nothing of what is to be short.
    pub(crate) fn fill(&self, short: Short) {
        match short {
            Short::Bytes => {
                let mut filler =
                    OpenOptions::new().create(true).append(true).open(self.filler(0)).unwrap();
                for piece in [64 * 1024, 4096, 1] {
                    while is_done(filler.write_all(&vec![0; piece])) {}
                }
            }
            Short::Inodes => {
                let mut number = 0;
                while is_done(File::create_new(self.filler(number)).map(drop)) {
                    number += 1;
                }
            }
        }
    }

    /// Takes away what filled it.
    pub(crate) fn free(&self) {
        let fillers = (0..).map(|number| self.filler(number)).take_while(|path| path.exists());
        fillers.for_each(|path| fs::remove_file(path).unwrap());
    }

    fn filler(&self, number: usize) -> PathBuf {
        self.at.join(format!("filler{number}"))
    }
}

/// Whether there was room.
fn is_done(result: std::io::Result<()>) -> bool {
    match result {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
            false
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever holds a file there is being killed.
        let status = Command::new("umount").arg("-l").arg(&self.at).status();
        assert!(status.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
