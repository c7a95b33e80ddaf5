//! Functions that act on sessions: each call has the token of its own session as its first argument, which the
//! translation adds. Process ids are no secret: with them alone, a client could act for another session.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use nyala_engine::{ErrorKind, QueryError};

use super::backend::{Action, Backend};
use super::locks::{Key, Mode};
use super::registry::BACKENDS;

/// Longest sleep: a year.
const MAX_SLEEP_S: f64 = 31_536_000.0;

/// Names of the functions, with the numbers of arguments that a statement may give them.
pub const WITH_SESSION: &[(&str, &[usize])] = &[
    ("pg_advisory_lock", &[1, 2]),
    ("pg_advisory_lock_shared", &[1, 2]),
    ("pg_advisory_unlock", &[1, 2]),
    ("pg_advisory_unlock_all", &[0]),
    ("pg_advisory_unlock_shared", &[1, 2]),
    ("pg_advisory_xact_lock", &[1, 2]),
    ("pg_advisory_xact_lock_shared", &[1, 2]),
    ("pg_cancel_backend", &[1]),
    ("pg_notify", &[2]),
    ("pg_sleep", &[1]),
    ("pg_terminate_backend", &[1, 2]),
    ("pg_try_advisory_lock", &[1, 2]),
    ("pg_try_advisory_lock_shared", &[1, 2]),
    ("pg_try_advisory_xact_lock", &[1, 2]),
    ("pg_try_advisory_xact_lock_shared", &[1, 2]),
    ("set_config", &[3]),
];

/// Adds the functions to a context.
pub fn register(context: &SessionContext) {
    for (name, counts) in WITH_SESSION {
        let signatures = counts.iter().map(|count| TypeSignature::Any(count + 1)).collect();
        let signature = Signature::one_of(signatures, Volatility::Volatile);
        context.register_udf(ScalarUDF::new_from_impl(SessionFunction { name, signature }));
    }
}

/// A function on sessions. Two are equal if their names are.
struct SessionFunction {
    name: &'static str,
    signature: Signature,
}

impl fmt::Debug for SessionFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for SessionFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SessionFunction {}

impl Hash for SessionFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl SessionFunction {
    fn gives_truth(&self) -> bool {
        let name = self.name;
        name.starts_with("pg_try")
            || matches!(
                name,
                "pg_advisory_unlock"
                    | "pg_advisory_unlock_shared"
                    | "pg_cancel_backend"
                    | "pg_terminate_backend"
            )
    }
}

impl ScalarUDFImpl for SessionFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// A result of type void is sent as an empty text.
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.gives_truth() { DataType::Boolean } else { DataType::Utf8 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Result<Vec<ArrayRef>> =
            args.args.iter().map(|value| value.to_array(args.number_rows)).collect();
        let arrays = arrays?;
        let mut answers = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            answers.push(answer(self.name, &Call { arrays: &arrays, row })?);
        }
        let array: ArrayRef = match self.gives_truth() {
            true => Arc::new(answers.iter().map(Answer::truth).collect::<BooleanArray>()),
            false => Arc::new(answers.iter().map(Answer::text).collect::<StringArray>()),
        };
        Ok(ColumnarValue::Array(array))
    }
}

/// The answer of one call.
enum Answer {
    Null,
    Truth(bool),
    Text(String),
}

impl Answer {
    const VOID: Self = Self::Text(String::new());

