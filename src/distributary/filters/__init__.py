"""The filters a subscription can be made of: topic, where, path and change, and those you add.

Every kind knows five things: how to `parse` what a subscription gives, its canonical `text`, whether an event
`matches`, whether the filter `covers` another of its kind, and how two of them `merge` into one that lets
pass at least what either does. In reading order:

- `filter`: `Filter`, the interface of every kind; an application derives its own kind from it
- `topic`: patterns of topic levels, in our syntax and in MQTT's
- `change`: tolerances on moving values, and the one rule of when a value has moved (`ChangeFilter.moved`)
- `where/`: SQL conditions on attributes
- `path/`: XPath location paths on documents
- `connectives`: And, Or and Not, which conditions and paths have in common
- `kinds`: which kinds there are, how one is added, and a subscription's filters parsed
- `profile`: several filters that must all hold, as one thing
- `lint/`: subscriptions held against a schema: what is misspelt, never matches, is slow or needless

Filters are immutable, equal when their canonical texts are equal, and free of any index: the room `matching`
turns them into something that is searched. This package exports nothing by itself, because the parsers of
`where` and `path` are slow to load.
"""
