"""How fast it is. `make bench` runs everything; `make bench BENCH="topics --quick"` a part."""
