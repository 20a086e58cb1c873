"""How every check of the lab is tried: by claim, what makes recorded rows show it, and what must end that."""

from __future__ import annotations

from lab.cases.attributes import CASES as ATTRIBUTES
from lab.cases.hope import CASES as HOPE
from lab.cases.others import CASES as OTHERS
from lab.cases.placement import CASES as PLACEMENT
from lab.cases.tree import CASES as TREE
from lab.disturbances import Case

CASES: dict[str, Case] = {**HOPE, **ATTRIBUTES, **TREE, **PLACEMENT, **OTHERS}
