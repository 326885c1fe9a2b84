"""Answers each line of standard input: "read TYPE HEX" by the message's bytes again, and
"make TYPE" by those of messages in which everything is set, one for each choice of a oneof."""

import sys

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor

from lehr import serve  # noqa: F401: it loads all types.
from lehr.plugin.v1 import plugin_pb2  # noqa: F401
from lehr.serve import differ
from lehr.serve.load import message_class

VALUES = {
    FieldDescriptor.CPPTYPE_BOOL: True,
    FieldDescriptor.CPPTYPE_DOUBLE: -2.5e300,
    FieldDescriptor.CPPTYPE_FLOAT: 0.25,
    FieldDescriptor.CPPTYPE_INT32: -7,
    FieldDescriptor.CPPTYPE_INT64: -(1 << 62),
    FieldDescriptor.CPPTYPE_STRING: "Straße \U0001f600",
    FieldDescriptor.CPPTYPE_UINT32: (1 << 32) - 1,
    FieldDescriptor.CPPTYPE_UINT64: (1 << 64) - 1,
}


def value(field):
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"\x00\xffbytes"
    return field.enum_type.values[-1].number if field.enum_type else VALUES[field.cpp_type]


def fill(message, choice):
    """Sets all fields; of a oneof the one of that number, counted round."""
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.fields[choice % len(oneof.fields)] is not field:
            continue
        if differ.is_map(field):
            for key in ("b", "a"):
                getattr(message, field.name)[key] = "value " + key
        elif differ.is_repeated(field) and field.message_type:
            fill(getattr(message, field.name).add(), choice)
            getattr(message, field.name).add()
        elif differ.is_repeated(field):
            getattr(message, field.name).extend([value(field)] * 3)
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), choice)
        else:
            setattr(message, field.name, value(field))


for line in sys.stdin:
    verb, name, *rest = line.split()
    make = message_class(descriptor_pool.Default().FindMessageTypeByName(name))
    if verb == "read":
        message = make.FromString(bytes.fromhex(rest[0] if rest else ""))
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            sys.exit("%s has fields that Python does not know" % name)
        print(message.SerializeToString(deterministic=True).hex(), flush=True)
    else:
        choices = max([len(oneof.fields) for oneof in make.DESCRIPTOR.oneofs] or [1])
        made = []
        for choice in range(choices):
            message = make()
            fill(message, choice)
            made.append(message.SerializeToString(deterministic=True).hex())
        print(" ".join(made), flush=True)
