"""Message classes of the types that "lehr plugin generate" compiled."""

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory  # noqa: F401
from google.protobuf import duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401

from lehr.intent.v1 import addons_pb2, asset_pb2, options_pb2, secret_pb2  # noqa: F401


def load_types(path):
    """Reads a file of compiled types, and returns the generated classes by full name.

    What it imports of protobuf's and Lehr's own is known here already.
    """
    with open(path, "rb") as file:
        compiled = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool, classes = descriptor_pool.Default(), {}
    for file in compiled.file:
        try:
            pool.FindFileByName(file.name)
        except KeyError:
            pool.AddSerializedFile(file.SerializeToString())
        for descriptor in pool.FindFileByName(file.name).message_types_by_name.values():
            classes[descriptor.full_name] = message_class(descriptor)
    return classes


def message_class(descriptor):
    """Returns the generated class of a type."""
    make = getattr(message_factory, "GetMessageClass", None)
    return make(descriptor) if make else message_factory.MessageFactory(descriptor_pool.Default()).GetPrototype(descriptor)
