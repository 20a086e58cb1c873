"""HOPE (001): XML events by their structure, over an ordered hypercube of keys that lies on a ring.

An event and a subscription have keys made of their structure; a subscription's key is covered by those of all
events that it may match. They meet at vertices of the hypercube in one of two ways:

- `addressing`: keys and filters made of signatures of a document or a path
- `tags`: the same from an event's attributes, for events with tags in place of documents
- `messages`: what nodes send each other
- `dimension`: how nodes agree on the length of keys as their number changes
- `broker`: `HopeBroker`, what both ways have in common
- `notices`: which events are worth asking for their documents
- `documents`: how homes get documents, each of them once
- `history`: events that are stored for subscribers who are away
- `kbpp`: key-based publication propagation (KBPP): events go to every key that they cover
- `table`: what a vertex knows of its neighbours' filters; `kbsp` uses it
- `kbsp`: key-based subscription propagation (KBSP): subscriptions go to every key that covers them

Promises: exact, and after faults exact again within a few refresh periods.
"""
