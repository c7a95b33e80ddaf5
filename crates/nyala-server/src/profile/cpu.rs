//! CPU profiles: a timer interrupts running threads, and each interrupted stack is recorded.

use ::pprof::{Frames, ProfilerGuardBuilder, UnresolvedReport};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{CpuRequest, Profile, ProfileError, Unit};

/// Libraries that are not interrupted: they may hold a lock that taking the stack needs.
const NEVER_INTERRUPTED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// Takes samples of the process. Dropping the future ends that at once.
///
/// # Errors
/// [`ProfileError::Busy`] if another profile is being taken.
pub async fn cpu(request: CpuRequest) -> Result<Profile, ProfileError> {
    let report = sample(request).await?;
    let period = 1_000_000_000 / u64::from(request.frequency.max(1));
    // The first look-up of names reads the symbols of the whole binary, which takes long.
    spawn_blocking(move || named(report, Profile::new(Unit::Nanoseconds, period, request.duration)))
        .await
        .map_err(|error| ProfileError::Failed(error.to_string()))
}

/// Stacks as addresses. Names are looked up once the timer is off, or the look-ups would fill the profile.
async fn sample(request: CpuRequest) -> Result<UnresolvedReport, ProfileError> {
    let frequency = i32::try_from(request.frequency).unwrap_or(i32::MAX);
    let guard = ProfilerGuardBuilder::default()
        .frequency(frequency)
        .blocklist(&NEVER_INTERRUPTED)
        .build()
        .map_err(explain)?;
    sleep(request.duration).await;
    guard.report().build_unresolved().map_err(explain)
}

fn named(report: UnresolvedReport, mut profile: Profile) -> Profile {
    for (frames, samples) in report.data {
        let frames = Frames::from(frames);
        let functions = frames.frames.iter().rev().flat_map(|frame| frame.iter().rev());
        let names = functions.map(|symbol| plain(&symbol.name()));
        let stack = std::iter::once(frames.thread_name_or_id()).chain(names).collect();
        let samples = u64::try_from(samples).unwrap_or_default();
        profile.add(stack, samples.saturating_mul(profile.period));
    }
    profile
}

/// A name without the number that the compiler gave it.
pub fn plain(name: &str) -> String {
    let is_hash = |tail: &str| tail.len() == 17 && tail.starts_with('h');
    match name.rsplit_once("::") {
        Some((name, tail)) if is_hash(tail) => name.to_owned(),
        _ => name.to_owned(),
    }
}

fn explain(error: ::pprof::Error) -> ProfileError {
    match error {
        ::pprof::Error::Running => ProfileError::Busy,
        error => ProfileError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    const REQUEST: CpuRequest = CpuRequest { duration: Duration::from_millis(400), frequency: 250 };

    #[inline(never)]
    fn a_function_that_takes_time(seed: u64) -> u64 {
        (0..50_000_u64).fold(seed, |sum, n| std::hint::black_box(sum.rotate_left(7) ^ n))
    }

    /// One test, because the process has one timer.
    #[tokio::test]
    async fn who_computes_is_seen_and_there_is_one_profile_at_a_time() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let busy = std::thread::spawn(|| {
            while !DONE.load(Ordering::Relaxed) {
                std::hint::black_box(a_function_that_takes_time(1));
            }
        });
        let (profile, second) = tokio::join!(cpu(REQUEST), cpu(REQUEST));
        assert_eq!(second, Err(ProfileError::Busy));
        let profile = profile.unwrap();
        assert!(profile.folded().contains("a_function_that_takes_time"), "{}", profile.folded());

        // A dropped profile leaves the timer to the next.
        tokio::time::timeout(Duration::from_millis(10), cpu(REQUEST)).await.unwrap_err();
        cpu(REQUEST).await.unwrap();
        DONE.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    }

    #[test]
    fn names_lose_their_numbers_only() {
        assert_eq!(plain("core::ptr::drop::h0123456789abcdef"), "core::ptr::drop");
        assert_eq!(plain("a::b"), "a::b");
        assert_eq!(plain("memcpy"), "memcpy");
    }
}
