"""The path classes of a document while it is read: from the name of a tag to the class of its node.

All nodes of one class have the same namespaces in scope, so that below a class one written name is one
label, and looking up the name alone finds the class of a node. Names are taken apart, and prefixes looked up,
only when a name is new below its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from distributary.filters.path.namespaces import (
    DocumentNames,
    NamespaceScope,
    QualifiedName,
    declares,
    open_scope,
    outermost_scope,
)

MAX_DEPTH = 256
"""Elements inside one another."""
MAX_ATTRIBUTES = 1_000
"""Attributes of one element, declarations of namespaces among them."""


class KnownClasses:
    """The classes met so far; `labels`, `prefixes` and `parents` are the lists of the document, by class."""

    def __init__(
        self,
        labels: list[str],
        prefixes: list[str],
        parents: list[int],
        refuse: Callable[[str], NoReturn],
    ) -> None:
        self.labels = labels
        self.prefixes = prefixes
        self.parents = parents
        self.refuse = refuse
        self.names = DocumentNames()
        # By path class + 1, so that -1 finds the document's:
        self.below: list[dict[Any, int]] = [{}]
        """The class of what is written so below it: a name, with the declarations of namespaces if any."""
        self.scopes: list[NamespaceScope] = [outermost_scope()]
        self.depths = [0]
        self.attributes: set[tuple[int, str]] = set()
        """The labels of attributes with a prefix, and the classes of their elements."""
        self.aliases: set[int] = set()
        """The classes in which two written names are one label, so that attributes may be double."""

    def add_element(self, parent_class: int, name: str, declarations: Sequence[str] = ()) -> int:
        """A new class of elements, with the namespaces that they declare."""
        depth = self.depths[parent_class + 1] + 1
        if depth > MAX_DEPTH:
            self.refuse(f"elements are nested more than {MAX_DEPTH} deep")
        scope = self.scopes[parent_class + 1]
        try:
            if declarations:
                scope = open_scope(declarations, scope)
            found = self.names.element(name, scope)
        except ValueError as error:
            self.refuse(str(error))
        key = (name, *declarations) if declarations else name
        return self._add(parent_class, key, found, scope, depth)

    def add_attribute(self, path_class: int, name: str) -> int:
        """A new class of attributes of elements of that class."""
        scope = self.scopes[path_class + 1]
        try:
            found = self.names.attribute(name, scope)
        except ValueError as error:
            self.refuse(str(error))
        if found.prefix:
            if (path_class, found.label) in self.attributes:
                self.aliases.add(path_class)
            self.attributes.add((path_class, found.label))
        return self._add(path_class, "@" + name, found, scope, 0)

    def check_attributes(self, attribute_classes: list[int]) -> None:
        """Refuse an element that has two attributes of one label."""
        if len({self.labels[each] for each in attribute_classes}) < len(attribute_classes):
            self.refuse("duplicate attribute: two prefixes stand for one namespace")

    def _add(self, parent: int, key: Any, name: QualifiedName, scope: NamespaceScope, depth: int) -> int:
        path_class = self.below[parent + 1][key] = len(self.labels)
        self.labels.append(name.label)
        self.prefixes.append(name.prefix)
        self.parents.append(parent)
        self.below.append({})
        self.scopes.append(scope)
        self.depths.append(depth)
        return path_class


def without_declarations(
    attributes: list[str], refuse: Callable[[str], NoReturn]
) -> tuple[list[str], list[str]]:
    """The attributes that declare no namespaces, and those that do; names and values in turn.

    >>> without_declarations(["id", "7", "xmlns", "urn:n"], print)
    (['id', '7'], ['xmlns', 'urn:n'])
    """
    if len(attributes) > 2 * MAX_ATTRIBUTES:
        refuse(f"an element has more than {MAX_ATTRIBUTES} attributes")
    others: list[str] = []
    declarations: list[str] = []
    for at in range(0, len(attributes), 2):
        (declarations if declares(attributes[at]) else others).extend(attributes[at : at + 2])
    return others, declarations
