"""The stream of diffs: intent is compared with production, and nothing is changed."""

import collections
import json
import threading

from google.protobuf.duration_pb2 import Duration

from lehr.plugin.v1 import plugin_pb2

from . import differ, kind, memos, plan, secret
from .contents import Asker
from .resource import HEALTHY, UNHEALTHY, Asset, Error, Health, Impact, Resource, State, now
from .stream import Stream
from .text import sentence, shown

# Seconds after which a look that has not ended counts as stuck: until it ends, its assets
# are unknown at once, and no further thread waits for them.
STUCK_AFTER = 10
READS_AT_ONCE = 16  # Of a batch whose assets are read one by one.
RESULTS_AT_ONCE = 64  # Sent before others are there, at most.
RESULT_BYTES = 1 << 20  # About the size of a message of results.
MAX_DIFF_BYTES = 2 << 20

_ACTIONS = {
    plan.CREATE: plugin_pb2.ACTION_CREATE,
    plan.UPDATE: plugin_pb2.ACTION_UPDATE,
    plan.REPLACE: plugin_pb2.ACTION_REPLACE,
    plan.DELETE: plugin_pb2.ACTION_DELETE,
}
_STATES = {HEALTHY: plugin_pb2.Health.STATE_HEALTHY, UNHEALTHY: plugin_pb2.Health.STATE_UNHEALTHY}


class Looks:
    """Which assets are being looked at, and since when."""

    def __init__(self):
        self._lock = threading.Lock()
        self._begun = collections.defaultdict(list)

    def begin(self, key):
        with self._lock:
            self._begun[key].append(now())

    def end(self, key):
        with self._lock:
            self._begun[key].pop()  # Who ended first does not matter to who is stuck.
            if not self._begun[key]:
                del self._begun[key]

    def stuck_for(self, key):
        """Returns for how many seconds the asset's look is stuck; 0: it is not."""
        with self._lock:
            elapsed = now() - self._begun[key][0] if key in self._begun else 0
        return elapsed if elapsed > STUCK_AFTER else 0


class DiffStream(Stream):
    def __init__(self, server, context):
        super().__init__(context)
        self._server = server
        self._asker = Asker(server.cache, lambda need: self.send(plugin_pb2.DiffResponse(need=need)))

    def take(self, message):
        if message.HasField("content"):
            self._asker.deliver(message.content)
        elif message.HasField("batch"):
            self._begin(message.batch, now())

    def close(self):
        self._asker.close()

    def _begin(self, batch, arrived):
        """Answers at once for what is stuck, and looks at the rest in a thread."""
        stuck, assets = [], []
        for id in batch.assets:
            elapsed = self._server.looks.stuck_for((batch.partition, id))
            if elapsed:
                stuck.append(unknown(id, Error("an earlier look at it has not ended for %d s: the plugin waits for its target" % elapsed)))
            else:
                assets.append(id)
        if stuck:
            self._send_results(batch.batch, stuck)
        if (assets or not stuck) and not self._server.looking.start(self._answer, batch, assets, arrived):
            busy = Error("the plugin has as many calls under way as it may, and none of them ends")
            self._send_results(batch.batch, [unknown(id, busy) for id in assets])

    def _answer(self, batch, assets, arrived):
        try:
            found = self._asker.assets(batch.partition, batch.incarnation, assets)
        except BaseException as problem:  # noqa: BLE001: an answer is better than none.
            found = {id: Error(kind.explain("diff", batch.incarnation, problem)) for id in assets}
        handed = collections.defaultdict(list)
        for memo in batch.memos:
            handed[memo.asset].append(memo)
        unserved, singly, together = [], [], collections.defaultdict(list)
        for id, asset in found.items():
            if not isinstance(asset, Asset) or asset.type not in self._server.resources:
                unserved.append(unknown(id, self._server.unserved(asset.type) if isinstance(asset, Asset) else asset))
                continue
            try:
                asset.memos = memos.decode(id, handed[id])
            except Error as problem:
                unserved.append(unknown(id, problem))
                continue
            if batch.HasField("max_age"):
                asset.read_since = arrived - max(0, batch.max_age.seconds + batch.max_age.nanos / 1e9)
            if type(self._server.resources[asset.type]).read is Resource.read:
                singly.append(asset)
            else:
                together[asset.type].append(asset)
        if unserved or not found:
            self._send_results(batch.batch, unserved)
        for name, some in together.items():
            states = kind.read(self._server.resources[name], some)
            self._send_results(batch.batch, [self._difference(asset, state, arrived) for asset, state in zip(some, states)])
        if singly:
            self._look_singly(batch.batch, singly, arrived)

    def _look_singly(self, batch, assets, arrived):
        """Reads assets one by one, several at once, and answers as it goes: one that hangs
        holds up no other."""
        lock, left, done = threading.Lock(), list(reversed(assets)), []

        def work():
            while True:
                with lock:
                    asset = left.pop() if left else None
                    ready = done[:] if asset is None or len(done) >= RESULTS_AT_ONCE else []
                    del done[: len(ready)]
                if ready:
                    self._send_results(batch, ready)
                if asset is None:
                    return
                key = (asset.partition, asset.id)
                self._server.looks.begin(key)
                try:
                    diff = self._difference(asset, kind.read(self._server.resources[asset.type], [asset])[0], arrived)
                finally:
                    self._server.looks.end(key)
                with lock:
                    done.append(diff)

        for _ in range(min(len(assets), READS_AT_ONCE) - 1):
            self._server.looking.start(work)  # Where too many are under way, fewer do it.
        work()

    def _difference(self, asset, state, arrived):
        try:
            return difference(self._server.resources[asset.type], asset, state, arrived)
        except BaseException as problem:  # noqa: BLE001: of one asset only, also sys.exit.
            return unknown(asset.id, problem)

    def _send_results(self, batch, diffs):
        results, size = plugin_pb2.DiffResults(batch=batch), 0
        for diff in diffs:
            length = diff.ByteSize()
            if length > MAX_DIFF_BYTES:
                diff, length = unknown(diff.asset, Error("the difference has %d bytes, more than a message may carry" % length)), 0
            if results.diffs and size + length > RESULT_BYTES:
                self.send(plugin_pb2.DiffResponse(results=results))
                results, size = plugin_pb2.DiffResults(batch=batch), 0
            results.diffs.append(diff)
            size += length
        self.send(plugin_pb2.DiffResponse(results=results))


