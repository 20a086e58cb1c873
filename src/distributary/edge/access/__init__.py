"""Who is let in, and what they may do: identities, log-in, grants, quotas and the audit log.

Modules, in reading order:

- `identity`: who a connection belongs to; names that are none.
- `settings`: what an access file may say; `rules`: what it says at one moment.
- `packages`: what must be installed; `passwords`, `tokens` and `certificates`: how somebody proves
  who they are.
- `narrowing`: what a grant leaves of a subscription; `grants`: what one user may see and publish.
- `quotas`: how much a user may have and send.
- `audit_log`: who did what, in files of bounded size.
- `access`: `Access`, which connections and sessions ask.

Promised to other rooms: nobody is let in who has not proved who they are, except on loopback while no access
file is configured; and what is allowed is decided by the grants that are in force at that moment.
"""

from distributary.edge.access.access import Access
from distributary.edge.access.identity import NOBODY, AccessError, Identity

__all__ = ["NOBODY", "Access", "AccessError", "Identity"]
