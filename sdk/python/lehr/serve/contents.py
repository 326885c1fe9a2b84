"""Intent that Lehr is asked for, and the cache of what it answered."""

import collections
import hashlib
import queue
import threading

from lehr.intent.v1 import asset_pb2, options_pb2
from lehr.plugin.v1 import plugin_pb2

from google.protobuf import descriptor_pool

from . import differ
from .load import message_class
from .plan import digest_of
from .resource import Asset, Content, Error

# Seconds for which an answer about content is waited for.
ANSWERED_WITHIN = 60
# The same for a part of a blob, and the bytes of the largest blob.
PART_WITHIN = 10
MAX_BLOB = 10_000_000
_ENTRY_BYTES = 400  # About what an entry weighs beside its content.


class NoContent(Error):
    """Lehr has no such content for this call."""


class Cache:
    """Content by partition and asset, verified: the newest uses are kept, up to a size."""

    def __init__(self, most_bytes):
        self._most, self._bytes = most_bytes, 0
        self._lock = threading.Lock()
        self._entries = collections.OrderedDict()

    def get(self, key):
        """Returns digest and content, or None."""
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def put(self, key, digest, content):
        with self._lock:
            old = self._entries.pop(key, None)
            self._bytes += len(content) - (len(old[1]) if old else -_ENTRY_BYTES)
            self._entries[key] = (digest, content)
            while self._bytes > self._most and self._entries:
                _, (_, dropped) = self._entries.popitem(last=False)
                self._bytes -= len(dropped) + _ENTRY_BYTES


class _Question:
    """One call's wait for several assets."""

    def __init__(self, known):
        self.known = known
        self.answers = {}
        self.changed = threading.Condition()


class Asker:
    """Asks on one stream, and hands out the answers."""

    def __init__(self, cache, send):
        self._cache, self._send = cache, send
        self._lock = threading.Lock()
        self._waiting = collections.defaultdict(list)
        self._parts = collections.defaultdict(list)
        self._is_closed = False

    def fetch(self, partition, incarnation, ids, is_ended=lambda: False):
        """Returns for each id its content, or an exception. Whether what is held still counts
        is asked too: an incarnation's name means what it does to one Lehr only."""
        question = _Question({id: self._cache.get((partition, id)) for id in ids})
        need = plugin_pb2.Need(partition=partition, incarnation=incarnation)
        for id, entry in question.known.items():
            need.assets.add(asset=id, known=entry[0] if entry else b"")
        with self._lock:
            for id in question.known:
                self._waiting[incarnation, id].append(question)
        try:
            self._send(need)
            return self._await(question, is_ended)
        finally:
            self._forget(incarnation, question)

    def _await(self, question, is_ended):
        with question.changed:
            for _ in range(ANSWERED_WITHIN * 4):
                if len(question.answers) == len(question.known) or is_ended() or self._is_closed:
                    break
                question.changed.wait(0.25)
            return {id: question.answers.get(id, Error("Lehr did not answer about the intent of %s" % id)) for id in question.known}

    def _forget(self, incarnation, question):
        with self._lock:
            for id in question.known:
                waiters = self._waiting[incarnation, id]
                if question in waiters:
                    waiters.remove(question)
                if not waiters:
                    del self._waiting[incarnation, id]

    def blob(self, partition, incarnation, id, uri, sha256):
        """Returns a blob that the asset names, verified."""
        if uri != "blob:sha256:" + sha256.hex() or len(sha256) != 32:
            raise Error("%s with the digest %s is no blob of Lehr's" % (uri, sha256.hex()))
        body, size = bytearray(), 1
        while len(body) < size:
            part = self._part(partition, incarnation, id, sha256, len(body))
            if part.refused:
                raise NoContent("asking for %s: %s" % (uri, part.refused))
            size = part.size
            body += part.content
            if len(body) < size and not part.content or size > MAX_BLOB:
                raise Error("asking for %s: Lehr sent %d of %d bytes" % (uri, len(body), size))
        if hashlib.sha256(body).digest() != sha256:
            raise Error("the %d bytes of %s have another digest" % (len(body), uri))
        return bytes(body)

    def _part(self, partition, incarnation, id, sha256, offset):
        key, answers = (incarnation, id, sha256, offset), queue.SimpleQueue()
        need = plugin_pb2.Need(partition=partition, incarnation=incarnation)
        need.blobs.add(asset=id, sha256=sha256, offset=offset)
        with self._lock:
            self._parts[key].append(answers)
        try:
            self._send(need)
            return answers.get(timeout=PART_WITHIN)
        except queue.Empty:
            raise Error("Lehr did not send the blob %s of %s within %d s" % (sha256.hex(), id, PART_WITHIN)) from None
        finally:
            with self._lock:
                self._parts[key] = [one for one in self._parts[key] if one is not answers]
                if not self._parts[key]:
                    del self._parts[key]

    def _deliver_parts(self, content):
        for part in content.blobs:
            with self._lock:
                waiters = list(self._parts.get((content.incarnation, part.asset, part.sha256, part.offset), ()))
            for answers in waiters:
                answers.put(part)

    def deliver(self, content):
        """Takes what Lehr answers."""
        self._deliver_parts(content)
        for one in content.assets:
            with self._lock:
                waiters = list(self._waiting.get((content.incarnation, one.asset), ()))
            for question in waiters:
                answer = self._accept(content, one, question.known.get(one.asset))
                with question.changed:
                    question.answers.setdefault(one.asset, answer)
                    question.changed.notify_all()

    def _accept(self, content, one, known):
        if one.refused:
            return NoContent("no content of %s as of %s: %s" % (one.asset, content.incarnation, one.refused))
        if one.unchanged and (known is None or known[0] != one.digest):
            return Error("Lehr says that the intent of %s is what it was, and was asked about no such content" % one.asset)
        body = known[1] if one.unchanged else one.content
        if digest_of(b"lehr.asset.v1", body) != one.digest:
            return Error("the intent of %s has another digest than Lehr says" % one.asset)
        self._cache.put((content.partition, one.asset), one.digest, body)
        return body

    def close(self):
        """Ends all waits: the stream ended."""
        self._is_closed = True

    def assets(self, partition, incarnation, ids, is_ended=lambda: False):
        """Returns for each id its Asset with what it reads, or an exception."""
        found = {}
        for id, body in self.fetch(partition, incarnation, ids, is_ended).items():
            found[id] = body if isinstance(body, Exception) else _decode(id, body, lambda a: Asset(a, partition, incarnation, self.blob))
        reads = {id: _read_references(one) for id, one in found.items() if isinstance(one, Asset)}
        wanted = sorted(set().union(*reads.values())) if reads else []
        if not wanted:
            return found
        contents = self.fetch(partition, incarnation, wanted, is_ended)
        for id, names in reads.items():
            for name in names:
                body = contents[name]
                one = body if isinstance(body, Exception) else _decode(name, body, Content)
                if isinstance(one, Content) and isinstance(found[id], Asset):
                    found[id].reads[name] = one
                elif isinstance(one, Exception) and not isinstance(one, NoContent):
                    found[id] = one
        return found


