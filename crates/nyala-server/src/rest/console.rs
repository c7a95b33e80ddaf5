//! The web console: files that were built beforehand and are part of the program. The files are public; the data that they load is not.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use rust_embed::{EmbeddedFile, RustEmbed};

use super::compress;
use crate::http::{ApiError, Shared};

/// The files that `npm run build` in `console/` has made.
#[derive(RustEmbed)]
#[folder = "../../console/dist/"]
struct Files;

const INDEX: &str = "index.html";
/// Names in this folder hold a digest of their content.
const HASHED: &str = "assets/";
/// Nothing is loaded from other hosts, and no other site shows the console in a frame. The editor and the charts set styles.
const CONTENT_POLICY: &str =
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/// The routes of the console.
pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/console/") }))
        .route("/console", get(|| async { Redirect::permanent("/console/") }))
        .route("/console/", get(|headers: HeaderMap| async move { index(&headers) }))
        .route("/console/{*path}", get(file))
        .route_layer(from_fn(compress::compress))
}

async fn file(Path(path): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    match Files::get(&path) {
        Some(file) if path != INDEX => Ok(respond(file, path.starts_with(HASHED), &headers)),
        None if path.starts_with(HASHED) => {
            let message = format!("there is no `{path}` in this version of the console");
            Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", message).hint("load the page again"))
        }
        // The page itself reads the path.
        _ => Ok(index(&headers)),
    }
}

fn index(headers: &HeaderMap) -> Response {
    match Files::get(INDEX) {
        Some(page) => respond(page, false, headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn respond(file: EmbeddedFile, is_hashed: bool, asked: &HeaderMap) -> Response {
    let digest: String =
        file.metadata.sha256_hash().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{digest}\"");
    let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    let is_known = asked.get_all(header::IF_NONE_MATCH).iter().any(|known| {
        // A proxy that compressed the answer has made the tag a weak one, with `W/` in front.
        known
            .to_str()
            .is_ok_and(|known| known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
    });
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(file.data.into_owned()).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for (name, value) in [(header::CONTENT_TYPE, file.metadata.mimetype()), (header::ETAG, &tag)] {
        // Both values are plain ASCII, so that they are valid headers.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn pages_are_asked_for_again_and_hashed_files_are_not() {
        let nothing = HeaderMap::new();
        let page = file(Path("cubes/revenue".to_owned()), nothing.clone()).await.unwrap();
        let header = |response: &Response, name| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header(&page, header::CACHE_CONTROL), "no-cache");
        assert!(header(&page, header::CONTENT_TYPE).starts_with("text/html"));
        assert!(header(&page, header::CONTENT_SECURITY_POLICY).contains("frame-ancestors 'none'"));

        let asset = Files::iter().find(|path| path.starts_with(HASHED)).unwrap().into_owned();
        let response = file(Path(asset), nothing.clone()).await.unwrap();
        assert!(header(&response, header::CACHE_CONTROL).contains("immutable"));
        let missing =
            file(Path("assets/of-another-version.js".to_owned()), nothing.clone()).await.unwrap_err();
        assert_eq!(missing.status, StatusCode::NOT_FOUND);

        let mut known = HeaderMap::new();
        known.insert(header::IF_NONE_MATCH, format!("W/{}", header(&page, header::ETAG)).parse().unwrap());
        assert_eq!(index(&known).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(index(&nothing).status(), StatusCode::OK);
    }
}
