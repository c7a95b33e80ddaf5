//! What planning threads have to do, and how they share it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crossbeam_queue::SegQueue;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Planning one statement, to the end. It never panics.
pub(super) type Job = BoxFuture<'static, ()>;

/// Jobs that no thread has begun.
#[derive(Default)]
pub(super) struct Jobs {
    queue: SegQueue<Job>,
    arrived: Notify,
    closed: AtomicBool,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("waiting", &self.queue.len()).finish_non_exhaustive()
    }
}

impl Jobs {
    pub(super) fn push(&self, job: Job) {
        self.queue.push(job);
        self.arrived.notify_one();
    }

    /// Threads end when there is nothing left to begin.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.arrived.notify_waiters();
    }

    /// Does jobs, one after the other, until none waits to be begun.
    pub(super) async fn work_off(&self) {
        while let Some(job) = self.queue.pop() {
            job.await;
        }
    }

    /// Does jobs until there will be no more: goes on with those that waited, and begins another when all others wait.
    pub(super) async fn work(&self) {
        let mut begun = FuturesUnordered::new();
        loop {
            let mut told: Option<Pin<Box<Notified<'_>>>> = None;
            let next = poll_fn(|context| {
                if !begun.is_empty() {
                    // Who computes does not stand before the jobs that come meanwhile: another thread may have nothing to do, and
                    // is told what this one was.
                    told = None;
                    while let Poll::Ready(Some(())) = begun.poll_next_unpin(context) {}
                }
                loop {
                    // Before it looks, so that nothing comes in between.
                    let arrived = told.get_or_insert_with(|| Box::pin(self.arrived.notified()));
                    let is_told = arrived.as_mut().poll(context).is_ready();
                    if let Some(job) = self.queue.pop() {
                        return Poll::Ready(Some(job));
                    }
                    if self.closed.load(Ordering::SeqCst) {
                        return Poll::Ready(None);
                    }
                    if !is_told {
                        return Poll::Pending;
                    }
                    told = None;
                }
            });
            match next.await {
                Some(job) => begun.push(job),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::task::Context;

    use futures::FutureExt;
    use futures::task::{ArcWake, waker};

    use super::*;

    struct Woken(AtomicBool);

    impl ArcWake for Woken {
        fn wake_by_ref(woken: &Arc<Self>) {
            woken.0.store(true, Ordering::SeqCst);
        }
    }

    /// Polls whoever is woken, until nobody is; how often that was.
    fn settle(threads: &mut [(BoxFuture<'_, ()>, Arc<Woken>)]) -> usize {
        let mut polls = 0;
        while polls < 1_000 && threads.iter().any(|(_, woken)| woken.0.load(Ordering::SeqCst)) {
            for (thread, woken) in threads.iter_mut() {
                if woken.0.swap(false, Ordering::SeqCst) {
                    polls += 1;
                    let _ = thread.as_mut().poll(&mut Context::from_waker(&waker(Arc::clone(woken))));
                }
            }
        }
        polls
    }

    /// They woke each other for ever once, and took all the time of their processors.
    #[test]
    fn threads_rest_when_there_is_nothing_to_do() {
        let jobs = Jobs::default();
        let thread = || (jobs.work().boxed(), Arc::new(Woken(AtomicBool::new(true))));
        let mut threads = [thread(), thread(), thread()];
        assert_eq!(settle(&mut threads), 3);
        let done = Arc::new(std::sync::Mutex::new(0));
        for number in 1..=20 {
            let (answer, answered) = tokio::sync::oneshot::channel();
            let also = Arc::clone(&done);
            let job = async move {
                answered.await.unwrap();
                *also.lock().unwrap() += 1;
            };
            jobs.push(job.boxed());
            assert!(settle(&mut threads) <= 6);
            // It waited, as for a store.
            answer.send(()).unwrap();
            assert!(settle(&mut threads) <= 6);
            assert_eq!(*done.lock().unwrap(), number);
        }
        jobs.close();
        settle(&mut threads);
        assert!(jobs.queue.is_empty());
    }
}
