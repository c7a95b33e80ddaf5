//! Mutants of messages from PostgreSQL's clients: requests, values, rows of a binary COPY, start-up, login.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use bytes::{BufMut, Bytes, BytesMut};
use nyala_engine::ScramVerifier;
use nyala_fuzz::Target as Fuzz;
use nyala_model::array_text::array_elements;
use pgwire::api::Type;

use crate::MEMORY;
use crate::pgwire::protocol::login::initial_response;
use crate::pgwire::protocol::messages::{decode, take_frame};
use crate::pgwire::protocol::scram::Challenge;
use crate::pgwire::protocol::startup;
use crate::pgwire::values::binary_rows::BinaryRows;
use crate::pgwire::values::parameters;
use crate::rows::{Decode, Rejects, Target};

const LIMIT_BYTES: usize = 1 << 20;

/// Every type that values are read as, with texts of it.
const VALUES: [(Type, &str); 24] = [
    (Type::BOOL, "on"),
    (Type::INT2, "-7"),
    (Type::INT4, " 42 "),
    (Type::INT8, "9223372036854775807"),
    (Type::FLOAT4, "1e3"),
    (Type::FLOAT8, "-Infinity"),
    (Type::NUMERIC, "-12345678901234567890.50"),
    (Type::TEXT, "it's"),
    (Type::BYTEA, "\\x6869"),
    (Type::BYTEA, "h\\151\\\\"),
    (Type::DATE, "2024-02-29 +01"),
    (Type::TIME, "12:34:56.789"),
    (Type::TIMESTAMP, "2024-02-29T12:34:56.789012"),
    (Type::TIMESTAMPTZ, "2000-01-01 01:00:00+01"),
    (Type::INTERVAL, "1 year 2 months 3 days 04:05:06.7"),
    (Type::INTERVAL, "-1.5 hours ago"),
    (Type::UUID, "0123456789abcdef"),
    (Type::JSONB, "\u{1}{}"),
    (Type::OID, "23"),
    (Type::INT4_ARRAY, "{7,NULL}"),
    (Type::TEXT_ARRAY, "{\"a,b\",c \\\" d,{e}}"),
    (Type::BOOL_ARRAY, "{t,f}"),
    (Type::TIMESTAMPTZ_ARRAY, "{\"2000-01-01 01:00:00+01\"}"),
    (Type::FLOAT8_ARRAY, "[0:1]={1,2}"),
];

fn fuzz(name: &'static str, bodies: &[Vec<u8>], decode: impl FnMut(&[u8])) {
    Fuzz { name, memory: &MEMORY }.run(bodies, decode);
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![kind];
    message.put_u32(body.len() as u32 + 4);
    message.extend_from_slice(body);
    message
}

#[test]
fn messages() {
    let bind = b"p\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02hi\0\x01\0\x01";
    let messages = [
        message(b'Q', b"SELECT 1\0"),
        message(b'P', b"s\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\x19"),
        [message(b'B', bind), message(b'D', b"Sname\0"), message(b'E', b"p\0\0\0\0\x05")].concat(),
        [message(b'C', b"Pp\0"), message(b'H', b""), message(b'S', b""), message(b'X', b"")].concat(),
        [message(b'd', b"1\ta\n"), message(b'c', b""), message(b'f', b"no more\0")].concat(),
    ];
    fuzz("messages", &messages, |bytes| {
        let mut buffer = BytesMut::from(bytes);
        while let Ok(Some((kind, body))) = take_frame(&mut buffer, LIMIT_BYTES) {
            let _ = decode(kind, body);
        }
    });
}

