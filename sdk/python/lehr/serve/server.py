"""The gRPC server that Lehr calls."""

import concurrent.futures
import os
import secrets
import urllib.parse

import grpc

from lehr.plugin.v1 import plugin_pb2, plugin_pb2_grpc

from .contents import Cache
from .diffs import DiffStream, Looks, as_duration
from .hints import Watchers
from .pushes import PushStream
from .resource import COMPARE_AND_SET, FENCED, UNGUARDED, Error
from .stream import Calls

PROTOCOL = 1
MAX_MESSAGE = 4 << 20  # Bytes of the largest message of either side.
MAX_STREAMS = 64
SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}; Debian has no package for it.

_CLASSES = {
    FENCED: plugin_pb2.GUARANTEE_CLASS_FENCED,
    COMPARE_AND_SET: plugin_pb2.GUARANTEE_CLASS_COMPARE_AND_SET,
    UNGUARDED: plugin_pb2.GUARANTEE_CLASS_NONE,
}


class Server(plugin_pb2_grpc.PluginServiceServicer):
    """Serves a plugin's resources."""

    def __init__(self, plugin):
        self._plugin = plugin
        self._instance = secrets.token_hex(13)
        self.resources = {resource.payload.DESCRIPTOR.full_name: resource for resource in plugin.resources}
        self.cache, self.looks = Cache(plugin.cache_bytes), Looks()
        self.looking, self.pushing = Calls(), Calls()
        self._watchers = Watchers(plugin.resources)

    def unserved(self, name):
        return Error("plugin %s does not serve the type %s" % (self._plugin.name, name))

    def Describe(self, request, context):
        response = plugin_pb2.DescribeResponse(protocol=PROTOCOL, name=self._plugin.name, version=self._plugin.version, instance=self._instance)
        for name, resource in self.resources.items():
            served = response.types.add(type=name, guarantee=_CLASSES[resource.guarantee])
            served.longest_effect.CopyFrom(as_duration(resource.longest_effect))
            if resource.cadence > 0:
                served.cadence.CopyFrom(as_duration(resource.cadence))
        return response

    def Diff(self, requests, context):
        return DiffStream(self, context).serve(requests)

    def Push(self, requests, context):
        return PushStream(self, context).serve(requests)

    def Hints(self, request, context):
        if not self._watchers.are_there:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "this plugin cannot tell what changed")
        yield from self._watchers.stream(context)

    def listen(self, socket):
        """Serves on a unix socket that only this user enters, and returns the server."""
        server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(MAX_STREAMS),
            maximum_concurrent_rpcs=MAX_STREAMS,
            options=[("grpc.max_receive_message_length", MAX_MESSAGE)],
        )
        plugin_pb2_grpc.add_PluginServiceServicer_to_server(self, server)
        check = grpc.unary_unary_rpc_method_handler(lambda request, context: SERVING)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check}),))
        old = os.umask(0o177)
        try:
            if not server.add_insecure_port("unix:" + urllib.parse.quote(socket)):
                raise OSError("it cannot be opened")
        finally:
            os.umask(old)
        server.start()
        return server
