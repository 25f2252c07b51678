"""Algorithms from outside: files named on the command line, and installed packages.

A plugin is a Python module that enters its generators by `hpccoll.registry.algorithm`, as the
catalogue's own files do.
"""

import sys
import traceback
from collections.abc import Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from hpccoll.errors import HpccollError, UsageError
from hpccoll.registry import catalogue

GROUP = "hpccoll.algorithms"
"""The group of entry points under which packages announce their modules."""


def load(paths: Iterable[str] = ()) -> None:
    """Enter the algorithms of installed packages and of files into the catalogue.

    Raises
    ------
    UsageError
        There is no such file, it fails when it is run, or it enters no algorithm.
    """
    from importlib.metadata import entry_points

    catalogue()  # first its own, so that a name taken twice is the plugin's fault
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise UsageError(
                f"the installed plugin {entry.name} ({entry.value}) failed: {_words(error)}; "
                "repair or uninstall it"
            ) from error
    for path in paths:
        _load_file(Path(path))


def _load_file(path: Path) -> None:
    name = f"plugin {path.resolve()}"
    if name in sys.modules:  # given twice
        return
    if not path.is_file():
        raise UsageError(f"--plugin {path}: there is no such file")
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--plugin {path}: not a Python file; its name must end in .py")
    module = sys.modules[name] = module_from_spec(spec)
    before = len(catalogue())
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UsageError(f"--plugin {path}{_line(error, path)}: {_words(error)}") from error
    if len(catalogue()) == before:
        raise UsageError(
            f"--plugin {path}: enters no algorithm; decorate a generator with "
            "hpccoll.registry.algorithm"
        )


def _line(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def _words(error: Exception) -> str:
    if isinstance(error, HpccollError):
        return str(error)
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