def unknown(id, problem):
    """Returns the difference of an asset of which nothing is known."""
    diff = plugin_pb2.AssetDiff(asset=id)
    diff.unknown.reason = sentence(kind.explain("read", id, problem)) or type(problem).__name__
    set_pause(diff.unknown, kind.retry_after(problem))
    diff.health.state = plugin_pb2.Health.STATE_UNKNOWN
    return diff


def set_pause(message, seconds):
    """Sets retry_after where there is a pause."""
    if seconds > 0:
        message.retry_after.CopyFrom(as_duration(seconds))


def as_duration(seconds):
    nanoseconds = round(seconds * 1e9)
    return Duration(seconds=nanoseconds // 10**9, nanos=nanoseconds % 10**9)


def difference(resource, asset, state: State, arrived):
    """Compares one state with intent."""
    if state.error is not None:
        raise state.error
    diff = plugin_pb2.AssetDiff(asset=asset.id, base=_text(state.base, "base"), resource_key=_text(state.key, "resource key"))
    if state.pending is not None:
        _set_pending(diff.pending, state.pending)
    else:
        change, unmanaged = kind.plan(resource, asset, state)
        if change.plan.action:
            diff.differs.action = _ACTIONS[change.plan.action]
            diff.differs.changes.extend(_encode(change.plan.changes))
        else:
            diff.in_sync.SetInParent()
            diff.outputs.extend(_encode_outputs(state.outputs))
        diff.unmanaged.extend(_encode(unmanaged))
    if state.read_at is not None and state.read_at < arrived:
        diff.age.CopyFrom(as_duration(arrived - state.read_at))
    is_going = asset.is_turned_down and state.pending is None
    for impact in state.impacts:
        impact = Impact(*impact) if isinstance(impact, tuple) else impact
        diff.impacts.add(dimension=sentence(impact.dimension), current=impact.current, target=0 if is_going else impact.target)
    # What is not there, and is to be so, is neither healthy nor unhealthy.
    health = Health() if is_going and state.current is None else state.health
    diff.health.state = _STATES.get(health.state, plugin_pb2.Health.STATE_UNKNOWN)
    diff.health.reason, diff.health.observed_version = sentence(health.reason), sentence(health.observed_version)
    if state.current is not None:
        shown_state = type(state.current)()
        shown_state.CopyFrom(state.current)
        differ.clear_redacted(shown_state)
        differ.hide_secrets(shown_state)
        diff.current = shown_state.SerializeToString(deterministic=True)
    told = [diff.base, diff.resource_key, diff.current] + [output.json for output in diff.outputs]
    if secret.redact_all(told) != told:
        raise Error("the base, the resource key, the state or an output of the asset holds a secret, and is not told: a defect of the plugin")
    return diff


def _text(value, name):
    try:
        value.encode()
    except (UnicodeEncodeError, AttributeError):
        raise Error("the %s %r is no text: a defect of the plugin" % (name, value)) from None
    return value


def _set_pending(message, pending):
    if not pending.reason:
        raise Error("read says that a change is pending, and not which: a defect of the plugin")
    message.reason, message.ends = sentence(pending.reason), sentence(pending.ends)
    set_pause(message, pending.retry_after)
    if pending.since is not None:
        nanoseconds = round(pending.since * 1e9)
        message.since.seconds, message.since.nanos = divmod(nanoseconds, 10**9)


def _encode_outputs(outputs):
    for name in sorted(outputs):
        try:
            text = json.dumps(outputs[name], ensure_ascii=False, allow_nan=False)
            text.encode()
        except (TypeError, ValueError) as problem:
            raise Error("the output %s is no JSON: %s (a defect of the plugin)" % (name, problem)) from None
        yield plugin_pb2.Output(name=name, json=text)


def _encode(changes):
    for one in changes:
        yield plugin_pb2.FieldChange(
            path=shown(one.path), current=shown(one.current), target=shown(one.target), reason=sentence(one.reason), destructive=one.destructive
        )
