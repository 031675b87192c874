//! A disk in memory that fails as disks do, from a seed. For tests, and for simulations of embedders.
//!
//! It knows nothing of logs. A page that was written and not synced may or may not survive a power
//! cut, each on its own; what does not is what was there before, or zeros, or garbage. The length of a
//! file is any between the old and the new. A name survives if its directory was synced, else it may
//! or may not. A sync that fails leaves its pages marked clean, so that the next one succeeds without
//! writing them. [`SimDisk::kill`] ends the process and keeps every written byte; [`SimDisk::crash`]
//! cuts the power. Whoever holds the disk of before then gets errors.
//!
//! Invariant: what was synced without an error is there after any number of crashes.

mod tree;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::api::{Disk, DiskFile, Open};
use tree::{Node, Tree};

/// What goes wrong, and when. Nothing does by default.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A write takes only a random beginning of what it is given.
    pub short_writes: bool,
    /// Bytes by which files may still grow.
    pub space: Option<u64>,
    /// Files and directories that may still be made.
    pub inodes: Option<u64>,
    /// The number of the call, by [`SimDisk::calls`], at which the power fails: it may be done in part,
    /// and every later one is not.
    pub power_fails_at: Option<u64>,
    /// So many further writes fail with an I/O error.
    pub writes_fail: u32,
    /// So many further syncs fail; that of a file marks its pages clean.
    pub syncs_fail: u32,
    /// So many further reads fail with an I/O error.
    pub reads_fail: u32,
    /// So many further files cannot be opened for want of a descriptor.
    pub opens_fail: u32,
}

/// The disk, as one process sees it.
#[derive(Clone)]
pub struct SimDisk {
    machine: Arc<Mutex<Machine>>,
    life: u64,
}

/// What outlives a process.
struct Machine {
    tree: Tree,
    random: Random,
    faults: Faults,
    calls: u64,
    /// Which process is the living one.
    life: u64,
    locked: Vec<PathBuf>,
}

impl SimDisk {
    /// An empty disk. Everything that happens by chance is decided by the seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let page_bytes = *random.pick(&PAGES_BYTES);
        let machine = Machine {
            tree: Tree::new(page_bytes),
            random,
            faults: Faults::default(),
            calls: 0,
            life: 0,
            locked: Vec::new(),
        };
        Self { machine: Arc::new(Mutex::new(machine)), life: 0 }
    }

    /// Changes what goes wrong from here on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.machine().faults);
    }

    /// How many calls there were that change something or make something durable.
    pub fn calls(&self) -> u64 {
        self.machine().calls
    }

    /// Ends the process: its locks are free, every byte it has written stays. Returns the disk as the
    /// next process sees it.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut machine = self.machine();
        machine.life += 1;
        machine.locked.clear();
        Self { machine: Arc::clone(&self.machine), life: machine.life }
    }

    /// Cuts the power. Returns the disk as it is found afterwards, without faults.
    #[must_use]
    pub fn crash(&self) -> Self {
        let after = self.kill();
        {
            let machine = &mut *after.machine();
            machine.faults = Faults::default();
            machine.tree.lose_power(&mut machine.random);
        }
        after
    }

    /// What a file holds, if there is one.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let machine = self.machine();
        let inode = machine.tree.find(path.as_ref()).ok()?;
        machine.tree.file(inode).ok().map(|file| file.now().to_vec())
    }

    /// Gives a file this content, durably, as if it had always been so; makes it if need be.
    ///
    /// # Panics
    ///
    /// If its directory does not exist.
    pub fn plant(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let tree = &mut self.machine().tree;
        let path = path.as_ref();
        let inode = tree.find(path).or_else(|_| tree.make(path, Node::file()));
        let inode = inode.expect("something is planted only into a directory that exists");
        tree.plant(inode, bytes.to_vec());
        tree.sync_dir(path.parent().unwrap_or(Path::new(""))).expect("the file is in it");
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().expect("no call panics while it holds the machine")
    }

    /// The machine, for a call of a living process.
    fn living(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let machine = self.machine();
        let powered = machine.faults.power_fails_at.is_none_or(|at| machine.calls < at);
        if machine.life == self.life && powered { Ok(machine) } else { Err(io_error()) }
    }

    /// The machine, for a call that changes something. True if the power fails during it.
    fn changing(&self) -> io::Result<(MutexGuard<'_, Machine>, bool)> {
        let mut machine = self.living()?;
        machine.calls += 1;
        let last = machine.faults.power_fails_at == Some(machine.calls);
        Ok((machine, last))
    }

    /// Makes one change to the tree, or fails with the power before it or behind it.
    fn change<T>(&self, apply: impl FnOnce(&mut Machine) -> io::Result<T>) -> io::Result<T> {
        let (mut machine, last) = self.changing()?;
        if last && machine.random.coin() {
            return Err(io_error());
        }
        let changed = apply(&mut machine);
        if last { Err(io_error()) } else { changed }
    }
}

