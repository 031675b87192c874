//! The files a running server looks at again, its configuration and its tokens file: what they held when
//! they were last read, and what becomes of it when they changed.
//!
//! Files are read in jobs, never on the reactor's thread. Invariant: a missing or bad file changes
//! nothing and is complained about once.

use super::{ReadConfig, ReadConfigFn};
use crate::config::{Config, Tokens};
use crate::disk::text_file;
use crate::net::Chores;
use crate::work::note::{Level, Note};
use crate::work::{Control, Done, Job, Reload};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The files a running server looks at again: its configuration and its tokens file.
///
/// The reactor reads the flags, and never waits for whoever holds `watched` while a file is read.
pub(super) struct ConfigFiles {
    watched: Arc<Mutex<Watched>>,
    flags: Arc<Flags>,
    read_config: Option<Arc<ReadConfigFn>>,
}

struct Flags {
    /// There is a tokens file.
    tokens_file: AtomicBool,
    /// A look at it is under way; a slow disk is not asked twice.
    looking: AtomicBool,
}

/// What the files held when they were last read.
struct Watched {
    config: Arc<Config>,
    tokens: TokensFile,
}

impl ConfigFiles {
    pub(super) fn new(config: Config, tokens: TokensFile, read_config: Option<ReadConfig>) -> Self {
        let flags = Flags {
            tokens_file: AtomicBool::new(config.tokens_file.is_some()),
            looking: AtomicBool::new(false),
        };
        Self {
            watched: Arc::new(Mutex::new(Watched { config: Arc::new(config), tokens })),
            flags: Arc::new(flags),
            read_config: read_config.map(Arc::from),
        }
    }
}

impl Chores for ConfigFiles {
    fn reload(&mut self) -> Option<Job> {
        let read = self.read_config.clone()?;
        let (watched, flags) = (Arc::clone(&self.watched), Arc::clone(&self.flags));
        Some(Job::Chore(Box::new(move || {
            let mut watched = watched.lock().expect("nothing panics while it is held");
            match read() {
                Ok(config) => {
                    flags.tokens_file.store(config.tokens_file.is_some(), Ordering::Relaxed);
                    watched.reload(config)
                }
                Err(problems) => {
                    let refused = |problem: &String| {
                        Note::new(Level::Error, "configuration not reloaded").with("cause", problem)
                    };
                    vec![Done::Notes(problems.iter().map(refused).collect())]
                }
            }
        })))
    }

    fn watches(&self) -> bool {
        self.flags.tokens_file.load(Ordering::Relaxed)
    }

    fn every_second(&mut self) -> Option<Job> {
        if !self.watches() || self.flags.looking.swap(true, Ordering::Relaxed) {
            return None;
        }
        let (watched, flags) = (Arc::clone(&self.watched), Arc::clone(&self.flags));
        Some(Job::Chore(Box::new(move || {
            let done = watched.lock().expect("nothing panics while it is held").look();
            flags.looking.store(false, Ordering::Relaxed);
            done
        })))
    }
}

impl Watched {
    /// Goes by a configuration that was read anew.
    fn reload(&mut self, config: Config) -> Vec<Done> {
        let running = Arc::clone(&self.config);
        let mut notes: Vec<Note> = config
            .warnings_against(&running)
            .into_iter()
            .map(|key| Note::new(Level::Warn, "needs a restart to change").with("key", key))
            .collect();
        if config.tokens_file != running.tokens_file {
            self.tokens = TokensFile::default();
        }
        let (tokens, more) = self.tokens.united(&config);
        notes.extend(more);
        self.config = Arc::new(config.clone());
        let reload = Box::new(Reload { config, running, tokens });
        vec![Done::Notes(notes), Done::Control(Control::Reload(reload))]
    }

    /// Looks whether the tokens file has changed.
    fn look(&mut self) -> Vec<Done> {
        match self.tokens.look(&self.config) {
            Look::Same => Vec::new(),
            Look::Bad(note) => vec![Done::Notes(vec![note])],
            Look::Changed => {
                let tokens = self.tokens.tokens.united(&self.config.tokens);
                let note = Note::new(Level::Info, "tokens file reloaded");
                vec![Done::Notes(vec![note]), Done::Control(Control::Tokens(tokens))]
            }
        }
    }
}

/// The tokens file as it was last read.
#[derive(Default)]
pub(super) struct TokensFile {
    tokens: Tokens,
    /// What told its versions apart; none before it was read.
    version: Option<text_file::Version>,
    /// The last complaint, so that each is made once.
    complaint: Option<String>,
}

enum Look {
    Same,
    Changed,
    Bad(Note),
}

impl TokensFile {
    /// Reads the file for the first time, and unites it with the tokens of the configuration.
    pub(super) fn united(&mut self, config: &Config) -> (Tokens, Vec<Note>) {
        let mut notes = match self.look(config) {
            Look::Bad(note) => vec![note],
            Look::Same | Look::Changed => Vec::new(),
        };
        let tokens = self.tokens.united(&config.tokens);
        if tokens.is_empty() {
            let note = Note::new(Level::Warn, "nobody can connect");
            notes.push(note.with("cause", "no agent has a token in tokens or the tokens file"));
        }
        (tokens, notes)
    }

    /// Looks whether the file has changed. A missing or bad file changes nothing.
    fn look(&mut self, config: &Config) -> Look {
        let Some(path) = &config.tokens_file else { return Look::Same };
        match self.read(path) {
            Ok(None) => Look::Same,
            Ok(Some(tokens)) => {
                self.tokens = tokens;
                self.complaint = None;
                Look::Changed
            }
            Err(complaint) if self.complaint.as_ref() == Some(&complaint) => Look::Same,
            Err(complaint) => {
                let note =
                    Note::new(Level::Error, "tokens file not used").with("cause", &complaint);
                self.complaint = Some(complaint);
                Look::Bad(note)
            }
        }
    }

    fn read(&mut self, path: &Path) -> Result<Option<Tokens>, String> {
        let shown = path.display();
        let version = text_file::version(path).map_err(|error| format!("{shown}: {error}"))?;
        if self.version == Some(version) {
            return Ok(None);
        }
        let text = text_file::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        self.version = Some(version);
        Tokens::parse(&text).map(Some).map_err(|problems| {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            format!("{shown}:{first}")
        })
    }
}
