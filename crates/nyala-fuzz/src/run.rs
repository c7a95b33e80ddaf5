//! The loop that feeds mutants of a corpus to a decoder, one after the other.

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cap::Cap;

use crate::mutate::mutant;
use crate::random::Random;

/// The allocator of a test binary that fuzzes: `#[global_allocator] static MEMORY: Memory = memory();`.
pub type Memory = Cap<System>;

/// An allocation beyond this fails, and with it the process, as it would under the limit of a container.
const LIMIT_BYTES: usize = 4 << 30;
/// Bytes that a decoder may hold, besides those held before it began.
const MAX_BYTES: usize = 256 << 20;
/// An ordinary run ends after this number of mutants or [`TIME`], whichever comes first.
const CASES: u64 = 2_000;
const TIME: Duration = Duration::from_millis(800);

/// Targets run one after the other, so that each counts only its own allocations.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An allocator that counts.
pub const fn memory() -> Memory {
    Cap::new(System, LIMIT_BYTES)
}

/// A decoder that is fuzzed.
///
/// `NYALA_FUZZ=N` feeds N mutants to each decoder, `NYALA_FUZZ_SECONDS=S` runs each for S seconds,
/// `NYALA_SEED=N` begins with mutant N, and `NYALA_FUZZ_TRACE=1` prints each number before its run, for a
/// mutant that ends the process.
#[derive(Debug)]
pub struct Target {
    /// Its name in failures.
    pub name: &'static str,
    /// The allocator of this binary.
    pub memory: &'static Memory,
}

impl Target {
    /// Feeds the bodies, then mutants of them, to `decode`, which must neither panic nor allocate too much.
    pub fn run(&self, bodies: &[Vec<u8>], mut decode: impl FnMut(&[u8])) {
        bodies.iter().for_each(|body| self.check(body, &mut decode));
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let first = number("NYALA_SEED").unwrap_or(1);
        let cases = number("NYALA_FUZZ");
        let seconds = number("NYALA_FUZZ_SECONDS").map(Duration::from_secs);
        let time = seconds.or(cases.is_none().then_some(TIME));
        let cases = cases.unwrap_or(if seconds.is_some() { u64::MAX } else { CASES });
        let trace = number("NYALA_FUZZ_TRACE").is_some();
        let started = Instant::now();
        for seed in (first..).take(usize::try_from(cases).unwrap_or(usize::MAX)) {
            if time.is_some_and(|time| started.elapsed() > time) {
                return;
            }
            if trace {
                eprintln!("{} NYALA_SEED={seed}", self.name);
            }
            // Consecutive numbers must not give consecutive seeds.
            let body = mutant(&mut Random(seed.wrapping_mul(0xD134_2543_DE82_EF95)), bodies);
            let again = || format!("again with NYALA_SEED={seed} NYALA_FUZZ=1; {}", shown(&body));
            self.case(&body, &again, &mut decode);
        }
    }

    /// Feeds one body to `decode`, which must neither panic nor allocate too much.
    pub fn check(&self, body: &[u8], mut decode: impl FnMut(&[u8])) {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        self.case(body, &|| shown(body), &mut decode);
    }

    fn case(&self, body: &[u8], again: &dyn Fn() -> String, decode: &mut impl FnMut(&[u8])) {
        let (before, peak) = (self.memory.allocated(), self.memory.max_allocated());
        let decoded = catch_unwind(AssertUnwindSafe(|| decode(body)));
        if let Err(panic) = decoded {
            eprintln!("{} panicked: {}", self.name, again());
            resume_unwind(panic);
        }
        // A peak that was reached before this mutant says nothing about it.
        let most = Some(self.memory.max_allocated()).filter(|most| *most > peak).unwrap_or_default();
        let most = most.saturating_sub(before);
        assert!(most <= MAX_BYTES, "{} allocated {} MiB: {}", self.name, most >> 20, again());
    }
}

fn shown(body: &[u8]) -> String {
    format!("{} bytes {:?}", body.len(), body.get(..100).unwrap_or(body))
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|value| value.parse().ok())
}
