"""The filters a subscription can be made of: topic, where, path and change, and those you add.

Each kind is a module of its own with one public class derived from `Filter`; `kinds` knows them all, and
`profile` is several of them together. The other modules serve one kind each:

- where: `condition*` (from text to template, merging, guesses), `expression` (the tree), `domain` and
  `normal_form` (what indexes read)
- path: `path_*` (from text to template, evaluation, containment), `pattern*` (the tree), `document`
"""
