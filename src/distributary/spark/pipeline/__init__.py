"""A pipeline: a stream of events matched against a store of subscriptions, as a TOML file says.

In reading order:

- `config`: the file as frozen data, checked in full (`Pipeline`, `load_pipeline`), with the store it names;
  `keys`, `formats` and `schema_text`: what keys may hold; options and schemas, checked without Spark;
- `followed`: a table that the subscriptions of the store follow;
- `source`: the events as a streaming DataFrame; `messages`: those of Kafka's in Avro, Protobuf, CloudEvents;
- `derived`: the items of a pipeline's queries as events that are matched and counted;
- `start`: source, matching, queries and sinks put together as a streaming query;
- `job`: the one job of a micro-batch; its tasks match, stage what comes of it and give receipts: `staging`,
  which says how a batch is written and committed, `receipts`, `directories` (those of subscribers),
  `tolerance_memory` (what tolerances remember);
- `sink`: committing a micro-batch: `deliveries` (`kafka_sink`: those for Kafka, once; `tables`: those for
  Delta and Iceberg), `outputs` (files by batch, the archive), `metrics`, and last its record in `commits`;
- `run`: `distributary run`: `writable`, `owner` and `checkpoint_format` see that it can and may write,
  `progress`, `status` and `telemetry` tell how it is, `failures` why it failed;
- `retention`: old batches removed, subscribers forgotten; `compaction`: small batches put together, which
  `compacted` finds.

Promise: what a batch writes to files is there once however often the batch is done, and a batch that has a
record is complete in every output.
"""
