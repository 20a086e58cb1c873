"""The directory of a subscriber who has one of their own, below a sink: `each=<name>`.

A name is taken as it is when it can be a directory's; otherwise it is shortened to what is allowed there with
a hash behind it, and names that look as if they had one get one too, so that no two subscribers ever share a
directory. Characters that Spark escapes in the name of a partition's directory are escaped as Spark does it,
so Spark reads back what it would have written (`deliveries.place_name` says the same in SQL).
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for null: the directory of those who have none of their own."""
HASHED = re.compile(r"-[0-9a-f]{32}\Z")
PLAIN = re.compile(r"[^\x00-\x1f\x7f]{1,60}")
"""Short enough for a directory's name even if every character has to be escaped."""
ESCAPED = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")


@lru_cache(maxsize=1 << 16)
def own_directory(subscriber: str) -> str:
    """The directory of a subscriber.

    >>> own_directory("ann"), own_directory("a/b")
    ('each=ann', 'each=a%2Fb')
    """
    name = subscriber
    if not PLAIN.fullmatch(name) or HASHED.search(name) or name == DEFAULT_PARTITION:
        readable = re.sub("[^A-Za-z0-9]", "_", name)[:20]
        name = f"x{readable}-{sha256(name.encode()).hexdigest()[:32]}"
    return "each=" + ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", name)


def shared_directory() -> str:
    """The directory of all who have none of their own."""
    return f"each={DEFAULT_PARTITION}"
