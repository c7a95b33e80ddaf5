//! Memory profiles, from the samples of the allocator.

use std::ffi::c_void;
use std::fmt::Display;
use std::time::Duration;

use jemalloc_pprof::{PROF_CTL, StackProfile};
use tokio::task::spawn_blocking;

use super::cpu::plain;
use super::{Profile, ProfileError, Unit};

/// Memory in use now, by allocating stack, estimated from samples.
///
/// # Errors
/// [`ProfileError::Unavailable`] unless the process was started with heap sampling.
pub async fn heap() -> Result<Profile, ProfileError> {
    let failed = |error: &dyn Display| ProfileError::Failed(error.to_string());
    let control = PROF_CTL.as_ref().ok_or(ProfileError::Unavailable {
        reason: "the server keeps no account of who asks for memory",
        hint: "start it with `_RJEM_MALLOC_CONF=prof:true` in its environment",
    })?;
    let mut control = control.try_lock().map_err(|_| ProfileError::Busy)?;
    let period = 1_u64.checked_shl(u32::try_from(control.lg_sample()).unwrap_or_default()).unwrap_or(1);
    let dumped = control.dump_profile().map_err(|error| failed(&error))?;
    drop(control);
    spawn_blocking(move || named(&dumped, period)).await.map_err(|error| failed(&error))
}

fn named(dumped: &StackProfile, period: u64) -> Profile {
    let mut profile = Profile::new(Unit::Bytes, period, Duration::ZERO);
    for (stack, _) in dumped.iter() {
        let mut names: Vec<String> = stack.addrs.iter().flat_map(|address| names(*address)).collect();
        // The allocator's own functions end every stack.
        while names.pop_if(|name| name.starts_with("_rjem_") || name == "prof_backtrace_impl").is_some() {}
        profile.add(names, stack.weight.max(0.0) as u64);
    }
    profile
}

/// The functions at an address: more than one if some were inlined.
fn names(address: usize) -> Vec<String> {
    let mut names = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        names.extend(symbol.name().map(|name| plain(&name.to_string())));
    });
    names.reverse();
    names
}
