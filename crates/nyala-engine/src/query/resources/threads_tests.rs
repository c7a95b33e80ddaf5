#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;

#[tokio::test]
async fn planning_that_nobody_waits_for_keeps_no_thread() {
    let threads = Threads::start(1).unwrap();
    let (begins, begun) = oneshot::channel();
    let endless = threads.plan(async move {
        begins.send(()).unwrap();
        std::future::pending::<Result<()>>().await
    });
    tokio::select! {
        _ = endless => unreachable!("it has no end"),
        begun = begun => begun.unwrap(),
    }
    let next = tokio::time::timeout(Duration::from_secs(60), threads.plan(async { Ok(7) }));
    assert_eq!(next.await.unwrap().unwrap(), 7);
}

/// The slow planning waits as it does for a store that does not answer.
#[tokio::test]
async fn planning_that_waits_keeps_no_other_from_the_thread() {
    let threads = Threads::start(1).unwrap();
    let (answer, answered) = oneshot::channel();
    let slow = threads.plan(async { Ok(answered.await.unwrap()) });
    let others = async {
        for number in 0..10 {
            assert_eq!(threads.plan(async move { Ok(number) }).await.unwrap(), number);
        }
        answer.send(10).unwrap();
    };
    let both = async { tokio::join!(biased; slow, others).0 };
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), both).await.unwrap().unwrap(), 10);
}

#[tokio::test]
async fn planning_that_computes_learns_that_its_caller_is_gone() {
    let threads = Threads::start(1).unwrap();
    let (begins, begun) = oneshot::channel();
    let (ends, end) = oneshot::channel();
    let busy = threads.plan::<_, ()>(async move {
        begins.send(()).unwrap();
        while nyala_runtime::check().is_ok() {
            std::thread::yield_now();
        }
        ends.send(()).unwrap();
        Err(QueryError::cancelled())
    });
    tokio::select! {
        _ = busy => unreachable!("it goes on until its caller is gone"),
        begun = begun => begun.unwrap(),
    }
    tokio::time::timeout(Duration::from_secs(60), end).await.unwrap().unwrap();
}

/// Planning leaves other threads free also while it computes, and not only while it waits.
#[tokio::test]
async fn planning_that_computes_keeps_no_other_thread_from_work() {
    let threads = Threads::start(2).unwrap();
    let (answer, answered) = oneshot::channel();
    let (begins, begun) = oneshot::channel();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let busy = threads.plan(async move {
        answered.await.unwrap();
        begins.send(()).unwrap();
        end.recv().unwrap();
        Ok(1)
    });
    let others = async {
        // The busy planning still waits.
        assert_eq!(threads.plan(async { Ok(2) }).await.unwrap(), 2);
        answer.send(()).unwrap();
        begun.await.unwrap();
        assert_eq!(threads.plan(async { Ok(3) }).await.unwrap(), 3);
        ends.send(()).unwrap();
    };
    let both = async { tokio::join!(biased; busy, others).0 };
    let done = tokio::time::timeout(Duration::from_secs(60), both).await;
    assert_eq!(done.unwrap().unwrap(), 1);
}

/// A text may take seconds to plan, and as many such texts as there are threads must not keep all others from planning.
#[tokio::test]
async fn planning_begins_also_while_all_threads_compute() {
    let threads = Threads::start(1).unwrap();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let busy = threads.plan(async move {
        end.recv().unwrap();
        Ok(1)
    });
    let others = async {
        for number in 0..3 {
            assert_eq!(threads.plan(async move { Ok(number) }).await.unwrap(), number);
        }
        ends.send(()).unwrap();
    };
    let both = async { tokio::join!(biased; busy, others).0 };
    let done = tokio::time::timeout(Duration::from_secs(60), both).await;
    assert_eq!(done.unwrap().unwrap(), 1);
    // Extra threads end once no job is ready.
    let all = threads.stand_ins.acquire_many(MAX_STAND_INS as u32);
    let _all = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap().unwrap();
}

/// The thread that began to plan computes another job when the answer comes.
#[tokio::test]
async fn planning_that_waited_goes_on_while_the_thread_that_began_it_computes() {
    let threads = Threads::start(1).unwrap();
    let (answer, answered) = oneshot::channel();
    let (begins, begun) = oneshot::channel();
    let (ends, end) = std::sync::mpsc::channel::<()>();
    let waiting = async {
        let done = threads.plan(async { Ok(answered.await.unwrap()) }).await;
        ends.send(()).unwrap();
        done
    };
    let busy = threads.plan(async move {
        begins.send(()).unwrap();
        end.recv().unwrap();
        Ok(2)
    });
    let answering = async {
        begun.await.unwrap();
        answer.send(1).unwrap();
    };
    let all = async { tokio::join!(biased; waiting, busy, answering) };
    let (waited, computed, ()) = tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    assert_eq!((waited.unwrap(), computed.unwrap()), (1, 2));
}

#[tokio::test]
async fn planning_that_panics_is_an_error_of_its_statement() {
    let threads = Threads::start(1).unwrap();
    let failed = threads.plan::<_, ()>(async { panic!("deep inside") }).await.unwrap_err();
    assert!(failed.message.contains("deep inside"), "{failed}");
    assert_eq!(threads.plan(async { Ok(7) }).await.unwrap(), 7);
}

/// A process that ends its threads without waiting for them ends, rarely, with a segmentation fault.
#[tokio::test]
async fn threads_may_end_while_others_serve() {
    for _ in 0..100 {
        let threads = Threads::start(4).unwrap();
        let work = threads.spawn_large(Scope::new(Arc::default()), async { 7 });
        assert_eq!(work.await.unwrap(), 7);
        drop(threads);
    }
}
