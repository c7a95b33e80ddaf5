//! Timeouts for the queries of one task, one after the other.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep_until};

/// A timeout for the queries of one task. It is set anew only when it rings, mostly for a query that ended long ago: a
/// timer for each query would be inserted between those of other clients and removed again, which takes the lock of all
/// timers twice and, with many clients, memory that no cache holds. For the same reason it is not polled before it rings.
pub struct Alarm {
    timer: Pin<Box<Sleep>>,
    /// When the timer rings.
    rings: Instant,
    /// Whether the timer knows the task.
    watched: bool,
}

impl Alarm {
    /// An alarm that rings first at about this time.
    pub fn at(time: Instant) -> Self {
        Self { timer: Box::pin(sleep_until(time.into())), rings: time, watched: false }
    }

    /// The output of `work`; none if it is not done by `end`.
    pub async fn within<T>(&mut self, end: Instant, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let within = poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_reached(end, context).map(|()| None),
        });
        within.await
    }

    fn poll_reached(&mut self, end: Instant, context: &mut Context<'_>) -> Poll<()> {
        if end < self.rings {
            self.set(end);
        }
        if self.watched && Instant::now() < self.rings {
            return Poll::Pending;
        }
        // The timer is polled even if the work has used up the task's budget, as it may at each poll.
        while pin!(unconstrained(self.timer.as_mut())).poll(context).is_ready() {
            if end <= self.rings {
                return Poll::Ready(());
            }
            self.set(end);
        }
        self.watched = true;
        Poll::Pending
    }

    fn set(&mut self, time: Instant) {
        self.timer.as_mut().reset(time.into());
        (self.rings, self.watched) = (time, false);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::task::consume_budget;
    use tokio::time::{sleep, timeout};

    use super::*;

    const MOMENT: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(60);

    /// Whether a sleep of length `work` ends within `limit`; the alarm must not ring before.
    async fn ends(alarm: &mut Alarm, limit: Duration, work: Duration) -> bool {
        let begun = Instant::now();
        let within = alarm.within(begun + limit, sleep(work));
        let ended = timeout(LONG / 2, within).await;
        assert!(ended.is_ok(), "it does not ring");
        assert!(begun.elapsed() >= limit.min(work), "it rings too early");
        ended.is_ok_and(|ended| ended.is_some())
    }

    #[tokio::test]
    async fn it_rings_at_the_end_of_each_thing() {
        // The alarm is set for long ago, for now, or for much later than anything may take.
        for set in [Duration::ZERO, MOMENT, 2 * LONG] {
            let mut alarm = Alarm::at(Instant::now() + set);
            assert!(ends(&mut alarm, LONG, MOMENT).await);
            assert!(!ends(&mut alarm, MOMENT, LONG).await);
            assert!(ends(&mut alarm, MOMENT, Duration::ZERO).await);
            assert!(ends(&mut alarm, LONG, 2 * MOMENT).await, "it rang for the one before");
            assert!(!ends(&mut alarm, Duration::ZERO, LONG).await);
            assert_eq!(alarm.within(Instant::now(), async { 7 }).await, Some(7), "it was ready");
            assert_eq!(alarm.within(Instant::now() + MOMENT, pending::<()>()).await, None);
            let busy = async {
                loop {
                    consume_budget().await;
                }
            };
            assert_eq!(alarm.within(Instant::now() + MOMENT, busy).await, None, "it uses up each turn");
        }
    }
}
