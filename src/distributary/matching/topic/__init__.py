"""Topic indexes: which topic filters match this topic?

Ours, the default, and what it is made of, in reading order:

- `text`: canonical filter texts and topics as bytes, and whether the one matches the other
- `trie`: the shapes of filters (depth, wildcards, open or closed) as a trie laid out in arrays
- `keys`: hashes of levels, the Bloom filter, and the table in which a filter is found by its key
- `probing`: the keys of a topic, and which of them the Bloom filter lets pass
- `shapes`: `TopicShapes`, which looks up one key per shape
- `memo`: what was found for topics seen before
- `verifier`: topic filters asked about single pairs only
- `shares`: how many events a filter is guessed to let pass, from what others ask for

The topic paper's three algorithms, on the base class in `index`: `tree`, `hash` and `regex`.

`matching.engines` says which index is used; this package exports nothing by itself, because kernels are slow
to load.
"""
