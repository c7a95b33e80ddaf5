//! Moments at which every processor looks whom it should run.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// From one beat to the next. Shorter ones take more of the processors (this one about 3 of 100) and help hardly more.
const BEAT: Duration = Duration::from_micros(250);

/// The one that beats now. Processors belong to the process: stores that recover at the same time share it.
static BEATING: Mutex<Weak<Metronome>> = Mutex::new(Weak::new());

/// Interrupts each processor thousands of times a second for as long as it is kept.
///
/// Linux decides at once that a thread of the lowest policy must give way to one that wakes. But since 6.13 (lazy preemption)
/// it leaves the processor to it until that enters the kernel by itself or the next tick comes, 1 to 10 ms later, so that a
/// statement beside threads that only compute waits for several ticks. A thread that sleeps on that processor lets it enter
/// the kernel earlier.
#[derive(Debug)]
pub(crate) struct Metronome {
    ended: Arc<AtomicBool>,
}

impl Metronome {
    /// The metronome of this process; started if it does not beat.
    pub(crate) fn share() -> Arc<Self> {
        let mut beating = BEATING.lock().unwrap_or_else(PoisonError::into_inner);
        beating.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start("nyala-metronome", processors()));
            *beating = Arc::downgrade(&started);
            started
        })
    }

    fn start(name: &str, processors: Vec<Processor>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for processor in processors {
            let ended = ended.clone();
            let beats = move || {
                if !stay_on(processor) {
                    tracing::debug!(?processor, "a thread cannot be bound to a processor");
                    return;
                }
                while !ended.load(Relaxed) {
                    std::thread::sleep(BEAT);
                }
            };
            if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(beats) {
                tracing::debug!(%error, "a processor is not interrupted for statements");
            }
        }
        Self { ended }
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

#[cfg(target_os = "linux")]
type Processor = core_affinity::CoreId;

/// Those that this process may use; none if it may use them for a share of the time only, as in a container: then its threads
/// never take all of them, and beats would cost it much of its share.
#[cfg(target_os = "linux")]
fn processors() -> Vec<Processor> {
    let processors = core_affinity::get_core_ids().unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if processors.len() > threads { Vec::new() } else { processors }
}

#[cfg(target_os = "linux")]
fn stay_on(processor: Processor) -> bool {
    core_affinity::set_for_current(processor)
}

#[cfg(not(target_os = "linux"))]
type Processor = std::convert::Infallible;

/// Other systems put threads aside when they should.
#[cfg(not(target_os = "linux"))]
fn processors() -> Vec<Processor> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn stay_on(processor: Processor) -> bool {
    match processor {}
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Other tests recover stores meanwhile.
    const OWN: &str = "own-metronome";

    #[test]
    fn each_processor_is_interrupted_while_one_is_kept_and_not_for_longer() {
        let all = core_affinity::get_core_ids().unwrap();
        let metronome = Metronome::start(OWN, all.clone());
        wait_until(|| threads().len() == all.len());
        let beats = |threads: &[(String, u64)]| threads.iter().map(|(_, slept)| *slept).min().unwrap();
        let before = beats(&threads());
        wait_until(|| beats(&threads()) > before + 10);
        let mut bound: Vec<String> = threads().into_iter().map(|(processor, _)| processor).collect();
        bound.sort();
        let mut wanted: Vec<String> = all.iter().map(|processor| processor.id.to_string()).collect();
        wanted.sort();
        assert_eq!(bound, wanted);
        drop(metronome);
        wait_until(|| threads().is_empty());
    }

    /// The processors that threads of metronomes are bound to, and how often each slept.
    fn threads() -> Vec<(String, u64)> {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
        let field = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let own = status.filter(|status| field(status, "Name:") == OWN);
        own.map(|status| {
            let slept = field(&status, "voluntary_ctxt_switches:").parse().unwrap_or(0);
            (field(&status, "Cpus_allowed_list:"), slept)
        })
        .collect()
    }

    fn wait_until(holds: impl Fn() -> bool) {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(60), "it never holds");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
