"""Systems that deliver events across many nodes, put together from filters, matching and overlays."""
