"""The ordered hypercube: what its trees reach, how deep they are, and where its vertices stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.overlay.hypercube import (
    Cubes,
    CubeVertex,
    bit_between,
    bits_of,
    children_above,
    children_below,
    covered_keys,
    covers,
)
from distributary.overlay.ring.circle import Circle

dimensions = st.integers(1, 8)


@st.composite
def keys_and_dimension(draw: st.DrawFn) -> tuple[int, int]:
    dimension = draw(dimensions)
    return draw(st.integers(0, (1 << dimension) - 1)), dimension


def spread(root: int, children: Callable[[int, int | None], Iterable[int]]) -> dict[int, tuple[int, int]]:
    """Every vertex that a message from the root reaches, with its parent and depth; none is met twice."""
    reached = {root: (-1, 0)}
    pending = [(root, None)]
    while pending:
        vertex, came_from = pending.pop()
        for child in children(vertex, came_from):
            assert child not in reached, f"{child:b} is reached twice"
            reached[child] = (vertex, reached[vertex][1] + 1)
            pending.append((child, vertex))
    return reached


def down(root: int) -> dict[int, tuple[int, int]]:
    return spread(root, children_below)


def up(root: int, dimension: int) -> dict[int, tuple[int, int]]:
    return spread(root, lambda vertex, came_from: children_above(vertex, dimension, came_from))


@given(keys_and_dimension())
def test_a_key_is_mapped_to_all_keys_it_covers(drawn: tuple[int, int]) -> None:
    key, dimension = drawn
    everything = range(1 << dimension)
    assert sorted(covered_keys(key)) == [other for other in everything if covers(key, other)]


def test_the_key_of_figure_4_2_is_mapped_to_eight_keys() -> None:
    expected = {0b1101, 0b1100, 0b1001, 0b1000, 0b0101, 0b0100, 0b0001, 0b0000}
    assert set(covered_keys(0b1101)) == expected


def test_the_tree_from_1011_is_the_one_of_figure_4_6() -> None:
    parents = {vertex: parent for vertex, (parent, _) in down(0b1011).items()}
    assert parents == {
        0b1011: -1,
        0b1010: 0b1011,
        0b1001: 0b1011,
        0b0011: 0b1011,
        0b1000: 0b1001,
        0b0010: 0b0011,
        0b0001: 0b0011,
        0b0000: 0b0001,
    }


@given(keys_and_dimension())
def test_every_covered_key_is_reached_once_going_down(drawn: tuple[int, int]) -> None:
    root, _ = drawn
    reached = down(root)
    assert sorted(reached) == sorted(covered_keys(root))
    for vertex, (parent, _) in reached.items():
        lacking = root & ~vertex
        assert vertex == root or parent == vertex | (lacking & -lacking)  # Equation 4.3


@given(keys_and_dimension())
def test_every_covering_key_is_reached_once_going_up(drawn: tuple[int, int]) -> None:
    root, dimension = drawn
    reached = up(root, dimension)
    assert sorted(reached) == [key for key in range(1 << dimension) if covers(key, root)]
    for vertex, (parent, _) in reached.items():
        added = vertex & ~root
        assert vertex == root or parent == vertex & ~(added & -added)


@given(keys_and_dimension())
def test_a_vertex_is_as_deep_as_its_distance_and_none_deeper_than_the_root_is_heavy(
    drawn: tuple[int, int],
) -> None:
    """Lemma 1 and Theorem 1, and the same upwards."""
    root, dimension = drawn
    for vertex, (_, depth) in down(root).items():
        assert depth == (root ^ vertex).bit_count() <= root.bit_count()
    for vertex, (_, depth) in up(root, dimension).items():
        assert depth == (root ^ vertex).bit_count() <= dimension - root.bit_count()


@given(keys_and_dimension())
def test_a_vertex_passes_on_to_at_most_as_many_as_it_is_heavy(drawn: tuple[int, int]) -> None:
    """Theorem 2, and the same upwards."""
    root, dimension = drawn
    for vertex, (parent, _) in down(root).items():
        assert len(list(children_below(vertex, None if parent < 0 else parent))) <= vertex.bit_count()
    for vertex, (parent, _) in up(root, dimension).items():
        children = list(children_above(vertex, dimension, None if parent < 0 else parent))
        assert len(children) <= dimension - vertex.bit_count()


def test_vertices_that_differ_in_more_than_one_bit_are_no_neighbours() -> None:
    assert bit_between(0b1011, 0b0011) == 3
    with pytest.raises(DistributaryError, match="no neighbours"):
        bit_between(0b11, 0b00)


@given(st.integers(0, 1 << 70))
def test_the_bits_of_a_mask_make_it_up(mask: int) -> None:
    assert sum(1 << bit for bit in bits_of(mask)) == mask


@given(st.sets(st.integers(1, 6), min_size=1), st.integers(0, 4), st.booleans(), st.data())
def test_every_vertex_of_every_cube_has_a_position_of_its_own(
    dimensions: set[int], more: int, mirrored: bool, data: st.DataObject
) -> None:
    bits = max(dimensions) + len(dimensions).bit_length() + more
    facets = data.draw(st.integers(1, 1 << more))
    cubes = Cubes(tuple(sorted(dimensions)), Circle(bits), mirrored, facets)
    places = [
        CubeVertex(vertex, facet, rank)
        for rank, dimension in enumerate(cubes.dimensions)
        for vertex in range(1 << dimension)
        for facet in range(facets)
    ]
    positions = [cubes.position(place) for place in places]
    assert len(set(positions)) == len(places)
    assert [cubes.place(position) for position in positions] == places


@given(st.integers(1, 6), st.booleans(), st.integers(1, 4), st.data())
def test_a_step_towards_the_tree_is_a_finger(
    dimension: int, mirrored: bool, facets: int, data: st.DataObject
) -> None:
    """Setting a bit is a step of a power of two clockwise; in a mirrored cube, clearing one is."""
    cubes = Cubes((dimension,), Circle(dimension + 2), mirrored, facets)
    vertex = data.draw(st.integers(0, (1 << dimension) - 1))
    facet = data.draw(st.integers(0, facets - 1))
    stepped = children_below(vertex) if mirrored else children_above(vertex, dimension)
    for child in stepped:
        start, end = cubes.position(CubeVertex(vertex, facet)), cubes.position(CubeVertex(child, facet))
        assert cubes.circle.clockwise(start, end) == 4 << bit_between(vertex, child)


def test_a_cube_that_does_not_fit_its_circle_is_refused() -> None:
    with pytest.raises(DistributaryError, match="dimensions"):
        Cubes((9,), Circle(8))
    with pytest.raises(DistributaryError, match="longer circle"):
        Cubes((8,), Circle(8), facets=2)
