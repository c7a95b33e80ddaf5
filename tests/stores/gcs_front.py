#!/usr/bin/env python3
"""Google's XML API in front of fake-gcs-server, which has too little of it for the crate object_store.

    gcs_front.py --listen PORT --upstream PORT --public-host HOST [--keys FILE] [--page N]

fake-gcs-server keeps all objects, generations and checksums, and decides about preconditions of writes; this program only
translates: PUT, DELETE, lists, copies and errors in XML. Multipart uploads are held here until they are complete, since
the emulator knows none. Only the standard library is used.

`--keys` is JSON, {"email": {"n": "hex", "e": 65537, "allowed": true}}: tokens of service accounts are verified. A
request without a token is let in (object_store sends an empty one with `"disable_oauth": true`).

Every request is a line on standard output: method, path with query, status, bytes of the body that was sent.
POST /_fail?method=GET&contains=TEXT&status=503&times=N makes the next N such requests fail; GET /_uploads tells the
multipart uploads that are not complete.
"""

import argparse
import base64
import hashlib
import http.client
import json
import re
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.etree import ElementTree
from xml.sax.saxutils import escape

HEAD = "<?xml version='1.0' encoding='UTF-8'?>"
PART_BYTES = 5 << 20  # The least size of a part but the last.
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status, code, message, details=""):
        super().__init__(code)
        self.status = status
        details = f"<Details>{escape(details)}</Details>" if details else ""
        self.body = f"{HEAD}<Error><Code>{code}</Code><Message>{message}</Message>{details}</Error>".encode()


def no_bucket(bucket):
    return Refused(404, "NoSuchBucket", "The specified bucket does not exist.")


def no_key(bucket, name):
    return Refused(404, "NoSuchKey", "The specified key does not exist.", f"No such object: {bucket}/{name}")


def unmet():
    message = "At least one of the pre-conditions you specified did not hold."
    return Refused(412, "PreconditionFailed", message, "x-goog-if-generation-match")


class Token:
    """Verifies RS256 with the public keys of the accounts."""

    def __init__(self, file):
        self.accounts = json.load(open(file)) if file else {}

    def check(self, header, bucket):
        bearer = (header or "").removeprefix("Bearer").strip()
        if not bearer:
            return
        invalid = Refused(401, "AuthenticationRequired", "Authentication required.")
        try:
            head, claims, signature = bearer.split(".")
            decoded = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in (head, claims, signature)]
            kind, claim = json.loads(decoded[0]), json.loads(decoded[1])
            account = self.accounts[claim["iss"]]
            n = int(account["n"], 16)
            size = (n.bit_length() + 7) // 8
            digest = SHA256_PREFIX + hashlib.sha256(f"{head}.{claims}".encode()).digest()
            padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
            good = pow(int.from_bytes(decoded[2], "big"), account["e"], n) == int.from_bytes(padded, "big")
            if kind["alg"] != "RS256" or not good or claim["exp"] < time.time():
                raise invalid
        except (ValueError, KeyError, TypeError):
            raise invalid from None
        if not account["allowed"]:
            who = f"{claim['iss']} does not have storage.objects access to the Google Cloud Storage bucket."
            raise Refused(403, "AccessDenied", "Access denied.", who)


