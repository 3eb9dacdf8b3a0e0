"""Servers of files for tests: one of HTTP that serves parts of files, and one of S3 that checks signatures as AWS
describes them (Signature Version 4), both of which fail where they are told to."""

import datetime
import hashlib
import hmac
import http.server
import pathlib
import re
import socket
import struct
import sys
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

KEY, SECRET, REGION = "TESTKEY", "test/secret+key", "us-east-1"


class Fault:
    """What happens to every `every`-th request, or to all after the first `after`: "500", "cut" (the connection ends
    in the middle of the answer), "reset", "stall" (half of the answer, then silence), "range" (another part than was
    asked for), "whole" (all of the file).

    Where others pass, a request that was struck passes when it is tried again: of many clients at once it is chance
    whose is the n-th, and one that is struck each time gives up."""

    def __init__(self, kind, every=1, after=0):
        self.kind, self.every, self.after = kind, every, after
        self.requests, self.struck = 0, set()

    def strikes(self, request):
        self.requests += 1
        if request in self.struck:
            self.struck.remove(request)
            return False
        strikes = self.requests > self.after and (self.requests - self.after) % self.every == 0
        if strikes and self.every > 1:
            self.struck.add(request)
        return strikes


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a body follows its headers at once

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=None, fault=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault in ("cut", "reset", "stall"):
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if fault == "stall":
                self.server.ended.wait(60)
            if fault == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(body)

    def fault(self):
        with self.server.lock:
            self.server.requests += 1
            fault = self.server.fault
            request = (self.command, self.path, self.headers.get("Range"))
            return fault.kind if fault and fault.strikes(request) else None

    def serve(self, content, fault):
        """The file, or the part of it that is asked for."""
        self.server.wait_for_others()
        headers = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked or fault == "whole":
            return self.answer(200, content, headers, fault)
        first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
        if first >= len(content):
            return self.answer(416, b"", headers | {"Content-Range": f"bytes */{len(content)}"})
        part = content[first : last + 1]
        if fault == "range":
            first, last = first + 1, last + 1
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self.answer(206, part, headers, fault)


class HttpHandler(Handler):
    def do_GET(self):
        fault = self.fault()
        path = self.server.folder / urllib.parse.unquote(self.path.split("?")[0]).lstrip("/")
        if fault == "500":
            self.answer(500)
        elif not path.is_file():
            self.answer(404)
        else:
            self.serve(path.read_bytes(), fault)


