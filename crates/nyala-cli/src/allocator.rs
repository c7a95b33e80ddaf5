//! The memory allocator of the process.
//!
//! Planning a query allocates and frees thousands of small objects on several threads, and a server with many
//! clients must not keep freed memory. `benchmarks/serving/allocators.sh` compares the three: with jemalloc queries from
//! cuboids cost the least CPU, in a little more than half the memory that mimalloc keeps in huge pages.
//!
//! Only jemalloc counts the bytes that each thread allocated. Without these counts the process cannot know which
//! statement to end when memory runs out.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Registers jemalloc's counts of allocated bytes, for each thread and for the whole process.
#[cfg(feature = "jemalloc")]
pub(crate) fn count() {
    nyala_runtime::count_bytes_with(nyala_runtime::Allocator {
        thread_bytes: counts::of_thread,
        active_bytes: counts::active,
        give_back: counts::give_back,
    });
}

/// This allocator does not count.
#[cfg(not(feature = "jemalloc"))]
pub(crate) fn count() {}

#[cfg(feature = "jemalloc")]
mod counts {
    use tikv_jemalloc_ctl::thread::{ThreadLocal, allocatedp, deallocatedp};
    use tikv_jemalloc_ctl::{Access, AsName, arenas, epoch, stats};

    thread_local! {
        /// jemalloc's counters of this thread; none if it was built without statistics.
        static COUNTS: Option<(ThreadLocal<u64>, ThreadLocal<u64>)> =
            allocatedp::read().ok().zip(deallocatedp::read().ok());
    }

    /// Bytes that this thread allocated less those that it freed.
    pub(super) fn of_thread() -> i64 {
        let count = |counts: &Option<(ThreadLocal<u64>, ThreadLocal<u64>)>| {
            counts
                .as_ref()
                .map_or(0, |(allocated, freed)| allocated.get().wrapping_sub(freed.get()).cast_signed())
        };
        COUNTS.try_with(count).unwrap_or(0)
    }

    /// Bytes in pages that hold something.
    pub(super) fn active() -> Option<u64> {
        // jemalloc reports its counts as of the last epoch.
        epoch::advance().ok()?;
        stats::active::read().ok().map(|bytes| bytes as u64)
    }

    /// Gives freed pages of all arenas back to the system: jemalloc does so at once when the time for which it may keep them is set to 0.
    pub(super) fn give_back() {
        for arena in 0..arenas::narenas::read().unwrap_or(0) {
            let key = format!("arena.{arena}.dirty_decay_ms\0");
            let name = key.as_bytes().name();
            // An arena that no thread has used has no such key.
            let Ok(usual): Result<isize, _> = name.read() else { continue };
            let given = name.write(0_isize).and_then(|()| name.write(usual));
            if let Err(error) = given {
                tracing::warn!(%error, arena, "freed memory cannot be given back");
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::{active, give_back, of_thread};

        #[test]
        fn freed_memory_is_given_back() {
            let held: Vec<Vec<u8>> = (0..64).map(|_| vec![1_u8; 4 << 20]).collect();
            let full = nyala_runtime::resident_bytes();
            drop(held);
            give_back();
            let left = nyala_runtime::resident_bytes();
            assert!(
                left.zip(full).is_none_or(|(left, full)| left + (200 << 20) < full),
                "{left:?} of {full:?}"
            );
        }

        #[test]
        fn what_a_thread_allocates_and_frees_is_counted_at_once() {
            let (before, all_before) = (of_thread(), active());
            let held = vec![1_u8; 1 << 20];
            let more = of_thread() - before;
            assert!((1 << 20..2 << 20).contains(&more), "{more}");
            assert!(active() >= all_before && active() >= Some(1 << 20));
            drop(held);
            assert!(of_thread() - before < 1 << 16);
        }
    }
}
