"""Steps: kernels as other kernels call them, which are compiled to machine code within those alone.

Numba compiles a function that others call as if it were called by itself: it makes machine code of it, and a
door for Python and one for C. Those who call it take in its LLVM code, and use nothing else. A step has no
door and no machine code: it is typed, turned into LLVM code and optimised, and that is kept in the cache.

A kernel is therefore two things to Numba, of which each is compiled when it is needed: one for Python, and
its step (`called_as_step`). This module builds on parts of Numba that are not documented: the library that
code is linked in (`StepLibrary`), and two methods by which a function is typed and found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import BaseNativeLowering, NativeLowering
from numba.core.types import Integer, int64, unliteral  # type: ignore[attr-defined]

ENVIRONMENT = "_ZN08NumbaEnv"
"""How the names of variables begin in which a function finds its constants at run time."""


class StepLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a step and of all that it calls, to be linked into others, not to be run."""

    _final_module: Any

    def _finalize_final_module(self) -> None:
        """Keep the code for linking; compile only the variables that Numba sets by address."""
        self._finalize_dynamic_globals()
        self._finalized = True
        self._get_module_for_linking()
        variables = self._codegen._create_empty_module(self.name)
        for variable in self._final_module.global_variables:
            if variable.name.startswith(ENVIRONMENT):
                _add_variable(variables, variable.name)
        self._final_module = binding.parse_assembly(str(variables))
        super()._finalize_final_module()


def _add_variable(module: ir.Module, name: str) -> None:
    """Add a variable for an address, which is the same one in whichever module it is."""
    variable = ir.GlobalVariable(module, cgutils.voidptr_t, name)
    variable.linkage = "common"
    variable.initializer = cgutils.get_null_value(variable.type.pointee)


class _StepLower(Lower):  # type: ignore[misc]
    """Turns a function into LLVM code without the doors for Python and C."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """None: Python does not call a step."""

    def create_cfunc_wrapper(self) -> None:
        """None: nor does C."""


@register_pass(mutates_CFG=True, analysis_only=False)
class _StepLowering(BaseNativeLowering):  # type: ignore[misc]
    """The pass that turns a step into LLVM code."""

    _name = "step_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        """What Numba asks for who does it."""
        return _StepLower

    def run_pass(self, state: Any) -> bool:
        """Do it, with a library of steps."""
        state.library = StepLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        # Not before: what a function uses of NumPy inherits it, and would be compiled with and without it.
        state.flags.forceinline = state.pipeline.inline
        return bool(super().run_pass(state))


class _StepCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's passes, with ours as the last."""

    inline = False

    def define_pipelines(self) -> list[PassManager]:
        """One list of passes; what cannot be compiled by them is an error."""
        builder, manager = DefaultPassBuilder, PassManager("step")
        for part in (builder.define_untyped_pipeline, builder.define_typed_pipeline):
            manager.passes.extend(part(self.state).passes)
        for each, about in builder.define_nopython_lowering_pipeline(self.state).passes:
            manager.add_pass(_StepLowering if each is NativeLowering else each, about)
        manager.finalize()
        return [manager]


class _InlinedStepCompiler(_StepCompiler):
    inline = True


def step_of(function: Callable[..., Any], options: Mapping[str, Any], *, inline: bool, cache: bool) -> Any:
    """The function as a step, compiled with these options of Numba, in or beside the code that calls it."""
    compiler = _InlinedStepCompiler if inline else _StepCompiler
    step = numba.njit(pipeline_class=compiler, **options)(function)
    if cache:
        step._cache = FunctionCache(_renamed(function))
    return step


def _renamed(function: Callable[..., Any]) -> FunctionType:
    """The function under a name that no other has, for the cache, which goes by names and lines."""
    assert isinstance(function, FunctionType)
    renamed = FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    renamed.__qualname__ = f"{function.__qualname__}-step"
    renamed.__module__ = function.__module__
    return renamed


def called_as_step(compiled: Any, step: Any) -> None:
    """Have kernels that call `compiled` use its step, which is compiled once for all kinds of whole numbers.

    A constant that is given as an argument is a number like others, and one of 32 bits is widened to 64, as
    Numba does it in any calculation.
    """

    def get_call_template(args: tuple[Any, ...], kws: Mapping[str, Any]) -> Any:
        return step.get_call_template(
            tuple(map(_widened, args)), {name: _widened(kind) for name, kind in kws.items()}
        )

    compiled.get_call_template = get_call_template
    compiled.get_overload = step.get_overload
    compiled._compiling_counter = step._compiling_counter  # by which Numba finds that a function calls itself


def _widened(kind: Any) -> Any:
    """The type that an argument of this type is handed to a step as."""
    plain = unliteral(kind)
    return int64 if isinstance(plain, Integer) and plain.signed else plain  # type: ignore[attr-defined]
