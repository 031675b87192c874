//! The few system calls that std and mio do not reach, and the only file that may hold `unsafe`.
//!
//! Each function states the call it makes and what of it can fail. Nothing here keeps state but
//! the one descriptor the signal handler writes to: a handler may touch nothing else.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// `SIGHUP` on every Linux architecture.
pub const SIGHUP: u8 = 1;
/// `SIGINT` on every Linux architecture.
pub const SIGINT: u8 = 2;
/// `SIGTERM` on every Linux architecture.
pub const SIGTERM: u8 = 15;

const RLIMIT_NOFILE: c_int = 7;
/// glibc's and musl's sentinel for a `signal` call that failed.
const SIG_ERR: usize = usize::MAX;

#[repr(C)]
struct Rlimit {
    soft: u64,
    hard: u64,
}

unsafe extern "C" {
    fn getrandom(buffer: *mut c_void, length: usize, flags: u32) -> isize;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn getrlimit(resource: c_int, limit: *mut Rlimit) -> c_int;
    fn setrlimit(resource: c_int, limit: *const Rlimit) -> c_int;
    fn signal(signum: c_int, handler: usize) -> usize;
    fn write(fd: c_int, buffer: *const c_void, length: usize) -> isize;
    // The name glibc and musl share for the address of this thread's errno.
    fn __errno_location() -> *mut c_int;
}

/// Fills `buffer` from the operating system's random source (`getrandom(2)`).
///
/// # Panics
/// When the source fails: ids and masks could no longer be trusted to be unique.
pub fn random(buffer: &mut [u8]) {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        // SAFETY: the pointer and the length are those of one live, writable slice.
        let n = unsafe { getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => filled += n,
            Err(_) => {
                let error = io::Error::last_os_error();
                assert!(
                    error.kind() == io::ErrorKind::Interrupted,
                    "the operating system's random source failed: {error}"
                );
            }
        }
    }
}

/// Eight random bytes as a number.
pub fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    random(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Calls `listen(2)` again on a listening socket, to give it a larger backlog than mio's 128.
/// The kernel silently cuts `backlog` to its own `somaxconn`.
pub fn set_backlog(fd: RawFd, backlog: i32) -> io::Result<()> {
    // SAFETY: `listen` takes no pointer; a descriptor that is not a socket is an error it reports.
    check(unsafe { listen(fd, backlog) })
}

/// Raises the soft limit of open descriptors to the hard one and returns the limit now in force.
pub fn raise_fd_limit() -> io::Result<u64> {
    let mut limit = Rlimit { soft: 0, hard: 0 };
    // SAFETY: `limit` is a live, writable struct of the layout the call expects on 64-bit Linux.
    check(unsafe { getrlimit(RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.soft < limit.hard {
        let raised = Rlimit { soft: limit.hard, hard: limit.hard };
        // SAFETY: `raised` is a live struct of the layout the call expects.
        if check(unsafe { setrlimit(RLIMIT_NOFILE, &raw const raised) }).is_ok() {
            return Ok(raised.soft);
        }
    }
    Ok(limit.soft)
}

/// The descriptor the handler writes signal numbers to; -1 while none is installed.
static SIGNAL_FD: AtomicI32 = AtomicI32::new(-1);

/// From now on `SIGTERM`, `SIGINT` and `SIGHUP` each write their number, one byte, to `fd`.
///
/// `fd` must stay open for the life of the process and should not block: a byte that finds the
/// pipe full is dropped, and the ones in it say enough.
pub fn signals_to(fd: RawFd) -> io::Result<()> {
    SIGNAL_FD.store(fd, Ordering::SeqCst);
    let handler = on_signal as extern "C" fn(c_int) as usize;
    for number in [SIGTERM, SIGINT, SIGHUP] {
        // SAFETY: the handler only makes an async-signal-safe call (`write`) and reads an atomic.
        if unsafe { signal(c_int::from(number), handler) } == SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_signal(number: c_int) {
    // Only the three signals above come here, and their numbers fit.
    let byte = number.to_ne_bytes()[if cfg!(target_endian = "little") { 0 } else { 3 }];
    let fd = SIGNAL_FD.load(Ordering::SeqCst);
    if fd >= 0 {
        // SAFETY: errno's address is valid for the thread's life; one byte of a live local is
        // written. The result is of no use in a handler, and the interrupted code must find its
        // own errno again.
        unsafe {
            let errno = *__errno_location();
            let _ = write(fd, (&raw const byte).cast(), 1);
            *__errno_location() = errno;
        }
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_differ_between_calls() {
        assert_ne!(random_u64(), random_u64());
        let mut long = [0_u8; 600];
        random(&mut long);
        assert!(long.iter().any(|&byte| byte != 0));
    }

    #[test]
    fn the_descriptor_limit_is_known() {
        assert!(raise_fd_limit().expect("getrlimit works") >= 64);
    }

    #[test]
    fn a_backlog_on_something_that_is_no_socket_is_an_error() {
        assert!(set_backlog(-1, 10).is_err());
    }
}
