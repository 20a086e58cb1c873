"""Indexes of path filters: which paths select something in this XML document?

The modules of `PathClasses`, the default, in reading order:

- `xml/`: documents read from their bytes, where they are plain; `labels`: how a segment writes their labels
- `forest`: the documents of a batch as arrays; `summaries`: the smallest trees that answer as they do
- `expressions`: filters as a table of shared expressions; `evaluate`: the kernels that evaluate it exactly
- `bounds`: what can be told about whole paths of a summary at once
- `routes`, `trie`: how a filter is entered by a document, and all such routes of a segment as arrays
- `walk`, `ways`: where routes lead, on whole paths of a summary and on its classes
- `keys`, `ranges`: what a document's values ask about; `postings`: the filters behind that, listed by layout
- `follow`: which of those routes lead to the value
- `joints`: filters with two values; `checks`: what else is found in doubt
- `workspace`: what is kept of a segment and of documents from one batch to the next
- `classes`: `PathClasses` itself, which puts these together

The other indexes, and what they need:

- `verifier`: `PathVerifier`, exact answers for pairs that another index found
- `signature`: a document's structure as a Bloom filter; `scanned_items`: the same from a document's bytes;
  `bloom`: `PathBloom`, which pre-selects by it
- `automaton`: `PathAutomaton`, the baseline in the manner of YFilter

`matching.engines` offers the indexes by name; `systems.hope` uses `signature` and `scanned_items`.
Nothing is exported here, because the modules load Numba.
"""
