//! Statements and completions as messages.

use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::ScalarValue;
use nyala_engine::{Completion, Follow, Forwarded, Forwarding, Identity, SessionOptions};
use nyala_model::{NodeId, QualifiedName, SnapshotVersion};
use prost::Message;

/// A statement.
#[derive(Clone, PartialEq, Message)]
pub struct StatementMessage {
    #[prost(string, tag = "1")]
    sql: String,
    /// A row of Arrow's stream format; empty without parameters.
    #[prost(bytes = "vec", tag = "2")]
    parameters: Vec<u8>,
    #[prost(message, repeated, tag = "3")]
    settings: Vec<SettingMessage>,
    #[prost(message, optional, tag = "4")]
    client: Option<ClientMessage>,
    #[prost(uint64, optional, tag = "5")]
    timeout_ms: Option<u64>,
    #[prost(uint64, tag = "6")]
    version: u64,
    /// The node that sends it.
    #[prost(string, optional, tag = "7")]
    sent_by: Option<String>,
    /// The table whose changes are asked for, instead of the answer to `sql`.
    #[prost(message, optional, tag = "8")]
    follow: Option<FollowMessage>,
    /// The number of the statement on the node that sends it.
    #[prost(uint64, optional, tag = "9")]
    sent_as: Option<u64>,
}

/// The client whose statement it is.
#[derive(Clone, PartialEq, Message)]
pub struct ClientMessage {
    #[prost(string, tag = "1")]
    user: String,
    #[prost(string, tag = "2")]
    application: String,
    #[prost(string, tag = "3")]
    address: String,
    /// The role; none for the owner of the database.
    #[prost(string, optional, tag = "4")]
    role: Option<String>,
}

impl From<SessionOptions> for ClientMessage {
    fn from(options: SessionOptions) -> Self {
        let SessionOptions { user, application, client: address, identity, .. } = options;
        let role = match identity {
            Identity::Owner => None,
            Identity::Role(role) => Some(role),
        };
        Self { user, application, address, role }
    }
}

