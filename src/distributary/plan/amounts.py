"""Costs, rates and loads as people read them, with their units."""

from __future__ import annotations

from distributary.plan.goal.expression import Number


def shown(cost: Number | None) -> str:
    """A cost as people read it.

    >>> shown(12.34567), shown(None)
    ('12.35', '')
    """
    return "" if cost is None else f"{float(cost):.4g}"


def amount(value: Number) -> str:
    """A cost, a rate or a load as people read it.

    >>> amount(12.34567), amount(96240.2)
    ('12.35', '96,240')
    """
    return f"{float(value):,.0f}" if abs(float(value)) >= 1000 else shown(value)


def with_unit(value: Number | None, unit: str | None) -> str:
    """An amount with its unit, if it has one.

    >>> with_unit(96240.2, "B/s"), with_unit(3, ""), with_unit(None, "ms")
    ('96,240 B/s', '3', '')
    """
    return "" if value is None else f"{amount(value)} {unit or ''}".rstrip()
