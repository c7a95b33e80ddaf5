//! The fair queue of large queries that wait for slots.
//!
//! ```text
//! free slot ─▶ group queue (a resource group): fewest running queries for its weight, then the smallest pass
//!           ─▶ user: fewest slots in the group queue, then served longest ago
//!           ─▶ query: waits longest
//! ```
//!
//! So a user cannot get ahead by sending more queries, and a group queue that was idle is served at once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot::{Receiver, Sender, channel};

/// All group queues. The lock is held for choosing, never during a wait.
#[derive(Debug)]
pub struct FairQueue {
    state: Mutex<State>,
    /// Slots of all group queues together, and of one user.
    slots: usize,
    user_slots: usize,
}

#[derive(Debug)]
struct State {
    group_queues: Vec<GroupQueue>,
    running: usize,
    of_user: HashMap<Arc<str>, usize>,
    next_ticket: u64,
    /// [`GroupQueue::pass`] of the group queue served last, as of that service.
    now: u64,
}

/// The queue of one resource group.
#[derive(Debug)]
struct GroupQueue {
    weight: usize,
    slots: usize,
    running: usize,
    of_user: HashMap<Arc<str>, usize>,
    waiting: VecDeque<Waiter>,
    /// Grows with each query served, by less for a larger weight. Among group queues with equal use the smallest
    /// is next, which divides even a single slot: when it is given, no group queue uses any.
    pass: u64,
    /// Ticket of the last service of each user, for the same reason.
    served: HashMap<Arc<str>, u64>,
}

/// Growth of the pass of a group queue with weight 1, per query.
const PASS: u64 = 1 << 20;
/// Greatest size of `served`; beyond that only waiting users are kept.
const SERVED_USERS: usize = 1024;

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    user: Arc<str>,
    gives: Sender<Slot>,
}

/// The right to compute, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    line: Arc<FairQueue>,
    group_queue: usize,
    user: Arc<str>,
}

/// Slots to send once the lock is free: one without a receiver comes back, which takes the lock.
type Given = Vec<(Sender<Slot>, Slot)>;

impl FairQueue {
    /// `group_queues` are weight and slots of each; `slots` and `user_slots` bound all of them unless 0.
    pub fn new(
        group_queues: impl Iterator<Item = (usize, usize)>,
        slots: usize,
        user_slots: usize,
    ) -> Arc<Self> {
        let group_queues = group_queues.map(|(weight, slots)| GroupQueue {
            weight,
            slots,
            running: 0,
            of_user: HashMap::new(),
            waiting: VecDeque::new(),
            pass: 0,
            served: HashMap::new(),
        });
        let (group_queues, of_user) = (group_queues.collect(), HashMap::new());
        let state = State { group_queues, running: 0, of_user, next_ticket: 0, now: 0 };
        let bound = |most: usize| if most == 0 { usize::MAX } else { most };
        Arc::new(Self { state: Mutex::new(state), slots: bound(slots), user_slots: bound(user_slots) })
    }

    /// Takes a place in a group queue. The receiver gets the slot, maybe at once; dropping it gives up the place.
    /// If more than `most` would wait, the user with the most places loses the newest of them. Returns none if
    /// that is the place taken here.
    pub fn enter(self: &Arc<Self>, group_queue: usize, user: &str, most: usize) -> Option<Receiver<Slot>> {
        let (gives, slot) = channel();
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.group_queues.get_mut(group_queue)?.waiting.push_back(Waiter {
            ticket,
            user: user.into(),
            gives,
        });
        let given = self.give(&mut state);
        let left = state.group_queues.get_mut(group_queue)?.leave_if_full(most);
        drop(state);
        send(given);
        let is_left = left.is_some_and(|waiter| waiter.ticket == ticket);
        (!is_left).then_some(slot)
    }

    /// Gives a group queue another number of slots. If more are taken, their queries keep them.
    pub fn resize(self: &Arc<Self>, group_queue: usize, slots: usize) {
        let mut state = self.lock();
        match state.group_queues.get_mut(group_queue) {
            Some(group_queue) if group_queue.slots != slots => group_queue.slots = slots,
            _ => return,
        }
        let given = self.give(&mut state);
        drop(state);
        send(given);
    }

