//! Threads for one piece of parallel work; they end with it.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::queue::lock;

/// Runs `work` on every item, on so many threads; results are in the order of the items.
pub fn in_parallel<I: Sync, T: Send>(threads: usize, items: &[I], work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    if threads <= 1 || items.len() <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some((at, item)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|at| Some((at, items.get(at)?)))
                {
                    let result = work(item);
                    lock(&done).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The longest wait of an item for a thread: then the calling thread works too, so that a thread stuck on a slow disk
/// does not hold up the items behind.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 20 } else { 500 });

/// Hands out items, one at a time.
struct Counter<I> {
    state: Mutex<Offered<I>>,
    changed: Condvar,
}

struct Offered<I> {
    item: Option<I>,
    ended: bool,
}

/// Runs `work` on every item, on so many threads. The next item is taken from `items` when a thread has taken the one
/// before.
pub fn hand_out<I: Send>(threads: usize, items: impl Iterator<Item = I>, work: impl Fn(I) + Sync) {
    let state = Mutex::new(Offered { item: None, ended: false });
    let counter = Counter { state, changed: Condvar::new() };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = counter.take() {
                    work(item);
                }
            });
        }
        let _ending = Ending(&counter);
        for item in items {
            if let Some(item) = counter.offer(item) {
                work(item);
            }
        }
    });
}

impl<I> Counter<I> {
    /// The next item, as soon as there is one; none if there will be no more.
    fn take(&self) -> Option<I> {
        let mut state = lock(&self.state);
        while state.item.is_none() && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let item = state.item.take();
        drop(state);
        self.changed.notify_all();
        item
    }

    /// Waits until a thread takes the item; gives it back after [`PATIENCE`].
    fn offer(&self, item: I) -> Option<I> {
        let mut state = lock(&self.state);
        state.item = Some(item);
        self.changed.notify_all();
        let untaken = |state: &mut Offered<I>| state.item.is_some();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, untaken);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.item.take()
    }
}

/// Ends the threads however handing out ends.
struct Ending<'a, I>(&'a Counter<I>);

impl<I> Drop for Ending<'_, I> {
    fn drop(&mut self) {
        lock(&self.0.state).ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_order_and_no_thread_is_idle_while_there_are_items() {
        for threads in [1, 2, 4] {
            let items: Vec<usize> = (0..threads).collect();
            // No thread goes on before all have an item.
            let all = Barrier::new(threads);
            let results = in_parallel(threads, &items, |item| {
                all.wait();
                item * 10
            });
            assert_eq!(results, items.iter().map(|item| item * 10).collect::<Vec<_>>());
        }
        assert!(in_parallel(3, &[] as &[usize], |item| *item).is_empty());
    }

    #[test]
    fn every_item_is_worked_on_once_and_asked_for_when_a_thread_is_free() {
        for threads in [1, 3] {
            let (under_way, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
            let items = (0..100).inspect(|_| {
                most.fetch_max(under_way.fetch_add(1, Relaxed), Relaxed);
            });
            hand_out(threads, items, |item| {
                lock(&done).push(item);
                under_way.fetch_sub(1, Relaxed);
            });
            let done = done.into_inner().unwrap();
            assert_eq!((done.len(), done.into_iter().collect()), (100, (0..100).collect::<BTreeSet<i32>>()));
            let most = most.into_inner();
            assert!(most <= threads, "{most} were under way when the next was asked for");
        }
    }

    #[test]
    fn work_is_done_even_if_the_threads_never_end_theirs() {
        let (done, free) = (AtomicUsize::new(0), Mutex::new(()));
        let stuck = lock(&free);
        let items =
            (0..4).inspect(|item| assert!(*item < 3 || done.load(Relaxed) >= 2, "somebody else worked"));
        let mut stuck = Some(stuck);
        let items = items.chain(std::iter::once(4).inspect(|_| drop(stuck.take())));
        let caller = std::thread::current().id();
        hand_out(1, items, |_| {
            if std::thread::current().id() != caller {
                drop(lock(&free));
            }
            done.fetch_add(1, Relaxed);
        });
        assert_eq!(done.into_inner(), 5);
    }

    #[test]
    fn a_panic_is_passed_on_and_nobody_waits_for_ever() {
        for threads in [1, 3] {
            let panics = || hand_out(threads, 0..10, |_| panic!("as it should"));
            std::panic::catch_unwind(panics).unwrap_err();
        }
    }
}
