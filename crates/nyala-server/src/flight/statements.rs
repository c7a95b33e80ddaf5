//! Prepared statements of a session, by their handles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use nyala_engine::{ErrorKind, Prepared, QueryError};
use tokio_util::sync::CancellationToken;

use super::parameters::Values;

/// Most statements of a session. The oldest statements behind tickets make room.
const MAX_STATEMENTS: usize = 10_000;
/// Most bytes of values that are bound to all statements of a session.
const MAX_BOUND_BYTES: u64 = 256 << 20;

/// A statement that a client has prepared, or is about to fetch.
#[derive(Debug)]
pub struct Statement {
    pub prepared: Prepared,
    /// The columns as they are sent; none if it gives no rows.
    pub columns: Option<SchemaRef>,
    /// The rows of values that are bound to the statement.
    bound: Mutex<Arc<Values>>,
    /// Rows that a statement which changes something returned when it ran, until they are fetched.
    answer: Mutex<Option<Vec<RecordBatch>>>,
    /// Whether its handle is a ticket, which is used once.
    is_once: bool,
    /// Cancels the runs of the statement.
    pub ended: CancellationToken,
}

impl Statement {
    pub fn new(prepared: Prepared, columns: Option<SchemaRef>, is_once: bool) -> Self {
        Self {
            prepared,
            columns,
            bound: Mutex::default(),
            answer: Mutex::default(),
            is_once,
            ended: CancellationToken::new(),
        }
    }

    /// Whether it runs when its columns are asked for: clients fetch no rows of a statement that has none, and few of one that
    /// changes something. A query runs when its rows are fetched.
    pub fn runs_at_once(&self) -> bool {
        self.columns.is_none() || self.prepared.changes() || self.prepared.writes_rows()
    }

    /// Keeps the rows that the statement returned until they are fetched.
    pub fn keep_answer(&self, batches: Vec<RecordBatch>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(batches);
    }

    /// The rows that the statement returned when it ran; none if they were fetched.
    pub fn take_answer(&self) -> Option<Vec<RecordBatch>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The statement with its values, but with no run that could be cancelled.
    fn again(&self) -> Self {
        let again = Self::new(self.prepared.clone(), self.columns.clone(), self.is_once);
        *again.lock_bound() = Arc::clone(&self.lock_bound());
        again
    }

    /// The rows of values: one without any where the statement has no parameters.
    ///
    /// # Errors
    /// It has parameters, and no values were bound.
    pub fn values(&self) -> Result<Arc<Values>, QueryError> {
        let needed = self.prepared.parameter_types().len();
        let bound = Arc::clone(&self.lock_bound());
        match (needed, bound.rows.is_empty()) {
            (0, _) => Ok(Arc::new(Values::one_row_of_none())),
            (_, false) => Ok(bound),
            (_, true) => {
                let message = format!("the statement has {needed} parameters, but none were given");
                Err(QueryError::new(ErrorKind::InvalidParameter, message).hint("bind a row of values first"))
            }
        }
    }

    fn lock_bound(&self) -> MutexGuard<'_, Arc<Values>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statements of a session.
#[derive(Debug, Default)]
pub struct Statements(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// The number of the last handle.
    last: u64,
    /// The statements, in the order of their handles.
    statements: BTreeMap<u64, Arc<Statement>>,
    /// The statements of used tickets, until their answers are dropped.
    fetched: BTreeMap<u64, Weak<Statement>>,
    /// Bytes of the values that are bound.
    bound_bytes: u64,
}

impl Open {
    fn remove(&mut self, handle: u64) -> Option<Arc<Statement>> {
        let removed = self.statements.remove(&handle)?;
        self.bound_bytes = self.bound_bytes.saturating_sub(removed.lock_bound().bytes);
        Some(removed)
    }
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
            open.remove(oldest);
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

    /// Binds rows of values to a statement, in the place of those before.
    ///
    /// # Errors
    /// There is no such statement, or the session has bound too much.
    pub fn bind(&self, handle: &[u8], values: Values) -> Result<(), QueryError> {
        let mut open = self.lock();
        let number = number(handle).ok_or_else(unknown)?;
        let statement = Arc::clone(open.statements.get(&number).ok_or_else(unknown)?);
        let mut bound = statement.lock_bound();
        let bytes = open.bound_bytes.saturating_sub(bound.bytes).saturating_add(values.bytes);
        if bytes > MAX_BOUND_BYTES {
            let message = format!("the session has bound more than {} MiB of values", MAX_BOUND_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message).hint("close prepared statements"));
        }
        open.bound_bytes = bytes;
        *bound = Arc::new(values);
        Ok(())
    }

    /// The statement of a ticket, which is good for once.
    ///
    /// # Errors
    /// There is none.
    pub fn take(&self, ticket: &[u8]) -> Result<Arc<Statement>, QueryError> {
        let mut open = self.lock();
        let number = number(ticket).ok_or_else(unknown)?;
        let taken = open.remove(number).ok_or_else(unknown)?;
        open.fetched.retain(|_, fetched| fetched.strong_count() > 0);
        open.fetched.insert(number, Arc::downgrade(&taken));
        Ok(taken)
    }

    /// Forgets a statement, if there is one, and cancels its runs.
    pub fn close(&self, handle: &[u8]) {
        let closed = number(handle).and_then(|number| self.lock().remove(number));
        closed.inspect(|statement| statement.ended.cancel());
    }

    /// Cancels the runs of a statement, which stays prepared; false if nothing runs.
    pub fn cancel(&self, handle: &[u8]) -> bool {
        let Some(number) = number(handle) else { return false };
        let mut open = self.lock();
        if let Some(fetched) = open.fetched.get(&number).and_then(Weak::upgrade) {
            fetched.ended.cancel();
            return true;
        }
        match open.statements.get_mut(&number) {
            // Calls and answers hold it, besides this list.
            Some(statement) if Arc::strong_count(statement) > 1 => {
                let again = Arc::new(statement.again());
                std::mem::replace(statement, again).ended.cancel();
                true
            }
            _ => false,
        }
    }

    /// Cancels the runs of all statements, and forgets the statements.
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
            statements.close(handle);
            assert!(!statements.cancel(handle));
        }
    }
}
