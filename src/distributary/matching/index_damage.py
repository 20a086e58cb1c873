"""Finding all damage to frozen indexes.

Opening an index reads none of its arrays, and each is compared with its checksum when it is first needed (see
`frozen`). Here all of them are read, so that damage is found before anything needs what is damaged.
"""

from __future__ import annotations

from pathlib import Path

from distributary.errors import DamagedError
from distributary.matching import frozen

PARTS = "part-*"
"""The directories of an index that Spark has divided, or would if it were larger."""


def frozen_indexes(directory: Path) -> list[Path]:
    """The frozen indexes of a directory: itself, or its parts. One that lacks a file is one still."""
    if (directory / frozen.MANIFEST).exists() or (directory / frozen.ARRAYS).exists():
        return [directory]
    return sorted(path for path in directory.glob(PARTS) if path.is_dir())


def find_index_damage(directory: Path) -> list[str]:
    """What is damaged in the frozen indexes of a directory; every byte of them is read."""
    damage = []
    for index in frozen_indexes(directory):
        try:
            frozen.read(index).check()
        except DamagedError as error:
            damage.append(str(error))
    return damage


def find_base_damage(workspace: Path) -> dict[Path, list[str]]:
    """The damaged bases in the workspace of a store, and what is wrong with each.

    Bases that are still being built, or are removed meanwhile, are no damage.
    """
    bases = sorted(path for path in workspace.glob("*/*") if path.name.isdecimal() and path.is_dir())
    found = {base: find_index_damage(base) for base in bases}
    return {base: damage for base, damage in found.items() if damage and base.exists()}
