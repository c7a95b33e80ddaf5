//! Files with one wrong number each.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use nyala_fuzz::{Target, corpus};
use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, SchemaDescriptor, Type as SchemaType};

use super::*;
use crate::MEMORY;

/// A field of a struct: its number, kind, and value.
fn field(step: u8, kind: u8, value: &[u8]) -> Vec<u8> {
    [&[step << 4 | kind], value].concat()
}

/// A number as Thrift writes it.
fn number(value: i64) -> Vec<u8> {
    let mut left = (value << 1 ^ value >> 63) as u64;
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// A group, or a column if it has no children.
fn element(children: i64) -> Vec<u8> {
    [field(4, 8, b"\x01a"), field(1, 5, &number(children)), vec![0]].concat()
}

/// A footer of these schema elements and nothing else.
fn footer(elements: &[Vec<u8>]) -> Vec<u8> {
    let head = [vec![0xfc], vec![elements.len() as u8 | 0x80, (elements.len() >> 7) as u8]].concat();
    [field(1, 5, &number(2)), field(1, 9, &[head, elements.concat()].concat()), vec![0]].concat()
}

fn header(uncompressed: i64, compressed: i64, values: i64) -> Vec<u8> {
    let dictionary = [field(1, 5, &number(values)), field(1, 5, &number(0)), vec![0]].concat();
    let sizes =
        [field(1, 5, &number(2)), field(1, 5, &number(uncompressed)), field(1, 5, &number(compressed))];
    [sizes.concat(), field(4, 12, &dictionary), vec![0]].concat()
}

#[test]
fn a_schema_has_as_many_columns_as_it_says() {
    assert_eq!(check_footer(&footer(&[element(2), element(0), element(0)])), Ok(()));
    assert_eq!(check_footer(&footer(&[element(1), element(1), element(0)])), Ok(()));
    for children in [-1, 3, 0x7fff_ffff, 1 << 40] {
        assert!(check_footer(&footer(&[element(children), element(0), element(0)])).is_err(), "{children}");
    }
    let deep: Vec<Vec<u8>> = (0..200).map(|level| element(i64::from(level < 199))).collect();
    assert_eq!(check_footer(&footer(&deep)), Err(DamagedFile("its columns are nested too deep")));
    let wide = [field(2, 5, &number(0x7fff_ffff)), vec![0]].concat();
    assert_eq!(check_footer(&footer(&[element(1), wide])), Err(DamagedFile("a column is too wide")));
}

#[test]
fn lists_and_kinds_are_what_readers_take_them_for() {
    let list_of = |id: u8, count: &[u8]| [field(id, 9, &[&[0xfc], count].concat()), vec![0]].concat();
    assert!(check_footer(&list_of(4, b"\xff\xff\xff\xff\x07")).is_err(), "2^31 row groups of no bytes");
    assert!(check_footer(&[field(4, 6, b"\xfc\xff\xff\xff\xff\x07"), vec![0]].concat()).is_err());
    assert!(check_index(&list_of(1, b"\xff\xff\xff\xff\x07")).is_err(), "2^31 pages of no bytes");
    assert_eq!(check_index(&list_of(1, b"\x00")), Ok(()));
    assert!(check_footer(&[0x1c; 1000]).is_err(), "structs in structs");
    assert!(check_footer(&[]).is_err());
}

#[test]
fn pages_are_as_long_as_they_say() {
    let pages = [header(10, 4, 2), vec![7; 4]].concat();
    let found = check_pages(&pages, 9).unwrap();
    assert_eq!((found.held_bytes, found.values), (10, 0));
    assert_eq!(
        check_pages(&pages[..pages.len() - 1], 9),
        Err(DamagedFile("a page is longer than what is there"))
    );
    assert_eq!(check_pages(&header(-1, 0, 0), 9), Err(DamagedFile("a page has a negative length")));
    assert_eq!(check_pages(&header(0x7fff_ffff, 0, 0), 9), Err(DamagedFile("a page is too large")));
    let many = check_pages(&header(10, 0, 0x7fff_ffff), 9);
    assert_eq!(many, Err(DamagedFile("a dictionary has more values than bytes")));
}

fn column(physical: Type) -> ColumnDescriptor {
    let leaf = SchemaType::primitive_type_builder("a", physical).build().unwrap();
    ColumnDescriptor::new(Arc::new(leaf), 1, 0, ColumnPath::from("a"))
}

fn contents(page: &Page, physical: Type) -> Result<(), DamagedFile> {
    ContentsCheck::new(&column(physical), &[]).check(page)
}

/// A page of values that may be null.
fn page(encoding: Encoding, count: u32, contents: &[u8]) -> Page {
    Page::DataPage {
        buf: contents.to_vec().into(),
        num_values: count,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    }
}

/// A page without nulls: the levels of `count` values, and the values.
fn present(count: u8, values: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, count << 1, 1], values].concat()
}

