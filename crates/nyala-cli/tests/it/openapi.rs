//! The OpenAPI document of the HTTP door, against the door: the same routes, the same parameters, and answers as it describes them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{nyala, run, try_run};
use crate::python::script;
use crate::server::{Server, send};

const DOCUMENT: &str = "/api/v1/openapi.json";
/// The source of the routes. Routes of the console, for people, and of Kylin's API are in files of their own.
const ROUTER: &str = include_str!("../../../nyala-server/src/rest/router.rs");

/// The document, as the server gives it.
fn document(server: &Server) -> Value {
    let response = server.get(DOCUMENT);
    assert_eq!(response.status, 200, "{}", response.body);
    assert!(response.head.contains("content-type: application/json"), "{}", response.head);
    serde_json::from_str(&response.body).unwrap()
}

/// The paths of the router.
fn routes() -> BTreeSet<String> {
    let paths = ROUTER.split(".route(").skip(1).filter_map(|rest| rest.split('"').nth(1));
    paths.map(str::to_owned).collect()
}

/// The methods that a path allows, as the server tells a client that asks with another one.
fn allowed(server: &Server, path: &str) -> BTreeSet<String> {
    let path = path.replace("{id}", "1").replace("{table}", "t");
    let request = format!("PATCH {path} HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(send(server.http, request.as_bytes())).unwrap();
    assert_eq!(answer.split(' ').nth(1), Some("405"), "{path}: {answer}");
    let allow = answer.lines().find_map(|line| line.strip_prefix("allow: ")).expect(&answer);
    // Every GET may be asked as HEAD.
    allow.split(',').map(|method| method.trim().to_owned()).filter(|method| method != "HEAD").collect()
}

/// `GET /path` for each operation of the document.
fn operations(document: &Value) -> BTreeSet<String> {
    const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| -> Vec<String> {
        let methods = item.as_object().unwrap().keys().filter(|key| METHODS.contains(&key.as_str()));
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect()
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn the_document_has_the_routes_of_the_server() {
    let server = Server::empty(&[]);
    let document = document(&server);
    let described: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
    assert!(routes().contains("/api/v1/query"), "the routes are written in another way");
    assert_eq!(described, routes());
    let served: BTreeSet<String> = described
        .iter()
        .flat_map(|path| allowed(&server, path).into_iter().map(move |method| format!("{method} {path}")))
        .collect();
    assert_eq!(operations(&document), served);
    let health: Value = serde_json::from_str(&server.get("/healthz").body).unwrap();
    assert_eq!(document["info"]["version"], health["version"]);
}

#[test]
fn the_index_has_the_operations_of_the_document() {
    let server = Server::empty(&[]);
    let index: Value = serde_json::from_str(&server.get("/api/v1/").body).unwrap();
    let listed = index["endpoints"].as_object().unwrap().values().map(|endpoint| endpoint.as_str().unwrap());
    let listed: BTreeSet<String> =
        listed.map(|endpoint| endpoint.split('?').next().unwrap().to_owned()).collect();
    // The index does not list itself.
    let described = operations(&document(&server));
    let expected: BTreeSet<String> = described
        .into_iter()
        .filter(|operation| !operation.trim_end_matches('/').ends_with("/api/v1"))
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn answers_are_as_described() {
    let folder = tempfile::tempdir().unwrap();
    let roles = "CREATE USER root SUPERUSER PASSWORD 'secret'; CREATE USER ann PASSWORD 'other'";
    run(nyala(&["sql", "-c", roles, "--data-dir"]).arg(folder.path()));
    let server = Server::start_with(folder.path(), &[("NYALA_SERVER__AUTHENTICATION", "password")]);
    let finished = try_run(script("http_openapi.py").env("NYALA_HTTP", server.http.to_string()));
    println!("{}", finished.stdout);
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
}
