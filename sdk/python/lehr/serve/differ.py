"""The common differ: in which fields two messages of one type differ.

It gives the same paths and the same values as the one in Go (sdk/serve/differ.go).
"""

from google.protobuf.descriptor import FieldDescriptor

from . import secret, text
from .plan import FieldChange

REDACTED = "(redacted)"
# Tells two values apart that hold one secret in two forms.
WRITTEN_OTHERWISE = " (written otherwise)"
_DEBUG_REDACT = 16  # The number of the option debug_redact, which older runtimes do not know.


def compare(current, target):
    """Lists the fields in which two messages differ, sorted by path; either may be None."""
    changes = []
    if current is not None or target is not None:
        _messages(changes, "", current, target)
    return sorted(changes, key=lambda change: change.path.encode())


def is_repeated(field):
    """Reports whether the field is a list or a map."""
    known = getattr(field, "is_repeated", None)
    return field.label == FieldDescriptor.LABEL_REPEATED if known is None else known


def is_map(field):
    """Reports whether the field is a map."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_redacted(field):
    """Reports whether a field's values must never be shown."""
    if not field.has_options:
        return False
    options = field.GetOptions()
    if hasattr(options, "debug_redact"):
        return options.debug_redact
    return any(one.field_number == _DEBUG_REDACT and one.data for one in options.UnknownFields())


def clear_redacted(message):
    """Empties redacted fields, at any depth."""
    for field, value in message.ListFields():
        if is_redacted(field):
            message.ClearField(field.name)
        elif is_map(field):
            if field.message_type.fields_by_name["value"].message_type is not None:
                for one in value.values():
                    clear_redacted(one)
        elif field.message_type is not None:
            for one in value if is_repeated(field) else [value]:
                clear_redacted(one)


def hide_secrets(message):
    """Takes the secrets that this process has read out of all texts of a message. A key of a
    map that holds one loses its entry."""
    texts, put = [], []
    _collect_texts(message, texts, put)
    for text_before, text_after, replace in zip(texts, secret.redact_all(texts), put):
        if text_before != text_after:
            replace(text_after)


def _collect_texts(message, texts, put):
    """Lists the texts of a message, and for each a function that puts another in its place."""
    for field, value in message.ListFields():
        if is_map(field):
            for key in list(value):
                _collect_element(value, key, texts, put)
                if isinstance(key, str):
                    texts.append(key)
                    put.append(lambda _, entries=value, key=key: entries.__delitem__(key))
        elif is_repeated(field):
            for place in range(len(value)):
                _collect_element(value, place, texts, put)
        elif field.message_type is not None:
            _collect_texts(value, texts, put)
        elif isinstance(value, (str, bytes)):
            texts.append(value)
            put.append(lambda text, name=field.name: setattr(message, name, text))


def _collect_element(values, place, texts, put):
    """Does so for an element of a list or map."""
    value = values[place]
    if isinstance(value, (str, bytes)):
        texts.append(value)
        put.append(lambda text: values.__setitem__(place, text))
    elif hasattr(value, "ListFields"):
        _collect_texts(value, texts, put)


def render_key(key):
    """Writes the key of a map as part of a path."""
    return "[" + (text.clip(text.quote(key)) if isinstance(key, str) else _render(None, key)) + "]"


def _add(changes, path, current, target):
    if current != target:
        changes.append(FieldChange(path, current, target))


def _messages(changes, path, current, target):
    descriptor = (current if target is None else target).DESCRIPTOR
    now = {} if current is None else {field.number for field, _ in current.ListFields()}
    wanted = {} if target is None else {field.number for field, _ in target.ListFields()}
    for field in descriptor.fields:
        if field.number in now or field.number in wanted:
            below = path + "." + field.name if path else field.name
            _field(changes, below, field, current, target, field.number in now, field.number in wanted)


def _field(changes, path, field, current, target, has_current, has_target):
    # A field that has a presence and is not set has no value; others have their default.
    with_presence = not is_repeated(field) and field.has_presence
    now = None if current is None or with_presence and not has_current else getattr(current, field.name)
    wanted = None if target is None or with_presence and not has_target else getattr(target, field.name)
    if is_redacted(field):
        if has_current != has_target or not _equal(now, wanted):
            changes.append(FieldChange(path, REDACTED if has_current else "", REDACTED if has_target else ""))
    elif is_map(field):
        _maps(changes, path, field.message_type.fields_by_name["value"], now or {}, wanted or {})
    elif is_repeated(field):
        now, wanted = now or (), wanted or ()
        for i in range(max(len(now), len(wanted))):
            one = now[i] if i < len(now) else None
            _values(changes, "%s[%d]" % (path, i), field, one, wanted[i] if i < len(wanted) else None)
    else:
        _values(changes, path, field, now, wanted)


def _maps(changes, path, field, current, target):
    for key in set(current) | set(target):
        one, other = current[key] if key in current else None, target[key] if key in target else None
        _values(changes, path + render_key(key), field, one, other)


def _equal(one, other):
    return one == other or isinstance(one, float) and one != one and other != other


def _values(changes, path, field, current, target):
    """Compares two single values; None is an absent one."""
    if field.message_type is None:
        if current is None or target is None or not _equal(current, target):
            now, wanted = _render(field, current), _render(field, target)
            _add(changes, path, now, wanted + WRITTEN_OTHERWISE if now == wanted else wanted)
        return
    whole = _WHOLE.get(field.message_type.full_name)
    if whole is not None:
        _add(changes, path, "" if current is None else whole(current), "" if target is None else whole(target))
        return
    count = len(changes)
    _messages(changes, path, current, target)
    if len(changes) == count:  # Nothing within differs that has a name: presence alone.
        _add(changes, path, "" if current is None else "{}", "" if target is None else "{}")


_WHOLE = {
    "google.protobuf.Duration": lambda d: text.duration(d.seconds * 10**9 + d.nanos),
    "google.protobuf.Timestamp": lambda t: text.timestamp(t.seconds, t.nanos),
}


def _render(field, value):
    if value is None:
        return ""
    if isinstance(value, (str, bytes)):
        # Secrets go before it is shortened: of one that was cut nobody would know that it is one.
        return text.clip(text.quote(secret.redact(value)))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return text.floating(value, field.type == FieldDescriptor.TYPE_FLOAT)
    if field is not None and field.type == FieldDescriptor.TYPE_ENUM:
        return next((one.name for one in field.enum_type.values if one.number == value), str(value))
    return str(value)
