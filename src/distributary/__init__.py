"""Distributary delivers streams to those who asked for them."""
