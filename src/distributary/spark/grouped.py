"""Matches made one delivery for each event and subscriber, within one Arrow table.

Cost: the texts are numbered once and the numbers sorted, some 0.3 µs a match.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def grouped_table(matches: pa.Table, carried: Sequence[str]) -> pa.Table:
    """The deliveries of matches: event_id, subscriber, subscriptions (ids, sorted), and the columns carried.

    They come in the order in which their events come first; what is carried is that of the first match.
    """
    events, subscribers = _numbers(matches["event_id"])[0], _numbers(matches["subscriber"])[0]
    ids, texts = _numbers(matches["subscription_id"])
    rank = np.empty(len(texts), np.int64)
    rank[pc.array_sort_indices(texts).to_numpy()] = np.arange(len(texts))
    order = np.lexsort((rank[ids], subscribers, events))
    starts_delivery = _differs(events[order]) | _differs(subscribers[order])
    distinct = starts_delivery | _differs(ids[order])
    firsts = pa.array(order[starts_delivery])
    offsets = np.append(np.flatnonzero(starts_delivery[distinct]), distinct.sum()).astype(np.int32)
    asked = matches["subscription_id"].take(pa.array(order[distinct]))
    columns = {
        "event_id": matches["event_id"].take(firsts),
        "subscriber": matches["subscriber"].take(firsts),
        "subscriptions": pa.ListArray.from_arrays(pa.array(offsets), _whole(asked)),
        **{name: matches[name].take(firsts) for name in carried},
    }
    return pa.table(columns)


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.int32], pa.Array]:
    """A number for each text, and the texts by their numbers."""
    encoded = _whole(column).dictionary_encode()
    return encoded.indices.to_numpy(), encoded.dictionary


def _differs(numbers: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Where a number differs from the one before it; the first one does."""
    differs = np.ones(len(numbers), np.bool_)
    differs[1:] = numbers[1:] != numbers[:-1]
    return differs


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
