//! The system calls for slices, which no safe library has.

use std::time::Duration;

/// Asks the kernel to let the calling thread compute for `slice` at a time. Policy and niceness of the thread
/// stay. If the kernel refuses, the slice stays, too.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(super) fn set(slice: Duration) {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `size` bytes to the structure, which lives longer than the call.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if got != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.size = size;
    attributes.sched_runtime = slice.as_nanos() as u64;
    // SAFETY: the kernel reads `size` bytes of the structure, which lives longer than the call.
    let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set(_slice: Duration) {}
