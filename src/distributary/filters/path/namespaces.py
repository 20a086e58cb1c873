"""Names in namespaces: from the names that tags are written with to the labels of a document's nodes.

Expat could do this, but it would write the whole URI of a namespace before every name, and a long URI on
many names takes memory and time in proportion to both multiplied. Here a URI is looked up when a name is
first met below a path, and each label is made once for the whole document.

The rules are those of Namespaces in XML 1.0: a name has at most one colon; a prefix must be declared; `xml`
stands for its own namespace and `xmlns` for none; no other prefix may be declared for theirs; and a prefix
cannot be undeclared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.filters.path.fifth_edition import starts_name

MAX_NAME = 4096
"""Characters of a name, and of a namespace's URI. No path filter can write a longer one."""
MAX_NAMES = 16 * 1024 * 1024
"""Characters of the different names of a document together, each with the URI of its namespace."""

DECLARATION = "xmlns"
"""The name, or the prefix, of the attributes that declare namespaces."""
XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
_RESERVED = (XML_NAMESPACE, "http://www.w3.org/2000/xmlns/")


class QualifiedName(NamedTuple):
    """A name, as documents write it and as paths do."""

    prefix: str
    label: str


class NamespaceScope(NamedTuple):
    """What one element declares; what it does not, the scope around it does."""

    declared: dict[str, str]
    """From prefix to URI, both "" for none."""
    around: NamespaceScope | None
    names: dict[str, QualifiedName]
    """What written names mean here, as far as they were met; those of attributes have `@` before them."""


def outermost_scope() -> NamespaceScope:
    """The scope around a document."""
    return NamespaceScope({"": "", "xml": XML_NAMESPACE}, None, {})


class DocumentNames:
    """The names of one document. What it refuses is raised as a `ValueError` that says why."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str], str] = {}
        self._size = 0

    def element(self, name: str, scope: NamespaceScope) -> QualifiedName:
        """The name of an element: without a prefix it is in the default namespace.

        >>> DocumentNames().element("p:a", open_scope(["xmlns:p", "urn:n"], outermost_scope())).label
        'Q{urn:n}a'
        """
        found = scope.names.get(name)
        if found is None:
            prefix, local = _split(name)
            found = scope.names[name] = QualifiedName(prefix, self._label(prefix, local, scope))
        return found

    def attribute(self, name: str, scope: NamespaceScope) -> QualifiedName:
        """The name of an attribute: without a prefix it is in no namespace."""
        found = scope.names.get("@" + name)
        if found is None:
            prefix, local = _split(name)
            label = self._label(prefix, local, scope, "@") if prefix else self._kept("", local, "@")
            found = scope.names["@" + name] = QualifiedName(prefix, label)
        return found

    def _label(self, prefix: str, local: str, scope: NamespaceScope, sign: str = "") -> str:
        within: NamespaceScope | None = scope
        while within is not None:
            uri = within.declared.get(prefix)
            if uri is not None:
                # Known where it was asked for, so that the next name asks one scope only.
                scope.declared[prefix] = uri
                return self._kept(uri, local, sign)
            within = within.around
        raise ValueError(f"unbound prefix {_shown(prefix)}; declare it with {DECLARATION}:{_shown(prefix)}=")

    def _kept(self, uri: str, local: str, sign: str) -> str:
        key = uri, sign + local
        label = self._labels.get(key)
        if label is None:
            label = f"{sign}Q{{{uri}}}{local}" if uri else sign + local
            self._size += len(label)
            if self._size > MAX_NAMES:
                raise ValueError(
                    f"has different names of more than {MAX_NAMES} characters together, namespaces included"
                )
            self._labels[key] = label
        return label


def declares(attribute: str) -> bool:
    """Whether an attribute of that name declares a namespace."""
    return attribute.startswith(DECLARATION) and attribute[len(DECLARATION) :][:1] in ("", ":")


def open_scope(declarations: Sequence[str], around: NamespaceScope) -> NamespaceScope:
    """The scope of an element with these declarations, names and URIs in turn; ValueError for a bad one."""
    declared: dict[str, str] = {}
    for name, uri in zip(declarations[::2], declarations[1::2], strict=True):
        prefix = name[len(DECLARATION) + 1 :]
        if name != DECLARATION:
            _split(name)
        if len(uri) > MAX_NAME:
            raise ValueError(f"a namespace's URI has {len(uri)} characters; at most {MAX_NAME} are read")
        if prefix == DECLARATION:
            raise ValueError(f"the prefix {DECLARATION} is never declared")
        if prefix and not uri:
            raise ValueError(f"the prefix {_shown(prefix)} is declared for no namespace; give it a URI")
        if (prefix == "xml") != (uri == XML_NAMESPACE) or uri == _RESERVED[1]:
            raise ValueError(f"{_shown(prefix) or 'the default'} is declared for {uri}, which is reserved")
        declared[prefix] = uri
    return NamespaceScope(declared, around, {})


def _split(name: str) -> tuple[str, str]:
    """The prefix ("" for none) and the local name."""
    if len(name) > MAX_NAME:
        raise ValueError(f"a name has {len(name)} characters; at most {MAX_NAME} are read")
    if ":" not in name:
        return "", name
    prefix, _, local = name.partition(":")
    if not prefix or ":" in local or not starts_name(local):
        raise ValueError(f"{_shown(name)} is no name; it has one colon at most, between two names")
    return prefix, local


def _shown(name: str) -> str:
    return name if len(name) <= 60 else name[:57] + "..."
