//! Mutants of bodies of every format, which decoders get in pieces, as from a load.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nyala_engine::QueryError;
use nyala_fuzz::{Target as Fuzz, corpus};

use super::arrow::ArrowStream;
use super::dialect::Dialect;
use super::load::{Decode, RowFormat, Target};
use super::parquet_file::ParquetFile;
use super::rejects::Rejects;
use crate::MEMORY;

/// Bodies come in pieces of this size, which is odd so that pieces end anywhere.
const PIECE_BYTES: usize = 997;
/// Batches of the corpus have a few kilobytes.
const LIMIT_BYTES: usize = 16 << 20;
/// Counting stops here: few bytes can stand for any number of rows.
const MAX_ROWS: usize = 1 << 20;

fn table() -> SchemaRef {
    let column = |name: &str, data_type| Field::new(name, data_type, true);
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    Arc::new(Schema::new(vec![
        column("id", DataType::Int64),
        column("name", DataType::Utf8),
        column("born", DataType::Date32),
        column("score", DataType::Float64),
        column("small", DataType::Int16),
        column("natural", DataType::UInt64),
        column("amount", DataType::Decimal128(20, 2)),
        column("large", DataType::Decimal256(60, 4)),
        column("flag", DataType::Boolean),
        column("nothing", DataType::Int32),
        column("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        column("there", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        column("clock", DataType::Time64(TimeUnit::Microsecond)),
        column("more", DataType::Utf8View),
        column("data", DataType::Binary),
        column("long_data", DataType::BinaryView),
        column("three", DataType::Binary),
        column("list", DataType::List(item)),
        column("pair", DataType::Utf8),
        column("both", DataType::Utf8),
        column("map", DataType::Utf8),
        column("span", DataType::Utf8),
        column("length", DataType::Utf8),
    ]))
}

fn load(decoder: &mut dyn Decode, body: &[u8]) -> Result<usize, QueryError> {
    let (mut target, mut rejects) = (Target::made_up(table()), Rejects::at_most(10, false));
    let mut rows = 0;
    for piece in body.chunks(PIECE_BYTES) {
        let batches = decoder.decode(piece, &mut target, &mut rejects)?;
        rows += batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
    }
    loop {
        let batches = decoder.finish(&mut target, &mut rejects)?;
        rows += batches.iter().map(|batch| batch.num_rows()).sum::<usize>();
        if batches.is_empty() || rows > MAX_ROWS {
            return Ok(rows);
        }
    }
}

fn check(name: &'static str, bodies: &[Vec<u8>], decoder: impl Fn() -> Box<dyn Decode>) {
    let fuzz = Fuzz { name, memory: &MEMORY };
    fuzz.run(bodies, |body| {
        let _ = load(decoder().as_mut(), body);
    });
}

#[test]
fn arrow_streams() {
    check("arrow", &corpus::arrow_streams(), || Box::new(ArrowStream::of_batches(LIMIT_BYTES)));
}

#[test]
fn parquet_files() {
    check("parquet", &corpus::parquet_files(), || Box::new(ParquetFile::new(LIMIT_BYTES)));
}

#[test]
fn lines_of_json() {
    check("ndjson", &corpus::ndjson(), || RowFormat::NdJson.decoder());
}

#[test]
fn csv() {
    check("csv", &corpus::csv(), || RowFormat::Text(Dialect::csv()).decoder());
}

#[test]
fn text_of_copy() {
    let bodies = ["1\tAda\t1990-02-03\t1.5\n2\t\\N\t\\N\t-1e3\n", "3\ta\\tb\\\\\\x41\\101\t\\N\t0\n\\.\n"];
    let bodies: Vec<Vec<u8>> = bodies.iter().map(|body| body.as_bytes().to_vec()).collect();
    check("copy_text", &bodies, || RowFormat::Text(Dialect::text()).decoder());
}

/// The corpus must have bodies that load: a decoder that refuses a body at once tests nothing.
#[test]
fn bodies_of_the_corpus_are_read() {
    let read = |bodies: Vec<Vec<u8>>, decoder: &dyn Fn() -> Box<dyn Decode>| {
        let loaded = bodies.iter().filter(|body| load(decoder().as_mut(), body).is_ok()).count();
        (loaded, bodies.len())
    };
    for (format, (loaded, all)) in [
        ("arrow", read(corpus::arrow_streams(), &|| Box::new(ArrowStream::default()))),
        ("parquet", read(corpus::parquet_files(), &|| Box::new(ParquetFile::new(LIMIT_BYTES)))),
        ("csv", read(corpus::csv(), &|| RowFormat::Text(Dialect::csv()).decoder())),
        ("ndjson", read(corpus::ndjson(), &|| RowFormat::NdJson.decoder())),
    ] {
        assert!(2 * loaded >= all, "{loaded} of {all} bodies of {format}");
    }
}
