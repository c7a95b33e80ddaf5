//! Threads that compute only when nobody else would.

use std::sync::Arc;

use thread_priority::{ThreadPriority, ThreadPriorityValue};

use super::metronome::Metronome;

/// Of threads whose turn is last; 50 is what threads have, 0 the least.
const LAST_PRIORITY: u8 = 25;

/// When threads compute that would like to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// When it is their turn, as for those who start them.
    Fair,
    /// Only where no other thread would compute. Nobody may wait for them, so that they hold no lock while they work.
    Last,
}

impl Turn {
    /// To be kept while threads compute whose turn this is.
    pub(crate) fn metronome(self) -> Option<Arc<Metronome>> {
        (self == Self::Last).then(Metronome::share)
    }

    /// This thread takes its turn from now on.
    pub(crate) fn give_way(self) {
        if self == Self::Fair {
            return;
        }
        if let Err(error) = give_way_to_all() {
            tracing::debug!(%error, "a thread that reads values keeps its priority");
        }
    }

    /// The same for a thread that must get on, however busy the machine is.
    pub(crate) fn give_way_to_most(self) {
        let lower = ThreadPriorityValue::try_from(LAST_PRIORITY).map(ThreadPriority::Crossplatform);
        if self == Self::Last
            && let Ok(lower) = lower
            && let Err(error) = lower.set_for_current()
        {
            tracing::debug!(%error, "a thread that reads values keeps its priority");
        }
    }
}

/// From now on this thread runs only where no other would, and stops when one would, as soon as the processor looks.
#[cfg(target_os = "linux")]
fn give_way_to_all() -> Result<(), thread_priority::Error> {
    use thread_priority::unix::{NormalThreadSchedulePolicy, ThreadSchedulePolicy};
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let own = thread_priority::unix::thread_native_id();
    thread_priority::unix::set_thread_priority_and_policy(own, ThreadPriority::Min, idle)
}

#[cfg(not(target_os = "linux"))]
fn give_way_to_all() -> Result<(), thread_priority::Error> {
    ThreadPriority::Min.set_for_current()
}
