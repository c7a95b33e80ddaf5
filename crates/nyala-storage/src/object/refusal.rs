//! Readable errors from the XML answers of remote stores.

use object_store::Error;
use object_store::client::HttpError;

use super::StoreKind;
use crate::StorageError;

/// The readable form of an error that a remote store answered, or of a missing answer: a missing bucket, wrong
/// credentials, an unreachable address. None for every other error, a missing file included.
pub fn refusal(error: &Error) -> Option<StorageError> {
    // The library keeps status and body in a private type, so only the text can be read.
    let text = error.to_string();
    let store = StoreKind::of_error(error);
    let bucket = bucket(store, &text).unwrap_or_default().to_owned();
    match element(&text, "Code") {
        Some("NoSuchKey" | "BlobNotFound") => None,
        Some("NoSuchBucket" | "ContainerNotFound") => Some(StorageError::NoBucket { store, bucket }),
        Some(code) => {
            let message = element(&text, "Message").unwrap_or_default().trim();
            // The next lines of Azure's message are the number and the time of the request.
            let message = message.lines().next().unwrap_or_default().trim_end_matches('.');
            let reason = if message.is_empty() { code.to_owned() } else { format!("{code}, {message}") };
            match code {
                "InternalError" | "OperationAborted" | "OperationTimedOut" | "RequestTimeout"
                | "ServerBusy" | "ServiceUnavailable" | "SlowDown" => {
                    Some(StorageError::Unavailable { bucket, reason })
                }
                _ => Some(StorageError::Refused { store, bucket, reason }),
            }
        }
        // The answer to a HEAD request has no body.
        None => match error {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } if !bucket.is_empty() => {
                Some(StorageError::Refused { store, bucket, reason: "access denied".to_owned() })
            }
            _ => no_answer(error, &text, store),
        },
    }
}

/// The error of an unanswered request, if its address is known.
fn no_answer(error: &Error, text: &str, store: StoreKind) -> Option<StorageError> {
    let mut reason = sources(error).find(|source| source.is::<HttpError>())?;
    // Outer errors say only that a request failed.
    while let Some(cause) = reason.source() {
        reason = cause;
    }
    let reason = match reason.to_string() {
        words if words.contains("URL scheme is not allowed") => {
            format!("plain HTTP is not allowed; set `{}.allow_http = true`", store.section())
        }
        words => words,
    };
    Some(StorageError::Unreachable { store, address: address(store, text)?, reason })
}

/// An error and its causes.
fn sources<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

/// Content of the first element of this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

/// Bucket of the requested URL: the first part of its path, since stores are opened without virtual
/// hosts. Before it, servers that are compatible with Azure have the account.
fn bucket(store: StoreKind, text: &str) -> Option<&str> {
    let (server, path) = asked_for(text)?.1.split_once('/')?;
    let is_behind_account = store == StoreKind::Azure && !server.ends_with(".core.windows.net");
    path.split(['/', '?']).nth(usize::from(is_behind_account))
}

/// Server and bucket of the requested URL, without the rest, and without credentials.
fn address(store: StoreKind, text: &str) -> Option<String> {
    let (scheme, rest) = asked_for(text)?;
    let server = rest.split(['/', '?']).next()?.rsplit('@').next()?;
    Some(format!("{scheme}://{server}/{}", bucket(store, text).unwrap_or_default()))
}

