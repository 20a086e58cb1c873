"""What a subtree asks for: several profiles, of which an event must match one. What the nodes of a tree tell
their parents.

Rules:

- Profiles travel as forms, the canonical texts of their filters by kind, so that any filter kind works that
  can match, cover and merge: those of the house and an application's own.
- Of profiles that cover each other only the wider one is kept ("covering profiles").
- Where there are more than so many, neighbours of the same kinds are merged until there are not. A merged
  profile lets pass at least what either did: an interest may ask for too much, never for too little.
- Equal sets of profiles make equal interests, in whatever order they came.

Cost: one cover check for each pair of profiles that are put together; answers are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from distributary.filters.kinds import parse_filter
from distributary.filters.profile import Profile
from distributary.model import Event

Form = tuple[tuple[str, str], ...]
"""A profile as it travels: kinds and canonical texts, sorted. Without any, it lets everything pass."""


def form_of(profile: Profile) -> Form:
    """A profile as it travels.

    >>> from distributary.model import Subscription
    >>> form_of(Profile.of(Subscription("s1", "ann", topic="A/B", where="a > 3")))
    (('topic', 'A/B'), ('where', 'a > 3'))
    """
    return tuple(sorted((kind, filter.text) for kind, filter in profile.filters.items()))


@lru_cache(1 << 16)
def profile_of(form: Form) -> Profile:
    """The profile of a form."""
    return Profile({kind: parse_filter(kind, text) for kind, text in form})


@lru_cache(1 << 18)
def covers(wide: Form, narrow: Form) -> bool:
    """True only when it is certain that the one lets pass whatever the other does."""
    return wide == narrow or profile_of(wide).covers(profile_of(narrow))


@dataclass(frozen=True, slots=True)
class Interest:
    """Some profiles, none of which covers another.

    >>> interest = Interest.of([(("where", "a > 10"),), (("where", "a > 15"),), (("topic", "A"),)])
    >>> interest.forms
    ((('topic', 'A'),), (('where', 'a > 10'),))
    >>> interest.matches(Event("e1", attributes={"a": 12})), interest.covers((("where", "a > 20"),))
    (True, True)
    """

    forms: tuple[Form, ...] = ()

    @classmethod
    def of(cls, forms: Iterable[Form], most: int | None = None) -> Interest:
        """The interest in all of these, told by so many profiles at most."""
        kept = _widest(forms)
        while most is not None and len(kept) > most:
            kept = _widest(_merged(sorted(kept, key=_by_kinds), len(kept) - most))
        return cls(tuple(sorted(kept)))

    def matches(self, event: Event) -> bool:
        return any(profile_of(form).matches(event) for form in self.forms)

    def covers(self, form: Form) -> bool:
        """Whether one of the profiles covers this one."""
        return any(covers(wide, form) for wide in self.forms)


def _widest(forms: Iterable[Form]) -> list[Form]:
    kept: list[Form] = []
    for form in dict.fromkeys(forms):
        if not any(covers(wide, form) for wide in kept):
            kept = [narrow for narrow in kept if not covers(form, narrow)]
            kept.append(form)
    return kept


def _by_kinds(form: Form) -> tuple[tuple[str, ...], Form]:
    return tuple(kind for kind, _ in form), form


def _merged(forms: list[Form], surplus: int) -> list[Form]:
    """Merge up to so many neighbours: those with the same kinds of filters, or any when there are none."""
    alike = any(_by_kinds(one)[0] == _by_kinds(other)[0] for one, other in pairwise(forms))
    result: list[Form] = []
    rest = iter(range(len(forms)))
    for index in rest:
        following = forms[index + 1] if index + 1 < len(forms) else None
        fits = following is not None and (not alike or _by_kinds(forms[index])[0] == _by_kinds(following)[0])
        if following is not None and fits and surplus:
            result.append(form_of(profile_of(forms[index]).merge(profile_of(following))))
            surplus -= 1
            next(rest)
        else:
            result.append(forms[index])
    return result
