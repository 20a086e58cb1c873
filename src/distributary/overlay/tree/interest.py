"""What a subtree asks for: several profiles, of which an event must match one. What the nodes of a tree tell
their parents.

Rules:

- Profiles travel as forms, the canonical texts of their filters by kind, so that any filter kind works that
  can match, cover and merge: those of the house and an application's own.
- A summary counts the forms that clients and children ask for, and tells them by fewer: of those that cover
  each other only the wider ("covering profiles"), and where there are more than so many, neighbours merged.
- A merged profile lets pass at least what either did: a summary may ask for too much, never for too little.
- A merged profile that stands for more than `OUTLINED` forms is an outline of them, one range of an attribute
  and one path, so that it covers most of what comes after it.
- It knows which forms each of its profiles stands for. When one of these is given up for good, its profile is
  made anew from the others, and no other profile changes; an outline waits until half of its forms are gone.

Cost: to add a form, a cover check or two for each profile of the summary; answers are remembered. To give one
up, the same for every form that its profile stood for, or for two of an outline on average.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from distributary.filters.kinds import parse_filter
from distributary.filters.profile import Profile
from distributary.model import Event

OUTLINED = 16
"""A merged profile of more forms says only the outline of them."""

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
    return wide == narrow or (
        {kind for kind, _ in wide} <= {kind for kind, _ in narrow}
        and profile_of(wide).covers(profile_of(narrow))
    )


@dataclass(frozen=True, slots=True)
class Interest:
    """Some profiles, sorted.

    >>> interest = Interest(((("topic", "A"),), (("where", "a > 10"),)))
    >>> interest.matches(Event("e1", attributes={"a": 12})), interest.covers((("where", "a > 20"),))
    (True, True)
    """

    forms: tuple[Form, ...] = ()

    def matches(self, event: Event) -> bool:
        """Whether an event matches one of the profiles."""
        return any(profile_of(form).matches(event) for form in self.forms)

    def covers(self, form: Form) -> bool:
        """Whether one of the profiles covers this one."""
        return any(covers(wide, form) for wide in self.forms)

    def differs_from(self, before: Interest) -> tuple[tuple[Form, ...], tuple[Form, ...]]:
        """What is in this one and not in that, and what is in that one and not in this."""
        mine, other = set(self.forms), set(before.forms)
        return tuple(sorted(mine - other)), tuple(sorted(other - mine))

    def changed(self, added: Iterable[Form], removed: Iterable[Form]) -> Interest:
        """This interest with some profiles more and some fewer."""
        return Interest(tuple(sorted((set(self.forms) - set(removed)) | set(added))))


class InterestSummary:
    """The forms that are asked for, told by a few profiles.

    >>> summary = InterestSummary(most=2)
    >>> for bound in (10, 15, 12):
    ...     summary.add((("where", f"a > {bound}"),))
    >>> summary.interest.forms
    ((('where', 'a > 10'),),)
    >>> summary.remove((("where", "a > 10"),))
    >>> summary.interest.forms
    ((('where', 'a > 12'),),)
    """

    def __init__(self, most: int) -> None:
        self.most = max(1, most)
        self._counts: Counter[Form] = Counter()
        self._profile_of: dict[Form, Form] = {}
        """The profile that covers each form."""
        self._members: dict[Form, set[Form]] = {}
        """The forms that each profile stands for."""
        self._gone: Counter[Form] = Counter()
        """Of each outline, how many forms were given up since it was made."""
        self._order: list[tuple[tuple[str, ...], Form]] = []
        """The profiles, those of the same kinds of filters side by side."""

    @property
    def interest(self) -> Interest:
        """The few profiles that cover all that is asked for."""
        return Interest(tuple(sorted(self._members)))

    def add(self, form: Form) -> None:
        """Count one more client or child that asks for this form."""
        self._counts[form] += 1
        if self._counts[form] == 1:
            self._place(form)

    def remove(self, form: Form) -> None:
        """Count one client or child less that asks for this form."""
        self._counts[form] -= 1
        if self._counts[form]:
            return
        del self._counts[form]
        profile = self._profile_of.pop(form)
        members = self._members[profile]
        members.discard(form)
        self._gone[profile] += 1
        is_outline = len(members) > OUTLINED and self._gone[profile] < len(members)
        if profile == form or (profile not in self._counts and not is_outline):
            for left in sorted(self._dissolve(profile)):
                self._place(left)

    def _place(self, form: Form) -> None:
        """Find a profile that covers a form, or make one; then merge if there are too many."""
        wider = next((profile for profile in reversed(self._members) if covers(profile, form)), None)
        if wider is not None:
            self._members[wider] = self._members.pop(wider)  # asked first, when the next one comes
            self._assign(wider, {form})
            return
        narrower = [profile for profile in self._members if covers(form, profile)]
        self._assign(form, {form}.union(*[self._dissolve(profile) for profile in narrower]))
        if len(self._members) > self.most:
            self._merge(form)

    def _merge(self, form: Form) -> None:
        """Merge a profile with a neighbour, one with the same kinds of filters if there is."""
        order, key = self._order, _by_kinds(form)
        at = bisect_left(order, key)
        beside = order[max(0, at - 1) : at] + order[at + 1 : at + 2]
        _, neighbour = min(beside, key=lambda one: one[0] != key[0])
        union = profile_of(form).merge(profile_of(neighbour))
        members = self._dissolve(form) | self._dissolve(neighbour)
        merged = form_of(union.widened() if len(members) > OUTLINED else union)
        for profile in [one for one in self._members if covers(merged, one)]:
            members |= self._dissolve(profile)
        self._assign(merged, members)

    def _assign(self, profile: Form, members: set[Form]) -> None:
        if profile not in self._members:
            self._members[profile] = set()
            insort(self._order, _by_kinds(profile))
        self._members[profile] |= members
        for form in members:
            self._profile_of[form] = profile

    def _dissolve(self, profile: Form) -> set[Form]:
        """Take a profile away; the forms that it stood for are returned."""
        self._gone.pop(profile, None)
        del self._order[bisect_left(self._order, _by_kinds(profile))]
        return self._members.pop(profile)


def _by_kinds(form: Form) -> tuple[tuple[str, ...], Form]:
    return tuple(kind for kind, _ in form), form
