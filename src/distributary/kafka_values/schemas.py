"""Schemas by their id: from a schema registry over HTTP, or from files.

Rules:

- A schema with an id never changes, so each is fetched once and kept. That an id is unknown is remembered for
  `UNKNOWN_FOR` seconds only: it may be registered meanwhile.
- A registry that does not answer, or answers with an error of its own, is tried `TRIES` times and is then a
  `RegistryError`, which stops whoever reads: the value may be in order.
- Of Protobuf the registry is asked for descriptors (`format=serialized`), not for a `.proto` file.
- Name and password in the address are sent as HTTP Basic and are never told.
- In a directory the schema with the id 7 is `7.avsc`, a schema in JSON, or `7.desc`, a descriptor set
  (`protoc --include_imports --descriptor_set_out=7.desc`), of which the last file is meant.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from distributary.errors import DistributaryError, InputError

Kind = Literal["avro", "protobuf"]
TRIES = 4
FIRST_PAUSE = 0.2
"""Seconds until a registry is asked again; each time twice as many."""
PATIENCE = 10.0
"""Seconds that an answer may take."""
LONGEST = 16 << 20
"""Bytes of an answer."""
UNKNOWN_FOR = 30.0
MOST_REFERENCES = 1_000
"""Schemas that one may refer to, directly and by others."""
SUFFIXES: Mapping[Kind, str] = {"avro": "avsc", "protobuf": "desc"}


class RegistryError(DistributaryError):
    """A registry, or a file of a schema, that cannot be read: no fault of the value."""


class ValueSchema(NamedTuple):
    """A schema as it was found, with those it refers to, each after those that it needs."""

    parts: tuple[bytes, ...]
    """JSON texts of Avro, or descriptors of Protobuf's files; the last one is the schema itself."""


class SchemaStore(Protocol):
    """Where schemas are found."""

    def find(self, id: int) -> ValueSchema:
        """The schema with an id; InputError if there is none, RegistryError if that cannot be said."""


@dataclass(frozen=True)
class SchemaFiles:
    """Schemas in a directory, named by their ids."""

    directory: str
    kind: Kind

    def find(self, id: int) -> ValueSchema:
        """The schema with an id; InputError if there is no such file."""
        path = Path(self.directory, f"{id}.{SUFFIXES[self.kind]}")
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"was written with the schema {id}, and there is no {path}") from None
        except OSError as error:
            raise RegistryError(f"{path} cannot be read: {error.strerror}") from None
        return ValueSchema((content,) if self.kind == "avro" else tuple(_files_of_set(content, str(path))))


class SchemaRegistry:
    """Schemas of a registry that has the API of Confluent's."""

    def __init__(self, address: str, kind: Kind, pause: Callable[[float], None] = time.sleep) -> None:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._kind, self._pause = kind, pause
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"

    def find(self, id: int) -> ValueSchema:
        """The schema with an id; InputError if the registry has none, RegistryError if it does not say."""
        answer = self._asked(f"schemas/ids/{id}")
        if answer is None:
            raise InputError(f"was written with the schema {id}, which {self._base} does not have")
        found = str(answer.get("schemaType") or "AVRO").lower()
        if found != self._kind:
            raise InputError(f"was written with the schema {id}, which is one of {found}, not {self._kind}")
        parts: dict[tuple[str, int], bytes] = {}
        self._add_references(answer, parts)
        return ValueSchema((*parts.values(), self._content(answer, f"schema {id}")))

    def _add_references(self, answer: Mapping[str, Any], parts: dict[tuple[str, int], bytes]) -> None:
        """Add what a schema refers to, each after those that it needs itself."""
        for each in answer.get("references") or ():
            subject, version = str(each["subject"]), int(each["version"])
            if (subject, version) in parts:
                continue
            if len(parts) >= MOST_REFERENCES:
                raise RegistryError(f"{self._base}: a schema refers to more than {MOST_REFERENCES:,} others")
            inner = self._asked(f"subjects/{quote(subject, safe='')}/versions/{version}")
            if inner is None:
                raise RegistryError(f"{self._base} lacks {subject}, version {version}, which others refer to")
            parts[subject, version] = b""  # so that a circle of references comes to an end
            self._add_references(inner, parts)
            del parts[subject, version]
            parts[subject, version] = self._content(inner, subject)

    def _content(self, answer: Mapping[str, Any], name: str) -> bytes:
        text = str(answer.get("schema", ""))
        if self._kind == "avro":
            return text.encode()
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise RegistryError(
                f"{self._base} gives the text of {name} and no descriptor (format=serialized); "
                "put descriptor sets into a directory, and name that as schemas"
            ) from None

    def _asked(self, path: str) -> dict[str, Any] | None:
        """What the registry answers; None where it does not have it."""
        address = f"{self._base}/{path}" + ("?format=serialized" if self._kind == "protobuf" else "")
        reason, pause = "", FIRST_PAUSE
        for attempt in range(TRIES):
            if attempt:
                self._pause(pause)
                pause *= 2
            try:
                with urlopen(Request(address, headers=self._headers), timeout=PATIENCE) as answer:
                    content = answer.read(LONGEST + 1)
                return _object(content, address)
            except HTTPError as error:
                with error:
                    if error.code == 404:
                        return None
                    reason = f"{error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    break
            except (OSError, URLError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
        raise RegistryError(f"the schema registry cannot be asked: {address}: {reason}")


class KeptSchemas:
    """What is made of schemas, kept by id, and for a while that there is none with an id.

    >>> class Nowhere:
    ...     def find(self, id):
    ...         print("asked"); raise InputError(f"no {id}")
    >>> kept = KeptSchemas(Nowhere(), lambda schema: schema)
    >>> for _ in range(2):
    ...     try: kept.made(7)
    ...     except InputError as error: print(error)
    asked
    no 7
    no 7
    """

    def __init__(
        self,
        store: SchemaStore,
        make: Callable[[ValueSchema], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._make, self._clock = store, make, clock
        self._found: dict[int, Any] = {}
        self._unknown: dict[int, tuple[float, str]] = {}

    def made(self, id: int) -> Any:
        """What was made of the schema with an id; InputError if there is none that can be used."""
        found = self._found.get(id)
        if found is not None:
            return found
        now = self._clock()
        until, reason = self._unknown.get(id, (now, ""))
        if until > now:
            raise InputError(reason)
        try:
            found = self._found[id] = self._make(self._store.find(id))
        except InputError as error:
            self._unknown = {each: kept for each, kept in self._unknown.items() if kept[0] > now}
            self._unknown[id] = now + UNKNOWN_FOR, str(error)
            raise
        return found


def _object(content: bytes, address: str) -> dict[str, Any]:
    try:
        found = json.loads(content) if len(content) <= LONGEST else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RegistryError(f"{address} answers with what is no schema registry's: {content[:60]!r}")
    return found


def _files_of_set(content: bytes, path: str) -> Iterator[bytes]:
    """The files of a descriptor set, each after those that it needs, as protoc writes them."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = FileDescriptorSet.FromString(content).file
    except DecodeError:
        files = ()
    if not files:
        raise RegistryError(f"{path} is no descriptor set: protoc --include_imports --descriptor_set_out")
    for each in files:
        yield each.SerializeToString()
