//! Numbers that lie, each in a file that is right otherwise.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use nyala_fuzz::{Target, corpus};
use parquet::file::metadata::ParquetMetaDataReader;

use super::*;
use crate::MEMORY;

/// A field of a struct: its number, the kind, and what it has.
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

#[test]
fn lengths_are_no_more_than_values() {
    let encoding = parquet::basic::Encoding::DELTA_LENGTH_BYTE_ARRAY;
    // Blocks of 128 in 4, 3 lengths from 5 on, of which each is the one before and 0.
    let lengths = [b"\x80\x01\x04\x03\x0a\x00\x00\x00\x00\x00".as_slice(), &[b'x'; 15]].concat();
    assert_eq!(check_delta_lengths(&lengths, encoding, 3), Ok(()));
    assert!(check_delta_lengths(&lengths, encoding, 2).is_err());
    assert!(check_delta_lengths(b"\x80\x01\x04\xff\xff\xff\xff\xff\xff\x7f\x0a", encoding, 1 << 40).is_err());
    assert!(check_delta_lengths(b"\x80\x01\x00\x03\x0a", encoding, 3).is_err(), "no miniblocks");
}

/// Whatever passes is read without a request for gigabytes.
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