impl Machine {
    fn take_inode(&mut self) -> io::Result<()> {
        match &mut self.faults.inodes {
            Some(0) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// How much of a growth there is room for.
    fn room(&self, growth: u64) -> u64 {
        self.faults.space.map_or(growth, |space| space.min(growth))
    }

    fn take_space(&mut self, growth: i64) {
        if let Some(space) = &mut self.faults.space {
            *space = space.saturating_add_signed(growth.saturating_neg());
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        {
            let mut machine = self.living()?;
            if take(&mut machine.faults.opens_fail) {
                return Err(io::Error::from_raw_os_error(EMFILE));
            }
        }
        let inode = match how {
            Open::Read | Open::Write => self.living()?.tree.find(path)?,
            Open::New => self.change(|machine| {
                if machine.tree.find(path).is_ok() {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                machine.take_inode()?;
                machine.tree.make(path, Node::file())
            })?,
        };
        self.living()?.tree.file(inode)?;
        Ok(Box::new(SimFile { disk: self.clone(), inode, writable: how != Open::Read, lock: None }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<bool> {
        if self.living()?.tree.find(path).is_ok() {
            return Ok(false);
        }
        self.change(|machine| {
            machine.take_inode()?;
            machine.tree.make(path, Node::dir()).map(|_| true)
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.change(|machine| {
            if take(&mut machine.faults.syncs_fail) {
                return Err(io_error());
            }
            machine.tree.sync_dir(path)
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.living()?.tree.list(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.living()?.tree.find(path).is_ok())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|machine| machine.tree.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|machine| {
            let freed = machine.tree.remove(path)?;
            machine.take_space(-freed.cast_signed());
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if !self.list(path)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change(|machine| machine.tree.remove(path).map(|_| ()))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn DiskFile>>> {
        let found = self.living()?.tree.find(path);
        let inode = match found {
            Ok(inode) => inode,
            Err(_) => self.change(|machine| machine.tree.make(path, Node::file()))?,
        };
        let mut machine = self.living()?;
        if machine.locked.iter().any(|locked| locked == path) {
            return Ok(None);
        }
        machine.locked.push(path.to_owned());
        let lock = Some(path.to_owned());
        Ok(Some(Box::new(SimFile { disk: self.clone(), inode, writable: true, lock })))
    }
}

/// A file that one process has open.
struct SimFile {
    disk: SimDisk,
    inode: u64,
    writable: bool,
    /// The lock that is given back with it.
    lock: Option<PathBuf>,
}

impl DiskFile for SimFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.disk.living()?;
        if take(&mut machine.faults.reads_fail) {
            return Err(io_error());
        }
        let now = machine.tree.file(self.inode)?.now();
        let there = now.get(offset as usize..).unwrap_or_default();
        let len = there.len().min(bytes.len());
        bytes[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (mut machine, last) = self.disk.changing()?;
        if take(&mut machine.faults.writes_fail) {
            return Err(io_error());
        }
        let size = machine.tree.file(self.inode)?.now().len() as u64;
        let growth = (offset + bytes.len() as u64).saturating_sub(size);
        let over = growth - machine.room(growth);
        let mut len = bytes.len() - (over as usize).min(bytes.len());
        if len == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if last || machine.faults.short_writes {
            len = 1 + machine.random.below(len);
        }
        machine.tree.write(self.inode, &bytes[..len], offset as usize)?;
        let grown = (offset + len as u64).saturating_sub(size);
        machine.take_space(grown.cast_signed());
        if last { Err(io_error()) } else { Ok(len) }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.living()?.tree.file(self.inode)?.now().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|machine| {
            let size = machine.tree.file(self.inode)?.now().len() as u64;
            machine.tree.set_len(self.inode, len as usize)?;
            machine.take_space(len.cast_signed() - size.cast_signed());
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|machine| {
            let fails = take(&mut machine.faults.syncs_fail);
            machine.tree.sync(self.inode, fails)?;
            if fails { Err(io_error()) } else { Ok(()) }
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let (Some(path), Ok(mut machine)) = (&self.lock, self.disk.living()) {
            machine.locked.retain(|locked| locked != path);
        }
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("life", &self.life).finish_non_exhaustive()
    }
}

/// Splitmix64: one word of state, and every seed is as good as any other.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, 0 if there is none.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

fn take(left: &mut u32) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(1);
    any
}

fn io_error() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

/// Small pages tear lines in their middle, large ones tear batches.
const PAGES_BYTES: [usize; 4] = [16, 64, 512, 4096];
// As Linux numbers them; what matters is which `io::ErrorKind` they have.
const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

#[cfg(test)]
mod tests;