def _decode(id, body, make):
    try:
        asset = asset_pb2.Asset.FromString(body)
    except Exception as problem:  # noqa: BLE001: each runtime has its own.
        return Error("reading the intent of %s: %s" % (id, problem))
    if asset.id != id or not asset.HasField("payload"):
        return Error('the intent of %s is that of "%s", or has no payload' % (id, asset.id))
    return make(asset)


def _read_references(asset):
    """Returns the ids that payload and addons read."""
    ids = set()
    for type_name, encoded in [(asset.type, asset.payload_bytes)] + [(a.type_url.rpartition("/")[2], a.value) for a in asset.addons]:
        try:
            descriptor = descriptor_pool.Default().FindMessageTypeByName(type_name)
            if _may_read(descriptor):
                _collect(message_class(descriptor).FromString(encoded), ids)
        except Exception:  # noqa: BLE001: a type that is not known here reads nothing.
            continue
    return ids


_may_read_types = {}


def _may_read(descriptor):
    """Reports whether anything below a type is a reference that is read."""
    name = descriptor.full_name
    if name not in _may_read_types:
        below, new = {name: descriptor}, [descriptor]
        while new:
            types = [field.message_type for one in new for field in one.fields if field.message_type is not None]
            new = list({one.full_name: one for one in types if one.full_name not in below}.values())
            below.update((one.full_name, one) for one in new)
        _may_read_types[name] = any(_is_read(field) for one in below.values() for field in one.fields)
    return _may_read_types[name]


def _is_read(field):
    return field.has_options and field.GetOptions().Extensions[options_pb2.reference].read


def _collect(message, ids):
    for field, value in message.ListFields():
        if _is_read(field):
            ids.update(id for id in (value if differ.is_repeated(field) else [value]) if id)
        elif differ.is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for one in value.values():
                    _collect(one, ids)
        elif field.message_type is not None:
            for one in value if differ.is_repeated(field) else [value]:
                _collect(one, ids)
