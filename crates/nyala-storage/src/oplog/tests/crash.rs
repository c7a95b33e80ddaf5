//! A power cut at every moment.
//!
//! The promise: acknowledged statements are there, other statements are there whole or not at all, and no start calls the
//! effects of a power cut damage. Random statements run on a disk that knows which writes are durable. At each call
//! that changes the disk, a crash image is made, a store is opened from it and compared with the model.
//!
//! `NYALA_SEED` sets the first seed, `NYALA_CRASHES` the number of crashes. A failure names its
//! seed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use super::workload::*;
use crate::oplog::vfs::sim::{Faults, Image, Rng, SimDisk};

const STEPS: u64 = 40;

pub fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// The states allowed after a crash now.
#[derive(Debug, Default)]
struct Allowed {
    before: Model,
    after: Model,
    step: String,
}

struct Crasher {
    seed: u64,
    crashes: AtomicU64,
    allowed: Mutex<Allowed>,
}

impl Crasher {
    fn context(&self, number: u64) -> String {
        let allowed = self.allowed.lock().unwrap();
        format!("NYALA_SEED={}, crash {number}, during {}", self.seed, allowed.step)
    }

    /// Crashes at `image`, opens a store from the remaining files, and compares.
    fn crash(&self, image: &Image) {
        let number = self.crashes.fetch_add(1, Relaxed);
        let mut rng = Rng(self.seed ^ (number << 20));
        let left = image.after_crash(rng.next());
        let disk = SimDisk::from_image(left.clone(), rng.next());
        let found = self.recover(&disk, number);
        {
            let allowed = self.allowed.lock().unwrap();
            let fits = found == allowed.before || found == allowed.after;
            drop(allowed);
            assert!(fits, "{}: found {found:#?}, allowed {:#?}", self.context(number), self.allowed);
        }
        match rng.below(8) {
            0 => self.crash_again(left, &found, &mut rng, number),
            1 => self.go_on(&disk, &found, &mut rng, number),
            _ => {}
        }
    }

    fn recover(&self, disk: &SimDisk, number: u64) -> Model {
        disk.set_faults(Faults { short_read: 3, ..Faults::default() });
        let world = World::open(disk).unwrap_or_else(|error| panic!("{}: {error}", self.context(number)));
        for store in &world.stores {
            assert!(store.report().damage.is_empty(), "{}: {:?}", self.context(number), store.report());
        }
        world.contents().unwrap_or_else(|error| panic!("{}: {error}", self.context(number)))
    }

    /// Crashes once more during recovery, and expects the same result.
    fn crash_again(&self, left: Image, found: &Model, rng: &mut Rng, number: u64) {
        let disk = SimDisk::from_image(left, rng.next());
        let images = Arc::new(Mutex::new(Vec::new()));
        let seen = images.clone();
        disk.set_hook(Some(Arc::new(move |image| seen.lock().unwrap().push(image.clone()))));
        let world = World::open(&disk).unwrap();
        world.stores.iter().for_each(|store| store.maintain().unwrap());
        disk.set_hook(None);
        let images = images.lock().unwrap();
        let image = &images[rng.below(images.len() as u64) as usize];
        let again = SimDisk::from_image(image.after_crash(rng.next()), rng.next());
        self.crashes.fetch_add(1, Relaxed);
        assert_eq!(&self.recover(&again, number), found, "{}, second crash", self.context(number));
    }

    /// Writes more statements after the crash, and starts once more.
    fn go_on(&self, disk: &SimDisk, found: &Model, rng: &mut Rng, number: u64) {
        let mut model = found.clone();
        let mut world = World::open(disk).unwrap();
        for step in 0..6 {
            let step = Step::random(rng, &model, 1_000_000 + step);
            let done = step.run(&mut world);
            assert!(done.is_ok(), "{}, then {step:?}: {done:?}", self.context(number));
            model = step.expected(&model);
            assert_eq!(world.contents().unwrap(), model, "{}, then {step:?}", self.context(number));
        }
        drop(world);
        assert_eq!(self.recover(disk, number), model, "{}, then some steps", self.context(number));
    }
}

#[test]
fn a_crash_at_any_moment_loses_nothing_that_was_acknowledged() {
    let wanted = from_environment("NYALA_CRASHES", 2000);
    let first = from_environment("NYALA_SEED", 1);
    let mut crashes = 0;
    for seed in first.. {
        if crashes >= wanted {
            return;
        }
        crashes += crash_everywhere(seed);
    }
}

/// Runs one workload and crashes at each of its moments; gives their number.
fn crash_everywhere(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(rng.next());
    disk.set_faults(Faults { short_read: 5, short_write: 5, ..Faults::default() });
    let crasher = Arc::new(Crasher { seed, crashes: AtomicU64::new(0), allowed: Mutex::default() });
    let at = crasher.clone();
    disk.set_hook(Some(Arc::new(move |image| at.crash(image))));
    let mut world = World::open(&disk).unwrap();
    let (mut model, mut filled) = (Model::new(), false);
    for number in 0..STEPS {
        let step = Step::random(&mut rng, &model, number);
        let after = step.expected(&model);
        *crasher.allowed.lock().unwrap() =
            Allowed { before: model, after: after.clone(), step: format!("{step:?}") };
        let done = step.run(&mut world);
        assert!(done.is_ok(), "NYALA_SEED={seed}, {step:?}: {done:?}");
        assert_eq!(world.contents().unwrap(), after, "NYALA_SEED={seed}, {step:?}");
        model = after;
        filled |= disk.files().values().any(|bytes| bytes.ends_with(&[0xA5; 64]));
    }
    disk.set_hook(None);
    assert!(filled, "NYALA_SEED={seed}: no log was filled ahead");
    crasher.crashes.load(Relaxed)
}
