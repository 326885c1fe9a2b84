"""The program lehr-secrets, which reads secrets for this plugin (sdk/secret/secretpipe).

It is a child that ends with this process, has this process's environment and user, and is
spoken to by two pipes. A frame is the length of its head and of its body, four bytes each
with the highest first, then the head, a JSON object, and the body, bytes as they are.
"""

import itertools
import json
import os
import queue
import shutil
import struct
import subprocess
import threading

from .errors import Error, Stale

PROTOCOL = 1
PROGRAM = "lehr-secrets"
_LENGTHS = struct.Struct(">II")

DENIED, NOT_FOUND, INVALID, UNAVAILABLE, INTERNAL = "denied", "not_found", "invalid", "unavailable", "internal"


class SecretError(Error):
    """A secret cannot be had. kind is DENIED (the operator's list does not let the partition
    and this plugin name it, or it may not be read), NOT_FOUND (it is not there), INVALID (it is
    of no use), UNAVAILABLE (it cannot be read now) or INTERNAL."""

    def __init__(self, kind, reason):
        super().__init__(reason)
        self.kind = kind


class Rotated(Stale):
    """A secret has another value than the push was planned with: nothing else is wrong."""


class Reader:
    """Starts the program when it is first asked, and hands out its answers."""

    def __init__(self, plugin, list_path, program):
        self._plugin, self._list, self._program = plugin, list_path, program
        # _lock is held while the program is started and while a frame is written.
        self._lock, self._process = threading.Lock(), None
        self._numbers, self._waiting = itertools.count(1), {}
        # Whether a value was read: from then on texts are looked through, and the program is
        # not done without.
        self.has_values = False

    def ask(self, question, body, seconds, fetch=None):
        """Returns the head and the body of the answer; a failure is raised. fetch(blob) returns
        the document that is asked for meanwhile."""
        answers = queue.SimpleQueue()
        number = next(self._numbers)
        try:
            self._send(number, question, body, answers)
            while True:
                try:
                    head, content = answers.get(timeout=seconds)
                except queue.Empty:
                    raise SecretError(UNAVAILABLE, "%s did not answer within %d s" % (PROGRAM, seconds)) from None
                if "needs_document" in head:
                    self._send_document(number, head["needs_document"], fetch)
                elif "failure" in head:
                    raise _failure(head["failure"])
                else:
                    return head, content
        finally:
            self._waiting.pop(number, None)

    def end_push(self, name):
        """Says that nothing is asked for the push any more."""
        with self._lock:
            if self._process is not None:
                self._write(next(self._numbers), {"ended": name}, b"")

    def _send(self, number, question, body, answers):
        with self._lock:
            if self._process is None:
                self._start()
            self._waiting[number] = answers
            self._write(number, question, body)

    def _send_document(self, number, blob, fetch):
        document, failure = b"", "the document cannot be asked for"
        try:
            if fetch is not None:
                document, failure = fetch(blob["uri"], blob["sha256"]), ""
        except Exception as problem:  # noqa: BLE001: it is why the secret cannot be read.
            failure = str(problem) or type(problem).__name__
        with self._lock:
            self._write(number, {"document": {"failure": failure}}, document)

    def _write(self, number, question, body):
        head = json.dumps(dict(question, id=number)).encode()
        try:
            for part in (_LENGTHS.pack(len(head), len(body)) + head, body):
                left = memoryview(part)
                while left:
                    left = left[self._process.stdin.write(left) :]
        except (OSError, AttributeError) as problem:
            raise SecretError(UNAVAILABLE, "asking %s: %s" % (PROGRAM, problem)) from problem

    def _start(self):
        program = self._program or shutil.which(PROGRAM)
        if not program:
            raise SecretError(UNAVAILABLE, "the program %s, which reads secrets, is not beside lehr, nor in PATH=%s: install it in one of these" % (
                PROGRAM, os.environ.get("PATH", "")))
        arguments = [program, "--plugin=" + self._plugin, "--protocol=%d" % PROTOCOL, "--secret-list=" + self._list]
        try:
            # Its process group is this one: whoever kills the plugin's group ends it too.
            self._process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as problem:
            raise SecretError(UNAVAILABLE, "starting %s: %s" % (program, problem)) from problem
        threading.Thread(target=self._take_all, args=(self._process,), daemon=True).start()

    def _take_all(self, process):
        try:
            while (lengths := _read(process.stdout, _LENGTHS.size)) is not None:
                head_length, body_length = _LENGTHS.unpack(lengths)
                head, body = _read(process.stdout, head_length), _read(process.stdout, body_length)
                if head is None or body is None:
                    break
                head = json.loads(head)
                answers = self._waiting.get(head["id"])
                if answers is not None:
                    answers.put((head, body))
        except (OSError, ValueError):
            pass
        self._end(process)

    def _end(self, process):
        """Nobody may be told what the program knew to be secret: without it this process ends,
        as by a kill, and Lehr starts it anew. Before any value was read, it is started again."""
        if self.has_values:
            os.write(2, b"lehr-secrets, which reads the secrets of this plugin, has ended: the plugin ends, to be started anew\n")
            os._exit(1)
        process.kill()
        process.wait()
        with self._lock:
            process.stdin.close()
            process.stdout.close()
            self._process = None
            waiting = list(self._waiting.values())
        reason = "%s ended (status %d); the plugin's log has its words" % (PROGRAM, process.returncode)
        for answers in waiting:
            answers.put(({"failure": {"kind": UNAVAILABLE, "reason": reason}}, b""))


def _failure(told):
    return Rotated(told["reason"]) if told["kind"] == "rotated" else SecretError(told["kind"], told["reason"])


def _read(pipe, length):
    """Returns so many bytes; None: the pipe has ended."""
    content = bytearray(length)
    view, done = memoryview(content), 0
    while done < length:
        count = pipe.readinto(view[done:])
        if not count:
            return None
        done += count
    return content