    /// How many queries compute in a group queue, and how many wait.
    pub fn count(&self, group_queue: usize) -> (usize, usize) {
        let state = self.lock();
        let Some(group_queue) = state.group_queues.get(group_queue) else { return (0, 0) };
        (group_queue.running, group_queue.waiting.iter().filter(|waiter| !waiter.gives.is_closed()).count())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(self: &Arc<Self>, state: &mut State) -> Given {
        for group_queue in &mut state.group_queues {
            group_queue.waiting.retain(|waiter| !waiter.gives.is_closed());
        }
        let mut given = Given::new();
        while state.running < self.slots
            && let Some((group_queue, waiter)) = state.next(self.user_slots)
        {
            let slot = Slot { line: Arc::clone(self), group_queue, user: waiter.user };
            given.push((waiter.gives, slot));
        }
        given
    }

    fn take_back(self: &Arc<Self>, slot: &Slot) {
        let mut state = self.lock();
        state.running = state.running.saturating_sub(1);
        less(&mut state.of_user, &slot.user);
        if let Some(group_queue) = state.group_queues.get_mut(slot.group_queue) {
            group_queue.running = group_queue.running.saturating_sub(1);
            less(&mut group_queue.of_user, &slot.user);
        }
        let given = self.give(&mut state);
        drop(state);
        send(given);
    }
}

impl GroupQueue {
    /// If more than `most` wait, removes the newest place of the user with the most.
    fn leave_if_full(&mut self, most: usize) -> Option<Waiter> {
        if self.waiting.len() <= most {
            return None;
        }
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        for waiter in &self.waiting {
            *places.entry(Arc::clone(&waiter.user)).or_default() += 1;
        }
        // If several users have equally many places, the newest place of them all is removed.
        let waiting = self.waiting.iter().enumerate();
        let (place, _) = waiting.max_by_key(|(_, waiter)| (count(&places, &waiter.user), waiter.ticket))?;
        self.waiting.remove(place)
    }

    /// The pass of this group queue; it gets no credit for time in which it was idle.
    fn pass(&self, now: u64) -> u64 {
        self.pass.max(now)
    }

