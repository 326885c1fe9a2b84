package serve

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/twin"
	"lehr.dev/test/interpreter"
)

// wideProto has a field of each kind.
const wideProto = `
	edition = "2023";
	package wide.v1;
	import "google/protobuf/duration.proto";
	import "google/protobuf/timestamp.proto";
	option features.field_presence = IMPLICIT;
	message Wide {
		bool a_bool = 1; bytes some_bytes = 2; string text = 3; double double = 4; float float = 5;
		int32 int32 = 6; sint64 sint64 = 7; fixed64 fixed64 = 8; uint32 uint32 = 9; Color color = 10;
		string maybe = 11 [features.field_presence = EXPLICIT]; int32 maybe_number = 12 [features.field_presence = EXPLICIT];
		Wide within = 13; repeated Wide list = 14; repeated string texts = 15; repeated double doubles = 16;
		map<string, string> by_text = 17; map<int64, Wide> by_number = 18; map<bool, bytes> by_bool = 19;
		google.protobuf.Duration pause = 20; google.protobuf.Timestamp time = 21;
		string secret = 22 [debug_redact = true]; repeated Color colors = 23 [features.repeated_field_encoding = EXPANDED];
		oneof choice { string one = 24; Color other = 25; Empty nothing = 26; }
	}
	message Empty {}
	enum Color { option allow_alias = true; NONE = 0; RED = 1; ROUGE = 1; BLUE = -2; }`

// pythonDiffer is the differ of the SDK for Python, in a process.
type pythonDiffer struct {
	t      *testing.T
	wide   protoreflect.MessageType
	input  *json.Encoder
	output *bufio.Scanner
}

func startPythonDiffer(t *testing.T) *pythonDiffer {
	t.Helper()
	python := interpreter.Python(t)
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"wide.proto": wideProto})})}
	files, err := compiler.Compile(t.Context(), "wide.proto")
	if err != nil {
		t.Fatal(err)
	}
	made, err := twin.Make(files[0])
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{made}})
	if err != nil {
		t.Fatal(err)
	}
	types := filepath.Join(t.TempDir(), "types.binpb")
	if err := os.WriteFile(types, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(python, "-B", "../python/testdata/compare.py", types)
	command.Env = append(command.Environ(), "PYTHONPATH=../python")
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
			t.Errorf("%v\n%s", err, problems.String())
		}
	})
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	return &pythonDiffer{t, dynamicpb.NewMessageType(files[0].Messages().ByName("Wide")), json.NewEncoder(input), lines}
}

// pythonAnswer has what was asked for.
type pythonAnswer struct {
	Changes                 [][3]string
	Digest, Cleared, Left   string
	Shown, Sentence, Quoted string
	Covered, Refused        bool
}

func (p *pythonDiffer) ask(question map[string]any) (answer pythonAnswer) {
	p.t.Helper()
	if err := p.input.Encode(question); err != nil {
		p.t.Fatal(err)
	}
	if !p.output.Scan() {
		p.t.Fatalf("no answer to %v: %v", question, p.output.Err())
	}
	if err := json.Unmarshal(p.output.Bytes(), &answer); err != nil {
		p.t.Fatalf("%s: %v", p.output.Text(), err)
	}
	return answer
}

func (p *pythonDiffer) encode(message protoreflect.Message) any {
	p.t.Helper()
	if !message.IsValid() {
		return nil
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message.Interface())
	if err != nil {
		p.t.Fatal(err)
	}
	return hex.EncodeToString(encoded)
}

// isSame compares messages that Python wrote.
func (p *pythonDiffer) isSame(encoded string, want protoreflect.Message) bool {
	p.t.Helper()
	raw, err := hex.DecodeString(encoded)
	if err != nil {
		p.t.Fatal(err)
	}
	got := p.wide.New()
	if err := proto.Unmarshal(raw, got.Interface()); err != nil {
		p.t.Fatal(err)
	}
	return proto.Equal(got.Interface(), want.Interface())
}

