//! Standard output and standard error as values that several threads may hold.
//!
//! Knows no format. Each `print` goes out whole: two threads never share a line.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Something to print to.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    /// Prints to `sink`.
    pub fn new(sink: impl Write + Send + 'static) -> Output {
        Output(Arc::new(Mutex::new(Box::new(sink))))
    }

    /// Prints `text` and flushes.
    pub fn print(&self, text: impl AsRef<[u8]>) -> io::Result<()> {
        // A thread that panicked while printing left at worst half a line.
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.write_all(text.as_ref())?;
        sink.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
