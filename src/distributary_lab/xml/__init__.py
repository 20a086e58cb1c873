"""Experiments on chapter 3 of 001, matching of XML documents by Bloom filters ("signatures").

- `paths`: documents, paths and a clock, which the others share.
- `matching`: Figures 3.8 and 3.9: signatures beside an automaton and our exact index.
- `signature_times`: Figures 3.10 to 3.13: comparing and making signatures, by length and hashes.
- `space`: Figures 3.14 and 3.15: the space that signatures take and save.
- `false_positives`: Figures 3.16 to 3.19: how often signatures let pass what does not match.
"""