    fn truth(&self) -> Option<bool> {
        if let Self::Truth(truth) = self { Some(*truth) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The arguments of one call.
struct Call<'a> {
    arrays: &'a [ArrayRef],
    row: usize,
}

impl Call<'_> {
    fn text(&self, at: usize) -> Result<Option<String>> {
        let Some(array) = self.arrays.get(at) else { return Ok(None) };
        let texts = cast(array, &DataType::Utf8)?;
        Ok(texts.is_valid(self.row).then(|| texts.as_string::<i32>().value(self.row).to_owned()))
    }

    fn number(&self, at: usize) -> Result<Option<i64>> {
        let Some(array) = self.arrays.get(at) else { return Ok(None) };
        let numbers = cast(array, &DataType::Int64)?;
        Ok(numbers.is_valid(self.row).then(|| numbers.as_primitive::<Int64Type>().value(self.row)))
    }

    fn seconds(&self, at: usize) -> Result<Option<f64>> {
        let Some(array) = self.arrays.get(at) else { return Ok(None) };
        let numbers = cast(array, &DataType::Float64)?;
        Ok(numbers.is_valid(self.row).then(|| numbers.as_primitive::<Float64Type>().value(self.row)))
    }

    fn truth(&self, at: usize) -> Result<bool> {
        let Some(array) = self.arrays.get(at) else { return Ok(false) };
        let values = cast(array, &DataType::Boolean)?;
        Ok(values.is_valid(self.row) && values.as_boolean().value(self.row))
    }

    /// The session that runs the statement.
    fn session(&self) -> Result<Arc<Backend>> {
        let token = self.text(0)?.unwrap_or_default();
        let number = token.split_once(':').and_then(|(number, _)| number.parse().ok());
        number.and_then(|number| BACKENDS.get(number)).filter(|session| session.token == token).ok_or_else(
            || {
                let message =
                    "functions of sessions act for the session that calls them, over PostgreSQL's protocol";
                let error = QueryError::new(ErrorKind::PermissionDenied, message);
                failed(error.hint("call them without a first argument of your own"))
            },
        )
    }

    /// The key of the advisory lock; none if an argument is NULL.
    fn key(&self) -> Result<Option<Key>> {
        let Some(first) = self.number(1)? else { return Ok(None) };
        if self.arrays.len() == 2 {
            return Ok(Some(Key::One(first)));
        }
        let Some(second) = self.number(2)? else { return Ok(None) };
        let part = |number: i64| {
            let message = "integer out of range";
            i32::try_from(number).map_err(|_| failed(QueryError::new(ErrorKind::OutOfRange, message)))
        };
        Ok(Some(Key::Two(part(first)?, part(second)?)))
    }
}

fn failed(error: QueryError) -> DataFusionError {
    error.into()
}

fn answer(name: &str, call: &Call<'_>) -> Result<Answer> {
    match name {
        "pg_cancel_backend" => signal(call, Backend::cancel),
        "pg_terminate_backend" => signal(call, Backend::terminate),
        "pg_advisory_unlock_all" => {
            BACKENDS.unlock_all(call.session()?.process_id, Some(false));
            Ok(Answer::VOID)
        }
        "pg_notify" => {
            let channel = call.text(1)?.filter(|channel| !channel.is_empty());
            let channel = channel.ok_or_else(|| {
                failed(QueryError::new(ErrorKind::InvalidParameter, "channel name cannot be empty"))
            })?;
            let payload = call.text(2)?.unwrap_or_default();
            ask(call, Action::Notify { channel, payload })
        }
        "pg_sleep" => match call.seconds(1)? {
            Some(seconds) => {
                let time = Duration::try_from_secs_f64(seconds.clamp(0.0, MAX_SLEEP_S)).unwrap_or_default();
                ask(call, Action::Sleep(time))
            }
            None => Ok(Answer::Null),
        },
        "set_config" => {
            let Some(name) = call.text(1)? else {
                let message = "SET requires parameter name";
                return Err(failed(QueryError::new(ErrorKind::InvalidParameter, message)));
            };
            let (value, local) = (call.text(2)?, call.truth(3)?);
            ask(call, Action::Set { name, value: value.clone(), local })?;
            Ok(Answer::Text(value.unwrap_or_default()))
        }
        lock => on_lock(lock, call),
    }
}

/// Asks the session of the statement to do something once it is done.
fn ask(call: &Call<'_>, action: Action) -> Result<Answer> {
    call.session()?.ask(action);
    Ok(Answer::VOID)
}

/// The owner of the data and superusers may end any session, and a role the sessions of that role.
fn signal(call: &Call<'_>, send: impl Fn(&Backend)) -> Result<Answer> {
    let own = call.session()?;
    let Some(process_id) = call.number(1)? else { return Ok(Answer::Null) };
    let target = i32::try_from(process_id).ok().and_then(|id| BACKENDS.get(id));
    let Some(target) = target else { return Ok(Answer::Truth(false)) };
    if own.role != target.role && !own.is_superuser() {
        let message = format!("must be the role of process {process_id}, or a superuser, to signal it");
        return Err(failed(QueryError::new(ErrorKind::PermissionDenied, message)));
    }
    send(&target);
    Ok(Answer::Truth(true))
}

fn on_lock(name: &str, call: &Call<'_>) -> Result<Answer> {
    let session = call.session()?;
    let Some(key) = call.key()? else { return Ok(Answer::Null) };
    let process_id = session.process_id;
    let mode = Mode { shared: name.ends_with("_shared"), of_transaction: name.contains("_xact_") };
    if name.starts_with("pg_advisory_unlock") {
        return Ok(Answer::Truth(BACKENDS.unlock(key, process_id, mode.shared)));
    }
    let taken = BACKENDS.try_lock(key, process_id, mode);
    if mode.of_transaction {
        session.note_transaction_lock();
    }
    if name.starts_with("pg_try_") {
        return Ok(Answer::Truth(taken));
    }
    if !taken {
        let message = "another session holds this advisory lock, and nothing waits for one here";
        let error = QueryError::new(ErrorKind::InUse, message);
        return Err(failed(error.hint("ask `pg_try_advisory_lock` again until it is true")));
    }
    Ok(Answer::VOID)
}
