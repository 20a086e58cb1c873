"""A deterministic simulator for overlay nodes: one thread, one seed, one trace."""
