"""Requests to the two stores, in the form in which the crate object_store 0.13.2 makes them. Only the standard library.

    clients.py make-bucket PORT NAME
    clients.py make-container PORT NAME
"""

import base64
import dataclasses
import email.utils
import hashlib
import hmac
import http.client
import json
import secrets
import sys
import urllib.parse
from xml.etree import ElementTree

# Azurite's account, the same everywhere, and no secret.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclasses.dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def __str__(self):
        shown = "".join(c if c.isprintable() else " " for c in self.body[:300].decode("ascii", "replace"))
        return f"{self.status} {shown}".strip()

    def texts(self, name):
        """Contents of all elements of this name, whatever their namespace."""
        return [element.text or "" for element in ElementTree.fromstring(self.body).iter()
                if element.tag.rpartition("}")[2] == name]


def ask(port, method, path, body=b"", headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


class Gcs:
    """`gcp/client.rs`."""

    def __init__(self, port, bucket, token=""):
        self.port, self.bucket, self.token = port, bucket, token

    def ask(self, method, name=None, query=(), body=b"", headers=None):
        path = f"/{quote(self.bucket)}" + ("" if name is None else f"/{quote(name)}")
        query = urllib.parse.urlencode(list(query))
        sent = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        if method in ("PUT", "POST") and not body:
            sent["Content-Length"] = "0"
        return ask(self.port, method, f"{path}?{query}" if query else path, body, sent)

    def put(self, name, body, generation=None):
        headers = {"Content-Type": "application/octet-stream"}
        if generation is not None:
            headers["x-goog-if-generation-match"] = str(generation)
        return self.ask("PUT", name, body=body, headers=headers)

    def get(self, name, headers=None, head=False, query=()):
        return self.ask("HEAD" if head else "GET", name, query, headers=headers)

    def delete(self, name):
        return self.ask("DELETE", name)

    def list(self, prefix="", delimiter="", token="", start_after="", most=None):
        query = [("list-type", "2")]
        query += [("delimiter", delimiter)] if delimiter else []
        query += [("prefix", prefix)] if prefix else []
        query += [("continuation-token", token)] if token else []
        query += [("start-after", start_after)] if start_after else []
        query += [("max-keys", most)] if most else []
        return self.ask("GET", None, query)

    def initiate(self, name):
        return self.ask("POST", name, [("uploads", "")], headers={"Content-Type": "application/octet-stream"})

    def part(self, name, upload, number, body):
        return self.ask("PUT", name, [("partNumber", number), ("uploadId", upload)], body)

    def complete(self, name, upload, tags):
        parts = "".join(f"<Part><ETag>{tag}</ETag><PartNumber>{number + 1}</PartNumber></Part>"
                        for number, tag in enumerate(tags))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        return self.ask("POST", name, [("uploadId", upload)], body)

    def abort(self, name, upload):
        headers = {"Content-Type": "application/octet-stream", "Content-Length": "0"}
        return self.ask("DELETE", name, [("uploadId", upload)], headers=headers)

    def copy(self, source, name, generation=None):
        headers = {"x-goog-copy-source": f"{quote(self.bucket)}/{quote(source)}"}
        if generation is not None:
            headers["x-goog-if-generation-match"] = str(generation)
        return self.ask("PUT", name, headers=headers)


class Azure:
    """`azure/client.rs` with `endpoint = http://127.0.0.1:PORT/ACCOUNT`: the account is part of the path, and is in the
    signed resource twice."""

    def __init__(self, port, container, key=ACCOUNT_KEY, account=ACCOUNT):
        self.port, self.container, self.key, self.account = port, container, key, account

    def authorized(self, method, path, query, headers):
        headers = {"Date": email.utils.formatdate(usegmt=True), "x-ms-version": "2023-11-03", **headers}
        lower = {name.lower(): value for name, value in headers.items()}
        length = lower.get("content-length", "")
        signed = [method] + [lower.get(name, "") for name in ("content-encoding", "content-language")]
        signed += ["" if length == "0" else length]
        signed += [lower.get(name, "") for name in (
            "content-md5", "content-type", "date", "if-modified-since", "if-match", "if-none-match",
            "if-unmodified-since", "range")]
        signed += [f"{name}:{value}" for name, value in sorted(lower.items()) if name.startswith("x-ms")]
        signed += [f"/{self.account}{path}"]
        signed += [f"{name.lower()}:{value}" for name, value in sorted(query)]
        digest = hmac.new(base64.b64decode(self.key), "\n".join(signed).encode(), hashlib.sha256).digest()
        return {**headers, "Authorization": f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"}

    def path(self, name=None):
        end = "" if name is None else f"/{urllib.parse.quote(name)}"
        return f"/{self.account}/{self.container}{end}"

    def ask(self, method, name=None, query=(), body=b"", headers=None):
        headers = {"Content-Length": str(len(body)), **(headers or {})}
        path = self.path(name)
        headers = self.authorized(method, path, list(query), headers)
        query = urllib.parse.urlencode(list(query))
        return ask(self.port, method, f"{path}?{query}" if query else path, body, headers)

    def make(self):
        return self.ask("PUT", None, [("restype", "container")])

    def put(self, name, body, headers=None):
        return self.ask("PUT", name, body=body, headers={"x-ms-blob-type": "BlockBlob", **(headers or {})})

    def get(self, name, headers=None, head=False, query=()):
        return self.ask("HEAD" if head else "GET", name, query, headers=headers)

    def list(self, prefix="", delimiter="", token="", start_from="", most=None):
        query = [("restype", "container"), ("comp", "list")]
        query += [("prefix", prefix)] if prefix else []
        query += [("delimiter", delimiter)] if delimiter else []
        query += [("marker", token)] if token else []
        query += [("startFrom", start_from)] if start_from else []
        query += [("maxresults", str(most))] if most else []
        return self.ask("GET", None, query)

    def block(self, name, identity, body):
        return self.ask("PUT", name, [("comp", "block"), ("blockid", base64.b64encode(identity).decode())], body)

    def block_list(self, name, identities, headers=None):
        blocks = "".join(f"\t<Uncommitted>{base64.b64encode(i).decode()}</Uncommitted>\n" for i in identities)
        body = f'<?xml version="1.0" encoding="utf-8"?>\n<BlockList>\n{blocks}</BlockList>'.encode()
        return self.ask("PUT", name, [("comp", "blocklist")], body, headers)

    def copy(self, source, name, headers=None):
        url = f"http://127.0.0.1:{self.port}{self.path(source)}"
        return self.ask("PUT", name, headers={"x-ms-copy-source": url, **(headers or {})})

    def delete(self, name):
        return self.ask("DELETE", name)

    def bulk_delete(self, names):
        boundary = "batch_" + base64.b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        body = b""
        for number, name in enumerate(names):
            path = self.path(name)
            headers = self.authorized("DELETE", path, [], {"Content-Length": "0"})
            lines = [f"--{boundary}", "Content-Type: application/http", "Content-Transfer-Encoding: binary",
                     f"Content-ID: {number}", "", f"DELETE {path} HTTP/1.1"]
            lines += [f"{key.title()}: {value}" for key, value in headers.items()] + ["", ""]
            body += "\r\n".join(lines).encode() + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/mixed; boundary={boundary}"}
        # `path_url(&Path::from("/"))` is the container without a slash at its end.
        return self.ask("POST", None, [("restype", "container"), ("comp", "batch")], body, headers)


def quote(text):
    """`percent_encode(NON_ALPHANUMERIC)`: also `-`, `.`, `_` and `/` are escaped."""
    return "".join(chr(b) if chr(b).isascii() and chr(b).isalnum() else f"%{b:02X}" for b in text.encode())


def main():
    action, port, name = sys.argv[1:]
    if action == "make-bucket":
        kind = {"Content-Type": "application/json"}
        answer = ask(int(port), "POST", "/storage/v1/b?project=lab", json.dumps({"name": name}).encode(), kind)
    else:
        answer = Azure(int(port), name).make()
    if answer.status not in (200, 201):
        sys.exit(f"{action}: {answer}")


if __name__ == "__main__":
    main()
