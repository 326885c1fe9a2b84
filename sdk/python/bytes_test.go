package python_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	pluginpb "lehr.dev/gen/lehr/plugin/v1"
	"lehr.dev/test/interpreter"
)

// talk is a program in Python that answers lines.
type talk struct {
	t      *testing.T
	input  io.Writer
	output *bufio.Scanner
}

// startTalk starts a program of testdata; it ends with the test.
func startTalk(t *testing.T, script string, arguments ...string) *talk {
	t.Helper()
	command := exec.Command(interpreter.Python(t), append([]string{"-B", "testdata/" + script}, arguments...)...)
	command.Env = append(command.Environ(), "PYTHONPATH=.")
	var problems strings.Builder
	command.Stderr = &problems
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		if err := command.Wait(); err != nil || problems.Len() > 0 {
			t.Errorf("%s: %v\n%s", script, err, problems.String())
		}
	})
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	return &talk{t, input, lines}
}

func (k *talk) say(format string, arguments ...any) string {
	k.t.Helper()
	if _, err := fmt.Fprintf(k.input, format+"\n", arguments...); err != nil {
		k.t.Fatal(err)
	}
	if !k.output.Scan() {
		k.t.Fatalf("no answer to %.200s: %v", fmt.Sprintf(format, arguments...), k.output.Err())
	}
	return k.output.Text()
}

// messages are all of a file, those within others too, but for the entries of maps.
func messages(list protoreflect.MessageDescriptors) (all []protoreflect.MessageDescriptor) {
	for i := range list.Len() {
		if !list.Get(i).IsMapEntry() {
			all = append(append(all, list.Get(i)), messages(list.Get(i).Messages())...)
		}
	}
	return all
}

// TestBytesAreTheSame: what Go writes Python reads and writes again, and the reverse, with
// every field set. The stubs are of proto3 twins, for Debian's protobuf is older than editions.
func TestBytesAreTheSame(t *testing.T) {
	python := startTalk(t, "bytes.py")
	var all []protoreflect.MessageDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		pluginpb.File_lehr_plugin_v1_plugin_proto, intentpb.File_lehr_intent_v1_asset_proto, intentpb.File_lehr_intent_v1_addons_proto, intentpb.File_lehr_intent_v1_options_proto,
	} {
		all = append(all, messages(file.Messages())...)
	}
	for _, descriptor := range all {
		typ := messageType(t, descriptor)
		for choice := range choices(descriptor) {
			message := typ.New()
			fill(message, choice)
			wire := encode(t, message)
			answer := python.say("read %s %x", descriptor.FullName(), wire)
			if !isSame(t, typ, wire, decodeHex(t, answer)) {
				t.Errorf("%s of Go is %x, and Python writes %s", descriptor.FullName(), wire, answer)
			}
		}
		for made := range strings.FieldsSeq(python.say("make %s", descriptor.FullName())) {
			wire := decodeHex(t, made)
			message := typ.New()
			if err := proto.Unmarshal(wire, message.Interface()); err != nil {
				t.Errorf("%s of Python: %v", descriptor.FullName(), err)
			} else if again := encode(t, message); !isSame(t, typ, wire, again) || hasUnknown(message) {
				t.Errorf("%s of Python is %x, and Go writes %x", descriptor.FullName(), wire, again)
			} else if answer := python.say("read %s %x", descriptor.FullName(), again); answer != made {
				t.Errorf("%s of Python is %s, and after Go it is %s", descriptor.FullName(), made, answer)
			}
		}
	}
	if len(all) < 50 {
		t.Errorf("only %d messages were tried", len(all))
	}
}

// isSame reports whether two encodings are the same bytes. Only where a oneof is within may
// their order differ: Go writes its field after all others.
func isSame(t *testing.T, typ protoreflect.MessageType, one, other []byte) bool {
	t.Helper()
	if bytes.Equal(one, other) {
		return true
	}
	if !hasOneof(typ.Descriptor(), map[protoreflect.FullName]bool{}) || len(one) != len(other) {
		return false
	}
	first, second := typ.New(), typ.New()
	if err := errors.Join(proto.Unmarshal(one, first.Interface()), proto.Unmarshal(other, second.Interface())); err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(encode(t, first), encode(t, second))
}

func hasOneof(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[message.FullName()] {
		return false
	}
	seen[message.FullName()] = true
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if field.ContainingOneof() != nil || field.Message() != nil && hasOneof(field.Message(), seen) {
			return true
		}
	}
	return false
}

func decodeHex(t *testing.T, text string) []byte {
	t.Helper()
	decoded, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func messageType(t *testing.T, descriptor protoreflect.MessageDescriptor) protoreflect.MessageType {
	t.Helper()
	typ, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func encode(t *testing.T, message protoreflect.Message) []byte {
	t.Helper()
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(message.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func choices(descriptor protoreflect.MessageDescriptor) int {
	most := 1
	for i := range descriptor.Oneofs().Len() {
		most = max(most, descriptor.Oneofs().Get(i).Fields().Len())
	}
	return most
}

// hasUnknown reports whether anything in it was not understood.
func hasUnknown(message protoreflect.Message) bool {
	unknown := len(message.GetUnknown()) > 0
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				unknown = unknown || hasUnknown(value.List().Get(i).Message())
			}
		case field.Message() != nil && !field.IsMap():
			unknown = unknown || hasUnknown(value.Message())
		}
		return true
	})
	return unknown
}

// fill sets all fields; of a oneof the one of that number, counted round.
func fill(message protoreflect.Message, choice int) {
	for i := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(i)
		if oneof := field.ContainingOneof(); oneof != nil && oneof.Fields().Get(choice%oneof.Fields().Len()) != field {
			continue
		}
		switch {
		case field.IsMap():
			for _, key := range []string{"b", "a"} {
				message.Mutable(field).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString("value "+key))
			}
		case field.IsList() && field.Message() != nil:
			list := message.Mutable(field).List()
			fill(list.AppendMutable().Message(), choice)
			list.AppendMutable()
		case field.IsList():
			for range 3 {
				message.Mutable(field).List().Append(scalar(field))
			}
		case field.Message() != nil:
			fill(message.Mutable(field).Message(), choice)
		default:
			message.Set(field, scalar(field))
		}
	}
}

func scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(field.Enum().Values().Get(field.Enum().Values().Len() - 1).Number())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte("\x00\xffbytes"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("Straße 😀")
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(-2.5e300)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0.25)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(-7)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(-1 << 62)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1<<32 - 1)
	default:
		return protoreflect.ValueOfUint64(1<<64 - 1)
	}
}
