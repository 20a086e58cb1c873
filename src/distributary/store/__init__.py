"""Subscription stores: what is registered, at every version there ever was.

>>> from distributary.store import open_store
"""

from distributary.store.store import Change, Life, SubscriptionStore, open_store

__all__ = ["Change", "Life", "SubscriptionStore", "open_store"]
