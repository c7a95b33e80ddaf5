//! The queue of planning jobs, shared by the planning threads.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use async_task::Runnable;

/// Jobs that are ready to run. A job that waits for a store belongs to no thread: after the answer any
/// planning thread continues it, also while the thread that began it computes another job for seconds.
#[derive(Debug, Default)]
pub struct Jobs {
    ready: Mutex<Ready>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Ready {
    queue: VecDeque<Runnable>,
    /// Jobs taken so far.
    taken: u64,
    closed: bool,
}

impl Jobs {
    /// Adds the planning of one statement. It must not panic.
    pub fn push(self: &Arc<Self>, job: impl Future<Output = ()> + Send + 'static) {
        let jobs = Arc::clone(self);
        let (runnable, task) = async_task::spawn(job, move |runnable| jobs.schedule(runnable));
        task.detach();
        runnable.schedule();
    }

    fn schedule(&self, job: Runnable) {
        let refused = {
            let mut ready = self.ready();
            if ready.closed {
                Some(job)
            } else {
                ready.queue.push_back(job);
                None
            }
        };
        self.arrived.notify_one();
        // A refused job is dropped after the lock is released: dropping it may wake another job, which takes the lock.
        drop(refused);
    }

    /// Closes the queue: threads end once no job is ready.
    pub fn close(&self) {
        self.ready().closed = true;
        self.arrived.notify_all();
    }

    /// Runs jobs until the queue is closed and empty.
    pub fn work(&self) {
        while let Some(job) = self.next(true) {
            job.run();
        }
    }

    /// Runs jobs until none is ready.
    pub fn work_off(&self) {
        while let Some(job) = self.next(false) {
            job.run();
        }
    }

    fn next(&self, waits: bool) -> Option<Runnable> {
        let mut ready = self.ready();
        loop {
            if let Some(job) = ready.queue.pop_front() {
                ready.taken += 1;
                return Some(job);
            }
            if ready.closed || !waits {
                return None;
            }
            ready = self.arrived.wait(ready).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Jobs taken so far, if others wait for a thread: if the number stays the same, all threads compute.
    pub fn taken_before_others(&self) -> Option<u64> {
        let ready = self.ready();
        (!ready.queue.is_empty()).then_some(ready.taken)
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
