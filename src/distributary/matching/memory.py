"""What kernels can say to the processor's memory and NumPy has no word for.

A lookup in large tables waits for memory most of its time. Kernels therefore work in steps over many rows,
and ask in each step for what the next will read, so that the processor fetches all of it at once. And short
texts are compared and copied eight bytes at a time.

None of the words checks a bound: the caller knows that the bytes are there. `prefetch` may be given any
place, for what is not there is not fetched.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from distributary.kernel import Bytes, kernel

WORD = 8
"""Bytes that are loaded or stored at once."""

_WORD = ir.IntType(8 * WORD)

LENGTH_FACTOR = np.uint64(0x9E3779B97F4A7C15)
WORD_FACTOR = np.uint64(0xD6E8FEB86659FD93)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """prefetch(array, index): have that element, which is needed soon, fetched meanwhile."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_address(context, builder, signature, arguments), cgutils.voidptr_t)
        read, keep, data = (ir.Constant(cgutils.int32_t, value) for value in (0, 3, 1))
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, *(cgutils.int32_t,) * 3])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, read, keep, data])
        return context.get_dummy_value()

    return types.none(array, index), generate


@intrinsic  # type: ignore[untyped-decorator]
def load_word(typing_context: Any, array: Any, index: Any) -> Any:
    """load_word(array, index): the eight bytes from there on, the first of them lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_address(context, builder, signature, arguments), _WORD.as_pointer())
        return builder.load(address, align=1)

    return types.uint64(array, index), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_word(typing_context: Any, array: Any, index: Any, word: Any) -> Any:
    """store_word(array, index, word): write eight bytes from there on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(_address(context, builder, signature, arguments), _WORD.as_pointer())
        value = context.cast(builder, arguments[2], signature.args[2], types.uint64)
        builder.store(value, address, align=1)
        return context.get_dummy_value()

    return types.none(array, index, word), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """lowest_bit(word): the number of the lowest bit that is set in a word that is not zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[0], signature.args[0], types.uint64)
        return builder.cttz(value, ir.Constant(ir.IntType(1), 1))

    return types.uint64(word), generate


@intrinsic  # type: ignore[untyped-decorator]
def count_bits(typing_context: Any, word: Any) -> Any:
    """count_bits(word): how many bits of a word are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.cast(builder, arguments[0], signature.args[0], types.uint64)
        return builder.ctpop(value)

    return types.uint64(word), generate


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """The address of an element of a contiguous array."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    index = context.cast(builder, arguments[1], signature.args[1], types.intp)
    return builder.gep(array.data, [index])


@kernel
def hash_words(data: Bytes, start: int, end: int) -> np.uint64:
    """A 64-bit hash of `data[start:end]`, eight bytes at a time; all of its bits are good."""
    state = np.uint64(end - start) * LENGTH_FACTOR
    at = start
    while at + WORD <= end:
        state = (state ^ load_word(data, at)) * WORD_FACTOR
        state ^= state >> np.uint64(32)
        at += WORD
    if at < end:
        # The last word: what is left, of a long text together with some of what was read before.
        if end - start >= WORD:
            rest = load_word(data, end - WORD)
        elif at + WORD <= len(data):
            rest = load_word(data, at) & ((np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1))
        else:
            rest = np.uint64(0)
            for place in range(at, end):
                rest |= np.uint64(data[place]) << np.uint64(8 * (place - at))
        state = (state ^ rest) * WORD_FACTOR
        state ^= state >> np.uint64(32)
    state *= LENGTH_FACTOR
    return state ^ (state >> np.uint64(32))
