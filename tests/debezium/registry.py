"""A schema registry for one side of one case: as much of Apicurio's interface as its Avro converter asks for, and of
Confluent's as its converters and outboxd do. A schema's id comes from its text, so that two registries give the same one."""

import contextlib
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

ADDRESS = "{registry}"
"""What stands for the registry's address in a configuration."""
APICURIO, CONFLUENT = "/apis/registry/v2", "/apis/ccompat/v7"
AVRO = "AVRO"
ID_MASK = 2**31 - 1


class Registry:
    def __init__(self):
        self.subjects, self.texts, self.lock = {}, {}, threading.Lock()
        """The texts of each subject, in order; the kind and the text behind each id."""

    def register(self, subject, text, kind=AVRO):
        with self.lock:
            schema_id = zlib.crc32(text.encode()) & ID_MASK
            if self.texts.setdefault(schema_id, (kind, text)) != (kind, text):
                raise ValueError("two schemas have one id")
            versions = self.subjects.setdefault(subject, [])
            if text not in versions:
                versions.append(text)
            return schema_id, versions.index(text) + 1

    @contextlib.contextmanager
    def serving(self):
        """Its address, without a path."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"registry": self}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry = None

    def do_GET(self):
        path = urlsplit(self.path).path
        self._answer(200, [AVRO, "JSON", "PROTOBUF"]) if path == f"{CONFLUENT}/schemas/types" else self._unknown()

    def do_POST(self):
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if path == f"{APICURIO}/groups/default/artifacts":
            self._artifact(self.headers["X-Registry-ArtifactId"], body)
        elif path.startswith(f"{CONFLUENT}/subjects/") and path.endswith("/versions"):
            subject = unquote(path.removeprefix(f"{CONFLUENT}/subjects/").removesuffix("/versions"))
            asked = json.loads(body)
            schema_id, version = self.registry.register(subject, asked["schema"], asked.get("schemaType") or AVRO)
            self._answer(200, {"id": schema_id, "version": version})
        else:
            self._unknown()

    def _artifact(self, name, text):
        schema_id, version = self.registry.register(name, text)
        moment = "2024-01-01T00:00:00+0000"
        self._answer(200, {"id": name, "groupId": "default", "version": str(version), "type": AVRO, "state": "ENABLED",
                           "globalId": schema_id, "contentId": schema_id, "createdOn": moment, "modifiedOn": moment,
                           "createdBy": "", "modifiedBy": "", "references": []})

    def _unknown(self):
        self._answer(404, {"error_code": 404, "message": f"{self.command} {self.path} is not served here"})

    def _answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
