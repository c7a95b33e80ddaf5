//! The definition of a table: names, columns, key, options, and every schema it had.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::codec::{In, Out, Part, check_key_type, plain_field, read_type, write_type};
use super::error::{OplogError, Result};

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the write is on disk; writes that come together share one fsync.
    #[default]
    Group,
    /// When the write is handed to the operating system, which is told to write it out at short intervals: a power cut loses
    /// the writes since the last interval.
    Interval,
    /// When the write is handed to the operating system, which writes it out when it likes.
    Os,
}

const DURABILITIES: &[Durability] = &[Durability::Group, Durability::Interval, Durability::Os];

/// A table to be made.
#[derive(Debug, Clone)]
pub struct TableSpec {
    /// Name of the table, unique in its store.
    pub name: String,
    /// Columns. Metadata of schema and fields are not kept, and a column that is given as a dictionary, as runs or
    /// as a view of lists becomes one of the plain type; the table's schema says so.
    pub schema: SchemaRef,
    /// Names of the columns of the primary key, in order; at least one. They may not be null.
    pub key: Vec<String>,
    /// Hash partitions, 1 to 4,096.
    pub buckets: u32,
    /// When writes are acknowledged.
    pub durability: Durability,
    /// Rows that were last written this long ago are dead, in milliseconds; none keeps them.
    pub ttl_ms: Option<u64>,
}

impl TableSpec {
    /// A table with one bucket, no expiry, and writes that are acknowledged when they are on disk.
    pub fn new(name: &str, schema: SchemaRef, key: &[&str]) -> Self {
        let key = key.iter().map(|name| (*name).to_owned()).collect();
        Self { name: name.to_owned(), schema, key, buckets: 1, durability: Durability::Group, ttl_ms: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub id: u32,
    pub field: Arc<Field>,
}

/// The columns of a table between two changes of them.
#[derive(Debug, Clone, PartialEq)]
pub struct SchemaVersion {
    pub number: u32,
    pub columns: Vec<Column>,
    pub schema: SchemaRef,
    /// Positions of the key columns.
    pub key: Vec<usize>,
    pub key_schema: SchemaRef,
}

impl SchemaVersion {
    fn new(number: u32, columns: Vec<Column>, key_ids: &[u32]) -> Option<Self> {
        let fields: Vec<Arc<Field>> = columns.iter().map(|column| column.field.clone()).collect();
        let position = |id: &u32| columns.iter().position(|column| column.id == *id);
        let key: Vec<usize> = key_ids.iter().map(position).collect::<Option<_>>()?;
        let schema = Arc::new(Schema::new(fields));
        let key_schema = Arc::new(schema.project(&key).ok()?);
        Some(Self { number, columns, schema, key, key_schema })
    }

    pub fn types(&self) -> Vec<&DataType> {
        self.columns.iter().map(|column| column.field.data_type()).collect()
    }

    pub fn key_types(&self) -> Vec<&DataType> {
        self.key_schema.fields().iter().map(|field| field.data_type()).collect()
    }

    /// Position of the column with this id.
    pub fn position(&self, id: u32) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }

    pub fn write(&self, out: &mut Out) -> Result<()> {
        out.var(self.columns.len() as u64);
        for column in &self.columns {
            out.var(column.id.into());
            out.text(column.field.name());
            out.u8(u8::from(column.field.is_nullable()));
            write_type(out, column.field.data_type())?;
        }
        Ok(())
    }

    pub fn read(input: &mut In<'_>, number: u32, key_ids: &[u32]) -> Option<Self> {
        let mut columns = Vec::new();
        for _ in 0..input.count()? {
            let id = input.small()?;
            let name = input.text()?;
            let nullable = input.u8()? == 1;
            let data_type = read_type(input)?;
            Part::of(&data_type)?;
            columns.push(Column { id, field: Arc::new(Field::new(name, data_type, nullable)) });
        }
        Self::new(number, columns, key_ids)
    }
}

/// A table. Immutable: a change makes another.
#[derive(Debug, Clone, PartialEq)]
pub struct TableMeta {
    pub id: u32,
    pub name: String,
    pub buckets: u32,
    pub durability: Durability,
    pub ttl_ms: Option<u64>,
    pub key: Vec<u32>,
    /// LSN of the last truncation; 0 for none.
    pub truncated: u64,
    pub next_column: u32,
    pub versions: Vec<Arc<SchemaVersion>>,
}

impl TableMeta {
    /// Checks a table that is to be made.
    pub fn new(id: u32, spec: &TableSpec) -> Result<Self> {
        if spec.name.is_empty() || !(1..=4096).contains(&spec.buckets) {
            return Err(OplogError::invalid("a table needs a name and 1 to 4,096 buckets"));
        }
        if spec.key.is_empty() {
            return Err(OplogError::invalid(format!("table `{}` needs a primary key", spec.name)));
        }
        let mut key = Vec::new();
        for name in &spec.key {
            let (position, field) = spec.schema.column_with_name(name).ok_or_else(|| {
                OplogError::invalid(format!("key column `{name}` is not a column of table `{}`", spec.name))
            })?;
            check_key_type(name, plain(field).data_type())?;
            if key.contains(&(position as u32)) {
                return Err(OplogError::invalid(format!("column `{name}` is twice in the key")));
            }
            key.push(position as u32);
        }
        let mut meta = Self {
            id,
            name: spec.name.clone(),
            buckets: spec.buckets,
            durability: spec.durability,
            ttl_ms: spec.ttl_ms,
            key,
            truncated: 0,
            next_column: spec.schema.fields().len() as u32,
            versions: Vec::new(),
        };
        let ids = 0..meta.next_column;
        let columns = ids.zip(spec.schema.fields()).map(|(id, field)| Column { id, field: plain(field) });
        meta.versions.push(Arc::new(meta.version(columns.collect())?));
        Ok(meta)
    }

