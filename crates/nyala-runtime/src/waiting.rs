//! Threads yield the processor to threads of this process that matter more and wait for it, and to nothing else.
//!
//! ```text
//! Serving      network, planning, small queries     yields to none
//! Large        builds and large queries             yields to Serving
//! Background   any other thread that yields         yields to Serving and Large
//! ```
//!
//! A thread that serves clients sleeps until a query arrives. When it wakes while every processor computes, Linux lets it wait for
//! the next tick of the one that it is queued on, 1 to 10 ms: too long for a dashboard. Priorities do not help: without preemption
//! in the kernel they are looked at on ticks only, and a lower one would also give way to other programs for good. So a thread
//! that computes asks the kernel now and then, between two pieces of its work, whether such a thread is queued on its processor,
//! and calls `sched_yield` only then. An unconditional `sched_yield` hands a whole time slice to any other program: beside two
//! busy loops large statements took 20 to 34 times as long with it.
//!
//! A thread that waited after a yield computes for half as long before it yields again, so that it gets a third of its processor
//! where threads that serve clients never rest.
//!
//! One thread looks for all, at most every 250 µs, and for at most a fiftieth of the time.

/// What a thread is there for, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadClass {
    /// Serves clients: network, planning, small queries.
    Serving,
    /// Computes builds and large queries.
    Large,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::Cell;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
    use std::time::{Duration, Instant};

    use super::ThreadClass;

    /// A look costs about 2 µs for each thread that sleeps. Half of this helps hardly more.
    const LOOK_EVERY: Duration = Duration::from_micros(250);
    /// Looks that take long, because there are many threads, come more rarely.
    const COST_SHARE: u32 = 50;
    /// Longest that a thread computes without yielding after it waited.
    const MAX_TURN: Duration = Duration::from_millis(4);
    /// Field of `/proc/…/stat` with the processor, counted from the state, which follows the name in brackets.
    const PROCESSOR_AFTER_STATE: usize = 36;

    static LOOKOUT: Mutex<Lookout> = Mutex::new(Lookout { threads: Vec::new() });
    /// When the next look is due, in nanoseconds since [`began`].
    static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
    /// A bit for each processor, modulo 64, on which a thread of a class was runnable at the last look.
    static RUNNABLE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

    thread_local! {
        static OWN_CLASS: Cell<Option<ThreadClass>> = const { Cell::new(None) };
        static NEXT_YIELD: Cell<Option<Instant>> = const { Cell::new(None) };
        static OWN_STAT: Option<Thread> = Thread::of_caller();
    }

    fn began() -> Instant {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        *BEGAN.get_or_init(Instant::now)
    }

    struct Lookout {
        threads: Vec<(ThreadClass, Thread)>,
    }

    /// A thread that must not wait, as the kernel shows it.
    struct Thread {
        /// Where it sleeps; cheaper to read than its state. Absent where the kernel does not tell.
        wchan: Option<File>,
        stat: File,
    }

    impl Thread {
        fn of_caller() -> Option<Self> {
            let open = |name: &str| File::open(format!("/proc/thread-self/{name}")).ok();
            Some(Self { wchan: open("wchan"), stat: open("stat")? })
        }

        /// The processor that it runs on or is queued for; an error when it has ended.
        fn runnable_on(&self) -> std::io::Result<Option<u64>> {
            let mut text = [0; 512];
            if let Some(wchan) = &self.wchan {
                let length = wchan.read_at(&mut text, 0)?;
                if text.get(..length) != Some(b"0") {
                    return Ok(None);
                }
            }
            let length = self.stat.read_at(&mut text, 0)?;
            Ok(processor_of_runnable(text.get(..length).unwrap_or_default()))
        }
    }

    /// `… (name) R … processor …`, if the state is R.
    fn processor_of_runnable(stat: &[u8]) -> Option<u64> {
        let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(stat.get(name_ends + 1..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        if fields.next()? != "R" {
            return None;
        }
        fields.nth(PROCESSOR_AFTER_STATE - 1)?.parse().ok()
    }

    impl Lookout {
        /// Processors on which threads are runnable, by class.
        fn look(&mut self) -> [u64; 2] {
            let (mut serving, mut large) = (0, 0);
            self.threads.retain(|(class, thread)| match thread.runnable_on() {
                Ok(processor) => {
                    let processors = if *class == ThreadClass::Serving { &mut serving } else { &mut large };
                    *processors |= processor.map_or(0, bit);
                    true
                }
                Err(_) => false,
            });
            [serving, large]
        }
    }

    fn bit(processor: u64) -> u64 {
        1 << (processor % 64)
    }

    pub(super) fn join(class: ThreadClass) {
        OWN_CLASS.set(Some(class));
        if let Some(thread) = Thread::of_caller() {
            LOOKOUT.lock().unwrap_or_else(PoisonError::into_inner).threads.push((class, thread));
        }
    }

    /// Looks if that is due and no other thread does.
    fn look_if_due() {
        let now = nanos(began().elapsed());
        if now < NEXT_LOOK.load(Relaxed) {
            return;
        }
        let mut lookout = match LOOKOUT.try_lock() {
            Ok(lookout) => lookout,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let looked = Instant::now();
        for (known, now) in RUNNABLE.iter().zip(lookout.look()) {
            known.store(now, Relaxed);
        }
        let pause = LOOK_EVERY.max(looked.elapsed() * COST_SHARE);
        NEXT_LOOK.store(nanos(began().elapsed() + pause), Relaxed);
    }

    /// Lets the thread that waits for this processor run, if one does.
    pub(super) fn yield_to_waiting() {
        let began = Instant::now();
        if NEXT_YIELD.get().is_some_and(|next| began < next) || !is_waited_for() {
            return;
        }
        std::thread::yield_now();
        NEXT_YIELD.set(Some(next_yield(began, Instant::now())));
    }

    fn next_yield(began: Instant, ended: Instant) -> Instant {
        ended + (ended.duration_since(began) / 2).min(MAX_TURN)
    }

    fn is_waited_for() -> bool {
        let classes = match OWN_CLASS.get() {
            Some(ThreadClass::Serving) => return false,
            Some(ThreadClass::Large) => RUNNABLE.get(..1),
            None => RUNNABLE.get(..),
        };
        look_if_due();
        let classes = classes.unwrap_or_default();
        if classes.iter().all(|processors| processors.load(Relaxed) == 0) {
            return false;
        }
        // The caller runs here, so that another thread which is runnable here waits.
        let Some(here) = own_processor().map(bit) else { return false };
        // Of both classes: it yields once for all that wait.
        let waited = classes.iter().filter(|class| class.fetch_and(!here, Relaxed) & here != 0);
        waited.count() > 0
    }

    /// The processor that the calling thread runs on.
    fn own_processor() -> Option<u64> {
        let own = OWN_STAT.try_with(|stat| stat.as_ref()?.runnable_on().ok()?);
        own.ok().flatten()
    }

    fn nanos(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used)]
        use std::sync::atomic::AtomicBool;
        use std::sync::{Arc, mpsc};

        use super::*;

        #[test]
        fn the_processor_is_read_of_threads_that_are_runnable() {
            let stat = |name: &str, state: &str| {
                let zeros = "0 ".repeat(35);
                format!("17 ({name}) {state} {zeros}3 0 0 17 0\n")
            };
            assert_eq!(processor_of_runnable(stat("nyala", "R").as_bytes()), Some(3));
            assert_eq!(processor_of_runnable(stat("a) R (b", "R").as_bytes()), Some(3));
            assert_eq!(processor_of_runnable(stat("nyala", "S").as_bytes()), None);
            assert_eq!(processor_of_runnable(b"17 (nya"), None);
        }

        #[test]
        fn a_thread_is_seen_while_it_computes_and_forgotten_when_it_has_ended() {
            let (sender, receiver) = mpsc::channel();
            let stop = Arc::new(AtomicBool::new(false));
            let told = Arc::clone(&stop);
            let busy = std::thread::spawn(move || {
                sender.send(Thread::of_caller().unwrap()).unwrap();
                while !told.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut lookout = Lookout { threads: vec![(ThreadClass::Large, receiver.recv().unwrap())] };
            let began = Instant::now();
            while lookout.look() == [0, 0] {
                assert!(began.elapsed() < Duration::from_secs(60), "it computes and is not seen");
            }
            stop.store(true, Relaxed);
            busy.join().unwrap();
            while !lookout.threads.is_empty() {
                assert!(began.elapsed() < Duration::from_secs(60), "it has ended and is not forgotten");
                assert_eq!(lookout.look(), [0, 0]);
            }
        }

        #[test]
        fn a_thread_computes_for_half_of_the_time_that_it_waited() {
            let began = Instant::now();
            let after = |waited: u64| next_yield(began, began + Duration::from_millis(waited)) - began;
            assert_eq!(after(0), Duration::ZERO);
            assert_eq!(after(6), Duration::from_millis(9));
            assert_eq!(after(100), Duration::from_millis(100) + MAX_TURN);
        }

        #[test]
        fn a_thread_that_sleeps_waits_for_no_processor() {
            let (sender, receiver) = mpsc::channel();
            let (ends, end) = mpsc::channel::<()>();
            let asleep = std::thread::spawn(move || {
                sender.send(Thread::of_caller().unwrap()).unwrap();
                end.recv().unwrap();
            });
            let thread = receiver.recv().unwrap();
            let began = Instant::now();
            while thread.runnable_on().unwrap().is_some() {
                assert!(began.elapsed() < Duration::from_secs(60), "it sleeps and seems to compute");
            }
            ends.send(()).unwrap();
            asleep.join().unwrap();
        }
    }
}

/// The calling thread is one of a class from now on, for as long as it is there.
pub fn join_class(class: ThreadClass) {
    #[cfg(target_os = "linux")]
    linux::join(class);
    #[cfg(not(target_os = "linux"))]
    let _ = class;
}

/// Lets another thread run that matters more than the calling one and is queued on its processor. To be called between two pieces
/// of work, the more often the better: mostly it reads a clock and two numbers.
pub fn yield_to_waiting() {
    #[cfg(target_os = "linux")]
    linux::yield_to_waiting();
}
