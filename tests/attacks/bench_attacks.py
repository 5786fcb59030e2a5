"""What a system under test may do to its process, its event loop and whoever reads its answer.

`plain` and `coroutine` are systems that attack for the cases that name an attack, and answer the
others. This file is copied beside a bench, and imported there by name.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import Any

Attack = Callable[[Any], Any]
RAISING: dict[str, Attack] = {}
"""Attacks by an exception, or by what is raised while it is read."""
ANSWERING: dict[str, Attack] = {}
"""Attacks by what is returned."""
HANGING: dict[str, Attack] = {}
"""Attacks that never come back by themselves, but let others run."""
LEAVING: dict[str, Attack] = {}
"""Attacks by what is left behind in Python: threads, replaced functions, settings."""
KEEPING: dict[str, Attack] = {}
"""Attacks that let no other Python code of the process run for a while."""
PROCESS: dict[str, Attack] = {}
"""Attacks on the process itself and its descriptors."""
LOOP: dict[str, Attack] = {}
"""Attacks on the running event loop; each is a coroutine function."""


def attack(table: dict[str, Attack]) -> Callable[[Attack], Attack]:
    """Add a function to a table."""

    def add(function: Attack) -> Attack:
        table[function.__name__] = function
        return function

    return add


def raising(name: str, error: Callable[[], BaseException]) -> None:
    """Add an attack that raises what a function returns."""

    def raise_it(_: Any) -> Any:
        raise error()

    RAISING[name] = raise_it


def answering(name: str, answer: Callable[[], Any]) -> None:
    """Add an attack that returns what a function returns."""
    ANSWERING[name] = lambda _: answer()


def hang() -> Any:
    """Do nothing for ever, in steps that let others run."""
    while True:
        time.sleep(0.05)


class Fatal(BaseException):
    """No `Exception`."""


def fatal(*_: Any, **__: Any) -> Any:
    """Raise what no `except Exception` catches."""
    raise Fatal("from a method")


def stop(*_: Any, **__: Any) -> Any:
    """Raise what ends a program."""
    raise SystemExit(3)


def hanging(*_: Any, **__: Any) -> Any:
    """Hang in a method."""
    hang()


def made(base: Any, slot: str, value: Any, *args: Any) -> Any:
    """Return an object of a class with an odd method or property."""
    return type("Odd", (base,), {slot: value})(*args)


def made_in_list(base: Any, slot: str, value: Any) -> Any:
    """Return a list of such an object."""
    return [made(base, slot, value)]


def pytest_outcome(name: str) -> BaseException:
    """Return what a function of pytest raises."""
    try:
        getattr(importlib.import_module("pytest"), name)("said by the system")
    except BaseException as error:  # noqa: BLE001 - it is what is wanted
        return error
    raise AssertionError


raising("exit_code_0", lambda: SystemExit(0))
raising("exit_code_2", lambda: SystemExit(2))
raising("exit_with_words", lambda: SystemExit("no such file"))
raising("interrupt", KeyboardInterrupt)
raising("cancelled", asyncio.CancelledError)
raising("generator_exit", GeneratorExit)
raising("stop_iteration", lambda: StopIteration(3))
raising("stop_async_iteration", StopAsyncIteration)
raising("timeout", TimeoutError)
raising("memory", MemoryError)
raising("recursion", RecursionError)
raising("base", lambda: Fatal("base"))
raising(
    "group_with_exit", lambda: BaseExceptionGroup("g", [ValueError(), SystemExit(1)])
)
raising(
    "group_with_cancelled", lambda: BaseExceptionGroup("g", [asyncio.CancelledError()])
)
raising(
    "group_in_group",
    lambda: BaseExceptionGroup("g", [BaseExceptionGroup("h", [Fatal()])]),
)
raising("pytest_exit", lambda: pytest_outcome("exit"))
raising("pytest_skip", lambda: pytest_outcome("skip"))
raising("pytest_fail", lambda: pytest_outcome("fail"))
raising("pytest_xfail", lambda: pytest_outcome("xfail"))
raising("broken_pipe", BrokenPipeError)
raising("huge_message", lambda: ValueError("x" * 10_000_000))
raising("surrogates", lambda: ValueError("\ud800\x00\x1b[31m"))
raising("bytes_as_message", lambda: ValueError(b"\xff"))

for _name, _method in {"raises": fatal, "exits": stop, "hangs": hanging}.items():
    for _slot in ("__str__", "__repr__", "__getattribute__", "__reduce__", "__class__"):
        _value = property(_method) if _slot == "__class__" else _method
        raising(
            f"exception_{_slot.strip('_')}_{_name}",
            partial(made, Exception, _slot, _value, "x"),
        )
    for _attribute in (
        "failure_kind",
        "retry_after",
        "traceback",
        "bases",
        "is_systemic",
    ):
        raising(
            f"exception_{_attribute}_{_name}",
            partial(made, Exception, _attribute, property(_method), "x"),
        )
    for _slot in (
        "__str__",
        "__repr__",
        "__getattr__",
        "__iter__",
        "__len__",
        "__await__",
    ):
        answering(
            f"object_{_slot.strip('_')}_{_name}",
            partial(made, object, _slot, _method),
        )
    for _slot in ("items", "keys", "__iter__", "__len__", "__getitem__", "__class__"):
        _value = property(_method) if _slot == "__class__" else _method
        answering(
            f"dict_{_slot.strip('_')}_{_name}",
            partial(made, dict, _slot, _value, [("a", 1)]),
        )
    for _kind, _slot in (
        (list, "__iter__"),
        (str, "__str__"),
        (int, "__repr__"),
        (float, "__repr__"),
    ):
        answering(
            f"{_kind.__name__}_{_slot.strip('_')}_{_name}",
            partial(made_in_list, _kind, _slot, _method),
        )

answering("not_a_number", lambda: float("nan"))
answering("a_set", lambda: {1})
answering("bytes", lambda: b"\xff")
answering("odd_keys", lambda: {1: "a", "1": "b"})
answering("a_long_integer", lambda: 10**5000)
answering("a_long_text", lambda: "x" * 80_000_000)
answering("a_generator", lambda: iter([]))
answering("a_module", lambda: sys)
answering("surrogates_as_text", lambda: "\ud800")


@attack(ANSWERING)
def itself(_: Any) -> Any:
    """Return what contains itself."""
    value: list[Any] = []
    value.append(value)
    return value


@attack(ANSWERING)
def deep(_: Any) -> Any:
    """Return what is nested too deep."""
    value: list[Any] = []
    for _ in range(200_000):
        value = [value]
    return value


def _usage(method: Attack) -> Attack:
    usage: Any = type(
        "Usage",
        (Mapping,),
        dict.fromkeys(("__getitem__", "__iter__", "__len__"), method),
    )

    def answer(_: Any) -> Any:
        bench = importlib.import_module("pytest_failure_taxonomy.bench")
        return bench.Answer(1, usage=usage())

    return answer


ANSWERING["usage_raises"] = _usage(fatal)
ANSWERING["usage_hangs"] = _usage(hanging)
HANGING["sleeps"] = hanging


@attack(HANGING)
def waits_for_a_lock(_: Any) -> Any:
    """Wait for what nobody gives."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@attack(HANGING)
