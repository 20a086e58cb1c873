"""Matching: which subscriptions want this event? On one machine, for one event or a batch of them.

`Matcher` is the way in, and holds any filters; an index holds filters of one kind. In reading order:

- `matcher`: `Matcher`, standing subscriptions that can be asked, changed, explained, frozen and opened
- `registry`: who is subscribed; with `names` (ids by number), `naming` (the ids that one event's slots come
  to), `pair_naming` (those of a small batch), `placing` (those of rows that match very much), `joining`
  (texts next to each other) and `serials` (registrations for good)
- `matches`: the matches of a batch, codes until somebody asks for texts
- `combinations`: distinct combinations of filters, and the search for those an event passes; with `slots`
- `bulk`: very many subscriptions registered at once; with `distinct` (texts numbered) and `digests`
- `growing`: arrays that grow in pages of their own while an index is built
- `index`: `Index`, the interface of every index, and `Pairs`, what a search gives
- `engines`: which indexes there are for each kind, and which is the default
- `topic/`, `where/`, `path/`: the indexes of each kind, ours and the papers'
- `change/`: tolerances, which depend on what was delivered before
- `scan`: every filter asked in turn, for kinds that an application adds
- `layers`: how indexes made of read-only arrays change nevertheless; `gathering`: filters on their way there
- `lines`: batches from blocks of JSON lines; with the kernels `line_scan`, `line_keys` and `line_texts`
- `answers`: matches and deliveries as tables
- `single`: one event by itself; `bound`: arrays that kernels find by address, so that one event costs little;
  `held`: tables that kernels hand to one another through Python
- `batch`: events as columns; `columns`: one attribute of them; `text_codes`: its distinct texts; `computed`:
  an operation on them as a column, put together by `column_making`, with `arguments`, `arithmetic`, `dates`
  and `elements` (arrays); `truths`: a condition evaluated for all rows
- `frozen`: arrays in a directory, with `checksums`; `index_damage`: all damage to them; `order`: answers in
  their order
- `memory`: what kernels can say to the processor's memory
- `blake2b`: the digests of `hashlib`, in a kernel
- `explain`: why a subscription wants an event, or does not
- `rendezvous/`: which of several parts an event and a subscription meet at

What it promises: answers are exact, whichever engine gives them; removing a subscription never disturbs
another. This package exports nothing by itself, because Numba and Arrow are slow to load: import
`distributary.matching.matcher`, or `Matcher` from `distributary`, which loads it when asked for.
"""