class State:
    def __init__(self, args):
        self.args = args
        self.tokens = Token(args.keys)
        self.uploads = {}
        self.failures = []
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Each header would be a packet of its own otherwise, and wait for the one before.
    wbufsize = 64 << 10
    disable_nagle_algorithm = True
    state: State

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        self.body = self.rfile.read(length)
        try:
            if not self.control():
                self.injected()
                self.route()
        except Refused as refused:
            self.send(refused.status, refused.body, {"Content-Type": "application/xml; charset=UTF-8"})
        except (ConnectionRefusedError, http.client.HTTPException) as error:
            self.send(503, Refused(503, "ServiceUnavailable", escape(str(error))).body, {})

    def send(self, status, body=b"", headers=None, length=None):
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)
        self.wfile.flush()
        sent = 0 if self.command == "HEAD" else len(body)
        print(self.command, self.path, status, sent, self.headers.get("range") or "-", flush=True)

    def control(self):
        split = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(split.query))
        if split.path == "/_uploads":
            with self.state.lock:
                open_now = {key: sorted(u["parts"]) for key, u in self.state.uploads.items()}
            self.send(200, json.dumps(open_now).encode())
        elif split.path == "/_fail":
            with self.state.lock:
                self.state.failures.append(query | {"left": int(query.get("times", 1))})
            self.send(200)
        else:
            return False
        return True

    def injected(self):
        with self.state.lock:
            for failure in self.state.failures:
                if failure["left"] and failure.get("method", self.command) == self.command \
                        and failure.get("contains", "") in self.path:
                    failure["left"] -= 1
                    status = int(failure.get("status", 503))
                    raise Refused(status, failure.get("code", "ServiceUnavailable"), "Injected.")

    def route(self):
        split = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(split.query, keep_blank_values=True))
        bucket, _, name = split.path.lstrip("/").partition("/")
        bucket, name = urllib.parse.unquote(bucket), urllib.parse.unquote(name)
        self.state.tokens.check(self.headers.get("authorization"), bucket)
        if not name:
            return self.list(bucket)
        verb = self.command
        if verb in ("GET", "HEAD"):
            return self.get(bucket, name)
        if verb == "POST" and "uploads" in self.query:
            return self.initiate(bucket, name)
        if verb == "POST" and "uploadId" in self.query:
            return self.complete(bucket, name)
        if verb == "PUT" and "uploadId" in self.query:
            return self.part(bucket, name)
        if verb == "DELETE" and "uploadId" in self.query:
            return self.abort(bucket, name)
        if verb == "PUT" and "x-goog-copy-source" in self.headers:
            return self.copy(bucket, name)
        if verb == "PUT":
            written = self.write(bucket, name, self.body, self.generation_match())
            return self.send(200, b"", version_of(written))
        if verb == "DELETE":
            return self.delete(bucket, name)
        raise Refused(405, "MethodNotAllowed", "The method is not allowed.")

    # The emulator

    def upstream(self, verb, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.state.args.upstream, timeout=60)
        connection.request(verb, path, body, {"Host": self.state.args.public_host, **(headers or {})})
        return connection.getresponse()

    def api(self, verb, path, body=None, headers=None):
        """Status and document of its JSON API."""
        answer = self.upstream(verb, path, body, headers)
        text = answer.read()
        return answer.status, (json.loads(text) if text.strip() else None)

    def check_bucket(self, bucket):
        if self.api("GET", f"/storage/v1/b/{quoted(bucket)}")[0] != 200:
            raise no_bucket(bucket)

    def find(self, bucket, name):
        status, found = self.api("GET", f"/storage/v1/b/{quoted(bucket)}/o/{quoted(name)}")
        if status == 200:
            return found
        self.check_bucket(bucket)
        return None

    def generation_match(self):
        return self.headers.get("x-goog-if-generation-match")

    def write(self, bucket, name, body, generation):
        query = {"uploadType": "media", "name": name}
        if generation is not None:
            query["ifGenerationMatch"] = generation
        path = f"/upload/storage/v1/b/{quoted(bucket)}/o?{urllib.parse.urlencode(query)}"
        kind = {"Content-Type": self.headers.get("content-type") or "application/octet-stream"}
        status, written = self.api("POST", path, body, kind)
        if status == 412:
            raise unmet()
        if status == 404:
            raise no_bucket(bucket)
        if status != 200:
            raise Refused(500, "InternalError", f"the emulator answered {status}")
        return written

    # Requests

    def list(self, bucket):
        if self.command != "GET":
            raise Refused(405, "MethodNotAllowed", "The method is not allowed.")
        self.check_bucket(bucket)
        prefix, delimiter = self.query.get("prefix", ""), self.query.get("delimiter", "")
        query = urllib.parse.urlencode({"prefix": prefix, "delimiter": delimiter})
        _, listed = self.api("GET", f"/storage/v1/b/{quoted(bucket)}/o?{query}")
        entries = [(item["name"], item) for item in listed.get("items", [])]
        entries += [(folder, None) for folder in listed.get("prefixes", [])]
        entries.sort(key=lambda entry: entry[0].encode())
        after = self.query.get("start-after", "")
        if "continuation-token" in self.query:
            after = base64.urlsafe_b64decode(self.query["continuation-token"]).decode()
        entries = [entry for entry in entries if entry[0].encode() > after.encode()]
        most = min(int(self.query.get("max-keys", self.state.args.page)), self.state.args.page)
        page, more = entries[:most], len(entries) > most
        text = [f"{HEAD}<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><Name>{escape(bucket)}</Name>"
                f"<Prefix>{escape(prefix)}</Prefix><IsTruncated>{str(more).lower()}</IsTruncated>"]
        if more:
            token = base64.urlsafe_b64encode(page[-1][0].encode()).decode()
            text.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        for name, item in page:
            if item is None:
                text.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                # As Google does: milliseconds here, seconds in the answers to reads.
                at = re.sub(r"(\.\d*)?Z$", lambda m: f"{(m[1] or '.')[:4]:0<4}Z", item["updated"])
                text.append(
                    f"<Contents><Key>{escape(name)}</Key><Generation>{item['generation']}</Generation>"
                    f"<MetaGeneration>1</MetaGeneration><LastModified>{at}</LastModified>"
                    f"<ETag>{etag(item)}</ETag><Size>{item['size']}</Size></Contents>"
                )
        text.append("</ListBucketResult>")
        self.send(200, "".join(text).encode(), {"Content-Type": "application/xml; charset=UTF-8"})

    def get(self, bucket, name):
        # The object may be replaced between the two requests; then the emulator does not find the generation.
        for _ in range(10):
            found = self.find(bucket, name)
            if found is None:
                raise no_key(bucket, name)
            wanted = self.query.get("generation")
            if wanted not in (None, found["generation"]):
                raise no_key(bucket, name)
            match, none_match = self.headers.get("if-match"), self.headers.get("if-none-match")
            if match not in (None, "*") and etag(found) not in [tag.strip() for tag in match.split(",")]:
                raise unmet()
            if none_match is not None and etag(found) in [tag.strip() for tag in none_match.split(",")]:
                return self.send(304, b"", version_of(found))
            path = f"{media(bucket, name)}&generation={found['generation']}"
            ranged = {"Range": self.headers["range"]} if "range" in self.headers else {}
            answer = self.upstream(self.command, path, None, ranged)
            body = answer.read()
            if answer.status == 404:
                continue
            kept = ("content-range", "content-type", "last-modified", "x-goog-hash", "accept-ranges")
            headers = {key: value for key, value in answer.getheaders() if key.lower() in kept}
            length = answer.headers["content-length"] if self.command == "HEAD" else len(body)
            return self.send(answer.status, body, {**headers, **version_of(found)}, length)
        raise Refused(503, "ServiceUnavailable", "The object changes too fast.")

    def delete(self, bucket, name):
        if self.api("DELETE", f"/storage/v1/b/{quoted(bucket)}/o/{quoted(name)}")[0] == 404:
            self.check_bucket(bucket)
            raise no_key(bucket, name)
        self.send(204)

    def copy(self, bucket, name):
        source_bucket, _, source = self.headers["x-goog-copy-source"].lstrip("/").partition("/")
        source_bucket, source = urllib.parse.unquote(source_bucket), urllib.parse.unquote(source)
        if self.find(source_bucket, source) is None:
            raise no_key(source_bucket, source)
        answer = self.upstream("GET", media(source_bucket, source))
        written = self.write(bucket, name, answer.read(), self.generation_match())
        text = f"{HEAD}<CopyObjectResult><LastModified>{written['updated']}</LastModified>" \
               f"<ETag>{etag(written)}</ETag></CopyObjectResult>"
        self.send(200, text.encode(), {"Content-Type": "application/xml", **version_of(written)})

    # Multipart uploads

    def initiate(self, bucket, name):
        self.check_bucket(bucket)
        upload = uuid.uuid4().hex
        with self.state.lock:
            self.state.uploads[upload] = {"of": (bucket, name), "parts": {}}
        text = f"{HEAD}<InitiateMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>" \
               f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(name)}</Key><UploadId>{upload}</UploadId>" \
               "</InitiateMultipartUploadResult>"
        self.send(200, text.encode(), {"Content-Type": "application/xml"})

    def upload(self, bucket, name):
        with self.state.lock:
            upload = self.state.uploads.get(self.query["uploadId"])
        if upload is None or upload["of"] != (bucket, name):
            raise Refused(404, "NoSuchUpload", "The requested upload was not found.")
        return upload

    def part(self, bucket, name):
        upload, number = self.upload(bucket, name), int(self.query["partNumber"])
        if not 1 <= number <= 10000:
            raise Refused(400, "InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive.")
        tag = f'"{hashlib.md5(self.body).hexdigest()}"'
        with self.state.lock:
            upload["parts"][number] = (tag, self.body)
        self.send(200, b"", {"ETag": tag})

    def complete(self, bucket, name):
        upload = self.upload(bucket, name)
        asked = [
            (int(part.findtext("PartNumber")), part.findtext("ETag"))
            for part in ElementTree.fromstring(self.body).iter("Part")
        ]
        parts = [upload["parts"].get(number, (None, b"")) for number, _ in asked]
        if any(tag.strip('"') != (have or "").strip('"') for (_, tag), (have, _) in zip(asked, parts)):
            raise Refused(400, "InvalidPart", "One or more of the specified parts could not be found.")
        if [number for number, _ in asked] != sorted({number for number, _ in asked}):
            raise Refused(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        if any(len(body) < PART_BYTES for _, body in parts[:-1]):
            raise Refused(400, "EntityTooSmall", "A part is smaller than the minimum allowed size.")
        written = self.write(bucket, name, b"".join(body for _, body in parts), self.generation_match())
        with self.state.lock:
            self.state.uploads.pop(self.query["uploadId"], None)
        text = f"{HEAD}<CompleteMultipartUploadResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>" \
               f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(name)}</Key><ETag>{etag(written)}</ETag>" \
               "</CompleteMultipartUploadResult>"
        self.send(200, text.encode(), {"Content-Type": "application/xml", **version_of(written)})

    def abort(self, bucket, name):
        self.upload(bucket, name)
        with self.state.lock:
            self.state.uploads.pop(self.query["uploadId"], None)
        self.send(204)


def quoted(text):
    return urllib.parse.quote(text, safe="")


def media(bucket, name):
    """Where the emulator has the content of an object."""
    return f"/download/storage/v1/b/{quoted(bucket)}/o/{quoted(name)}?alt=media"


def etag(item):
    """In quotes and in hexadecimal, in lists as in headers."""
    return f'"{base64.b64decode(item["md5Hash"]).hex()}"'


def version_of(item):
    return {"ETag": etag(item), "x-goog-generation": item["generation"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    parser.add_argument("--public-host", required=True)
    parser.add_argument("--keys")
    parser.add_argument("--page", type=int, default=1000)
    Handler.state = State(parser.parse_args())
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", Handler.state.args.listen), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