def reads_a_pipe(_: Any) -> Any:
    """Wait for what nobody writes."""
    return os.read(os.pipe()[0], 1)


@attack(HANGING)
def ignores_everything(_: Any) -> Any:
    """Go on whatever is raised."""
    while True:
        with contextlib.suppress(BaseException):
            hang()


@attack(HANGING)
def computes(_: Any) -> Any:
    """Compute for ever, in Python."""
    while True:
        sum(range(1000))


def in_thread(function: Callable[[], Any]) -> Attack:
    """Return an attack that leaves a thread, and answers."""

    def does(case: Any) -> Any:
        threading.Thread(target=function, daemon=True).start()
        return case.input

    return does


LEAVING["a_thread"] = in_thread(hang)
LEAVING["a_thread_that_exits"] = in_thread(stop)
LEAVING["a_thread_that_raises"] = in_thread(fatal)


@attack(LEAVING)
def a_thread_that_keeps_the_process(case: Any) -> Any:
    """Leave a thread that no exit of Python ends."""
    threading.Thread(target=time.sleep, args=(1.0,)).start()
    return case.input


def leaving(name: str, does: Callable[[], Any]) -> None:
    """Add an attack that does something, and answers."""

    def answer(case: Any) -> Any:
        does()
        return case.input

    LEAVING[name] = answer