/// Scheme and rest of the requested URL.
fn asked_for(text: &str) -> Option<(&str, &str)> {
    let (_, request) = text.rsplit_once("Error performing ")?;
    request.split_whitespace().nth(1)?.split_once("://")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use object_store::client::HttpErrorKind;

    use super::*;

    const LIST: &str = "Error performing list request: Error performing GET \
                        http://127.0.0.1:9000/sales?list-type=2&prefix=a%2F in 18.8ms - Server returned \
                        non-2xx status code: ";

    fn generic(answer: &str) -> Error {
        Error::Generic { store: "S3", source: format!("{LIST}{answer}").into() }
    }

    #[test]
    fn a_missing_bucket_is_named() {
        let answer = "404 Not Found: <?xml version=\"1.0\"?>\n<Error><Code>NoSuchBucket</Code></Error>";
        let message = refusal(&generic(answer)).unwrap().to_string();
        assert!(message.starts_with("bucket `sales` does not exist;"), "{message}");
    }

    #[test]
    fn errors_name_the_settings_of_their_store() {
        let check = |store, url: &str, answer: &str, expected: &str| {
            let source =
                format!("Error performing GET {url} in 2ms - Server returned non-2xx status code: {answer}");
            let message = refusal(&Error::Generic { store, source: source.into() }).unwrap().to_string();
            assert_eq!(message, expected);
        };
        let missing = "404 Not Found: <Error><Code>ContainerNotFound</Code></Error>";
        check(
            "MicrosoftAzure",
            "https://me.blob.core.windows.net/sales/a.parquet",
            missing,
            "bucket `sales` does not exist; check the location and `storage.azure.endpoint`",
        );
        let denied =
            "403 Forbidden: <Error><Code>AccessDenied</Code><Message>Access denied.</Message></Error>";
        check(
            "GCS",
            "https://storage.googleapis.com/sales?list-type=2",
            denied,
            "access to bucket `sales` was refused: AccessDenied, Access denied; check `storage.gcs` and the `GOOGLE_…` \
             environment",
        );
        let source = "Error performing GET http://127.0.0.1:1/account/sales/a?x in 2ms - 403 Forbidden: <Error><Code>No\
                      </Code><Message>Wrong key.\nRequestId:7\nTime:8</Message></Error>";
        let denied = Error::PermissionDenied { path: "a".into(), source: source.into() };
        let message = refusal(&StoreKind::Azure.told(denied)).unwrap().to_string();
        let expected = "access to bucket `sales` was refused: No, Wrong key; check `storage.azure` and the `AZURE_…` environment";
        assert_eq!(message, expected);
    }

    #[test]
    fn refused_credentials_have_their_reason() {
        let answer = "403 Forbidden: <Error><Code>InvalidAccessKeyId</Code><Message>No such key.</Message>\
                      <AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>";
        let message = refusal(&generic(answer)).unwrap().to_string();
        assert!(
            message.starts_with("access to bucket `sales` was refused: InvalidAccessKeyId, No such key;")
        );
        assert!(!message.contains('<'), "{message}");
        let source = "Error performing HEAD http://127.0.0.1:9000/sales/a.parquet in 2ms - Server returned \
                      non-2xx status code: 403 Forbidden: ";
        let head = Error::PermissionDenied { path: "a.parquet".into(), source: source.into() };
        let message = refusal(&head).unwrap().to_string();
        assert!(message.contains("bucket `sales` was refused: access denied"), "{message}");
    }

    #[test]
    fn what_passes_is_told_from_what_stays() {
        let answer = "503 Service Unavailable: <Error><Code>SlowDown</Code>\
                      <Message>Please reduce your request rate.</Message></Error>";
        let error = refusal(&generic(answer)).unwrap();
        assert!(matches!(error, StorageError::Unavailable { .. }), "{error}");
        let words =
            "bucket `sales` cannot be read for the moment: SlowDown, Please reduce your request rate;";
        assert!(error.to_string().starts_with(words), "{error}");
    }

    #[derive(Debug, thiserror::Error)]
    #[error(
        "Error performing GET {url} in 31s, after 10 retries, max_retries: 10, retry_timeout: 180s  - {source}"
    )]
    struct Unanswered {
        url: &'static str,
        source: HttpError,
    }

    #[test]
    fn a_server_that_does_not_answer_is_named() {
        let check = |url, address: &str| {
            let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            let source = HttpError::new(HttpErrorKind::Connect, refused);
            let error = Error::Generic { store: "S3", source: Box::new(Unanswered { url, source }) };
            let error = refusal(&error).unwrap();
            assert!(matches!(error, StorageError::Unreachable { .. }), "{error}");
            let words = format!("no answer from `{address}`: connection refused; check `storage.s3`");
            assert!(error.to_string().starts_with(&words), "{error}");
        };
        check("http://127.0.0.1:9/sales?list-type=2&prefix=a%2F", "http://127.0.0.1:9/sales");
        check("https://me:secret@s3.example.org/sales/a/b.parquet", "https://s3.example.org/sales");
        check("http://169.254.169.254/latest/api/token", "http://169.254.169.254/latest");
    }

    #[test]
    fn other_errors_are_left_alone() {
        let missing = "404 Not Found: <Error><Code>NoSuchKey</Code></Error>";
        assert!(refusal(&generic(missing)).is_none());
        assert!(refusal(&generic("503 Service Unavailable: ")).is_none());
        let local = Error::PermissionDenied { path: "a".into(), source: "denied".into() };
        assert!(refusal(&local).is_none());
    }
}
