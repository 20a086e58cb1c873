"""A schema registry on loopback, in memory: as much of Confluent's API as its clients and ours ask for."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """What is registered, what was asked, and how it fails: `failures` answers are errors."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.failures = 0
        self.password: str | None = None
        self.address = ""

    def register(self, subject: str, given: dict[str, Any]) -> int:
        """Keep a schema; the same one has the same id."""
        schema = {"schemaType": "AVRO", **{name: value for name, value in given.items() if value}}
        if schema not in self.schemas:
            self.schemas.append(schema)
        id = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if id not in versions:
            versions.append(id)
        return id

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        """The status and the object that a request is answered with."""
        self.asked.append(path)
        wanted = self.password and f"Basic {base64.b64encode(self.password.encode()).decode()}"
        if wanted and headers.get("Authorization") != wanted:
            return 401, {"error_code": 401, "message": "who are you?"}
        if self.failures:
            self.failures -= 1
            return 503, {"error_code": 50301, "message": "not now"}
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        if method == "POST":
            given = json.loads(body)
            id = self.register(parts[1], given)
            return 200, {
                "id": id,
                "subject": parts[1],
                "version": self.subjects[parts[1]].index(id) + 1,
                **given,
            }
        if parts[:2] == ["schemas", "ids"]:
            number = int(parts[2])
            if 0 < number <= len(self.schemas):
                return 200, self.schemas[number - 1]
        if parts[0] == "subjects" and parts[1] in self.subjects and len(parts) == 4:
            versions = self.subjects[parts[1]]
            if parts[3] == "latest" or int(parts[3]) <= len(versions):
                version = len(versions) if parts[3] == "latest" else int(parts[3])
                id = versions[version - 1]
                return 200, {"subject": parts[1], "id": id, "version": version, **self.schemas[id - 1]}
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry that listens until the end of the block."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = registry.answer(self.command, self.path, self.headers, body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _do  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    registry.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
