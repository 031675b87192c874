//! The few system calls that std and mio do not reach, and the only file that may hold `unsafe`.
//!
//! Each function states the call it makes and what of it can fail. Nothing here keeps state but
//! the one descriptor the signal handler writes to: a handler may touch nothing else.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_long, c_ulong, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// `SIGHUP` on every Linux architecture.
pub const SIGHUP: u8 = 1;
/// `SIGINT` on every Linux architecture.
pub const SIGINT: u8 = 2;
/// `SIGKILL` on every Linux architecture.
pub const SIGKILL: u8 = 9;
/// `SIGTERM` on every Linux architecture.
pub const SIGTERM: u8 = 15;
/// Among the flags of `open`: it waits for nobody. The number is the same on x86, ARM, RISC-V and POWER.
pub const O_NONBLOCK: i32 = 0o4000;

/// The same on every architecture that Rust's Linux targets have, but for mips.
const SIGXFSZ: c_int = 25;

const RLIMIT_NOFILE: c_int = 7;
const PR_SET_PDEATHSIG: c_int = 1;
const O_RDONLY: c_int = 0;
/// The same on every architecture that Rust's Linux targets have, but for sparc and alpha.
const O_CLOEXEC: c_int = 0o2_000_000;
const ENOSPC: i32 = 28;
const ESRCH: i32 = 3;
const SYS_CLOSE_RANGE: c_long = 436;
const CLOSE_RANGE_CLOEXEC: u32 = 4;
/// The same on every architecture, like all calls that are newer than Linux 5.0.
const SYS_PIDFD_OPEN: c_long = 434;
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
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn read(fd: c_int, buffer: *mut c_void, length: usize) -> isize;
    fn write(fd: c_int, buffer: *const c_void, length: usize) -> isize;
    fn kill(pid: c_int, signum: c_int) -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn prctl(option: c_int, argument: c_ulong, ...) -> c_int;
    fn getppid() -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
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
    // It only makes an async-signal-safe call (`write`) and reads an atomic.
    handle_signals(on_signal)
}