    /// A further schema version for this table, checked.
    fn version(&self, mut columns: Vec<Column>) -> Result<SchemaVersion> {
        for column in columns.iter_mut().filter(|column| self.key.contains(&column.id)) {
            column.field = Arc::new(column.field.as_ref().clone().with_nullable(false));
        }
        for (at, column) in columns.iter().enumerate() {
            write_type(&mut Out::default(), column.field.data_type())?;
            if !column.field.is_nullable() && *column.field.data_type() == DataType::Null {
                let name = column.field.name();
                return Err(OplogError::invalid(format!(
                    "column `{name}` has nothing but nulls and must allow them"
                )));
            }
            if columns.iter().take(at).any(|other| other.field.name() == column.field.name()) {
                return Err(OplogError::invalid(format!("column `{}` is there twice", column.field.name())));
            }
        }
        SchemaVersion::new(self.versions.len() as u32, columns, &self.key)
            .ok_or_else(|| OplogError::invalid("the columns of the primary key cannot be dropped"))
    }

    pub fn current(&self) -> Result<&Arc<SchemaVersion>> {
        self.versions
            .last()
            .ok_or_else(|| OplogError::invalid(format!("table `{}` has no columns", self.name)))
    }

    /// The schema version after `change`.
    pub fn altered(&self, change: &Alteration) -> Result<SchemaVersion> {
        let mut columns = self.current()?.columns.clone();
        let find = |name: &str| {
            let at = columns.iter().position(|column| column.field.name() == name);
            at.ok_or_else(|| OplogError::invalid(format!("table `{}` has no column `{name}`", self.name)))
        };
        match change {
            Alteration::AddColumn(field) if !field.is_nullable() => {
                let name = field.name();
                return Err(OplogError::invalid(format!("column `{name}` is new and must allow nulls")));
            }
            Alteration::AddColumn(field) => {
                columns.push(Column { id: self.next_column, field: plain(field) })
            }
            Alteration::DropColumn(name) => drop(columns.remove(find(name)?)),
            Alteration::RenameColumn { from, to } => {
                let at = find(from)?;
                if let Some(column) = columns.get_mut(at) {
                    column.field = Arc::new(column.field.as_ref().clone().with_name(to));
                }
            }
        }
        self.version(columns)
    }

    /// This table with a further schema version.
    pub fn with_version(&self, version: SchemaVersion) -> Self {
        let mut meta = self.clone();
        let used = version.columns.iter().map(|column| column.id + 1);
        meta.next_column = used.fold(meta.next_column, u32::max);
        meta.versions.push(Arc::new(version));
        meta
    }

    pub fn write(&self, out: &mut Out) -> Result<()> {
        out.var(self.id.into());
        out.text(&self.name);
        out.var(self.buckets.into());
        out.u8(DURABILITIES.iter().position(|known| *known == self.durability).unwrap_or_default() as u8);
        out.var(self.ttl_ms.unwrap_or_default());
        out.var(self.key.len() as u64);
        self.key.iter().for_each(|id| out.var((*id).into()));
        out.var(self.truncated);
        out.var(self.next_column.into());
        out.var(self.versions.len() as u64);
        self.versions.iter().try_for_each(|version| version.write(out))
    }

    pub fn read(input: &mut In<'_>) -> Option<Self> {
        let (id, name, buckets) = (input.small()?, input.text()?, input.small()?);
        let durability = *DURABILITIES.get(usize::from(input.u8()?))?;
        let ttl_ms = Some(input.var()?).filter(|ttl| *ttl > 0);
        let key: Vec<u32> = (0..input.count()?).map(|_| input.small()).collect::<Option<_>>()?;
        let (truncated, next_column) = (input.var()?, input.small()?);
        let mut versions = Vec::new();
        for number in 0..input.count()? {
            versions.push(Arc::new(SchemaVersion::read(input, number as u32, &key)?));
        }
        Some(Self { id, name, buckets, durability, ttl_ms, key, truncated, next_column, versions })
    }
}

/// A change of a table's columns.
#[derive(Debug, Clone)]
pub enum Alteration {
    /// Adds a column at the end, which is null in the rows that are there.
    AddColumn(Field),
    /// Drops a column by its name. Columns of the key cannot be dropped.
    DropColumn(String),
    /// Renames a column, which keeps its values.
    RenameColumn {
        /// The present name.
        from: String,
        /// The new name.
        to: String,
    },
}

fn plain(field: &Field) -> Arc<Field> {
    plain_field(&Arc::new(field.clone()))
}
