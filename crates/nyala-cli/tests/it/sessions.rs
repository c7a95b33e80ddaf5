//! Sessions of PostgreSQL's protocol: notifications, signals, advisory locks, and descriptions of columns and parameters.

use std::time::{Duration, Instant};

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::{StreamExt, stream};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{AsyncMessage, Client, NoTls, Notification};

use crate::program::PATIENCE;
use crate::server::Server;

/// A client, and the notifications that it gets.
async fn connect(server: &Server) -> (Client, UnboundedReceiver<Notification>) {
    let (client, mut connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let (sender, receiver) = unbounded();
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    tokio::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = sender.unbounded_send(notification);
            }
        }
    });
    (client, receiver)
}

async fn process_id(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

async fn with_table(server: &Server) -> Client {
    let (client, _) = connect(server).await;
    let sql = "CREATE DISK STORE s; \
         CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(30), n NUMERIC(12,2), u UUID, j JSONB); \
         INSERT INTO t VALUES (1, 'a', 1.5, '00000000-0000-0000-0000-000000000001', '{\"a\": 1}')";
    client.batch_execute(sql).await.unwrap();
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_come_at_the_commit() {
    let server = Server::empty(&[]);
    let ((sender, _), (listener, mut inbox)) = (connect(&server).await, connect(&server).await);
    listener.batch_execute("LISTEN news").await.unwrap();
    sender.batch_execute("BEGIN; NOTIFY news, 'lost'; ROLLBACK").await.unwrap();
    sender.batch_execute("BEGIN; SELECT pg_notify('news', 'one'); NOTIFY news, 'one'; COMMIT").await.unwrap();
    sender.query("SELECT pg_notify('news', $1)", &[&"two"]).await.unwrap();
    for expected in ["one", "two"] {
        let came = tokio::time::timeout(PATIENCE, inbox.next()).await.unwrap().unwrap();
        assert_eq!((came.channel(), came.payload()), ("news", expected));
        assert_eq!(came.process_id(), process_id(&sender).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_cancel_and_end_each_other() {
    let server = Server::empty(&[]);
    let ((boss, _), (sleeper, _)) = (connect(&server).await, connect(&server).await);
    let target = process_id(&sleeper).await;
    for (ends, code) in [("pg_cancel_backend", "57014"), ("pg_terminate_backend", "57014")] {
        let began = Instant::now();
        let signal = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let running = "SELECT query FROM pg_stat_activity WHERE pid = $1";
            let running: String = boss.query_one(running, &[&target]).await.unwrap().get(0);
            assert_eq!(running, "SELECT pg_sleep(600)", "without the token of its session");
            boss.query_one(&format!("SELECT {ends}({target})"), &[]).await.unwrap().get::<_, bool>(0)
        };
        let (slept, sent) = tokio::join!(sleeper.batch_execute("SELECT pg_sleep(600)"), signal);
        assert!(sent && began.elapsed() < PATIENCE);
        let error = slept.unwrap_err();
        assert!(error.code().is_none_or(|found| found.code() == code), "{error}");
    }
    assert!(sleeper.batch_execute("SELECT 1").await.is_err(), "it is no longer connected");
    let rest = boss.query_one("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", &[&target]).await;
    assert_eq!(rest.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_answers_nothing_that_its_client_sent_before() {
    let server = Server::empty(&[]);
    let (client, _) = connect(&server).await;
    let end = format!("SELECT pg_terminate_backend({})", process_id(&client).await);
    // Both statements are sent before either is answered.
    let (_, after) = tokio::join!(client.simple_query(&end), client.simple_query("SELECT 1"));
    assert!(after.is_err(), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_acts_for_another() {
    let server = Server::empty(&[]);
    let ((boss, _), (other, _)) = (connect(&server).await, connect(&server).await);
    let boss_id = process_id(&boss).await;
    for call in [
        format!("pg_terminate_backend({boss_id}, {boss_id}, 0)"),
        format!("pg_terminate_backend('{boss_id}', {boss_id}, 0)"),
        format!("set_config('{boss_id}:0', 'work_mem', '1MB', false)"),
        format!("pg_notify('{boss_id}:', 'news', 'forged')"),
        format!("pg_advisory_unlock('{boss_id}', 1, 2)"),
    ] {
        assert!(other.batch_execute(&format!("SELECT {call}")).await.is_err(), "{call}");
        assert_ne!(server.try_query(&format!("SELECT {call}")).status, 200, "{call}");
    }
    assert_eq!(process_id(&boss).await, boss_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn advisory_locks_end_with_their_session() {
    let server = Server::empty(&[]);
    let ((one, _), (other, _)) = (connect(&server).await, connect(&server).await);
    async fn take(client: &Client) -> bool {
        client.query_one("SELECT pg_try_advisory_lock(7)", &[]).await.unwrap().get(0)
    }
    assert!(take(&one).await && !take(&other).await);
    drop(one);
    let began = Instant::now();
    while !take(&other).await {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_tell_their_table_and_their_length() {
    let server = Server::empty(&[]);
    let client = with_table(&server).await;
    let oid: u32 =
        client.query_one("SELECT oid FROM pg_class WHERE relname = 't'", &[]).await.unwrap().get(0);
    let described = client.prepare("SELECT id, name AS x, n * 2, u, j FROM t").await.unwrap();
    let found: Vec<_> = described
        .columns()
        .iter()
        .map(|column| (column.type_().clone(), column.table_oid(), column.column_id()))
        .collect();
    let of = |kind, number| (kind, Some(oid), Some(number));
    let computed = (Type::NUMERIC, None, None);
    assert_eq!(
        found,
        [of(Type::INT4, 1), of(Type::VARCHAR, 2), computed, of(Type::UUID, 4), of(Type::JSONB, 5)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_use_of_a_parameter_decides_its_type() {
    let server = Server::empty(&[]);
    let client = with_table(&server).await;
    for (sql, kind) in [
        ("SELECT id FROM t WHERE id > $1 AND id < $1 + 5", Type::INT4),
        ("SELECT id FROM t WHERE id BETWEEN $1 AND $1 + 10", Type::INT4),
        ("SELECT id FROM t WHERE u = ANY($1)", Type::UUID_ARRAY),
        ("SELECT repeat('x', $1)", Type::INT4),
        ("SELECT $1::interval", Type::INTERVAL),
        ("SELECT $1::numeric[]", Type::NUMERIC_ARRAY),
        ("SELECT $1::jsonb", Type::JSONB),
    ] {
        assert_eq!(client.prepare(sql).await.unwrap().params(), [kind], "{sql}");
    }
    let rows = client.query("SELECT repeat('x', $1)", &[&3]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(0), "xxx");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_kind_are_read_in_binary() {
    let server = Server::empty(&[]);
    let (client, _) = connect(&server).await;
    let row =
        client.query_one("SELECT typtype::text, typtype FROM pg_type WHERE oid = 23", &[]).await.unwrap();
    assert_eq!((row.get::<_, String>(0), row.get::<_, i8>(1)), ("b".to_owned(), b'b'.cast_signed()));
    let row = client.query_one("SELECT ARRAY[1, NULL], ARRAY['a b'], ARRAY[]::int[]", &[]).await.unwrap();
    assert_eq!(row.get::<_, Vec<Option<i32>>>(0), [Some(1), None]);
    assert_eq!(row.get::<_, Vec<String>>(1), ["a b"]);
    assert!(row.get::<_, Vec<i32>>(2).is_empty());
    let described = client.prepare("SELECT ARRAY[1.5], ARRAY[[1,2]], row(1, 'a')").await.unwrap();
    let kinds: Vec<_> = described.columns().iter().map(|column| column.type_().clone()).collect();
    assert!(matches!(kinds[0].kind(), Kind::Array(item) if *item == Type::NUMERIC), "{kinds:?}");
    assert_eq!(kinds[2].oid(), Type::RECORD.oid());
}