/// Has `handler`, which makes no call but async-signal-safe ones, called for the three signals.
fn handle_signals(handler: extern "C" fn(c_int)) -> io::Result<()> {
    for number in [SIGTERM, SIGINT, SIGHUP] {
        // SAFETY: the handler is a function of the type the call expects.
        if unsafe { signal(c_int::from(number), handler as usize) } == SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The process that signals are passed on to; 0 while there is none.
static HEIR: AtomicI32 = AtomicI32::new(0);
/// Signals that came before there was one, a bit for each.
static HELD_SIGNALS: AtomicU32 = AtomicU32::new(0);

/// From now on `SIGTERM`, `SIGINT` and `SIGHUP` do nothing to this process, which is to have one thread:
/// they wait for [`pass_signals_to`].
pub fn hold_signals() -> io::Result<()> {
    extern "C" fn pass_on(number: c_int) {
        match HEIR.load(Ordering::SeqCst) {
            0 => {
                HELD_SIGNALS.fetch_or(1 << number, Ordering::SeqCst);
            }
            // SAFETY: `kill` takes no pointer and may be called in a handler; errno's address is valid
            // for the thread's life, and the interrupted code must find its own errno again. A process
            // that is gone has no use for the signal.
            heir => unsafe {
                let errno = *__errno_location();
                let _ = kill(heir, number);
                *__errno_location() = errno;
            },
        }
    }
    handle_signals(pass_on)
}

/// Passes them on to a child from now on, and those that have come already.
pub fn pass_signals_to(child: u32) {
    let child = child.cast_signed();
    HEIR.store(child, Ordering::SeqCst);
    let held = HELD_SIGNALS.swap(0, Ordering::SeqCst);
    for number in [SIGTERM, SIGINT, SIGHUP].map(c_int::from) {
        if held & 1 << number != 0 {
            // SAFETY: `kill` takes no pointer. A child that is gone has no use for the signal.
            unsafe { kill(child, number) };
        }
    }
}

/// Waits until a child of this process ends, whoever started it, and takes it away (`waitpid(2)`). To be
/// called only where nobody else waits for a child.
pub fn wait_for_any_child() -> io::Result<(u32, ExitStatus)> {
    let mut status = 0;
    loop {
        // SAFETY: the status is a live, writable integer.
        let process = unsafe { waitpid(-1, &raw mut status, 0) };
        match check(process) {
            Ok(()) => return Ok((process.cast_unsigned(), ExitStatus::from_raw(status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// From now on a write beyond the file size limit (`RLIMIT_FSIZE`) is an error of that write, as a
/// full disk is, and no longer the end of the process by `SIGXFSZ`.
///
/// A handler that does nothing, not `SIG_IGN`: programs that this process starts would inherit that.
pub fn survive_file_size_limit() -> io::Result<()> {
    extern "C" fn on_limit(_: c_int) {}
    let handler = on_limit as extern "C" fn(c_int) as usize;
    // SAFETY: the handler touches nothing at all.
    if unsafe { signal(SIGXFSZ, handler) } == SIG_ERR {
        return Err(io::Error::last_os_error());
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

/// Sends a signal to every process of a group (`kill(2)`). A group that has none is an error.
///
/// # Panics
/// When `group` is not the number of a group: 0 and -1 would reach this process and all others.
pub fn signal_group(group: i32, signal: u8) -> io::Result<()> {
    assert!(group > 1, "{group} is no process group of a child");
    // SAFETY: `kill` takes no pointer.
    check(unsafe { kill(-group, c_int::from(signal)) })
}

/// Whether a group has a process, be it only one that nobody has waited for yet.
pub fn group_exists(group: i32) -> bool {
    // What may not be signalled is there.
    !matches!(signal_group(group, 0), Err(error) if error.raw_os_error() == Some(ESRCH))
}

/// A descriptor that becomes readable when a child ends (`pidfd_open(2)`, Linux 5.3). It is closed on
/// exec. `process` must not have been waited for.
pub fn pidfd_open(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes two integers.
    let fd = unsafe { syscall(SYS_PIDFD_OPEN, process.cast_signed(), 0_u32) };
    match c_int::try_from(fd) {
        // SAFETY: the call has just made this descriptor, and nobody else knows of it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Before `command` becomes its program, it binds its life to that of the calling thread, writes its
/// own line of `/proc/PID/stat` to `record`, and keeps no descriptor but the standard three. If one of
/// the first two fails, it does not start.
///
/// The parent-death signal (`prctl(2)`) is SIGKILL. It comes when the *thread* that spawned ends, so
/// that thread has to live as long as the process: a worker does. It reaches neither a grandchild nor
/// a program with privileges of its own (set-user-ID).
pub fn bind_child(command: &mut Command, record: OwnedFd) {
    let parent = std::process::id().cast_signed();
    let before_exec = move || {
        // SAFETY: `prctl` takes integers here, `getppid` nothing. Both only make a system call.
        check(unsafe { prctl(PR_SET_PDEATHSIG, c_ulong::from(SIGKILL)) })?;
        if unsafe { getppid() } != parent {
            // It ended before the signal was asked for, which will not come any more.
            return Err(io::Error::from_raw_os_error(ESRCH));
        }
        // SAFETY: the call takes three integers. What this process opens is closed on exec anyway; this
        // is about what it inherited itself. A kernel before Linux 5.11 refuses, and passes that on.
        unsafe { syscall(SYS_CLOSE_RANGE, 3_u32, u32::MAX, CLOSE_RANGE_CLOEXEC) };
        write_own_stat(record.as_raw_fd())
    };
    // SAFETY: between fork and exec the closure only makes system calls on memory of its own stack:
    // it takes no lock and allocates nothing, an error that carries its number included.
    unsafe { command.pre_exec(before_exec) };
}

/// Copies `/proc/self/stat`, which is shorter than 1 KiB, to `target`.
fn write_own_stat(target: RawFd) -> io::Result<()> {
    const STAT: &CStr = c"/proc/self/stat";
    let mut line = [0_u8; 1024];
    // SAFETY: the path is a C string. The exec or exit that follows closes the descriptor.
    let stat = unsafe { open(STAT.as_ptr(), O_RDONLY | O_CLOEXEC) };
    check(stat)?;
    // SAFETY: the pointer and the length are those of one live, writable buffer.
    let n = unsafe { read(stat, line.as_mut_ptr().cast(), line.len()) };
    let Ok(length) = usize::try_from(n) else { return Err(io::Error::last_os_error()) };
    // SAFETY: `length` bytes of the buffer were filled by the read above.
    match unsafe { write(target, line.as_ptr().cast(), length) } {
        written if written == n => Ok(()),
        written if written < 0 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::from_raw_os_error(ENOSPC)),
    }
}

/// Takes `bytes` into a CRC-32C register with the processor's own instruction; none where it has not
/// got one. The register begins as all ones and its complement is the checksum.
pub fn crc32c(register: u32, bytes: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction, which was asked just now.
        return Some(unsafe { crc32c_sse42(register, bytes) });
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        // SAFETY: the processor has the instruction, which was asked just now.
        return Some(unsafe { crc32c_armv8(register, bytes) });
    }
    // Where neither applies, the arguments are of no use.
    let _ = (register, bytes);
    None
}

/// Where the first LF stands, found on the way of a CRC-32C, and the register behind the bytes before
/// it but for the last `left_out` of them, 24 at most. The processor compares while it waits for its
/// checksums, so looking for the LF costs next to nothing.
///
/// None where there is no such instruction, but also where the LF is among the first or the last few
/// bytes: whoever gets nothing has to look for itself.
pub fn crc32c_to_lf(register: u32, bytes: &[u8], left_out: usize) -> Option<(usize, u32)> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction, which was asked just now.
        return unsafe { crc32c_to_lf_sse42(register, bytes, left_out) };
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("crc") {
        // SAFETY: the processor has the instruction, which was asked just now.
        return unsafe { crc32c_to_lf_armv8(register, bytes, left_out) };
    }
    let _ = (register, bytes, left_out);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_sse42(register: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let register = words.iter().fold(u64::from(register), |register, word| {
        _mm_crc32_u64(register, u64::from_le_bytes(*word))
    });
    let (half, rest) = rest.as_chunks::<4>();
    let register = half
        .iter()
        .fold(register as u32, |register, half| _mm_crc32_u32(register, u32::from_le_bytes(*half)));
    rest.iter().fold(register, |register, byte| _mm_crc32_u8(register, *byte))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_to_lf_sse42(register: u32, bytes: &[u8], left_out: usize) -> Option<(usize, u32)> {
    let step = |register, word| std::arch::x86_64::_mm_crc32_u64(register, word);
    let (lf, done, register) = words_to_lf(register, bytes, step)?;
    Some((lf, crc32c_sse42(register, &bytes[done..lf - left_out])))
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
fn crc32c_armv8(register: u32, bytes: &[u8]) -> u32 {
    use std::arch::aarch64::{__crc32cb, __crc32cd, __crc32cw};
    let (words, rest) = bytes.as_chunks::<8>();
    let register = words
        .iter()
        .fold(register, |register, word| __crc32cd(register, u64::from_le_bytes(*word)));
    let (half, rest) = rest.as_chunks::<4>();
    let register =
        half.iter().fold(register, |register, half| __crc32cw(register, u32::from_le_bytes(*half)));
    rest.iter().fold(register, |register, byte| __crc32cb(register, *byte))
}

#[cfg(target_arch = "aarch64")]
#[target_feature(enable = "crc")]
fn crc32c_to_lf_armv8(register: u32, bytes: &[u8], left_out: usize) -> Option<(usize, u32)> {
    let step =
        |register: u64, word| u64::from(std::arch::aarch64::__crc32cd(register as u32, word));
    let (lf, done, register) = words_to_lf(register, bytes, step)?;
    Some((lf, crc32c_armv8(register, &bytes[done..lf - left_out])))
}

/// Looks for an LF word by word, while `step` takes in the words that stand [`WORDS_BEHIND`] before.
/// Where the LF stands, how many bytes were taken in, and the register then.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[expect(
    clippy::inline_always,
    reason = "an instruction that only its caller may use is one there"
)]
#[inline(always)]
fn words_to_lf(
    register: u32,
    bytes: &[u8],
    step: impl Fn(u64, u64) -> u64,
) -> Option<(usize, usize, u32)> {
    // The high bit of every byte that is an LF, and perhaps of some above the lowest.
    let marks = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'\n'));
        word.wrapping_sub(ONES) & !word & (ONES << 7)
    };
    let (words, _) = bytes.as_chunks::<8>();
    let (first, ahead) = words.split_at_checked(WORDS_BEHIND)?;
    if first.iter().any(|word| marks(word) != 0) {
        return None;
    }
    let mut register = u64::from(register);
    for (index, (word, behind)) in ahead.iter().zip(words).enumerate() {
        let marks = marks(word);
        if marks != 0 {
            let lf = (index + WORDS_BEHIND) * 8 + marks.trailing_zeros() as usize / 8;
            return Some((lf, index * 8, register as u32));
        }
        register = step(register, u64::from_le_bytes(*behind));
    }
    None
}

/// One in every byte.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const ONES: u64 = u64::MAX / 0xff;

/// How far a checksum stays behind the search for the LF before which it has to end.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const WORDS_BEHIND: usize = 3;

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

    #[test]
    fn the_end_of_a_child_makes_its_descriptor_readable_and_empties_its_group() {
        let mut child = Command::new("cat")
            .process_group(0)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is everywhere");
        let exit = pidfd_open(child.id()).expect("Linux 5.3 or later");
        let group = i32::try_from(child.id()).expect("a process number");
        assert!(group_exists(group));
        signal_group(group, SIGTERM).expect("it runs");
        let mut poll = mio::Poll::new().expect("a poll");
        let mut source = mio::unix::SourceFd(&exit.as_raw_fd());
        let interest = mio::Interest::READABLE;
        poll.registry().register(&mut source, mio::Token(0), interest).expect("a descriptor");
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, None).expect("it ends");
        assert!(events.iter().any(mio::event::Event::is_readable));
        child.wait().expect("it was not waited for");
        assert!(!group_exists(group));
        signal_group(group, SIGTERM).expect_err("nobody is left");
    }

    #[test]
    #[should_panic(expected = "is no process group of a child")]
    fn a_signal_to_everybody_is_never_sent() {
        signal_group(1, 0).ok();
    }
}
