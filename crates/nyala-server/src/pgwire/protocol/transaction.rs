//! Transaction blocks, as clients expect to be told about them.
//!
//! Each statement is committed when it is answered, so nothing is ever rolled back; but drivers send BEGIN and COMMIT
//! around everything and watch the status after each statement. Rolling back written rows gets a warning.
//!
//! ```text
//!           BEGIN              error
//!   Idle ───────────▶ Open ───────────▶ Failed
//!    ▲  COMMIT,        │  ◀─────────────  │
//!    └─ ROLLBACK ──────┘  ROLLBACK TO     │
//!    └─ COMMIT (says ROLLBACK), ROLLBACK ─┘
//! ```

use pgwire::messages::response::TransactionStatus;

use crate::pgwire::errors::{Failure, sqlstate};

/// The transaction state of one connection.
#[derive(Debug, Default)]
pub struct Transaction {
    block: Option<Block>,
}

#[derive(Debug, Default)]
struct Block {
    failed: bool,
    /// Whether a statement changed data, which a rollback does not undo.
    changed: bool,
    savepoints: Vec<String>,
}

/// How a block ended.
#[derive(Debug, PartialEq, Eq)]
pub struct End {
    /// Whether the block's settings stay.
    pub committed: bool,
    /// A warning for the client.
    pub warning: Option<Failure>,
}

impl Transaction {
    /// The status in ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        match &self.block {
            None => TransactionStatus::Idle,
            Some(block) if block.failed => TransactionStatus::Error,
            Some(_) => TransactionStatus::Transaction,
        }
    }

    /// Whether a block is open, failed or not.
    pub fn is_open(&self) -> bool {
        self.block.is_some()
    }

    /// Refuses everything but the end of the block after a failure in it.
    pub fn admit(&self, ends_block: bool) -> Result<(), Failure> {
        if ends_block || !self.block.as_ref().is_some_and(|block| block.failed) {
            return Ok(());
        }
        let message = "current transaction is aborted, commands ignored until end of transaction block";
        Err(Failure::error(sqlstate::FAILED_TRANSACTION, message))
    }

    /// Notes that a statement failed.
    pub fn fail(&mut self) {
        if let Some(block) = &mut self.block {
            block.failed = true;
        }
    }

    /// BEGIN. A second one changes nothing, and is reported.
    pub fn begin(&mut self) -> Option<Failure> {
        if self.block.is_some() {
            let message = "there is already a transaction in progress";
            return Some(Failure::warning(sqlstate::ACTIVE_TRANSACTION, message));
        }
        self.block = Some(Block::default());
        None
    }

    /// COMMIT or ROLLBACK. A failed block is never committed.
    pub fn end(&mut self, commit: bool) -> End {
        let Some(block) = self.block.take() else {
            let message = "there is no transaction in progress";
            let warning = Some(Failure::warning(sqlstate::NO_ACTIVE_TRANSACTION, message));
            return End { committed: commit, warning };
        };
        let committed = commit && !block.failed;
        let message =
            "what was changed in this transaction stays: each statement was committed when it was answered";
        let warning = (!committed && block.changed).then(|| Failure::warning(sqlstate::WARNING, message));
        End { committed, warning }
    }

    /// Notes that a statement changed data.
    pub fn change(&mut self) {
        if let Some(block) = &mut self.block {
            block.changed = true;
        }
    }

    /// SAVEPOINT.
    pub fn savepoint(&mut self, name: &str) -> Result<(), Failure> {
        self.open_block("SAVEPOINT")?.savepoints.push(name.to_owned());
        Ok(())
    }

    /// RELEASE SAVEPOINT: forgets it and all later ones.
    pub fn release(&mut self, name: &str) -> Result<(), Failure> {
        let block = self.open_block("RELEASE SAVEPOINT")?;
        let position = block.find(name)?;
        block.savepoints.truncate(position);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT: forgets later savepoints, and the failure.
    pub fn rollback_to(&mut self, name: &str) -> Result<(), Failure> {
        let block = self.open_block("ROLLBACK TO SAVEPOINT")?;
        let position = block.find(name)?;
        block.savepoints.truncate(position + 1);
        block.failed = false;
        Ok(())
    }

    fn open_block(&mut self, statement: &str) -> Result<&mut Block, Failure> {
        self.block.as_mut().ok_or_else(|| {
            let message = format!("{statement} can only be used in transaction blocks");
            Failure::error(sqlstate::NO_ACTIVE_TRANSACTION, message)
        })
    }
}

impl Block {
    fn find(&self, name: &str) -> Result<usize, Failure> {
        self.savepoints.iter().rposition(|savepoint| savepoint == name).ok_or_else(|| {
            Failure::error(sqlstate::INVALID_SAVEPOINT, format!("savepoint `{name}` does not exist"))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn who_rolls_back_what_stays_is_warned() {
        for (change, commit, warned) in [(true, false, true), (true, true, false), (false, false, false)] {
            let mut transaction = Transaction::default();
            transaction.begin();
            if change {
                transaction.change();
            }
            assert_eq!(transaction.end(commit).warning.is_some(), warned, "{change} {commit}");
        }
    }

    #[test]
    fn a_failed_block_admits_only_its_end() {
        let mut transaction = Transaction::default();
        assert_eq!(transaction.begin(), None);
        transaction.fail();
        assert_eq!(transaction.status(), TransactionStatus::Error);
        assert_eq!(transaction.admit(false).unwrap_err().sqlstate, "25P02");
        assert!(transaction.admit(true).is_ok());
        assert_eq!(transaction.end(true), End { committed: false, warning: None });
        assert_eq!(transaction.status(), TransactionStatus::Idle);
    }

    #[test]
    fn rolling_back_to_a_savepoint_revives_the_block() {
        let mut transaction = Transaction::default();
        assert_eq!(transaction.savepoint("a").unwrap_err().sqlstate, "25P01");
        transaction.begin();
        transaction.savepoint("a").unwrap();
        transaction.savepoint("b").unwrap();
        transaction.fail();
        transaction.rollback_to("a").unwrap();
        assert_eq!(transaction.status(), TransactionStatus::Transaction);
        assert_eq!(transaction.release("b").unwrap_err().sqlstate, "3B001");
        transaction.release("a").unwrap();
    }

    #[test]
    fn superfluous_statements_warn() {
        let mut transaction = Transaction::default();
        assert_eq!(transaction.end(true).warning.map(|warning| warning.sqlstate), Some("25P01"));
        transaction.begin();
        assert_eq!(transaction.begin().map(|warning| warning.sqlstate), Some("25001"));
        transaction.fail();
        assert!(Transaction::default().admit(false).is_ok());
    }
}