class S3Handler(Handler):
    """Buckets are folders of the server's folder; addresses are in path style."""

    def refuse(self, status, code, message=""):
        self.answer(status, f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>".encode())

    def signature(self, date, scope, names):
        """What the request is to be signed with."""
        path, _, query = self.path.partition("?")
        headers = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        request = "\n".join([self.command, path, "&".join(sorted(filter(None, query.split("&")))), headers,
                             ";".join(names), self.headers["x-amz-content-sha256"]])
        text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in [*scope.split("/"), text]:
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key.hex()

    def is_admitted(self):
        """Is it signed with our key? Answers if not."""
        found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), *SignedHeaders=([^,]+), *Signature=(\w+)",
                             self.headers.get("Authorization", ""))
        if not found:
            return self.refuse(403, "AccessDenied", "not signed")
        key, scope, names, signature = found.groups()
        if key != KEY:
            return self.refuse(403, "InvalidAccessKeyId", "The key is not known.")
        if scope.split("/")[1] != REGION:
            return self.refuse(400, "AuthorizationHeaderMalformed", "The region is wrong.")
        names = names.split(";")
        if "host" not in names or "x-amz-content-sha256" not in names:
            return self.refuse(403, "AccessDenied", "a header is not signed")
        if signature != self.signature(self.headers["x-amz-date"], scope, names):
            return self.refuse(403, "SignatureDoesNotMatch", "The signature is another one.")
        return True

    def place(self):
        """(bucket's folder, key) of the address; answers where there is no such bucket."""
        bucket, _, key = urllib.parse.unquote(self.path.partition("?")[0]).lstrip("/").partition("/")
        folder = self.server.folder / bucket
        if not folder.is_dir():
            self.refuse(404, "NoSuchBucket", "The bucket does not exist.")
            return None, None
        return folder, key

    def admitted_place(self, fault):
        """place() for who may ask; answers those who may not, and where it fails."""
        if fault == "500":
            self.answer(500)
        elif self.is_admitted():
            return self.place()
        return None, None

    def do_GET(self):
        fault = self.fault()
        folder, key = self.admitted_place(fault)
        if folder is None:
            return None
        if not key:
            return self.list(folder, dict(urllib.parse.parse_qsl(self.path.partition("?")[2], keep_blank_values=True)))
        if not (folder / key).is_file():
            return self.refuse(404, "NoSuchKey", "The key does not exist.")
        return self.serve((folder / key).read_bytes(), fault)

    def list(self, folder, query):
        keys = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        keys = [key for key in keys if key.startswith(query["prefix"]) and key > query.get("continuation-token", "")]
        page, rest = keys[: self.server.page], keys[self.server.page :]
        text = "<ListBucketResult>" + (
            f"<IsTruncated>true</IsTruncated><NextContinuationToken>{escape(page[-1])}</NextContinuationToken>"
            if rest else "<IsTruncated>false</IsTruncated>")
        for key in page:
            content = (folder / key).read_bytes()
            text += (f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>{len(content)}</Size>"
                     f"<ETag>&quot;{hashlib.md5(content).hexdigest()}&quot;</ETag>"
                     f"<LastModified>{self.modified(folder / key)}</LastModified></Contents>")
        self.answer(200, (text + "</ListBucketResult>").encode())

    @staticmethod
    def modified(path):
        when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def do_DELETE(self):
        folder, key = self.admitted_place(self.fault())
        if folder is not None:
            (folder / key).unlink(missing_ok=True)
            self.answer(204)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.seconds_of_upload)
        folder, key = self.admitted_place(self.fault())
        if folder is not None:
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(body)
            self.answer(200)


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64  # as many connect at once
    seconds_of_upload = 0

    def process_request(self, request, client_address):
        self.connections += 1
        super().process_request(request, client_address)

    def wait_for_others(self):
        """Counts who asks for a file at this moment, and holds it until as many do as are gathered."""
        with self.lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.at_once >= self.gathered:
                self.have_gathered.set()
        self.have_gathered.wait(10)
        with self.lock:
            self.at_once -= 1

    def handle_error(self, request, client_address):
        """Clients go away when they have seen enough."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class FileServer:
    """Serves a folder on a port of loopback until it is closed. `page`: objects that a list has at a time."""

    def __init__(self, handler, folder, page=1000):
        self.server = QuietServer(("127.0.0.1", 0), handler)
        self.server.folder, self.server.page = pathlib.Path(folder), page
        self.server.lock, self.server.ended = threading.Lock(), threading.Event()
        self.server.fault, self.server.have_gathered = None, threading.Event()
        self.gather(1)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def fail(self, *arguments, **keys):
        """From here on it fails (see Fault); without arguments no more."""
        with self.server.lock:
            self.server.fault = Fault(*arguments, **keys) if arguments else None

    def slow_down_uploads(self, seconds):
        """From here on each takes so long."""
        self.server.seconds_of_upload = seconds

    def gather(self, requests):
        """Counts anew, and answers nobody who asks for a file until so many do at once, or ten seconds are over; nobody
        may be asking for anything."""
        self.server.gathered = requests
        self.server.have_gathered.clear()
        self.server.requests = self.server.connections = self.server.at_once = self.server.most_at_once = 0

    @property
    def requests(self):
        return self.server.requests

    @property
    def connections(self):
        return self.server.connections

    @property
    def most_at_once(self):
        """Requests for files that were there at the same moment."""
        return self.server.most_at_once

    def environment(self):
        """How clients are told of it, if it is one of S3."""
        return {"AWS_ENDPOINT_URL": self.address, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": REGION}

    def close(self):
        self.server.ended.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
