"""One run of an element, as rank 0 writes it: a partial file that becomes the result at once.

Whenever the run is killed, the result is there as a whole or not at all, and what the run had
measured is in its partial file, where the next one finds it. Of two runs at once the first to be
whole is the result.
"""

import errno
import os
from pathlib import Path
from uuid import uuid4

from hpccoll.results import Writer
from hpccoll.sweep.log import Log
from hpccoll.sweep.plan import Element
from hpccoll.sweep.results import Message, Record, Results, hold, is_wrong, sync

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class Attempt:
    """A run of an element.

    Attributes
    ----------
    run
        Its name.
    log
        The element's log.
    wrong
        How many results are wrong, of those written and taken over.
    """

    def __init__(self, results: Results, element: Element, force: bool = False) -> None:
        self._results, self._element = results, element
        # Whoever makes an attempt has found no whole result, so one that is there is torn.
        self._replaces = force or results.path(element).exists()
        self.run = uuid4().hex[:8]
        self._path = results.partial(element, self.run)
        self._writer: Writer | None = None
        self._written, self.wrong = 0, 0
        self._runs: dict[str, Record] = {}
        self._groups: dict[Message, tuple[Record, ...]] = {}
        for content in [] if force else results.earlier(element):
            self._runs |= content.runs
            self._groups = content.messages | self._groups
        self.log = Log(results.log(element), self.run)

    @property
    def measured(self) -> frozenset[Message]:
        """Return the messages that earlier runs have measured."""
        return frozenset(self._groups)

    def write(self, *records: Record) -> None:
        """Write the record of the run, or else the records of one group.

        After the first, what earlier runs have measured is taken over.
        """
        if not self._writer:
            self._begin(*records)
        elif records:
            self._group([r | {"element": self._element.index, "run": self.run} for r in records])

    def _begin(self, record: Record) -> None:
        kept = {records[0]["run"] for records in self._groups.values()}
        continued = [self._runs[name] for name in sorted(kept)]
        self._writer = Writer(self._path)
        hold(self._writer.file)
        plan, element = self._results.plan, self._element
        sweep = {"name": plan.name, "plan": plan.hash, "elements": len(plan.elements)}
        about = {"sweep": sweep | element.record(), "run": self.run, "continued": continued}
        self._writer.write(record | about)
        for group in self._groups.values():
            self._group(list(group))

    def _group(self, records: list[Record]) -> None:
        assert self._writer
        self._writer.write(*records, {"type": "group", "records": len(records)})
        self._written += len(records)
        self.wrong += sum(map(is_wrong, records))

    def finish(self) -> str:
        """Make the partial file the result, and return what came of it in words."""
        assert self._writer
        self._writer.write({"type": "end", "records": self._written, "wrong": self.wrong})
        os.fsync(self._writer.file)
        if self._publish(self._results.path(self._element)):
            sync(self._results.directory)
            words = f"done: {self._written} records" + f", {self.wrong} WRONG" * bool(self.wrong)
        else:
            words = "another run was done first: this one's duplicate is discarded"
        self._path.unlink(missing_ok=True)
        self._results.clean(self._element)
        return words

    def _publish(self, result: Path) -> bool:
        """Give the file the result's name; return whether no other run was faster."""
        if self._replaces:
            os.replace(self._path, result)
            return True
        try:
            os.link(self._path, result)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without links two runs that end at the same moment may both believe to be the first;
            # either's file is whole, and one is left.
            if result.exists():
                return False
            os.rename(self._path, result)
        return True

    def close(self) -> None:
        """Close the files; what isn't finished stays for the next run."""
        if self._writer:
            self._writer.__exit__(None, None, None)
        self.log.close()