// TestPythonComparesAsGoDoes: a plan's digest covers paths and values as they are shown, so
// the differ of Python must give the same ones.
func TestPythonComparesAsGoDoes(t *testing.T) {
	python := startPythonDiffer(t)
	random := rand.New(rand.NewPCG(24, 8))
	for i := range 600 {
		current, target := anyWide(random, python.wide, 0), anyWide(random, python.wide, 0)
		switch i % 10 {
		case 0:
			current = python.wide.Zero()
		case 1:
			target = python.wide.Zero()
		case 2:
			current = changed(random, target)
		}
		plan := bound(Plan{Action: ActionUpdate, Changes: compare(current, target)})
		answer := python.ask(map[string]any{"type": "wide.v1.Wide", "current": python.encode(current), "target": python.encode(target), "action": "update"})
		want := [][3]string{}
		for _, one := range plan.Changes {
			want = append(want, [3]string{one.Path, one.Current, one.Target})
		}
		if diff := cmp.Diff(want, answer.Changes); diff != "" {
			t.Fatalf("from %.500v to %.500v, Go and Python: -Go +Python\n%s", current, target, diff)
		}
		if answer.Digest != plan.Digest().String() {
			t.Fatalf("from %.500v to %.500v: digest %s, want %s", current, target, answer.Digest, plan.Digest())
		}
		if target.IsValid() {
			shown := proto.Clone(target.Interface()).ProtoReflect()
			clearRedacted(shown)
			if !python.isSame(answer.Cleared, shown) {
				t.Fatalf("%v without secrets is %s", target, answer.Cleared)
			}
		}
	}
}

// Plans of more changes than are listed have the same digest too.
func TestPythonFoldsAsGoDoes(t *testing.T) {
	python := startPythonDiffer(t)
	target := python.wide.New()
	for i := range maxChanges + 500 {
		target.Mutable(target.Descriptor().Fields().ByName("texts")).List().Append(protoreflect.ValueOfString(strconv.Itoa(i)))
	}
	plan := bound(Plan{Action: ActionCreate, Changes: compare(python.wide.Zero(), target)})
	answer := python.ask(map[string]any{"type": "wide.v1.Wide", "current": nil, "target": python.encode(target), "action": "create"})
	if answer.Digest != plan.Digest().String() || len(answer.Changes) != len(plan.Changes) {
		t.Errorf("%d changes and digest %s, want %d and %s", len(answer.Changes), answer.Digest, len(plan.Changes), plan.Digest())
	}
}

func TestPythonShowsTextAsGoDoes(t *testing.T) {
	python := startPythonDiffer(t)
	texts := []string{"", "plain", "Straße 😀", `a"b\c`, `\"` + "\n", "\x1b[2J", "\xff\xfe", "é\xe2\x82", "\u202e", "\u0378", "\U0001fae8", "\ufffd", "\u00ad", strings.Repeat("é\n", 3000), "\a\b\f\n\r\t\v\x7f", "\u3000"}
	// Some of each part of Unicode.
	for r := rune(0); r < 0x110000; r += 131 {
		texts = append(texts, string(r))
	}
	for i := 0; i < len(texts); i += 20 {
		one := strings.Join(texts[i:min(i+20, len(texts))], "")
		answer := python.ask(map[string]any{"text": hex.EncodeToString([]byte(one))})
		if answer.Shown != intent.Shown(one) || answer.Sentence != text(one) || answer.Quoted != strconv.Quote(one) {
			t.Errorf("%q is shown as %q and %q, want %q and %q; quoted %q", one, answer.Shown, answer.Sentence, intent.Shown(one), text(one), answer.Quoted)
		}
	}
}

func TestPythonLeavesFieldsAsGoDoes(t *testing.T) {
	python := startPythonDiffer(t)
	random := rand.New(rand.NewPCG(24, 9))
	paths := []string{
		"text", "maybe", "within", "within.text", "within.maybe", "list", "list[0]", "list[*].text", "texts[1]", "texts", "by_text", `by_text["a"]`, "by_text[*]",
		"by_number[1].text", "by_number[*]", "by_bool[true]", "pause", "one", "nothing", "doubles[*]", "color", "none", "within.none", "text.x", "texts.x", "texts[0", "texts[7]",
	}
	for i := range 300 {
		current, target := anyWide(random, python.wide, 0), anyWide(random, python.wide, 0)
		path := paths[i%len(paths)]
		question := map[string]any{"type": "wide.v1.Wide", "current": python.encode(current), "target": python.encode(target), "leave": path}
		answer := python.ask(question)
		err := leave(target, current, path)
		if answer.Refused != (err != nil) || err == nil && !python.isSame(answer.Left, target) {
			t.Errorf("%s of %v: refused %v (Go: %v), left %s, want %v", path, question, answer.Refused, err, answer.Left, target)
		}
	}
	for _, c := range [][2]string{{"replicas", "replicas_max"}, {"args[*]", "args[3]"}, {"args[3]", "args[33]"}, {"a[*].b", `a["x]\"y"].b.c`}, {"", "a"}, {"a", "a.b"}, {"a.b", "a"}} {
		if answer := python.ask(map[string]any{"pattern": c[0], "path": c[1]}); answer.Covered != covers(c[0], c[1]) {
			t.Errorf("covers(%q, %q) is %v", c[0], c[1], answer.Covered)
		}
	}
}

