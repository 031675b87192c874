//! Files and directories of the simulated disk: what they hold now, and what a power cut leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use super::Random;

/// Every file and directory, by inode; the root is inode 0.
pub(super) struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    page_bytes: usize,
}

pub(super) enum Node {
    Dir(Dir),
    File(File),
}

#[derive(Default)]
pub(super) struct Dir {
    now: BTreeMap<String, u64>,
    safe: BTreeMap<String, u64>,
    /// What was done since the last sync, in order.
    changes: Vec<Change>,
}

#[derive(Default)]
pub(super) struct File {
    now: Vec<u8>,
    safe: Vec<u8>,
    /// Pages whose content is not safe and will be by the next sync.
    dirty: BTreeSet<usize>,
    /// Likewise the length.
    length_is_dirty: bool,
}

#[derive(Clone)]
enum Change {
    Link(String, u64),
    Unlink(String),
    Rename(String, String),
}

impl Node {
    pub(super) fn dir() -> Self {
        Self::Dir(Dir::default())
    }

    pub(super) fn file() -> Self {
        Self::File(File::default())
    }
}

impl Tree {
    pub(super) fn new(page_bytes: usize) -> Self {
        Self { nodes: BTreeMap::from([(0, Node::dir())]), next: 1, page_bytes }
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        let mut at = 0;
        for part in path.components() {
            match part {
                Component::Normal(name) => {
                    let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?;
                    at = *self.dir(at)?.now.get(name).ok_or(io::ErrorKind::NotFound)?;
                }
                Component::CurDir | Component::RootDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
            }
        }
        Ok(at)
    }

    pub(super) fn file(&self, inode: u64) -> io::Result<&File> {
        match &self.nodes[&inode] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn make(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let inode = self.next;
        let name = name_of(path)?;
        self.parent(path)?.change(Change::Link(name, inode));
        self.nodes.insert(inode, node);
        self.next += 1;
        Ok(inode)
    }

    /// Removes a name and says how many bytes that frees.
    pub(super) fn remove(&mut self, path: &Path) -> io::Result<u64> {
        let inode = self.find(path)?;
        let freed = self.file(inode).map_or(0, |file| file.now.len() as u64);
        self.parent(path)?.change(Change::Unlink(name_of(path)?));
        Ok(freed)
    }

    /// Renames within one directory, which is all that is needed.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.find(from)?;
        if from.parent() != to.parent() {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.parent(from)?.change(Change::Rename(name_of(from)?, name_of(to)?));
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.dir(self.find(path)?)?.now.keys().cloned().collect())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.find(path)?;
        let dir = self.dir_mut(inode)?;
        dir.safe = dir.now.clone();
        dir.changes.clear();
        Ok(())
    }

    pub(super) fn write(&mut self, inode: u64, bytes: &[u8], at: usize) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(inode)?;
        let end = at + bytes.len();
        if end > file.now.len() {
            file.touch(file.now.len(), end, page_bytes);
            file.now.resize(end, 0);
            file.length_is_dirty = true;
        }
        file.now[at..end].copy_from_slice(bytes);
        file.touch(at, end, page_bytes);
        Ok(())
    }

    pub(super) fn set_len(&mut self, inode: u64, len: usize) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(inode)?;
        file.touch(len.min(file.now.len()), len.max(file.now.len()), page_bytes);
        file.now.resize(len, 0);
        file.length_is_dirty = true;
        Ok(())
    }

    /// Makes a file safe, or, if that fails, only marks it so.
    pub(super) fn sync(&mut self, inode: u64, fails: bool) -> io::Result<()> {
        let page_bytes = self.page_bytes;
        let file = self.file_mut(inode)?;
        let dirty = std::mem::take(&mut file.dirty);
        let length_is_dirty = std::mem::take(&mut file.length_is_dirty);
        if fails {
            return Ok(());
        }
        if length_is_dirty {
            file.safe.resize(file.now.len(), 0);
        }
        for page in dirty {
            // Content is of no use beyond the length, so the length goes with it.
            let end = ((page + 1) * page_bytes).min(file.now.len());
            file.safe.resize(end.max(file.safe.len()), 0);
            file.write_back(page, page_bytes);
        }
        Ok(())
    }

    pub(super) fn plant(&mut self, inode: u64, bytes: Vec<u8>) {
        self.nodes
            .insert(inode, Node::File(File { now: bytes.clone(), safe: bytes, ..File::default() }));
    }

    /// Leaves of everything what a power cut may.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        for node in self.nodes.values_mut() {
            match node {
                Node::Dir(dir) => dir.lose_power(random),
                Node::File(file) => file.lose_power(random, self.page_bytes),
            }
        }
    }

    fn parent(&mut self, path: &Path) -> io::Result<&mut Dir> {
        let inode = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.dir_mut(inode)
    }

    fn dir(&self, inode: u64) -> io::Result<&Dir> {
        match &self.nodes[&inode] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn dir_mut(&mut self, inode: u64) -> io::Result<&mut Dir> {
        match self.nodes.get_mut(&inode) {
            Some(Node::Dir(dir)) => Ok(dir),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn file_mut(&mut self, inode: u64) -> io::Result<&mut File> {
        match self.nodes.get_mut(&inode) {
            Some(Node::File(file)) => Ok(file),
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }
}

impl Dir {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    /// Each change may have reached the disk or not, whatever the others did.
    fn lose_power(&mut self, random: &mut Random) {
        for change in std::mem::take(&mut self.changes) {
            if random.coin() {
                change.apply(&mut self.safe);
            }
        }
        self.now = self.safe.clone();
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Unlink(name) => {
                names.remove(name);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }
}

impl File {
    pub(super) fn now(&self) -> &[u8] {
        &self.now
    }

    fn touch(&mut self, from: usize, to: usize, page_bytes: usize) {
        self.dirty.extend(from / page_bytes..to.div_ceil(page_bytes));
    }

    /// Copies one page, as far as both lengths reach.
    fn write_back(&mut self, page: usize, page_bytes: usize) {
        let from = page * page_bytes;
        let to = (from + page_bytes).min(self.now.len()).min(self.safe.len());
        if from < to {
            self.safe[from..to].copy_from_slice(&self.now[from..to]);
        }
    }

    /// Of what is dirty nothing, everything, or any part may have reached the disk.
    fn lose_power(&mut self, random: &mut Random, page_bytes: usize) {
        let reached: &[bool] = random.pick::<&[bool]>(&[&[false], &[true], &[false, true]]);
        if std::mem::take(&mut self.length_is_dirty) {
            let old = self.safe.len();
            let (least, most) = (old.min(self.now.len()), old.max(self.now.len()));
            let between = least + random.below(most - least + 1);
            self.safe.resize(*random.pick(&[least, most, between]), 0);
            if random.coin() {
                let fresh = old.min(self.safe.len());
                self.safe[fresh..].fill_with(|| random.next() as u8);
            }
        }
        for page in std::mem::take(&mut self.dirty) {
            if *random.pick(reached) {
                self.write_back(page, page_bytes);
            }
        }
        self.now = self.safe.clone();
    }
}

fn name_of(path: &Path) -> io::Result<String> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
