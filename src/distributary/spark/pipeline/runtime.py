"""What a pipeline runs with: its store, its queries and its columns, each opened or read once.

A `Pipeline` is what its file says. A `PipelineRuntime` is made of it once, on the way in, and handed on to
everything that runs: the streaming query, its upkeep and progress, and replay. Nothing else opens the store
of a pipeline or reads its query file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from distributary.flow.catalogue import Catalogue
from distributary.flow.language.file import read_query_file
from distributary.spark.columns import EventColumns
from distributary.spark.index.build import IndexOptions
from distributary.spark.pipeline.config import UNREADABLE, Pipeline
from distributary.store import SubscriptionStore, open_store


@dataclass(frozen=True)
class PipelineRuntime:
    """A pipeline with what it runs with. Store and queries are opened when they are first needed, once."""

    pipeline: Pipeline
    create_store: bool = True
    """Whether an empty store is made where there is none; otherwise that is an error."""

    @classmethod
    def of(cls, given: Pipeline | PipelineRuntime, *, create_store: bool = True) -> PipelineRuntime:
        """The runtime of a pipeline; one that is there already stays as it is."""
        return given if isinstance(given, PipelineRuntime) else cls(given, create_store)

    @cached_property
    def store(self) -> SubscriptionStore:
        """The store of the subscriptions."""
        given = self.pipeline.subscriptions
        return open_store(given.store, create=self.create_store, workspace=given.workspace)

    @cached_property
    def catalogue(self) -> Catalogue | None:
        """The stream queries, checked; None when the pipeline has none."""
        if self.pipeline.queries is None:
            return None
        catalogue = read_query_file(self.pipeline.queries)
        catalogue.check()
        return catalogue

    @property
    def columns(self) -> EventColumns:
        """Which columns of the events mean what."""
        named = self.pipeline.events
        return EventColumns(named.id, named.topic, named.document, named.order, UNREADABLE)

    @property
    def index_options(self) -> IndexOptions:
        """How the subscriptions are indexed; without an order no tolerance can be kept."""
        tolerances = self.pipeline.events.order is not None
        return IndexOptions(tolerances, self.pipeline.subscriptions.strategy)
