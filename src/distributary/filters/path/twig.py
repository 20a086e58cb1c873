"""The tree pattern that a full XPath implies: what every document that it selects must have.

Indexes decide tree patterns (see `pattern`) and nothing more. For a path that says more they take what it
implies as a pattern, and ask `evaluate` about the documents that have that. Leaving something out only lets
more documents through:

- Selecting something at the end of a path implies selecting something at each of its steps, so a step that
  leaves the tree (`..`, `following::b`) ends the pattern. Where that leaves no name, the last name of the
  path is asked for anywhere.
- A predicate on a position, and one that a pattern cannot say, are left out. So is an `or` of which any part
  is, and a `not()` unless all in it can be said exactly.
"""

from __future__ import annotations

from distributary.filters.path import pattern, xpath
from distributary.filters.path.pattern import And, Axis, Compares, Exists, LocationPath, Not, Or, PathStep
from distributary.filters.path.xpath import (
    Expression,
    XPath,
    XPathAxis,
    XPathCall,
    XPathLiteral,
    XPathOperation,
    XPathStep,
)

_ANYTHING = (PathStep(Axis.DESCENDANT, pattern.ANY_ELEMENT),)
_DOWN = {XPathAxis.CHILD: Axis.CHILD, XPathAxis.ATTRIBUTE: Axis.CHILD, XPathAxis.DESCENDANT: Axis.DESCENDANT}
_KINDS = (xpath.NODE, xpath.COMMENT, xpath.INSTRUCTION)


def implied_pattern(path: XPath) -> LocationPath:
    """The pattern of a path that starts at the document, with the path itself unless that is all it says.

    >>> from distributary.filters.path.xpath import ABOVE, EVERYWHERE
    >>> path = XPath(True, (EVERYWHERE, XPathStep(XPathAxis.CHILD, "a"), ABOVE))
    >>> implied_pattern(path).steps
    (PathStep(axis=<Axis.DESCENDANT: '//'>, label='a', predicates=()),)
    """
    steps: tuple[PathStep, ...] = ()
    if path.group is None:
        steps, exact = _translated(path)
        if exact and steps:
            return LocationPath(steps)
    elif len(path.group.paths) == 1:
        steps = _translated(path.group.paths[0])[0]
    if not any(step.label not in _NAMELESS for step in steps):
        named = [step for step in path.steps if _label(step) is not None and _label(step) not in _NAMELESS]
        if named:
            steps = (PathStep(Axis.DESCENDANT, _label(named[-1]) or ""),)
    return LocationPath(steps or _ANYTHING, path)


_NAMELESS = (pattern.ANY_ELEMENT, pattern.ANY_ATTRIBUTE, pattern.TEXT)


def _translated(path: XPath) -> tuple[tuple[PathStep, ...], bool]:
    """The beginning of a path as steps of a pattern, and whether that is all it says."""
    found: list[PathStep] = []
    axis, exact = Axis.CHILD, True
    last = len(path.steps) - 1
    for place, step in enumerate(path.steps):
        if step == xpath.EVERYWHERE and place < last:
            axis = Axis.DESCENDANT
            continue
        label = _label(step)
        if label is None and step.axis is XPathAxis.CHILD and step.test == xpath.NODE and place < last:
            # What has something below it is an element.
            label = pattern.ANY_ELEMENT if path.steps[place + 1].axis in _DOWN else None
        if label is None or step.axis not in _DOWN or (found and not pattern.is_element(found[-1].label)):
            return tuple(found), False
        if step.axis is XPathAxis.DESCENDANT:
            axis = Axis.DESCENDANT
        predicates: list[pattern.Predicate] = []
        for predicate in step.predicates:
            implied, same = _implied(predicate)
            exact = exact and same
            if implied is not None:
                predicates.append(implied)
        found.append(PathStep(axis, label, tuple(predicates)))
        axis = Axis.CHILD
    return tuple(found), exact


def _label(step: XPathStep) -> str | None:
    """The label that a step asks for, if it asks for one."""
    if step.test in _KINDS or step.test.startswith("processing-instruction"):
        return None
    if step.test == xpath.TEXT:
        return pattern.TEXT
    return pattern.ATTRIBUTE + step.test if step.axis is XPathAxis.ATTRIBUTE else step.test


def _implied(predicate: Expression) -> tuple[pattern.Predicate | None, bool]:
    """What a predicate implies, as far as a pattern can say it, and whether that is all it says."""
    match predicate:
        case And(parts):
            each = [_implied(part) for part in parts]
            kept = tuple(implied for implied, _ in each if implied is not None)
            if not kept:
                return None, False
            return (kept[0] if len(kept) == 1 else And(kept)), all(same for _, same in each)
        case Or(parts):
            each = [_implied(part) for part in parts]
            every = tuple(implied for implied, _ in each if implied is not None)
            if len(every) < len(each):
                return None, False
            return Or(every), all(same for _, same in each)
        case Not(part):
            implied, same = _implied(part)
            return (Not(implied), True) if same and implied is not None else (None, False)
        case XPath(False):
            steps, exact = _translated(predicate)
            return (Exists(LocationPath(steps)), exact) if steps else (None, False)
        case XPathOperation(relation, XPath(False) as path, XPathLiteral(literal)) if (
            relation in pattern.RELATIONS
        ):
            if path.steps == (xpath.HERE,):
                return Compares(LocationPath(()), relation, literal), True
            steps, exact = _translated(path)
            if _is_whole(path, steps):
                return Compares(LocationPath(steps), relation, literal), exact
            return (Exists(LocationPath(steps)), False) if steps else (None, False)
        case XPathCall("contains" | "starts-with", (XPath(False) as path, XPathLiteral(str(text)))) if text:
            steps, _ = _translated(path)
            return (Exists(LocationPath(steps)), False) if steps else (None, False)
    return None, False


def _is_whole(path: XPath, steps: tuple[PathStep, ...]) -> bool:
    """Whether all steps of a path are in its pattern, whatever became of their predicates."""
    return len(steps) == sum(step != xpath.EVERYWHERE for step in path.steps)
