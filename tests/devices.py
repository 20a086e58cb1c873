"""Devices that a test may lose: code that is wrong, run as root, would replace those of the machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

NUMBERS = {"null": 3, "full": 7}


def own_device(place: Path, name: str) -> Path:
    """A device like /dev/null or /dev/full; for root a new one, because root could replace the real one."""
    if os.geteuid() != 0:
        return Path("/dev") / name
    device = place / name
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, NUMBERS[name]))
        os.close(os.open(device, os.O_WRONLY))
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    return device
