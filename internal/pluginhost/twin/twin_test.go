package twin

import (
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

func compile(t *testing.T, source string) protoreflect.FileDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
		&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"a.proto": source})},
		protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
			if path != validate.File_buf_validate_validate_proto.Path() {
				return protocompile.SearchResult{}, protoregistry.NotFound
			}
			return protocompile.SearchResult{Desc: validate.File_buf_validate_validate_proto}, nil
		}),
	})}
	var files linker.Files
	files, err := compiler.Compile(t.Context(), "a.proto")
	if err != nil {
		t.Fatal(err)
	}
	return files[0]
}

func TestTwin(t *testing.T) {
	made, err := Make(compile(t, `
		edition = "2023";
		package a;
		import "buf/validate/validate.proto";
		option features.field_presence = IMPLICIT;
		message M {
			option (buf.validate.message).cel = {id: "x" expression: "true"};
			string plain = 1 [(buf.validate.field).string.min_len = 1, debug_redact = true];
			int32 maybe = 2 [features.field_presence = EXPLICIT];
			string _maybe = 3;
			M within = 4;
			repeated int32 packed = 5;
			repeated int32 apart = 6 [features.repeated_field_encoding = EXPANDED];
			map<string, int32> map = 7;
			oneof choice { string one = 8; M other = 9; }
			message Below { bool set = 1 [features.field_presence = EXPLICIT]; }
		}
		enum E { NONE = 0; }`))
	if err != nil {
		t.Fatal(err)
	}
	want := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(`
		name: "a.proto" package: "a" syntax: "proto3"
		message_type {
			name: "M"
			field {name: "plain" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "plain" options {debug_redact: true}}
			field {name: "maybe" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "maybe" proto3_optional: true oneof_index: 1}
			field {name: "_maybe" number: 3 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "Maybe"}
			field {name: "within" number: 4 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".a.M" json_name: "within"}
			field {name: "packed" number: 5 label: LABEL_REPEATED type: TYPE_INT32 json_name: "packed"}
			field {name: "apart" number: 6 label: LABEL_REPEATED type: TYPE_INT32 json_name: "apart" options {packed: false}}
			field {name: "map" number: 7 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".a.M.MapEntry" json_name: "map"}
			field {name: "one" number: 8 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "one" oneof_index: 0}
			field {name: "other" number: 9 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".a.M" json_name: "other" oneof_index: 0}
			nested_type {
				name: "MapEntry" options {map_entry: true}
				field {name: "key" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING json_name: "key"}
				field {name: "value" number: 2 label: LABEL_OPTIONAL type: TYPE_INT32 json_name: "value"}
			}
			nested_type {
				name: "Below"
				field {name: "set" number: 1 label: LABEL_OPTIONAL type: TYPE_BOOL json_name: "set" proto3_optional: true oneof_index: 0}
				oneof_decl {name: "_set"}
			}
			oneof_decl {name: "choice"} oneof_decl {name: "X_maybe"}
		}
		enum_type {name: "E" value {name: "NONE" number: 0}}`), want); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(made, want) {
		t.Errorf("got  %s\nwant %s", prototext.Format(made), prototext.Format(want))
	}
	if _, err := protodesc.NewFile(made, nil); err != nil {
		t.Errorf("the twin is no file of proto3: %v", err)
	}
}

func TestWhatHasNoTwin(t *testing.T) {
	const head = `edition = "2023"; package a; option features.field_presence = IMPLICIT;`
	for name, c := range map[string]struct{ source, want string }{
		"closed enum":        {head + `enum E { option features.enum_type = CLOSED; NONE = 0; }`, "a.E is a closed enum"},
		"required":           {head + `message M { string a = 1 [features.field_presence = LEGACY_REQUIRED]; }`, "a.M.a is required"},
		"default":            {head + `message M { string a = 1 [features.field_presence = EXPLICIT, default = "x"]; }`, "a.M.a has a default value"},
		"delimited":          {head + `message M { M m = 1 [features.message_encoding = DELIMITED]; }`, "a.M.m is a delimited message"},
		"text that is bytes": {head + `message M { string a = 1 [features.utf8_validation = NONE]; }`, "need not be UTF-8"},
		"all texts":          {head + `option features.utf8_validation = NONE;`, "need not be UTF-8"},
		"extensible":         {head + `message M { extensions 100 to 200; }`, "a.M may be extended"},
		"within":             {head + `message M { message N { message O { string a = 1 [features.utf8_validation = NONE]; } } }`, "a.M.N.O.a"},
		"public import":      {`edition = "2023"; package a; import "buf/validate/validate.proto"; import public "google/protobuf/any.proto"; message M { string a = 1 [(buf.validate.field).string.min_len = 1]; }`, "public or weak import"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Make(compile(t, c.source)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// What is of proto2 or proto3 already stays as it is.
func TestOlderFilesStay(t *testing.T) {
	for _, source := range []string{
		`syntax = "proto2"; package a; message M { required string a = 1 [default = "x"]; extensions 100 to 200; }`,
		`syntax = "proto3"; package a; message M { optional string a = 1; repeated int32 b = 2; }`,
	} {
		file := compile(t, source)
		made, err := Make(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := protodesc.ToFileDescriptorProto(file); !proto.Equal(made, want) {
			t.Errorf("got %s\nwant %s", prototext.Format(made), prototext.Format(want))
		}
	}
}