// anyWide returns a message with some fields set.
func anyWide(random *rand.Rand, wide protoreflect.MessageType, depth int) protoreflect.Message {
	message := wide.New()
	fields := wide.Descriptor().Fields()
	for i := range fields.Len() {
		if random.IntN(3) == 0 {
			setAny(random, message, fields.Get(i), depth)
		}
	}
	return message
}

// changed returns the message with another text. It shares all else: a clone would have no
// generated types within.
func changed(random *rand.Rand, message protoreflect.Message) protoreflect.Message {
	other := message.Type().New()
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		other.Set(field, value)
		return true
	})
	setAny(random, other, message.Descriptor().Fields().ByName("text"), 0)
	return other
}

func setAny(random *rand.Rand, message protoreflect.Message, field protoreflect.FieldDescriptor, depth int) {
	if field.Message() != nil && depth > 1 && field.Message().Name() == "Wide" {
		return
	}
	count := random.IntN(3)
	switch {
	case field.IsMap():
		for range count {
			key := anyScalar(random, field.MapKey()).MapKey()
			if field.MapValue().Message() != nil {
				if depth < 2 {
					message.Mutable(field).Map().Set(key, protoreflect.ValueOfMessage(anyWide(random, dynamicpb.NewMessageType(field.MapValue().Message()), depth+1)))
				}
				continue
			}
			message.Mutable(field).Map().Set(key, anyScalar(random, field.MapValue()))
		}
	case field.IsList() && field.Message() != nil:
		for range count {
			message.Mutable(field).List().Append(protoreflect.ValueOfMessage(anyWide(random, dynamicpb.NewMessageType(field.Message()), depth+1)))
		}
	case field.IsList():
		for range count {
			message.Mutable(field).List().Append(anyScalar(random, field))
		}
	case field.Message() != nil:
		message.Set(field, protoreflect.ValueOfMessage(anyMessage(random, field.Message(), depth)))
	default:
		message.Set(field, anyScalar(random, field))
	}
}

// anyMessage returns one of a generated type where a plugin would have that.
func anyMessage(random *rand.Rand, descriptor protoreflect.MessageDescriptor, depth int) protoreflect.Message {
	seconds := []int64{0, 1, -1, 59, 3600, 90061, 1 << 33, -62135596800, 253402300799, 1700000000}[random.IntN(10)]
	nanos := []int32{0, 1, 500, 1500000, 250000000, 999999999}[random.IntN(6)]
	switch descriptor.FullName() {
	case "google.protobuf.Duration":
		if seconds < 0 {
			nanos = -nanos
		}
		return (&durationpb.Duration{Seconds: seconds, Nanos: nanos}).ProtoReflect()
	case "google.protobuf.Timestamp":
		return (&timestamppb.Timestamp{Seconds: seconds, Nanos: nanos}).ProtoReflect()
	}
	return anyWide(random, dynamicpb.NewMessageType(descriptor), depth+1)
}

func anyScalar(random *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(random.IntN(2) == 0)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte([]string{"", "a", "\xff\x00", "é"}[random.IntN(4)]))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString([]string{"", "a", "b", "é\n", `"]`, "\x1b", strings.Repeat("ü", 700)}[random.IntN(7)])
	case protoreflect.DoubleKind:
		if random.IntN(2) == 0 {
			return protoreflect.ValueOfFloat64(math.Float64frombits(random.Uint64()))
		}
		return protoreflect.ValueOfFloat64([]float64{0, 1, -1.5, 1e6, 123456, 1234567, 1e20, 1e21, 0.0001, 0.00001, math.Inf(1), math.Inf(-1), math.NaN(), 0.1}[random.IntN(14)])
	case protoreflect.FloatKind:
		if random.IntN(2) == 0 {
			return protoreflect.ValueOfFloat32(math.Float32frombits(random.Uint32()))
		}
		return protoreflect.ValueOfFloat32([]float32{0, 1, 0.1, 16777216, 3.4e38, 1e-45}[random.IntN(6)])
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum([]protoreflect.EnumNumber{0, 1, -2, 77}[random.IntN(4)])
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32([]int32{0, 1, -1, math.MinInt32}[random.IntN(4)])
	case protoreflect.Int64Kind, protoreflect.Sint64Kind:
		return protoreflect.ValueOfInt64([]int64{0, 1, -1, math.MinInt64}[random.IntN(4)])
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32([]uint32{0, 1, math.MaxUint32}[random.IntN(3)])
	case protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64([]uint64{0, 1, math.MaxUint64}[random.IntN(3)])
	}
	panic(fmt.Sprint("no value of ", field.Kind()))
}
