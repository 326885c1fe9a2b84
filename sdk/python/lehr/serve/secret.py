"""Secrets that assets name by reference (lehr.intent.v1.SecretRef), and what must not be shown.

What a reference names is read by the program lehr-secrets, by the operator's list, as for
plugins in Go. The values that were read are known to the whole process, as a text may be
written anywhere in it: so no part can forget to ask.
"""

import base64
import dataclasses
import secrets
import threading

from .errors import Error
from .reader import UNAVAILABLE, Reader, SecretError

HIDDEN = "(secret)"
NOT_TOLD = "(not told, for it may hold a secret)"
# Fewer bytes are not looked for (sdk/secret).
SHORTEST = 6
# Seconds for which an answer is waited for. A look has one after 3 s, a push when the secret
# was read, which takes 10 s at most, behind another reading.
LOOK_WITHIN, PUSH_WITHIN, REDACT_WITHIN = 15, 40, 10

_reader = None


def start(plugin, list_path, program):
    """Says who asks, and by which list. main calls it."""
    global _reader
    _reader = Reader(plugin, list_path, program)


@dataclasses.dataclass(frozen=True)
class Digest:
    """Stands for a value: HMAC-SHA-256 under the key of the operator's list, over the reference
    and the value. Two references to one value have two digests."""

    content: bytes
    # What stands for the value in a plan.
    words: str


class Secret:
    """The value of a secret. However it is printed or formatted, it shows nothing, and it is
    not pickled."""

    __slots__ = ("_content", "digest")

    def __init__(self, content, digest):
        self._content, self.digest = content, digest

    @property
    def words(self):
        """What stands for the value in a plan; it differs when the value does."""
        return self.digest.words

    def reveal(self):
        """Returns the secret itself, as bytes. Whoever keeps them has a copy."""
        return bytes(self._content)

    def wipe(self):
        """Overwrites the value. That is an effort and no guarantee: Python has copies."""
        self._content[:] = bytes(len(self._content))
        self._content = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wipe()

    def __repr__(self):
        return HIDDEN

    def __format__(self, _):
        return HIDDEN

    def __reduce_ex__(self, _):
        raise TypeError("a secret is not pickled, and not copied")


class Push:
    """One push: what it reads was read since it began, and stays what it was planned with."""

    def __init__(self):
        self._lock = threading.Lock()
        self.name, self._asked, self._rotated = secrets.token_hex(16), False, []

    def note(self, rotated):
        """Keeps what has another value than at the last look."""
        with self._lock:
            self._asked = True
            self._rotated = rotated or self._rotated

    def ask(self):
        with self._lock:
            self._asked = True

    def end(self):
        if self._asked:
            try:
                _reader.end_push(self.name)
            except Error:
                pass  # It remembers nothing any more.

    @property
    def rotations(self):
        """Ends the reason of a stale push with the secrets that it may be about."""
        return "; rotated since production was looked at: " + ", ".join(self._rotated) if self._rotated else ""


def resolve(asset, push, ref):
    """Returns the Secret that a reference names now. A look takes what was read within 30 s; a
    push what was read since it began. Raises SecretError and Rotated."""
    question = dict(_naming(asset, ref), push=push.name if push else "")
    if push:
        push.ask()
    head, content = _asked().ask({"resolve": question}, b"", PUSH_WITHIN if push else LOOK_WITHIN, lambda uri, sha256: asset.fetch(uri, base64.b64decode(sha256)))
    _reader.has_values = True
    if push:
        push.note(head.get("rotated"))
    return Secret(content, _digest(head))


def digest_of(asset, ref, value):
    """Returns the Digest that a value, as bytes, would have if the reference named it."""
    head, _ = _asked().ask({"digest": _naming(asset, ref)}, value, LOOK_WITHIN)
    _reader.has_values = True
    return _digest(head)


def _asked():
    if _reader is None:
        raise SecretError(UNAVAILABLE, "secrets are read for a plugin that Lehr started, and this is none")
    return _reader


def _naming(asset, ref):
    return {"ref": base64.b64encode(ref.SerializeToString()).decode(), "partition": asset.partition, "asset": asset.id}


def _digest(head):
    return Digest(bytes.fromhex(head["digest"]), head["words"])


def redact_all(texts):
    """Returns each text, str or bytes, with every secret that was read replaced by its words, be
    it written plainly, in base64, in hex, as a URL or as JSON. Without the means to know, a
    text is not told."""
    texts = list(texts)
    if _reader is None or not _reader.has_values:
        return texts
    encoded = {place: to_bytes(text) for place, text in enumerate(texts) if len(text) >= SHORTEST}
    if not encoded:
        return texts
    try:
        head, body = _reader.ask({"redact": [len(one) for one in encoded.values()]}, b"".join(encoded.values()), REDACT_WITHIN)
    except Error:
        for place in encoded:
            texts[place] = NOT_TOLD if isinstance(texts[place], str) else NOT_TOLD.encode()
        return texts
    start = 0
    for place, length in zip(encoded, head["redacted"]):
        redacted = bytes(body[start : start + length])
        texts[place] = redacted.decode("utf-8", "surrogateescape") if isinstance(texts[place], str) else redacted
        start += length
    return texts


def redact(text):
    return redact_all([text])[0]


def to_bytes(text):
    """Encodes what came of a file's name that is no UTF-8 as the bytes that it was."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
