//! Small valid bodies of each format, made in code: with all types of a decoder, in all variants of the
//! format.
//!
//! Their rows fit a table `(id BIGINT, name TEXT, born DATE, score DOUBLE, …)`. Other columns reach the
//! decoder, too: it decodes them before the table refuses them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray,
    DurationSecondArray, FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeBinaryArray, LargeStringArray,
    ListArray, MapBuilder, NullArray, RecordBatch, RunArray, StringArray, StringBuilder, StringViewArray,
    StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int8Type, Int32Type, IntervalMonthDayNano, i256};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

const ROWS: usize = 20;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn ids() -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..ROWS as i64))
}

fn texts() -> Vec<Option<String>> {
    (0..ROWS).map(|row| (row % 5 != 4).then(|| format!("name {} of a row", row % 7))).collect()
}

/// Rows with the types that most programs send.
pub fn people() -> RecordBatch {
    batch(vec![
        ("id", ids()),
        ("name", Arc::new(StringArray::from(texts()))),
        ("born", Arc::new(Date32Array::from_iter((0..ROWS).map(|row| (row % 3 > 0).then_some(row as i32))))),
        ("score", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| row as f64 / 3.0)))),
    ])
}

fn numbers() -> RecordBatch {
    let decimals = Decimal128Array::from_iter_values((0..ROWS).map(|row| row as i128 * 1_000_000_007));
    let large = Decimal256Array::from_iter_values((0..ROWS).map(|row| i256::from(row as i64)));
    batch(vec![
        ("id", Arc::new(Int16Array::from_iter_values(0..ROWS as i16))),
        ("score", Arc::new(Float32Array::from_iter_values((0..ROWS).map(|row| row as f32)))),
        ("small", Arc::new(Int8Array::from_iter_values((0..ROWS).map(|row| row as i8)))),
        ("natural", Arc::new(UInt64Array::from_iter_values(0..ROWS as u64))),
        ("amount", Arc::new(decimals.with_precision_and_scale(20, 2).unwrap())),
        ("large", Arc::new(large.with_precision_and_scale(60, 4).unwrap())),
        (
            "flag",
            Arc::new(BooleanArray::from_iter((0..ROWS).map(|row| (row % 3 > 0).then_some(row % 2 == 0)))),
        ),
        ("nothing", Arc::new(NullArray::new(ROWS))),
    ])
}

fn times() -> RecordBatch {
    let at = TimestampMicrosecondArray::from_iter_values((0..ROWS).map(|row| row as i64 * 86_400_000_001));
    let months = IntervalMonthDayNano::new(1, 2, 3);
    batch(vec![
        ("id", ids()),
        ("at", Arc::new(at.clone())),
        ("there", Arc::new(at.with_timezone("Europe/Berlin"))),
        ("clock", Arc::new(Time64MicrosecondArray::from_iter_values(0..ROWS as i64))),
        ("span", Arc::new(IntervalMonthDayNanoArray::from_iter_values((0..ROWS).map(|_| months)))),
        ("length", Arc::new(DurationSecondArray::from_iter_values(0..ROWS as i64))),
    ])
}

fn bytes() -> RecordBatch {
    let texts = texts();
    let references: Vec<Option<&[u8]>> =
        texts.iter().map(|text| text.as_deref().map(str::as_bytes)).collect();
    let fixed = (0..ROWS).map(|row| Some([row as u8; 3]));
    batch(vec![
        ("id", ids()),
        ("name", Arc::new(StringViewArray::from_iter(texts.iter().map(Option::as_deref)))),
        ("more", Arc::new(LargeStringArray::from(texts.clone()))),
        ("data", Arc::new(BinaryArray::from(references.clone()))),
        ("long_data", Arc::new(LargeBinaryArray::from(references))),
        ("three", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 3).unwrap())),
    ])
}

fn dictionaries() -> RecordBatch {
    let words: DictionaryArray<Int8Type> =
        (0..ROWS).map(|row| ["one", "two", "a word with more letters"][row % 3]).collect();
    batch(vec![("id", ids()), ("name", Arc::new(words))])
}

fn runs() -> RecordBatch {
    let ends = Int32Array::from_iter_values([7, ROWS as i32]);
    let values = StringArray::from_iter_values(["first", "second"]);
    batch(vec![("id", ids()), ("name", Arc::new(RunArray::<Int32Type>::try_new(&ends, &values).unwrap()))])
}

fn lists() -> RecordBatch {
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    let list = ListArray::new(Arc::clone(&item), OffsetBuffer::from_lengths([1; ROWS]), ids(), None);
    let pairs = Int64Array::from_iter_values(0..2 * ROWS as i64);
    let pairs = FixedSizeListArray::new(item, 2, Arc::new(pairs), None);
    let structs = StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Int64, true)), ids()),
        (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(texts())) as ArrayRef),
    ]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..ROWS {
        map.keys().append_value(format!("key {row}"));
        map.values().append_value("value");
        map.append(row % 4 > 0).unwrap();
    }
    batch(vec![
        ("id", ids()),
        ("list", Arc::new(list)),
        ("pair", Arc::new(pairs)),
        ("both", Arc::new(structs)),
        ("map", Arc::new(map.finish())),
    ])
}

/// Rows in all types.
pub fn batches() -> Vec<RecordBatch> {
    vec![people(), numbers(), times(), bytes(), dictionaries(), runs(), lists()]
}