leaving("no_garbage_collection", gc.disable)
leaving("a_recursion_limit", lambda: sys.setrecursionlimit(200))
leaving("a_default_timeout", lambda: socket.setdefaulttimeout(0.001))
leaving("another_folder", lambda: os.chdir("/"))
leaving("a_variable", lambda: os.environ.update(PYTHONPATH="/nowhere", HOME="/nowhere"))
leaving("a_umask", lambda: os.umask(0o777))
leaving("an_open_file", lambda: LEFT.append(os.open(__file__, os.O_RDONLY)))
LEFT: list[Any] = []


@attack(LEAVING)
def prints_much(case: Any) -> Any:
    """Print more than anybody keeps."""
    for _ in range(100):
        sys.stdout.write("x" * 10_000)
        sys.stderr.write("y" * 10_000)
    return case.input


@attack(KEEPING)
def keeps_the_gil(case: Any) -> Any:
    """Sleep in C without giving the GIL back."""
    ctypes.PyDLL(None).usleep(900_000)
    return case.input


@attack(KEEPING)
def searches_for_long(case: Any) -> Any:
    """Search with a pattern that takes long, in C."""
    re.match(r"(a|a)*b", "a" * 22)
    return case.input


@attack(KEEPING)
def blocks(case: Any) -> Any:
    """Block the thread, not the GIL."""
    time.sleep(0.9)
    return case.input


def doing(name: str, does: Callable[[], Any]) -> None:
    """Add an attack on the process."""

    def answer(case: Any) -> Any:
        does()
        return case.input

    PROCESS[name] = answer


doing("exit_at_once_0", lambda: os._exit(0))
doing("exit_at_once_3", lambda: os._exit(3))
doing("abort", os.abort)
doing("segfault", lambda: ctypes.string_at(0))


def own_session() -> None:
    """Leave the session, and then a process."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(9)
        os._exit(0)


for _signal in ("KILL", "STOP", "TERM", "INT", "HUP", "SEGV", "ALRM", "PIPE", "XCPU"):
    _number = getattr(signal, f"SIG{_signal}")
    doing(f"signal_{_signal.lower()}", partial(signal.raise_signal, _number))
doing("kill_the_group", lambda: os.killpg(0, signal.SIGKILL))
doing("close_input", lambda: os.close(0))
doing("close_output", lambda: os.close(1))
doing("close_errors", lambda: os.close(2))
doing("close_everything", lambda: os.closerange(0, 65_536))
doing("close_all_but_the_standard_ones", lambda: os.closerange(3, 65_536))
doing("close_streams", lambda: (sys.stdout.close(), sys.stderr.close()))
doing("no_streams", lambda: vars(sys).update(stdin=None, stdout=None, stderr=None))
doing("fork", lambda: os.fork() or os._exit(0))
doing("fork_that_answers", os.fork)
doing("fork_that_stays", lambda: os.fork() or os.execvp("sleep", ["sleep", "9"]))  # noqa: S606
doing("fork_in_a_session_of_its_own", own_session)
doing("alarm", lambda: signal.setitimer(signal.ITIMER_REAL, 0.05))
doing("no_handlers", lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
doing("a_switch_interval", lambda: sys.setswitchinterval(1.0))
doing("environment_gone", os.environ.clear)
doing("built_ins_gone", lambda: vars(builtins).clear())
doing("modules_gone", sys.modules.clear)
doing("path_gone", sys.path.clear)
doing("json_replaced", lambda: setattr(json, "dumps", stop))
doing("exit_replaced", lambda: setattr(os, "_exit", hanging))
doing("time_replaced", lambda: setattr(time, "perf_counter", stop))
doing("traced", lambda: sys.settrace(fatal))
doing("profiled", lambda: sys.setprofile(fatal))


@attack(PROCESS)
def folder_gone(case: Any) -> Any:
    """Work in a folder that is no more."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
    return case.input


@attack(PROCESS)
def writes_into_every_descriptor(case: Any) -> Any:
    """Write rubbish wherever it goes."""
    for number in range(3, 512):
        with contextlib.suppress(OSError):
            os.write(number, b"rubbish")
    return case.input


@attack(PROCESS)
def no_more_files(case: Any) -> Any:
    """Forbid to open files."""
    resource = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return case.input


@attack(PROCESS)
def no_more_memory(case: Any) -> Any:
    """Forbid more memory."""
    resource = importlib.import_module("resource")
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))
    return case.input


