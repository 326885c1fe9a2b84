"""The stream of hints: which assets Lehr should look at soon."""

import sys
import threading
import traceback

from lehr.plugin.v1 import plugin_pb2

# Seconds between two messages that say that production is still watched: less than the 5
# that the protocol asks for.
BEAT = 4
MAX_HINTS = 1000  # In one message.


class Watchers:
    """Runs the watch of each resource that has one, and hands its hints to the streams."""

    def __init__(self, resources):
        self._resources = [resource for resource in resources if resource.watch is not None]
        self._changed = threading.Condition()
        self._feeds, self._watching = [], set()

    @property
    def are_there(self):
        return bool(self._resources)

    def stream(self, context):
        """Yields messages for as long as all watch."""
        feed = {}  # As a set that keeps its order: an asset that is named twice is told once.
        with self._changed:
            self._feeds.append(feed)
            for resource in self._resources:
                if resource not in self._watching:
                    self._watching.add(resource)
                    threading.Thread(target=self._watch, args=(resource,), daemon=True).start()
        context.add_callback(self._wake)
        try:
            while context.is_active():
                yield plugin_pb2.HintsResponse(hints=self._take(feed))
                with self._changed:
                    if len(self._watching) < len(self._resources):
                        return  # Who is silent is not relied on.
                    if not feed:
                        self._changed.wait(BEAT)
        finally:
            with self._changed:
                self._feeds = [one for one in self._feeds if one is not feed]

    def _wake(self):
        with self._changed:
            self._changed.notify_all()

    def _take(self, feed):
        with self._changed:
            some = list(feed)[:MAX_HINTS]
            for key in some:
                del feed[key]
        return [plugin_pb2.Hint(partition=partition, asset=asset) for partition, asset in some]

    def _watch(self, resource):
        try:
            resource.watch(self._hint)
        except BaseException as problem:  # noqa: BLE001: the next stream begins it anew.
            traceback.print_exception(type(problem), problem, problem.__traceback__, file=sys.stderr)
        with self._changed:
            self._watching.discard(resource)
            self._changed.notify_all()

    def _hint(self, partition, asset_id):
        with self._changed:
            for feed in self._feeds:
                feed[partition, asset_id] = True
            self._changed.notify_all()
