"""Who a client's certificate names: what TLS has checked of a connection."""

from __future__ import annotations

from asyncio import BaseTransport


def certificate_user(transport: BaseTransport) -> str | None:
    """The common name in the certificate that the other side has proved to own; None without one name."""
    certificate = transport.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return str(names[0]) if len(names) == 1 else None