#[test]
fn start_up_and_login() {
    let packets = [
        b"user\0ann\0options\0-c search_path=a\\ b --statement-timeout=5s\0\0".to_vec(),
        b"user\0ann\0database\0nyala\0replication\0off\0_pq_.x\0y\0\0".to_vec(),
        b"SCRAM-SHA-256\0\0\0\0\x09n,,n=,r=A".to_vec(),
        b"c=biws,r=Anonce,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_vec(),
    ];
    fuzz("start_up", &packets, |bytes| {
        let _ = startup::parse(bytes);
        let first = initial_response(Bytes::copy_from_slice(bytes));
        let first = first.unwrap_or_else(|_| "n,,n=,r=A".to_owned());
        let verifier =
            ScramVerifier { iterations: 4096, salt: vec![7; 16], stored_key: [1; 32], server_key: [2; 32] };
        if let Ok(challenge) = Challenge::new(&first, verifier, "nonce") {
            let _ = challenge.answer(&String::from_utf8_lossy(bytes));
        }
    });
}

/// Which type, which format, and the value.
#[test]
fn values() {
    let mut bodies = Vec::new();
    for (index, (_, text)) in VALUES.iter().enumerate() {
        bodies.push([&[index as u8, 0], text.as_bytes()].concat());
        bodies.push([&[index as u8, 1], text.as_bytes()].concat());
    }
    let array = [
        0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255,
        255,
    ];
    bodies.push([&[19, 1], array.as_slice()].concat());
    bodies.push([&[6, 1], [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c].as_slice()].concat());
    bodies.push([&[14, 1], [0; 16].as_slice()].concat());
    fuzz("values", &bodies, |body| {
        let Some(([index, format], value)) = body.split_first_chunk::<2>() else { return };
        let (kind, _) = &VALUES[usize::from(*index) % VALUES.len()];
        let value = [Some(Bytes::copy_from_slice(value))];
        let _ =
            parameters::decode_all(std::slice::from_ref(kind), &[i16::from(*format & 1)], &value, &|| None);
    });
}

#[test]
fn texts_of_arrays() {
    let texts = ["{1,NULL,\"a b\"}", " { \"\\\"\" , x } ", "{}", "{{1,2},{3,4}}", "[1:2]={a,b}"];
    let bodies: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    fuzz("array_text", &bodies, |body| {
        let _ = array_elements(&String::from_utf8_lossy(body));
    });
}

fn row(fields: &[Option<&[u8]>]) -> Vec<u8> {
    let mut row = Vec::new();
    row.put_i16(fields.len() as i16);
    for field in fields {
        row.put_i32(field.map_or(-1, |field| field.len() as i32));
        row.extend_from_slice(field.unwrap_or_default());
    }
    row
}

#[test]
fn rows_of_a_binary_copy() {
    let column = |name: &str, data_type| Field::new(name, data_type, true);
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let schema = Arc::new(Schema::new(vec![
        column("id", DataType::Int64),
        column("name", DataType::Utf8View),
        column("amount", DataType::Decimal128(20, 2)),
        column("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        column("list", DataType::List(item)),
    ]));
    let amount = [0, 3, 0, 1, 0x40, 0, 0, 2, 0, 1, 0x09, 0x29, 0x1a, 0x2c];
    let list = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7];
    let full = row(&[Some(&[7; 8]), Some(b"Ada"), Some(&amount), Some(&[1; 8]), Some(&list)]);
    let nulls = row(&[Some(&[1; 8]), None, None, None, None]);
    let head = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".as_slice();
    let bodies = [[head, &full, &nulls, b"\xff\xff"].concat(), [head, &nulls, &full, &full].concat()];
    let load = |body: &[u8]| {
        let (mut rows, mut target) = (BinaryRows::default(), Target::made_up(Arc::clone(&schema)));
        let mut rejects = Rejects::at_most(0, false);
        let loaded =
            body.chunks(31).try_for_each(|piece| rows.decode(piece, &mut target, &mut rejects).map(drop));
        loaded.and_then(|()| rows.finish(&mut target, &mut rejects).map(drop))
    };
    assert!(bodies.iter().all(|body| load(body).is_ok()));
    fuzz("copy_binary", &bodies, |body| drop(load(body)));
}
