"""The stream of pushes: what was admitted is carried out, under permits."""

import threading

from lehr.plugin.v1 import plugin_pb2

from . import kind, memos, permit, secret
from . import text as texts
from .contents import Asker
from .diffs import set_pause
from .resource import Asset, Busy, Error, MemoRefused, NeverKept, NoPermit, Outranked, Retryable, Stale, now
from .stream import Stream
from .text import sentence


MEMO_PATIENCE = 30  # Seconds for which the answer to a memo is waited for, while permits come.


class PushStream(Stream):
    def __init__(self, server, context):
        super().__init__(context)
        self._server = server
        self._asker = Asker(server.cache, lambda need: self.send(plugin_pb2.PushResponse(need=need)))
        self._lock = threading.Lock()
        # The number of the newest permit request, and when each of the last ones was sent.
        self._request, self._sent = 0, {}
        self._open = {}
        self._memos = {}
        self._early, self._is_closed = threading.Event(), False
        threading.Thread(target=self._keep_permits, daemon=True).start()

    def take(self, message):
        if message.HasField("content"):
            self._asker.deliver(message.content)
        elif message.HasField("start"):
            self._start(message.start)
        elif message.HasField("permit"):
            self._permit(message.permit)
        elif message.HasField("memo_saved"):
            self._memo_saved(message.memo_saved)

    def close(self):
        self._is_closed = True
        self._early.set()
        self._asker.close()
        for push in self._pushes().values():
            push.end("no permit: the connection to Lehr ended")

    def _pushes(self):
        with self._lock:
            return dict(self._open)

    def _keep_permits(self):
        """Asks for permits each second, and ends pushes whose permit does."""
        asked_at = 0
        while not self._is_closed:
            is_early = self._early.is_set()
            self._early.clear()
            at = now()
            for push in self._pushes().values():
                push.expire(at)
            if is_early or at - asked_at > permit.INTERVAL - permit.TICK / 2:
                asked_at = at
                self._ask()
            self._early.wait(permit.TICK)

    def _ask(self):
        """Sends the next request. The time is taken before, so that a permit is never held for
        longer than Lehr believes."""
        request = plugin_pb2.PermitRequest()
        for id, push in self._pushes().items():
            request.asks.add(push=id, base=push.base)
        at = now()
        with self._lock:
            self._request += 1
            request.request = self._request
            self._sent = {number: sent for number, sent in self._sent.items() if at - sent <= permit.PERIOD}
            self._sent[self._request] = at
        self.send(plugin_pb2.PushResponse(permit_request=request))

    def _permit(self, message):
        with self._lock:
            requested_at = self._sent.get(message.request)
        for grant in message.grants:
            push = self._pushes().get(grant.push)
            if push is None:
                continue
            if not grant.granted:
                push.end("no permit: " + grant.reason)
            elif requested_at is not None:
                push.grant(grant.base, requested_at)

    def _start(self, start):
        """Begins a push under the permit that it names. Under one that is not known any more
        it waits for another before its first effect."""
        with self._lock:
            if start.push in self._open:
                return  # The same push, delivered twice.
            push = permit.Permit(start.base, self._sent.get(start.permit), self._early.set)
            self._open[start.push] = push
        if not self._server.pushing.start(self._run, start, push):
            self._end(start.push, _failed(Retryable("the plugin has as many calls under way as it may, and none of them ends")))

    def _run(self, start, push):
        secrets = secret.Push()
        try:
            result = self._carry_out(start, push, secrets)
        except BaseException as problem:  # noqa: BLE001: of one asset only.
            result = _outcome(start.asset, problem, push)
        self._end(start.push, result)
        secrets.end()

    def _end(self, id, result):
        with self._lock:
            self._open.pop(id, None)
            self._memos = {key: waiter for key, waiter in self._memos.items() if key[0] != id}
        result.push = id
        self.send(plugin_pb2.PushResponse(result=result))

    def _carry_out(self, start, push, secrets):
        found = self._asker.assets(start.partition, start.incarnation, [start.asset], lambda: push.is_ended)[start.asset]
        if not isinstance(found, Asset):
            raise Retryable(str(found))
        if found.type not in self._server.resources:
            raise self._server.unserved(found.type)
        try:
            found.memos = memos.decode(start.asset, start.memos)
        except Error as problem:
            raise Retryable(str(problem)) from problem
        found.push = secrets
        resource = self._server.resources[found.type]
        state = kind.read(resource, [found])[0]
        if isinstance(state.error, Busy):
            raise state.error
        if state.error is not None:
            raise Retryable("reading production again: " + kind.explain("read", found.id, state.error))
        if state.pending is not None:
            raise Stale("a change is pending by now: " + state.pending.reason)
        change, _ = kind.plan(resource, found, state)
        if not change.plan.action:
            return _pushed()
        digest = change.plan.digest()
        if digest != start.plan_digest:
            raise Stale("the plan is now %s (%s, %d fields), admitted was %s%s" % (
                digest.hex()[:12], change.plan.action, len(change.plan.changes), start.plan_digest.hex()[:12], secrets.rotations))
        if state.base != start.base:
            push.cover(state.base)
        change.push, change.token, change.traceparent = start.push, start.fencing_token, start.traceparent
        self._lend(change, push)
        if found.is_turned_down:
            resource.remove(change, push)
        else:
            resource.apply(change, push)
        return _pushed()

    def _lend(self, change, push):
        """Gives a change what it tells Lehr by."""
        numbers, numbering = iter(range(1, 1 << 62)), threading.Lock()

        def progress(text):
            message = plugin_pb2.PushProgress(push=change.push, text=texts.progress(text))
            self.send(plugin_pb2.PushResponse(progress=message))

        def remember(memo, key=None):
            waiter, asked_at = _Memo(), now()
            key = change.state.key if key is None else key
            memos.check(key, memo)
            message = plugin_pb2.PushProgress(push=change.push)
            message.memo.memo = memo
            message.memo.resource_key = key
            with numbering:  # Numbers grow in the order of sending.
                message.memo.number = next(numbers)
                with self._lock:
                    self._memos[change.push, message.memo.number] = waiter
                self.send(plugin_pb2.PushResponse(progress=message))
            while not waiter.saved.wait(permit.TICK):
                if push.is_ended:
                    raise NoPermit("no permit: it ended before the memo was saved")
                if now() - asked_at > MEMO_PATIENCE:
                    raise Retryable("Lehr did not say within %d s whether it keeps the memo of %s" % (MEMO_PATIENCE, key))
            if waiter.refused:
                raise MemoRefused("Lehr did not keep the memo of %s: %s" % (key, waiter.refused))

        change.progress, change.remember = progress, remember

    def _memo_saved(self, message):
        with self._lock:
            waiter = self._memos.pop((message.push, message.number), None)
        if waiter:
            waiter.refused = message.refused
            waiter.saved.set()


class _Memo:
    """Waits until a memo is durable."""

    def __init__(self):
        self.saved, self.refused = threading.Event(), ""


def _pushed():
    return plugin_pb2.PushResult(pushed=plugin_pb2.Pushed())


def _outcome(id, problem, push):
    """Turns an exception of a push into how it ended. What went wrong once the permit had
    ended came of that."""
    if isinstance(problem, Stale):
        return plugin_pb2.PushResult(stale=plugin_pb2.Stale(reason=sentence(problem)))
    if isinstance(problem, NoPermit) or push.is_ended:
        return plugin_pb2.PushResult(stopped=plugin_pb2.Stopped(reason=sentence(problem)))
    return _failed(problem if isinstance(problem, Error) else Error(kind.explain("apply", id, problem)))


def _failed(problem):
    failed = plugin_pb2.PushFailed(reason=sentence(problem), retryable=isinstance(problem, (Retryable, Busy)) and not isinstance(problem, NeverKept))
    set_pause(failed, kind.retry_after(problem))
    if isinstance(problem, Outranked):
        failed.known_token = problem.known_token
    return plugin_pb2.PushResult(failed=failed)
