"""The matches of a batch as tables: one row a match, or one row an event and subscriber."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matches


def matches_table(batch: EventBatch, found: Matches) -> pa.Table:
    """A row for each match, in the order of the events, then by subscription id."""
    ids = batch.ids.take(pa.array(found.rows))
    return pa.table({"event": ids, "subscription": found.subscriptions})


def deliveries_table(batch: EventBatch, found: Matches) -> pa.Table:
    """A row for each event and subscriber, in the order of the events, then by subscriber."""
    subscribers = found.subscriber_codes
    names = subscribers.dictionary
    rank = np.empty(len(names), np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    ranks = rank[subscribers.indices.to_numpy()]
    order = np.lexsort((ranks, found.rows))  # stable: subscription ids stay in their order
    rows, ranks = found.rows[order], ranks[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(ranks, prepend=-1))
    offsets = pa.array(np.append(starts, len(rows)), pa.int32())
    subscriptions = pa.ListArray.from_arrays(offsets, found.subscriptions.take(pa.array(order)))
    return pa.table(
        {
            "event": batch.ids.take(pa.array(rows[starts])),
            "subscriber": names.take(subscribers.indices.take(pa.array(order[starts]))),
            "subscriptions": subscriptions,
        }
    )
