"""Places on the earth: the distance between two, and whether one lies in a polygon.

A place is a latitude of -90 to 90 and a longitude of -180 to 180 degrees; anything else is none (null).
Distances are those of a sphere of the earth's mean radius, by the haversine formula. A polygon is given as
WKT, `POLYGON((lon lat, ...))` or `MULTIPOLYGON(...)`, its edges straight in degrees; places on its border are
in it. shapely decides, exactly.

For indexes: `cells_of` and `box_around` say in which ranges of latitudes and longitudes a place can only be.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from math import asin, cos, degrees, inf, isfinite, pi, radians, sin, sqrt
from typing import Any, NamedTuple

from distributary.errors import FilterError

RADIUS = 6_371_008.8
"""The mean radius of the earth in metres (IUGG)."""
MAX_CELLS = 16
"""Cells that a polygon is covered with."""
SLACK = 1e-6
"""Degrees by which a box is wider than the shape, far more than rounding can matter."""


class Box(NamedTuple):
    """A range of latitudes and of longitudes, in degrees."""

    south: float
    north: float
    west: float
    east: float


def distance(latitude: Any, longitude: Any, other_latitude: Any, other_longitude: Any) -> float | None:
    """Metres between two places.

    >>> round(distance(37.98, 23.73, 40.64, 22.94))
    303483
    """
    places = [_degrees(value) for value in (latitude, longitude, other_latitude, other_longitude)]
    if None in places:
        return None
    phi, lambda_, phi2, lambda2 = (radians(value) for value in places if value is not None)
    if max(abs(phi), abs(phi2)) > pi / 2 or max(abs(lambda_), abs(lambda2)) > pi:
        return None
    chord = sin((phi2 - phi) / 2) ** 2 + cos(phi) * cos(phi2) * sin((lambda2 - lambda_) / 2) ** 2
    return 2 * RADIUS * asin(min(1.0, sqrt(chord)))


def within(latitude: Any, longitude: Any, polygon: Any) -> bool | None:
    """Whether the place lies in the polygon or on its border.

    >>> within(1, 1, "POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))")
    True
    """
    y, x = _degrees(latitude), _degrees(longitude)
    if y is None or x is None or not isinstance(polygon, str):
        return None
    import shapely  # here, because it takes a while to load and few conditions need it

    return bool(shapely.intersects_xy(read_polygon(polygon), x, y))


@lru_cache(maxsize=1024)
def read_polygon(text: str) -> Any:
    """The shape that a WKT text describes, prepared for questions; FilterError when it is no polygon."""
    import shapely

    try:
        shape = shapely.from_wkt(text)
    except shapely.errors.ShapelyError as error:
        raise FilterError(f"is not WKT such as POLYGON((lon lat, ...)): {error}", field="where") from None
    if shape.geom_type not in ("Polygon", "MultiPolygon") or shape.is_empty:
        raise FilterError(f"needs a POLYGON or MULTIPOLYGON, not a {shape.geom_type}", field="where")
    if not shape.is_valid:
        raise FilterError(f"the polygon is not valid: {shapely.is_valid_reason(shape)}", field="where")
    shapely.prepare(shape)
    return shape


@lru_cache(maxsize=1024)
def cells_of(polygon: str) -> tuple[tuple[Box, bool], ...]:
    """Boxes that together hold a polygon, and of each whether it lies in the polygon with all its places.

    The box around the polygon is cut in four, and again the largest cell that its border runs through, up to
    `MAX_CELLS`; cells outside are dropped.
    """
    import shapely

    shape = read_polygon(polygon)
    west, south, east, north = shape.bounds
    inside: list[Box] = []
    crossed = [Box(south - SLACK, north + SLACK, west - SLACK, east + SLACK)]
    while crossed and len(inside) + len(crossed) + 3 <= MAX_CELLS:
        largest = max(crossed, key=lambda box: (box.north - box.south) * (box.east - box.west))
        crossed.remove(largest)
        for cell in _quarters(largest):
            rectangle = shapely.box(cell.west, cell.south, cell.east, cell.north)
            if shapely.contains_properly(shape, rectangle):
                inside.append(cell)
            elif shapely.intersects(shape, rectangle):
                crossed.append(cell)
    return tuple([(cell, True) for cell in inside] + [(cell, False) for cell in crossed])


def _quarters(box: Box) -> list[Box]:
    middle, centre = (box.south + box.north) / 2, (box.west + box.east) / 2
    rows, columns = ((box.south, middle), (middle, box.north)), ((box.west, centre), (centre, box.east))
    return [Box(*row, *column) for row in rows for column in columns]


def box_around(latitude: float, longitude: float, metres: float) -> Box:
    """A box that holds every place no further away than so many metres.

    Near a pole, and where longitudes jump from 180 to -180, it has all longitudes.
    """
    angle = degrees(metres / RADIUS) + SLACK
    south, north = latitude - angle, latitude + angle
    if south > -89.9 and north < 89.9:
        widest = min(cos(radians(south)), cos(radians(north)))
        ratio = sin(min(radians(angle), pi / 2)) / widest
        if ratio < 1:
            reach = degrees(asin(ratio)) + SLACK
            if longitude - reach > -180 and longitude + reach < 180:
                return Box(south, north, longitude - reach, longitude + reach)
    return Box(south, north, -inf, inf)


def _degrees(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None
