"""Fields that production may own: the addon lehr.intent.v1.Unmanaged."""

from . import differ
from .plan import index_end


def leave(target, current, path):
    """Copies production's value of the field at path into target, so that a push leaves it.

    A path goes by field names, "[index]" and '["key"]'; "[*]" is every element or key that
    both have. Raises ValueError for a path that the type does not have.
    """
    end = min((place for place in (path.find("."), path.find("[")) if place >= 0), default=len(path))
    name, rest = path[:end], path[end:]
    field = target.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        raise ValueError('addon Unmanaged names the field "%s", which %s does not have' % (name, target.DESCRIPTOR.full_name))
    is_set = any(one.number == field.number for one, _ in current.ListFields())
    if not rest:
        target.ClearField(name)
        if is_set:
            _copy(field, target, getattr(current, name))
    elif differ.is_repeated(field):
        _leave_elements(target, current, field, rest)
    elif rest[0] == "." and field.message_type is not None:
        if is_set and target.HasField(name):
            leave(getattr(target, name), getattr(current, name), rest[1:])
    else:
        raise ValueError('addon Unmanaged names "%s" below %s, which has no fields' % (rest, field.full_name))


def _copy(field, target, value):
    """Sets a field that is not set."""
    if differ.is_map(field):
        # Not by MergeFrom of the map: with Debian's protobuf that aborts the process for a map
        # that was parsed and not looked at.
        for key in value:
            _set_element(field.message_type.fields_by_name["value"], getattr(target, field.name), value, key)
    elif differ.is_repeated(field):
        getattr(target, field.name).MergeFrom(value)
    elif field.message_type is not None:
        getattr(target, field.name).CopyFrom(value)
    else:
        setattr(target, field.name, value)


def _set_element(element, target, source, key):
    """Sets an element of a map or list, of which element is the field."""
    if element.message_type is not None:
        target[key].CopyFrom(source[key])
    else:
        target[key] = source[key]


def _leave_elements(target, current, field, rest):
    end = index_end(rest) if rest[0] == "[" else -1
    if end < 0:
        raise ValueError('addon Unmanaged: "%s" names no element of %s; write [0], ["key"] or [*]' % (rest, field.full_name))
    pattern, below = rest[:end], rest[end:]
    below = below[1:] if below.startswith(".") else below
    source, wanted = getattr(current, field.name), getattr(target, field.name)
    with_key = differ.is_map(field)
    element = field.message_type.fields_by_name["value"] if with_key else field
    if with_key:
        names = {key: differ.render_key(key) for key in set(source) | set(wanted)}
    else:
        names = {i: "[%d]" % i for i in range(min(len(source), len(wanted)))}
    for key, name in names.items():
        if pattern not in ("[*]", name):
            continue
        if below and element.message_type is None:
            continue
        if below:
            if not with_key or key in source and key in wanted:
                leave(wanted[key], source[key], below)
        elif with_key and key not in source:
            del wanted[key]
        else:
            _set_element(element, wanted, source, key)
