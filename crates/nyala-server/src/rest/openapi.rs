//! `GET /api/v1/openapi.json`: this door's routes for programs that make clients.
//!
//! The document is written by hand. A test compares it with the routes, with the parameters that they take, and with real answers
//! (`nyala-cli/tests/it/openapi.rs`).

use axum::http::{HeaderName, header};

const DOCUMENT: &str = include_str!("openapi.json");

/// The document.
pub async fn document() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT)
}
