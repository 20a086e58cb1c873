"""Who may be talked to: beyond this machine only nodes that show a certificate of the network's authority."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple

from distributary.errors import DistributaryError


class TlsFiles(NamedTuple):
    """The files of a node: its certificate, the key of that, and whoever signed those of all nodes."""

    certificate: Path
    key: Path
    authority: Path

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """TLS 1.3 with a certificate on both sides. Nodes know each other by the authority, not by names."""
        for path in self:
            if not path.is_file():
                raise DistributaryError(f"TLS: there is no file {path}")
        try:
            made = ssl.create_default_context(purpose, cafile=str(self.authority))
            made.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise DistributaryError(
                f"TLS: {self.certificate}, {self.key} and {self.authority} cannot be used: {error}"
            ) from error
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.check_hostname = False
        made.verify_mode = ssl.CERT_REQUIRED
        return made


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached by a host's name or number.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.1")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