#[test]
fn lengths_are_as_many_as_values_and_no_longer_than_what_is_there() {
    let check = |count: u32, values: &[u8]| {
        let page = page(Encoding::DELTA_LENGTH_BYTE_ARRAY, count, &present(count as u8, values));
        contents(&page, Type::BYTE_ARRAY)
    };
    // Blocks of 128 in 4, 3 lengths from 5 on, of which each is the one before and 0.
    let lengths = [b"\x80\x01\x04\x03\x0a\x00\x00\x00\x00\x00".as_slice(), &[b'x'; 15]].concat();
    assert_eq!(check(3, &lengths), Ok(()));
    assert!(check(2, &lengths).is_err(), "more lengths than values");
    assert!(check(3, &lengths[..24]).is_err(), "one byte is missing");
    assert!(check(60, b"\x80\x01\x04\xff\xff\xff\xff\xff\xff\x7f\x0a").is_err());
    assert!(check(3, b"\x80\x01\x00\x03\x0a").is_err(), "no miniblocks");
    // The first length is -5.
    assert!(check(3, &[b"\x80\x01\x04\x03\x09", &lengths[5..]].concat()).is_err());
    // Differences of 4 bits: 5, 6, 5 again, as -1 is the smallest.
    let packed = [b"\x80\x01\x04\x03\x0a\x01\x04\x00\x00\x00\x02".as_slice(), &[0; 15], &[b'x'; 16]].concat();
    assert_eq!(check(3, &packed), Ok(()));
    assert!(check(3, &packed[..packed.len() - 1]).is_err(), "one byte is missing");
}

#[test]
fn numbers_are_as_wide_as_their_type() {
    let check = |physical: Type, width: u8| {
        let bytes = usize::from(width) * 4;
        let values = [b"\x80\x01\x04\x03\x0a\x00".as_slice(), &[width, 0, 0, 0], &vec![0; bytes]].concat();
        contents(&page(Encoding::DELTA_BINARY_PACKED, 3, &present(3, &values)), physical).is_ok()
    };
    assert!(check(Type::INT32, 32) && check(Type::INT64, 64));
    assert!(!check(Type::INT32, 33) && !check(Type::INT64, 65));
}

#[test]
fn indices_are_in_the_dictionary() {
    let check = |width: u8, index: u8, in_dictionary: u32| {
        let leaf = column(Type::INT32);
        let mut check = ContentsCheck::new(&leaf, &[]);
        let buf = vec![0; 4 * in_dictionary as usize].into();
        let dictionary = Page::DictionaryPage {
            buf,
            num_values: in_dictionary,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        check.check(&dictionary)?;
        let values = [&[width, 6], [index].repeat(usize::from(width.div_ceil(8))).as_slice()].concat();
        check.check(&page(Encoding::RLE_DICTIONARY, 3, &present(3, &values)))
    };
    assert_eq!(check(2, 1, 2), Ok(()));
    assert_eq!(check(32, 0, 2), Ok(()));
    assert!(check(33, 0, 2).is_err());
    assert!(check(2, 2, 2).is_err());
    assert!(check(2, 0, 0).is_err(), "an empty dictionary");
    let page = page(Encoding::RLE_DICTIONARY, 3, &present(3, &[2, 6, 0]));
    assert!(contents(&page, Type::INT32).is_err(), "no dictionary");
}

#[test]
fn columns_of_a_map_have_the_same_entries() {
    let schema = "message m { optional group map (MAP) { repeated group entries { required int32 key; optional int32 value; } } }";
    let schema = SchemaDescriptor::new(Arc::new(parse_message_type(schema).unwrap()));
    let lists = lists_of(&schema);
    let entries = |leaf: usize, repetition: &[u8], definition: &[u8]| {
        let column = schema.column(leaf);
        let mut check = ContentsCheck::new(&column, &lists[leaf]);
        let levels = |levels: &[u8]| {
            let runs: Vec<u8> = levels.iter().flat_map(|level| [2, *level]).collect();
            [&(runs.len() as u32).to_le_bytes(), runs.as_slice()].concat()
        };
        let body = [levels(repetition), levels(definition), vec![0; 4 * repetition.len()]].concat();
        check.check(&page(Encoding::PLAIN, repetition.len() as u32, &body)).unwrap();
        check.entries()
    };
    // Two entries, an empty map, no map, and an entry; the second value is null.
    let keys = entries(0, &[0, 1, 0, 0, 0], &[2, 2, 1, 0, 2]);
    assert_eq!(keys, entries(1, &[0, 1, 0, 0, 0], &[3, 2, 1, 0, 3]));
    assert_ne!(keys, entries(1, &[0, 1, 0, 0, 0], &[3, 2, 2, 0, 3]), "an entry that has no key");
    assert_ne!(keys, entries(1, &[0, 1, 1, 0, 0], &[3, 2, 1, 0, 3]), "in the map before");
}

#[test]
fn levels_are_as_many_as_values() {
    let check = |levels: &[u8], count| {
        let body = [&(levels.len() as u32).to_le_bytes(), levels, &vec![0; 4 * count as usize]].concat();
        contents(&page(Encoding::PLAIN, count, &body), Type::INT32).is_ok()
    };
    // Three of one value, then a group of eight.
    assert!(check(b"\x06\x01\x03\xff", 11));
    assert!(!check(b"\x06\x01\x03\xff", 12));
    assert!(!check(b"\x06\x01\x05\xff", 19), "two groups and one byte");
    assert!(check(b"\x06\x01\x05\xff", 11), "of the last group, what is needed is there");
    assert!(!check(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1));
}

/// A footer that passes is read without a request for gigabytes.
#[test]
fn fuzz_footers() {
    let footer = |file: Vec<u8>| {
        let (front, tail) = file.split_at(file.len() - 8);
        let length = u32::from_le_bytes(*tail.first_chunk().unwrap()) as usize;
        front[front.len() - length..].to_vec()
    };
    let footers: Vec<Vec<u8>> = corpus::parquet_files().into_iter().map(footer).collect();
    for footer in &footers {
        assert_eq!(check_footer(footer), Ok(()));
    }
    Target { name: "footer", memory: &MEMORY }.run(&footers, |footer| {
        if check_footer(footer).is_ok() {
            let read = || ParquetMetaDataReader::decode_metadata(footer).is_ok();
            let _ = std::panic::catch_unwind(read);
        }
    });
}
