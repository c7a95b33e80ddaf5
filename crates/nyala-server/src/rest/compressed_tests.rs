//! Bodies that are compressed, cut off, damaged, or much longer than they look.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use axum::body::to_bytes;
use nyala_fuzz::Target;
use tokio::io::AsyncReadExt;
use tokio::runtime::Builder;

use super::*;
use crate::MEMORY;

const CODERS: [Coding; 2] = [Coding::Gzip, Coding::Zstd];
const FREE_BYTES: u64 = 1 << 20;

async fn compressed(coding: Coding, plain: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match coding {
        Coding::Gzip => GzipEncoder::new(plain).read_to_end(&mut bytes).await.unwrap(),
        Coding::Zstd => ZstdEncoder::new(plain).read_to_end(&mut bytes).await.unwrap(),
    };
    bytes
}

/// Decompresses a body that comes in pieces.
async fn read(coding: Coding, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let pieces: Vec<Result<Vec<u8>, io::Error>> = body.chunks(1000).map(|piece| Ok(piece.to_vec())).collect();
    let body = plain(Body::from_stream(futures::stream::iter(pieces)), coding, FREE_BYTES);
    let mut pieces = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| unreadable(&error))?);
    }
    Ok(bytes)
}

fn rows() -> Vec<u8> {
    (0..30_000).map(|row| format!("{row},name {row}\n")).collect::<String>().into_bytes()
}

#[tokio::test]
async fn a_body_is_as_it_was() {
    for coding in CODERS {
        let once = compressed(coding, &rows()).await;
        assert_eq!(read(coding, &once).await.unwrap(), rows(), "{coding:?}");
        let twice = [once.clone(), once].concat();
        assert_eq!(read(coding, &twice).await.unwrap(), [rows(), rows()].concat(), "{coding:?}");
    }
}

#[tokio::test]
async fn what_is_cut_off_or_damaged_is_not_taken_for_whole() {
    for coding in CODERS {
        let whole = compressed(coding, &rows()).await;
        for cut in [1, whole.len() / 2, whole.len() - 1] {
            let refusal = read(coding, &whole[..cut]).await.unwrap_err();
            assert_eq!((refusal.status.as_u16(), refusal.code), (400, "invalid_request"), "{coding:?}");
        }
        let noise = [whole.clone(), b"more".to_vec()].concat();
        assert!(read(coding, &noise).await.is_err(), "{coding:?}");
        assert!(read(coding, b"id,name\n1,Ada\n").await.is_err(), "{coding:?}");
    }
}

#[tokio::test]
async fn a_body_that_becomes_much_longer_is_refused_on_the_way() {
    for coding in CODERS {
        let bomb = compressed(coding, &vec![0; 64 << 20]).await;
        let refusal = read(coding, &bomb).await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.code), (413, "body_too_large"), "{coding:?}");
        let small = compressed(coding, &vec![0; FREE_BYTES as usize]).await;
        assert_eq!(read(coding, &small).await.unwrap().len() as u64, FREE_BYTES);
    }
}

#[test]
fn one_coding_is_named() {
    let named = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::CONTENT_ENCODING, value.parse().unwrap());
        }
        coding(&headers).map_err(|given| given.into_response().status().as_u16())
    };
    assert_eq!(named(&[]), Ok(None));
    assert_eq!(named(&["identity"]), Ok(None));
    assert_eq!(named(&[" GZip "]), Ok(Some(Coding::Gzip)));
    assert_eq!(named(&["zstd"]), Ok(Some(Coding::Zstd)));
    for other in [&["br"][..], &["gzip, zstd"], &["gzip", "gzip"]] {
        assert_eq!(named(other), Err(415), "{other:?}");
    }
}

#[test]
fn fuzz_bodies() {
    let runtime = Builder::new_current_thread().build().unwrap();
    for coding in CODERS {
        let small = runtime.block_on(compressed(coding, &rows()[..2000]));
        let large = runtime.block_on(compressed(coding, &vec![b'x'; 3 << 20]));
        Target { name: "compressed", memory: &MEMORY }.run(&[small, large], |body| {
            let plain = plain(Body::from(body.to_vec()), coding, FREE_BYTES);
            let _ = runtime.block_on(to_bytes(plain, 8 << 20));
        });
    }
}
