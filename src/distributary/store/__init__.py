"""Subscription stores: what is registered, at every version there ever was.

    from distributary.store import open_store

In reading order:

- `store`: `SubscriptionStore`, what every store promises, and `open_store`
- `columns`: subscriptions and changes as Arrow columns
- `durable`: files that appear whole or not at all, and survive a crash
- `checked`: files that carry checksums and say what they are
- `snapshots`: the live set at some versions, so that nobody reads the whole log
- `registrations`: which ids are registered, for commits to a log of files
- `directory`: a store in a directory, with `commits`, its log; `repair`: what is damaged, and going on
- `sql`: a store in PostgreSQL or SQLite
- `purge`: forgetting a subscriber in all versions

Promises: a commit is all or nothing, survives a crash, and is never changed but by a purge; any number of
processes may read and write. What is damaged is never taken for content.
"""

from distributary.store.store import Change, Life, SubscriptionStore, open_store

__all__ = ["Change", "Life", "SubscriptionStore", "open_store"]