@attack(PROCESS)
def recursion_without_end(_: Any) -> Any:
    """Overflow the stack of C."""
    sys.setrecursionlimit(10**9)
    value: Any = []
    for _ in range(10**6):
        value = [value]
    return repr(value)


@attack(LOOP)
async def cancels_itself(case: Any) -> Any:
    """Cancel the task that runs the case."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return case.input


@attack(LOOP)
async def cancels_all(case: Any) -> Any:
    """Cancel what this case has started."""
    mine = [asyncio.ensure_future(asyncio.sleep(60)) for _ in range(3)]
    for task in mine:
        task.cancel()
    await asyncio.gather(*mine)
    return case.input


@attack(LOOP)
async def stops_the_loop(case: Any) -> Any:
    """Stop the loop."""
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)
    return case.input


@attack(LOOP)
async def closes_the_loop(case: Any) -> Any:
    """Close the loop, which it refuses."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop().close()
    return case.input


async def _raise(error: type[BaseException]) -> None:
    raise error


def _raise_now(error: type[BaseException]) -> None:
    raise error


def _leave_a_task(error: type[BaseException]) -> Attack:
    async def does(case: Any) -> Any:
        LEFT.append(asyncio.ensure_future(_raise(error)))
        await asyncio.sleep(0.01)
        return case.input

    return does


def _leave_a_callback(error: type[BaseException]) -> Attack:
    async def does(case: Any) -> Any:
        asyncio.get_running_loop().call_later(0.01, _raise_now, error)
        return case.input

    return does


for _error in (
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    Fatal,
    ValueError,
):
    LOOP[f"a_task_raises_{_error.__name__}"] = _leave_a_task(_error)
    LOOP[f"a_callback_raises_{_error.__name__}"] = _leave_a_callback(_error)


@attack(LOOP)
async def leaves_a_task(case: Any) -> Any:
    """Leave a task that never ends."""
    LEFT.append(asyncio.ensure_future(asyncio.sleep(600)))
    return case.input


@attack(LOOP)
async def refuses_to_be_cancelled(_: Any) -> Any:
    """Go on whatever is raised."""
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.05)


@attack(LOOP)
async def refuses_to_close(_: Any) -> Any:
    """Go on although it is closed."""
    while True:
        try:
            await asyncio.sleep(0.05)
        except GeneratorExit:
            await asyncio.sleep(0.05)
        except BaseException:  # noqa: BLE001, S112 - it refuses
            continue


@attack(LOOP)
async def never_wakes(_: Any) -> Any:
    """Wait for what nobody sets."""
    await asyncio.get_running_loop().create_future()


@attack(LOOP)
async def spins(_: Any) -> Any:
    """Give the others a turn, and want the next."""
    while True:  # noqa: ASYNC110 - that is the attack
        await asyncio.sleep(0)


@attack(LOOP)
async def handler_raises(case: Any) -> Any:
    """Have the loop's handler of exceptions raise."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(stop)
    loop.call_soon(_raise_now, ValueError)
    await asyncio.sleep(0.01)
    return case.input


@attack(LOOP)
async def executor_hangs(case: Any) -> Any:
    """Fill the loop's threads."""
    loop = asyncio.get_running_loop()
    for _ in range(50):
        loop.run_in_executor(None, time.sleep, 0.5)
    return case.input


@attack(LOOP)
async def executor_closed(case: Any) -> Any:
    """Shut the loop's threads down."""
    await asyncio.get_running_loop().shutdown_default_executor()
    return case.input


@attack(LOOP)
async def debugs(case: Any) -> Any:
    """Switch the loop's debugging on."""
    asyncio.get_running_loop().set_debug(True)
    return case.input


ALL = {**RAISING, **ANSWERING, **HANGING, **LEAVING, **KEEPING, **PROCESS, **LOOP}


def plain(case: Any) -> Any:
    """Attack, or answer what is asked."""
    time.sleep(0.02)
    return ALL[case["attack"]](case) if "attack" in case.fields else case.input


async def coroutine(case: Any) -> Any:
    """Attack from a coroutine, or answer what is asked."""
    await asyncio.sleep(0.02)
    if "attack" not in case.fields:
        return case.input
    value = ALL[case["attack"]](case)
    return await value if type(value) is CoroutineType else value
