"""As whom clients of queries and subscriptions read streams."""

from __future__ import annotations

from distributary.model import SubscriptionKey
from distributary.systems.queries.messages import network_name


def client_name(output: str, generation: int) -> str:
    """As whom the client of a query reads one of its outputs."""
    return f"client:{network_name(output, generation)}"


def subscription_name(key: SubscriptionKey) -> str:
    """What a subscription is called among queries and operators; no two have the same name."""
    return f":{key.subscriber!r}:{key.id!r}"


def subscriber_name(key: SubscriptionKey, generation: int, stream: str) -> str:
    """As whom a subscription reads a stream."""
    return f"subscription:{generation}{subscription_name(key)}:{stream}"
