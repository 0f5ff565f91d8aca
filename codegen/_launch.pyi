"""Types of `_launch.c`; that file and `program.py` say what the arguments mean."""

from collections.abc import Callable, Sequence
from typing import Any

class Program:
    """Native code, callable on jax Arrays; attributes may be added."""

    def __init__(
        self, *, run: int, shapes: int, inputs: tuple[Any, ...], outputs: int, dims: int, reads: tuple[Any, ...],
        donated: tuple[int, ...], consts: tuple[int, ...], keep: Any, check: Callable[..., Any],
        convert: Callable[..., Any], accept: Callable[..., Any], arrange: Callable[..., Any],
        plan: Callable[..., Any], stock: Callable[..., Any], sharding: Any, devices: Sequence[Any], threads: int,
    ) -> None: ...
    def __call__(self, *inputs: Any) -> tuple[Any, ...]: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...

def bind(ArrayImpl: type, batched_block_until_ready: Any, batched_device_put: Any, ndarray: type,
         JaxRuntimeError: type) -> None: ...

addresses: Any
"""The capsule of the custom call that writes where its other results lie into its last one."""