/// Arrow streams: of each type, compressed and not, of two batches each.
pub fn arrow_streams() -> Vec<Vec<u8>> {
    let mut streams = Vec::new();
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        for batch in batches() {
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let mut writer =
                StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
            writer.write(&batch).unwrap();
            writer.write(&batch.slice(3, 2)).unwrap();
            streams.push(writer.into_inner().unwrap());
        }
    }
    streams
}

/// Parquet files: of each type, with both kinds of pages, all codecs and all encodings.
pub fn parquet_files() -> Vec<Vec<u8>> {
    let old = || WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_1_0);
    let new = || WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0);
    let plain = |encoding| new().set_dictionary_enabled(false).set_encoding(encoding);
    let mut files = Vec::new();
    // The writer does not support intervals of months, days and nanoseconds.
    let times = times().project(&[0, 1, 2, 3, 5]).unwrap();
    for batch in [people(), numbers(), times, bytes(), dictionaries(), lists()] {
        files.push(parquet_file(&batch, old()));
        files.push(parquet_file(&batch, new().set_compression(Compression::SNAPPY)));
        files.push(parquet_file(&batch, old().set_compression(Compression::ZSTD(Default::default()))));
        files.push(parquet_file(&batch, new().set_compression(Compression::LZ4_RAW)));
    }
    let texts = batch(vec![("name", Arc::new(StringArray::from(texts())))]);
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        files.push(parquet_file(&texts, plain(encoding)));
        files.push(parquet_file(&texts, plain(encoding).set_writer_version(WriterVersion::PARQUET_1_0)));
        files.push(parquet_file(&texts, plain(encoding).set_compression(Compression::SNAPPY)));
    }
    files.push(parquet_file(&batch(vec![("id", ids())]), plain(Encoding::DELTA_BINARY_PACKED)));
    files.push(parquet_file(&batch(vec![("id", ids())]), plain(Encoding::BYTE_STREAM_SPLIT)));
    files
}

/// Two row groups, of several pages each.
fn parquet_file(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let properties = properties.set_max_row_group_row_count(Some(12)).set_data_page_row_count_limit(5);
    let properties = properties.set_write_batch_size(5).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

/// CSV with a header.
pub fn csv() -> Vec<Vec<u8>> {
    let texts = [
        "id,name,born,score\n1,Ada,1990-02-03,1.5\n2,\"B,\"\"o\",,\n3,\"\",,-1e3",
        "name,id\r\nAda,1\r\n\r\n\"a\nb\",2\r\n",
        "\u{feff}id,born,at\n7,2026-11-25,2026-11-25 12:30:00.5\n8,0001-01-01,9999-12-31\n",
        "id,data,flag,amount\n1,\\x6869,true,12.34\n2,text,f,-0.001\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// One object a line.
pub fn ndjson() -> Vec<Vec<u8>> {
    let texts = [
        "{\"id\": 2, \"name\": \"B\\no\", \"score\": 3}\n{\"id\":3}\n\n",
        "{\"id\":1,\"born\":\"2026-11-25\",\"at\":\"2026-11-25T12:30:00Z\"}\r\n{\"name\":null,\"id\":2}",
        "{\"id\": 1e3, \"score\": -1.5e-300, \"flag\": true, \"list\": [1, 2, [3]], \"both\": {\"a\": {\"b\": 1}}}\n",
        "{\"name\": \"\\u00e4\\ud83d\\ude00\", \"id\": 9223372036854775807}\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// SQL statements of all kinds.
pub fn statements() -> Vec<Vec<u8>> {
    let texts = [
        "SELECT a, sum(b) FILTER (WHERE c > 1) FROM t JOIN u USING (id) WHERE x IN (1, 2) GROUP BY a HAVING count(*) > 1 ORDER BY 1 DESC NULLS LAST LIMIT 3",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT * FROM r, LATERAL (SELECT n) AS l",
        "SELECT CASE WHEN a = 'it''s' THEN CAST($1 AS DECIMAL(10, 2)) ELSE -1e-5 END, E'\\x41\\n', U&'\\0041', $$dollar$$ FROM \"T\".\"u\"",
        "SELECT rank() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), ARRAY[1, 2][1], a::text[] FROM t; -- end\n/* more */ SELECT 1",
        "CREATE CUBE revenue AS SELECT d, sum(x) AS s FROM t GROUP BY CUBE (d, e) PARTITION BY RANGE (d) WITH (retention = '3 days')",
        "CREATE LIVE TABLE people (id BIGINT PRIMARY KEY, name TEXT DEFAULT 'x', at TIMESTAMP) WITH (ttl = '1 hour')",
        "INSERT INTO t (a, b) VALUES (1, NULL), (2, interval '1 day') ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
        "COPY people (id, name) FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';')",
        "SELECT position('a' IN b), EXTRACT(year FROM at), substring(x FROM 1 FOR 2), trim(BOTH 'x' FROM y), x BETWEEN 1 AND 2, NOT EXISTS (SELECT 1)",
        "EXPLAIN ANALYZE SELECT * FROM a FULL OUTER JOIN b ON a.id = b.id UNION SELECT * FROM c EXCEPT SELECT * FROM d",
        "CREATE ROLE ann LOGIN PASSWORD 'secret'; GRANT SELECT ON t TO ann; SET nyala.use_cubes = off; SHOW ALL",
        "BUILD CUBE revenue; REFRESH CUBE revenue; ALTER CUBE revenue ADD MEASURE max(x); DROP CUBE IF EXISTS revenue",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}
