"""The plugin's log, which is standard error, without the secrets that this process has read."""

import io
import os
import sys
import threading

from . import secret

# Characters of a line that is not ended, after which it is written as it is.
MAX_LINE = 64 << 10


class HidingStream(io.TextIOBase):
    """Writes whole lines to the log. What goes to the file descriptor goes past it, and so does
    what was bound to another stream before."""

    encoding, errors = "utf-8", "backslashreplace"

    def __init__(self):
        self._lock, self._left = threading.Lock(), ""
        self.buffer = open(2, "wb", buffering=0, closefd=False)

    def writable(self):
        return True

    def fileno(self):
        return 2

    def write(self, text):
        with self._lock:
            self._left += text
            end = len(self._left) if len(self._left) > MAX_LINE else self._left.rfind("\n") + 1
            lines, self._left = self._left[:end], self._left[end:]
        _write(lines)
        return len(text)

    def flush(self):
        """Writes what is left of a line too: who flushes wants it seen."""
        with self._lock:
            left, self._left = self._left, ""
        _write(left)


def _write(text):
    content = secret.redact(text).encode("utf-8", "backslashreplace")
    while content:
        content = content[os.write(2, content) :]


def take_output():
    """Has what is printed go to the log, and hides in it what is secret."""
    sys.stdout = sys.stderr = HidingStream()