impl From<ClientMessage> for SessionOptions {
    fn from(message: ClientMessage) -> Self {
        let ClientMessage { user, application, address: client, role } = message;
        let identity = role.map_or(Identity::Owner, Identity::Role);
        Self { user, application, client, identity, ..Self::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
struct FollowMessage {
    #[prost(string, tag = "1")]
    schema: String,
    #[prost(string, tag = "2")]
    table: String,
    #[prost(uint64, optional, tag = "3")]
    after: Option<u64>,
}

impl From<Follow> for FollowMessage {
    fn from(follow: Follow) -> Self {
        Self { schema: follow.table.schema, table: follow.table.name, after: follow.after }
    }
}

impl From<FollowMessage> for Follow {
    fn from(message: FollowMessage) -> Self {
        Self { table: QualifiedName::new(message.schema, message.table), after: message.after }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct SettingMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

impl From<(String, String)> for SettingMessage {
    fn from((name, value): (String, String)) -> Self {
        Self { name, value }
    }
}

impl From<SettingMessage> for (String, String) {
    fn from(setting: SettingMessage) -> Self {
        (setting.name, setting.value)
    }
}

/// The end of a statement that gives no rows.
#[derive(Clone, PartialEq, Message)]
pub struct DoneMessage {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(uint64, optional, tag = "2")]
    rows: Option<u64>,
    #[prost(string, optional, tag = "3")]
    notice: Option<String>,
    /// The catalog's version after the statement.
    #[prost(uint64, tag = "4")]
    version: u64,
}

impl DoneMessage {
    pub fn new(done: Completion, version: SnapshotVersion) -> Self {
        Self { tag: done.tag, rows: done.rows, notice: done.notice, version: version.0 }
    }
}

impl From<DoneMessage> for Forwarding {
    fn from(done: DoneMessage) -> Self {
        let completion = Completion { tag: done.tag, rows: done.rows, notice: done.notice };
        Self::Done(completion, SnapshotVersion(done.version))
    }
}

impl StatementMessage {
    /// # Errors
    /// A parameter cannot be written.
    pub fn new(statement: Forwarded) -> Result<Self, String> {
        let (sent_by, sent_as) = (statement.options.sent_by.clone(), statement.options.sent_as);
        Ok(Self {
            sql: statement.sql,
            parameters: to_row(&statement.parameters)?,
            settings: statement.settings.into_iter().map(SettingMessage::from).collect(),
            client: Some(statement.options.into()),
            timeout_ms: statement.timeout.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            version: statement.version.0,
            sent_by: sent_by.map(|node| node.0),
            follow: statement.follow.map(Into::into),
            sent_as,
        })
    }

    /// # Errors
    /// The parameters cannot be read.
    pub fn into_statement(self) -> Result<Forwarded, String> {
        let client = self.client.ok_or("a statement is of no client")?;
        let (sent_by, sent_as) = (self.sent_by.map(NodeId), self.sent_as);
        let options = SessionOptions { sent_by, sent_as, ..client.into() };
        Ok(Forwarded {
            sql: self.sql,
            parameters: from_row(&self.parameters)?,
            settings: self.settings.into_iter().map(Into::into).collect(),
            options,
            timeout: self.timeout_ms.map(Duration::from_millis),
            version: SnapshotVersion(self.version),
            changes: false,
            follow: self.follow.map(Into::into),
        })
    }
}

fn to_row(values: &[ScalarValue]) -> Result<Vec<u8>, String> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let columns: Result<Vec<ArrayRef>, _> = values.iter().map(ScalarValue::to_array).collect();
    let columns = columns.map_err(|error| error.to_string())?;
    let field = |(at, column): (usize, &ArrayRef)| {
        Field::new(format!("${}", at + 1), column.data_type().clone(), true)
    };
    let fields: Vec<Field> = columns.iter().enumerate().map(field).collect();
    let write = || {
        let row = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
        let mut writer = StreamWriter::try_new(Vec::new(), row.schema_ref())?;
        writer.write(&row)?;
        writer.into_inner()
    };
    write().map_err(|error: arrow::error::ArrowError| error.to_string())
}

fn from_row(bytes: &[u8]) -> Result<Vec<ScalarValue>, String> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| error.to_string())?;
    let row = rows.next().ok_or("there is no row of parameters")?.map_err(|error| error.to_string())?;
    let value = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(|error| error.to_string());
    row.columns().iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_statement_arrives_as_it_was() {
        let check = |parameters: Vec<ScalarValue>, identity: Identity, timeout: Option<Duration>| {
            let statement = Forwarded {
                sql: "SELECT $1".to_owned(),
                parameters,
                settings: vec![("search_path".to_owned(), "mart".to_owned())],
                options: SessionOptions {
                    user: "ann".to_owned(),
                    identity,
                    sent_by: timeout.map(|_| NodeId("there".to_owned())),
                    sent_as: timeout.map(|_| 4711),
                    ..SessionOptions::default()
                },
                timeout,
                version: SnapshotVersion(7),
                changes: false,
                follow: timeout.map(|_| Follow { table: QualifiedName::new("mart", "t"), after: Some(3) }),
            };
            let bytes = StatementMessage::new(statement.clone()).unwrap().encode_to_vec();
            let arrived = StatementMessage::decode(bytes.as_slice()).unwrap().into_statement().unwrap();
            assert_eq!(format!("{arrived:?}"), format!("{statement:?}"));
        };
        check(Vec::new(), Identity::Owner, None);
        let values = vec![
            ScalarValue::Int64(Some(-1)),
            ScalarValue::Utf8(None),
            ScalarValue::Null,
            ScalarValue::Decimal128(Some(12), 10, 2),
            ScalarValue::from("text"),
            ScalarValue::TimestampMicrosecond(Some(5), Some("UTC".into())),
        ];
        check(values, Identity::Role("ann".to_owned()), Some(Duration::from_millis(1500)));
    }
}
