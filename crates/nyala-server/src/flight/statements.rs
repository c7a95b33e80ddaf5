//! Prepared statements of a session, by their handles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, Prepared, QueryError};
use tokio_util::sync::CancellationToken;

/// Most statements of a session. Of those that are asked for once, the oldest make room.
const MAX_STATEMENTS: usize = 10_000;

/// A statement that a client has prepared, or is about to fetch.
#[derive(Debug)]
pub struct Statement {
    pub prepared: Prepared,
    /// The columns as they are sent; none if it gives no rows.
    pub columns: Option<SchemaRef>,
    /// The rows of values that are bound to it.
    bound: Mutex<Vec<Vec<ScalarValue>>>,
    /// Whether its handle is a ticket, which is used once.
    is_once: bool,
    /// Ends what runs of it.
    pub ended: CancellationToken,
}

impl Statement {
    pub fn new(prepared: Prepared, columns: Option<SchemaRef>, is_once: bool) -> Self {
        Self { prepared, columns, bound: Mutex::default(), is_once, ended: CancellationToken::new() }
    }

    /// The same statement, of which nothing runs.
    fn again(&self) -> Self {
        let again = Self::new(self.prepared.clone(), self.columns.clone(), self.is_once);
        again.bind(self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone());
        again
    }

    /// Binds rows of values, in the place of those before.
    pub fn bind(&self, values: Vec<Vec<ScalarValue>>) {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    /// The rows of values: one without any where the statement has no parameters.
    ///
    /// # Errors
    /// It has parameters, and no values were bound.
    pub fn values(&self) -> Result<Vec<Vec<ScalarValue>>, QueryError> {
        let needed = self.prepared.parameter_types().len();
        let bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (needed, bound.is_empty()) {
            (0, _) => Ok(vec![Vec::new()]),
            (_, false) => Ok(bound),
            (_, true) => {
                let message = format!("the statement has {needed} parameters, but none were given");
                Err(QueryError::new(ErrorKind::InvalidParameter, message).hint("bind a row of values first"))
            }
        }
    }
}

/// The statements of a session.
#[derive(Debug, Default)]
pub struct Statements(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// The number of the last handle.
    last: u64,
    /// In the order of their handles.
    statements: BTreeMap<u64, Arc<Statement>>,
    /// Those of tickets that were used, until their answers are dropped.
    fetched: BTreeMap<u64, Weak<Statement>>,
}

impl Statements {
    /// Keeps a statement, and gives its handle.
    ///
    /// # Errors
    /// The session has too many.
    pub fn add(&self, statement: Statement) -> Result<Bytes, QueryError> {
        let mut open = self.lock();
        if open.statements.len() >= MAX_STATEMENTS {
            let oldest = open.statements.iter().find(|(_, statement)| statement.is_once);
            let Some(oldest) = oldest.map(|(handle, _)| *handle) else {
                let message = format!("the session has {MAX_STATEMENTS} prepared statements");
                return Err(QueryError::new(ErrorKind::LimitExceeded, message).hint("close some"));
            };
            open.statements.remove(&oldest);
        }
        open.last += 1;
        let handle = open.last;
        open.statements.insert(handle, Arc::new(statement));
        Ok(Bytes::copy_from_slice(&handle.to_be_bytes()))
    }

    /// The statement of a handle.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, handle: &[u8]) -> Result<Arc<Statement>, QueryError> {
        let open = self.lock();
        number(handle).and_then(|number| open.statements.get(&number)).cloned().ok_or_else(unknown)
    }

    /// The statement of a ticket, which is good for once.
    ///
    /// # Errors
    /// There is none.
    pub fn take(&self, ticket: &[u8]) -> Result<Arc<Statement>, QueryError> {
        let mut open = self.lock();
        let number = number(ticket).ok_or_else(unknown)?;
        let taken = open.statements.remove(&number).ok_or_else(unknown)?;
        open.fetched.retain(|_, fetched| fetched.strong_count() > 0);
        open.fetched.insert(number, Arc::downgrade(&taken));
        Ok(taken)
    }

    /// Forgets a statement, and ends what runs of it; false if there is none.
    pub fn close(&self, handle: &[u8]) -> bool {
        let closed = number(handle).and_then(|number| self.lock().statements.remove(&number));
        closed.inspect(|statement| statement.ended.cancel()).is_some()
    }

    /// Ends what runs of a statement, which stays prepared; false if nothing does.
    pub fn cancel(&self, handle: &[u8]) -> bool {
        let Some(number) = number(handle) else { return false };
        let mut open = self.lock();
        if let Some(fetched) = open.fetched.get(&number).and_then(Weak::upgrade) {
            fetched.ended.cancel();
            return true;
        }
        match open.statements.get_mut(&number) {
            // Besides this list, calls and answers hold it.
            Some(statement) if Arc::strong_count(statement) > 1 => {
                let again = Arc::new(statement.again());
                std::mem::replace(statement, again).ended.cancel();
                true
            }
            _ => false,
        }
    }

    /// Ends what runs.
    pub fn end_all(&self) {
        let open = std::mem::take(&mut *self.lock());
        let fetched = open.fetched.values().filter_map(Weak::upgrade);
        for statement in open.statements.into_values().chain(fetched) {
            statement.ended.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(handle: &[u8]) -> Option<u64> {
    handle.try_into().ok().map(u64::from_be_bytes)
}

fn unknown() -> QueryError {
    let message = "there is no such prepared statement in this session";
    QueryError::new(ErrorKind::UndefinedObject, message)
        .hint("it was closed, or the session has ended; prepare it again")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn handles_of_other_forms_are_unknown() {
        let statements = Statements::default();
        for handle in [b"".as_slice(), b"1", &[0; 8], &[0; 9]] {
            assert_eq!(statements.get(handle).unwrap_err().kind, ErrorKind::UndefinedObject);
            assert!(!statements.close(handle) && !statements.cancel(handle));
        }
    }
}
