"""Location paths on an event's XML document: which documents have a node that a path selects?

How a path gets from its text to an answer, in reading order:

- `document`: an XML document, parsed once and safely into flat lists of nodes; `path_classes`, `namespaces`,
  `entities` and `fifth_edition` are what reading one takes
- `pattern`: the tree that most paths are, what its labels and comparisons mean, and its canonical text
- `xpath`: paths that say more (every axis but one, positions, functions), and their text; `literals` is what
  both share
- parse: `parse` reads any text with elementpath's `grammar`, and `read_xpath` what is no tree; `twig` is the
  pattern that such a path implies; `shape` keeps what it learnt of the text's shape, and `pieces` of the
  shapes of steps and predicates, so that similar paths are not parsed again; `template` is what filters of
  one shape share
- match: `match` evaluates a pattern on a document; `evaluate` a path that says more, by `numbered` nodes,
  with `positions` and `scalars`
- cover: `cover` evaluates a pattern on another pattern, and tells what two have in common
- merge, and the filter that all of these make up: `filter`, with `PathFilter`
"""
