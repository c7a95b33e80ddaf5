//! Rows in the binary format of COPY.
//!
//! Source: PostgreSQL documentation, COPY, "Binary Format". Values have the types that the client was told for the
//! columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema, SchemaRef};
use bytes::Buf;
use datafusion::common::ScalarValue;
use nyala_engine::{ErrorKind, QueryError};
use pgwire::api::Type;

use super::columns::Column;
use super::parameters::{from_binary, null};
use crate::rows::{Decode, Rejects, Target};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags from this bit on change the format of the rows.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
/// Rows of one batch at most.
const BATCH_ROWS: usize = 16_384;
/// A larger row is refused.
const MAX_ROW_BYTES: usize = 256 << 20;

/// Decodes rows as they come.
#[derive(Default)]
pub struct BinaryRows {
    rest: Vec<u8>,
    begun: bool,
    ended: bool,
    rows: u64,
}

impl Decode for BinaryRows {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        self.rest.extend_from_slice(bytes);
        let mut bytes = std::mem::take(&mut self.rest);
        let (mut input, mut batches) = (bytes.as_slice(), Vec::new());
        if !self.begun {
            self.begun = header(&mut input)?;
        }
        if self.begun {
            let mut gathered = Gathered::new(&target.columns(&[])?);
            while !self.ended && self.row(&mut input, &mut gathered)? {
                if gathered.rows >= BATCH_ROWS {
                    batches.push(gathered.finish()?);
                }
            }
            if gathered.rows > 0 {
                batches.push(gathered.finish()?);
            }
        }
        if self.ended && !input.is_empty() {
            return Err(malformed("there is data behind the end marker"));
        }
        if input.len() > MAX_ROW_BYTES {
            let message = format!("row {}: more than {} MiB", self.rows + 1, MAX_ROW_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message));
        }
        let given = bytes.len() - input.len();
        bytes.drain(..given);
        self.rest = bytes;
        Ok(batches)
    }

    fn finish(
        &mut self,
        _target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        match (self.begun, self.rest.is_empty()) {
            (false, _) => Err(malformed("the signature is missing")),
            (true, false) => Err(malformed(&format!("row {} is cut off", self.rows + 1))),
            (true, true) => Ok(Vec::new()),
        }
    }
}

fn malformed(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Data, format!("rows are not in the binary format of COPY: {what}"))
}

/// Skips the header; false if it is incomplete.
fn header(input: &mut &[u8]) -> Result<bool, QueryError> {
    let known = input.len().min(SIGNATURE.len());
    if input.get(..known) != SIGNATURE.get(..known) {
        return Err(malformed("the signature is not that of PostgreSQL"));
    }
    let mut behind = input.get(known..).unwrap_or_default();
    let (Ok(flags), Ok(extension)) = (behind.try_get_u32(), behind.try_get_u32()) else { return Ok(false) };
    if flags & CRITICAL_FLAGS != 0 {
        return Err(malformed("it has flags that are not known; object ids are not supported"));
    }
    if extension as usize > MAX_ROW_BYTES {
        return Err(malformed("its header is too long"));
    }
    let Some(rows) = behind.get(extension as usize..) else { return Ok(false) };
    *input = rows;
    Ok(true)
}

impl BinaryRows {
    /// Reads a row; false if it is incomplete, or if there are no more.
    fn row(&mut self, input: &mut &[u8], gathered: &mut Gathered) -> Result<bool, QueryError> {
        let mut rest = *input;
        let Ok(count) = rest.try_get_i16() else { return Ok(false) };
        if count == -1 {
            (self.ended, *input) = (true, rest);
            return Ok(false);
        }
        let row = self.rows + 1;
        if usize::try_from(count) != Ok(gathered.columns.len()) {
            let message = format!("row {row}: {count} fields, not {}", gathered.columns.len());
            return Err(QueryError::new(ErrorKind::Data, message));
        }
        let mut fields = Vec::with_capacity(gathered.columns.len());
        for _ in 0..count {
            let Ok(length) = rest.try_get_i32() else { return Ok(false) };
            let field = match usize::try_from(length) {
                Err(_) if length == -1 => None,
                Err(_) => return Err(malformed(&format!("row {row} has a field of {length} bytes"))),
                Ok(length) => match rest.split_at_checked(length) {
                    Some((field, behind)) => {
                        rest = behind;
                        Some(field)
                    }
                    None => return Ok(false),
                },
            };
            fields.push(field);
        }
        gathered.take(row, &fields)?;
        (self.rows, *input) = (row, rest);
        Ok(true)
    }
}

/// Rows that are not columns yet.
struct Gathered {
    columns: Vec<Values>,
    schema: SchemaRef,
    rows: usize,
}

/// Values of one column.
struct Values {
    field: Arc<Field>,
    kind: Type,
    values: Vec<ScalarValue>,
}

impl Gathered {
    fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|field| Values {
            field: Arc::clone(field),
            kind: Column::of(field).pg_type,
            values: Vec::new(),
        });
        let nullable = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(nullable.collect::<Vec<_>>()));
        Self { columns: columns.collect(), schema, rows: 0 }
    }

    fn take(&mut self, row: u64, fields: &[Option<&[u8]>]) -> Result<(), QueryError> {
        for (column, field) in self.columns.iter_mut().zip(fields) {
            let value = match field {
                None => Some(column.null()),
                Some(bytes) => from_binary(&column.kind, bytes).and_then(|value| column.of_type(value)),
            };
            let value = value.ok_or_else(|| {
                let (name, kind) = (column.field.name(), column.kind.name());
                let message = format!("row {row}, column `{name}`: not a binary value of type {kind}");
                QueryError::new(ErrorKind::Data, message)
            })?;
            column.values.push(value);
        }
        self.rows += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<RecordBatch, QueryError> {
        self.rows = 0;
        let columns = self.columns.iter_mut().map(Values::finish).collect::<Result<_, _>>()?;
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl Values {
    /// Whether each value must be cast alone, because values of this wire type do not all have one Arrow type.
    fn is_cast_alone(&self) -> bool {
        self.kind == Type::NUMERIC || self.field.data_type().is_nested()
    }

    fn null(&self) -> ScalarValue {
        match self.is_cast_alone() {
            true => ScalarValue::try_from(self.field.data_type()).unwrap_or(ScalarValue::Null),
            false => null(&self.kind),
        }
    }

    fn of_type(&self, value: ScalarValue) -> Option<ScalarValue> {
        if !self.is_cast_alone() {
            return Some(value);
        }
        let cast = value.cast_to(self.field.data_type()).ok()?;
        // A cast of a value that does not fit gives NULL.
        (cast.is_null() == value.is_null()).then_some(cast)
    }

    fn finish(&mut self) -> Result<ArrayRef, QueryError> {
        let values = ScalarValue::iter_to_array(std::mem::take(&mut self.values))?;
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&values, self.field.data_type(), &options).map_err(|error| {
            QueryError::new(ErrorKind::Data, format!("column `{}`: {error}", self.field.name()))
        })
    }
}