    /// Records that a query of the user is served.
    fn serve(&mut self, user: &Arc<str>, ticket: u64, now: u64) {
        self.running += 1;
        *self.of_user.entry(Arc::clone(user)).or_default() += 1;
        self.pass = self.pass(now).saturating_add(PASS / (self.weight.max(1) as u64));
        if self.served.len() >= SERVED_USERS {
            let waiting = &self.waiting;
            self.served.retain(|user, _| waiting.iter().any(|waiter| waiter.user == *user));
        }
        self.served.insert(Arc::clone(user), ticket);
    }
}

impl State {
    /// Removes the next query, and counts it as running.
    fn next(&mut self, user_slots: usize) -> Option<(usize, Waiter)> {
        let of_user = &self.of_user;
        let may = |waiter: &&Waiter| count(of_user, &waiter.user) < user_slots;
        let open = self
            .group_queues
            .iter()
            .enumerate()
            .filter(|(_, group_queue)| group_queue.running < group_queue.slots);
        let open = open.filter_map(|(number, group_queue)| {
            Some((number, group_queue, group_queue.waiting.iter().find(may)?.ticket))
        });
        // a.running / a.weight < b.running / b.weight, multiplied by both weights.
        let now = self.now;
        let (number, ..) = open.min_by(|(_, a, first), (_, b, second)| {
            let (left, right) = (a.running.saturating_mul(b.weight), b.running.saturating_mul(a.weight));
            left.cmp(&right).then(a.pass(now).cmp(&b.pass(now))).then(first.cmp(second))
        })?;
        let (group_queue, turn) = (self.group_queues.get_mut(number)?, self.next_ticket);
        let waiting = group_queue.waiting.iter().enumerate().filter(|(_, waiter)| may(waiter));
        let (place, _) = waiting.min_by_key(|(_, waiter)| {
            let served = group_queue.served.get(&waiter.user).copied().unwrap_or_default();
            (count(&group_queue.of_user, &waiter.user), served, waiter.ticket)
        })?;
        let waiter = group_queue.waiting.remove(place)?;
        // Tickets are also times: none is given twice.
        self.next_ticket += 1;
        self.now = group_queue.pass(now);
        group_queue.serve(&waiter.user, turn, now);
        self.running += 1;
        *self.of_user.entry(Arc::clone(&waiter.user)).or_default() += 1;
        Some((number, waiter))
    }
}

fn count(of_user: &HashMap<Arc<str>, usize>, user: &Arc<str>) -> usize {
    of_user.get(user).copied().unwrap_or(0)
}

fn less(of_user: &mut HashMap<Arc<str>, usize>, user: &Arc<str>) {
    match of_user.get_mut(user) {
        Some(count @ 2..) => *count -= 1,
        _ => drop(of_user.remove(user)),
    }
}

fn send(given: Given) {
    for (waiter, slot) in given {
        // If the query has gone, this drops the slot, which gives it back.
        drop(waiter.send(slot));
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let line = Arc::clone(&self.line);
        line.take_back(self);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Lets `asked` (group queue, user) wait behind a slot that all need; returns the order of service.
    fn order(line: &Arc<FairQueue>, asked: &[(usize, &str)]) -> Vec<usize> {
        let held = line.enter(0, "first", 100).unwrap().try_recv().unwrap();
        let mut waiting: Vec<_> = asked
            .iter()
            .map(|(group_queue, user)| Some(line.enter(*group_queue, user, 100).unwrap()))
            .collect();
        drop(held);
        let mut order = Vec::new();
        let mut kept = Vec::new();
        while let Some((number, slot)) = waiting
            .iter_mut()
            .enumerate()
            .find_map(|(number, receiver)| Some((number, receiver.as_mut()?.try_recv().ok()?)))
        {
            if let Some(done) = waiting.get_mut(number) {
                *done = None;
            }
            order.push(number);
            kept.push(slot);
            // One slot for all: the next is served when this one is given back.
            kept.clear();
        }
        order
    }

    #[test]
    fn one_after_the_other_within_a_lane() {
        let line = FairQueue::new([(1, 1)].into_iter(), 0, 0);
        assert_eq!(order(&line, &[(0, "a"), (0, "b"), (0, "a")]), [0, 1, 2]);
        assert_eq!(line.count(0), (0, 0));
    }

    #[test]
    fn one_slot_goes_to_all_users_in_turns() {
        let line = FairQueue::new([(1, 1)].into_iter(), 0, 0);
        let asked = [(0, "a"), (0, "a"), (0, "a"), (0, "b"), (0, "b"), (0, "c")];
        assert_eq!(order(&line, &asked), [0, 3, 5, 1, 4, 2]);
    }

    #[test]
    fn one_slot_goes_to_lanes_by_their_weights() {
        let line = FairQueue::new([(1, 9), (2, 9)].into_iter(), 1, 0);
        let asked = [(0, "a"), (0, "a"), (0, "a"), (1, "a"), (1, "a"), (1, "a"), (1, "a")];
        let group_queues: Vec<usize> =
            order(&line, &asked).into_iter().map(|number| usize::from(number > 2)).collect();
        assert_eq!(group_queues.iter().take(6).sum::<usize>(), 4, "{group_queues:?}");
        // A group queue that was idle gets no credit for that time.
        let idle = order(&line, &[(0, "a"), (0, "a"), (1, "a"), (1, "a"), (1, "a"), (1, "a")]);
        assert!(idle.iter().take(3).any(|number| *number < 2), "{idle:?}");
    }

    #[test]
    fn a_full_line_makes_room_for_who_waits_less() {
        let line = FairQueue::new([(1, 1)].into_iter(), 0, 0);
        let held = line.enter(0, "a", 2).unwrap();
        let mut first = line.enter(0, "a", 2).unwrap();
        let mut second = line.enter(0, "a", 2).unwrap();
        assert!(line.enter(0, "a", 2).is_none(), "its own places are taken");
        let mut other = line.enter(0, "b", 2).unwrap();
        assert!(matches!(second.try_recv(), Err(tokio::sync::oneshot::error::TryRecvError::Closed)));
        assert!(line.enter(0, "b", 2).is_none(), "it has as many as the other one");
        drop(held);
        let slot = other.try_recv().unwrap();
        assert!(first.try_recv().is_err());
        drop(slot);
        assert!(first.try_recv().is_ok());
    }

    #[test]
    fn weights_divide_what_is_free() {
        let line = FairQueue::new([(1, 9), (3, 9)].into_iter(), 4, 0);
        let enter = |group_queue| line.enter(group_queue, "u", 9).unwrap();
        let held: Vec<_> = (0..4).map(|_| enter(0).try_recv().unwrap()).collect();
        let waiting: Vec<_> = [0, 0, 0, 1, 1, 1, 1].map(enter).into();
        drop(held);
        assert_eq!((line.count(0), line.count(1)), ((1, 2), (3, 1)));
        drop(waiting);
        assert_eq!((line.count(0), line.count(1)), ((0, 0), (0, 0)));
    }

    #[test]
    fn a_user_has_its_share_and_no_more() {
        let line = FairQueue::new([(1, 3)].into_iter(), 0, 2);
        let enter = |user| line.enter(0, user, 1);
        let held = [enter("a").unwrap(), enter("a").unwrap()];
        let third = enter("a").unwrap();
        assert_eq!(line.count(0), (2, 1));
        assert!(enter("a").is_none(), "one may wait");
        // Other users do not wait behind it.
        let mut other = enter("b").unwrap();
        let slot = other.try_recv().unwrap();
        assert_eq!(line.count(0), (3, 1));
        drop(slot);
        assert_eq!(line.count(0), (2, 1));
        drop(held);
        assert_eq!(line.count(0), (1, 0));
        drop(third);
        assert_eq!(line.count(0), (0, 0));
    }

    #[test]
    fn more_slots_serve_those_that_wait() {
        let line = FairQueue::new([(1, 1)].into_iter(), 0, 0);
        let enter = || line.enter(0, "u", 9).unwrap();
        let (first, mut second, third) = (enter(), enter(), enter());
        line.resize(0, 2);
        let slot = second.try_recv().unwrap();
        assert_eq!(line.count(0), (2, 1));
        line.resize(0, 1);
        drop(slot);
        assert_eq!(line.count(0), (1, 1), "one slot is taken, and there is no other");
        drop((first, third));
    }

    #[test]
    fn who_leaves_is_passed_over() {
        let line = FairQueue::new([(1, 1)].into_iter(), 0, 0);
        let held = line.enter(0, "a", 5).unwrap();
        let gone = line.enter(0, "a", 5).unwrap();
        let mut last = line.enter(0, "a", 5).unwrap();
        drop(gone);
        assert_eq!(line.count(0), (1, 1));
        drop(held);
        assert!(last.try_recv().is_ok());
    }
}
