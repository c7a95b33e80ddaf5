//! Runs statements on a data folder that this process has opened.

use std::sync::Arc;

use anyhow::Result;
use futures::StreamExt;
use nyala_engine::{Answer, Session, SessionOptions};
use nyala_model::config::Config;

use super::client::{Outcome, Rows};
use crate::build_progress;
use crate::open::{Opened, open};

/// A session on an open data folder.
pub struct Embedded {
    opened: Opened,
    session: Arc<Session>,
}

impl Embedded {
    /// Opens the configured data folder.
    pub async fn open(config: &Config) -> Result<Self> {
        let opened = open(config, "nyala sql").await?;
        let options = SessionOptions { application: "nyala sql".to_owned(), ..SessionOptions::default() };
        let session = opened.engine.session(options);
        Ok(Self { opened, session })
    }

    /// Runs one statement; a build shows its progress.
    pub async fn run(&self, statement: &str) -> Result<Outcome> {
        let answer = build_progress::shown(&self.opened.engine, self.session.query(statement)).await?;
        Ok(match answer {
            Answer::Rows(rows) => {
                Outcome::Rows(Rows { schema: rows.schema(), batches: rows.map(|batch| Ok(batch?)).boxed() })
            }
            Answer::Done(done) => Outcome::Done { tag: done.tag, rows: done.rows },
        })
    }

    /// Cancels the running statement.
    pub fn cancel(&self) {
        self.session.cancel();
    }

    /// Closes the session, and releases the data folder.
    pub async fn close(self) {
        drop(self.session);
        self.opened.close().await;
    }
}
