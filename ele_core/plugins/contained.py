"""Isolate plugin code: it cannot exit the process, print to standard output, or fail without naming itself."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from ele_core.errors import EleError, PluginError

HERE = Path(__file__).parent
FIX = "This is a mistake in the plugin: tell its authors; --verbose prints the traceback."
_origins: WeakKeyDictionary[type, str] = WeakKeyDictionary()


# -- while it is imported -----------------------------------------------------------------------------------------


@contextmanager
def contained() -> Iterator[None]:
    """Run code of a plugin in the block: what it prints goes to standard error, and nothing it raises ends the process.

    `SystemExit`, `KeyboardInterrupt` and the like become a `PluginError`; only a Ctrl-C of the user passes through. So
    does a change of torch's default type of numbers, which is undone: models of other plugins would not load.
    """
    with redirect_stdout(sys.stderr), _interrupts() as received, _default_type():
        try:
            yield
        except Exception:
            raise
        except BaseException as error:
            if received:
                raise
            raise PluginError(reason_of(error)) from error


@contextmanager
def _default_type() -> Iterator[None]:
    """Refuse a change of torch's default type of numbers in the block, and undo it."""
    before = _torch_default()
    try:
        yield
    finally:
        found = _torch_default()
        usual = before or (None if found is None else sys.modules["torch"].float32)
        if found != usual:
            sys.modules["torch"].set_default_dtype(usual)
    if found != usual:
        what = (
            f"it sets torch's default type of numbers to {str(found).removeprefix('torch.')}, for all other code too;"
        )
        raise PluginError(what, fix="give its own tensors and modules a type instead")


def _torch_default() -> Any:
    """Torch's default type of numbers; None while torch is not imported."""
    return getattr(sys.modules.get("torch"), "get_default_dtype", lambda: None)()


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """List the SIGINT that arrive in the block, and restore their handler; outside the main thread none are seen."""
    received: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield received
        return

    def handle(number: int, frame: FrameType | None) -> Any:
        received.append(number)
        return before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield received
    finally:
        signal.signal(signal.SIGINT, before)


def reason_of(error: BaseException) -> str:
    """Return an exception as one line, with its type unless it is a `PluginError`."""
    if isinstance(error, PluginError):
        return str(error)
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


def details_of(error: BaseException) -> str:
    """Return the traceback of what a plugin raised, without the lines of ELE and of Python that imported it."""
    raised = error.__cause__ if isinstance(error, PluginError) and error.__cause__ is not None else error
    if isinstance(raised, PluginError):
        return ""
    frames = [frame for frame in traceback.extract_tb(raised.__traceback__) if not _imports(frame.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)] if frames else []
    return "".join([*lines, *traceback.format_exception_only(raised)]).rstrip()


def _imports(file: str) -> bool:
    return file.startswith("<frozen") or "importlib" in Path(file).parts or Path(file).parent == HERE


# -- while it is used ---------------------------------------------------------------------------------------------


def remember(component: type, origin: str) -> None:
    """Note the plugin and the name of a component's class and of its parts, for the errors that are raised in it."""
    _origins[component] = origin
    for part in (getattr(component, name, None) for name in ("Texts", "Moves", "Rules", "Show")):
        if part is not None and part.__module__ != "ele_core.optional":
            _origins[part] = origin


def _origin(frame: FrameType) -> str | None:
    """The origin of the component whose method runs in a frame."""
    owner = frame.f_locals.get("self", frame.f_locals.get("cls"))
    return _origins.get(owner if isinstance(owner, type) else type(owner))


def origin_of(error: BaseException) -> str | None:
    """Return the plugin, version and component in whose code an error was raised; None if there is none.

    The innermost method of a component in the traceback counts, whatever it called.
    """
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = _origin(frame) or found
    return found


@contextmanager
def blamed() -> Iterator[None]:
    """Turn an unexpected error or an exit of a plugin's component into a `PluginError` that names it, and no other."""
    try:
        yield
    except (Exception, SystemExit) as error:
        origin = None if isinstance(error, EleError | OSError) else origin_of(error)
        if origin is None:
            raise
        raise PluginError(f"{reason_of(error).rstrip('.')}.", where=origin, fix=FIX) from error


class OwnOutput:
    """Standard output for what ELE prints; what a plugin's component prints goes to standard error, with its name."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: set[str] = set()

    def write(self, text: str) -> int:
        """Write to the stream that is meant for the caller."""
        origin = printing()
        if origin is None:
            return self._stream.write(text)
        if origin not in self._told:
            self._told.add(origin)
            sys.stderr.write(f"{origin} prints:\n")
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def printing() -> str | None:
    """Return the plugin, version and component whose code is running; None if there is none."""
    running = (_origin(frame) for frame, _ in traceback.walk_stack(sys._getframe(1)))
    return next(filter(None, running), None)


@contextmanager
def noted() -> Iterator[None]:
    """Add a note with the plugin, version and component to any unexpected error raised in a component.

    An exit becomes a `PluginError`: it would end the caller without a word.
    """
    try:
        yield
    except SystemExit:
        with blamed():
            raise
    except Exception as error:
        origin = None if isinstance(error, EleError) else origin_of(error)
        note = f"Raised in {origin}."
        if origin is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
