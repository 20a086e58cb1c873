"""A dissemination tree: events go from the root to whoever asked for them, and nodes change their parents
while they do, without losing or repeating one (003, sections 3.1 and 4.5).

Whoever publishes sends the event to the root, which numbers it. A node forwards it to those of its children
whose interest it matches. Without `TreeSettings.heartbeat` a node sends nothing of its own accord: it finds
no failures and relies on messages arriving.

The parts of a node, each with its rules in a module of its own, in reading order. A part is made with those
before it and calls no other; `node` passes on what concerns several.

- `messages`: all messages of the protocol.
- `interest`: profiles as they travel, and many of them summarised by a few.
- `routes`: which child gets an event.
- `event_log`: how far a node has come in the stream of events, and what it can send again.
- `registry`: the root's record of who may be whose child, and why there are never loops.
- `link`: the link to the parent, and the table of states of a change of parent.
- `root_contact`: who is the root, and how to send to it.
- `state`: the settings of a tree, and what all parts of a node share.
- `upstream`: the interest that a node tells its parent.
- `children`: the nodes below, what they ask for and what they are sent.
- `events`: the events that come, each once and in order, and how missing ones are fetched.
- `probing`: how far other nodes are, for a node that chooses its parent.
- `parent`: how a node gets, keeps and changes its parent.
- `outbox`: events published at a node, until they are safe.
- `log_records`, `standby`: the log as records of a disk, and the root's log on two disks.
- `intake`: how the root numbers what is published.
- `succession`: how the root's role is handed over, how a failed root is replaced, and how one comes back.
- `replay`: the root's log read from a place on, for clients that were away.
- `root`: what nodes ask of the root.
- `node`: `TreeNode`, which puts the parts together.
- `topology`: the first shape of a tree, and what must be true of any.

Other rooms use `TreeNode`, `TreeSettings`, `topology`, and `interest` for profiles; an application that
indexes its filters implements `routes.Routes`.

Cost: an event costs one message for each child that must have it. A change of parent costs six, two more if
something is fetched, and two for each node above whose interest it changes: 15 in all in a tree of 30 nodes.
"""
