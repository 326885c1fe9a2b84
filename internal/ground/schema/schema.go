// Package schema knows payload types at run time: their descriptors, and the
// canonical bytes of messages and assets. Bytes are canonical when equal
// messages have equal bytes, whatever built or sent them; digests rest on
// that, and protobuf's own marshalling does not promise it. A Set is stored
// with each incarnation and decodes that incarnation's payloads for ever. The
// package never reads files and knows no store. The pipeline encodes with it,
// the enforcer and the edges decode.
package schema

import (
	"slices"
	"strings"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/spell"
)

// Set is a closed set of descriptors: every file with all that it imports. It
// is immutable and safe for concurrent use.
type Set struct {
	files    *protoregistry.Files
	types    *types
	names    []intent.TypeName // sorted
	bytes    func() []byte
	digest   func() intent.Digest
	encoding *encoder
	reaching reach
	indexed  indexed
	rules    func() (protovalidate.Validator, error)
	// digests are of each file with all that it imports, by path.
	digests func() map[string]intent.Digest
}

// Builtin returns the types that are linked into this binary: the built-in
// addons and policy, the payloads of the plugins that come with Lehr, the
// service models, and protobuf's well-known types.
func Builtin() *Set { return builtin() }

var builtin = sync.OnceValue(func() *Set {
	// Encoded when they are first asked for: most processes are generators', which never do.
	schemas, err := newSet(linkedFiles(), func() []byte {
		encoded, err := serialize(linkedFiles())
		if err != nil {
			panic("the linked descriptors are broken: " + err.Error())
		}
		return encoded
	})
	if err != nil {
		panic("the linked descriptors are broken: " + err.Error())
	}
	return schemas
})

// FromFiles reads a serialized FileDescriptorSet, for example what Files
// returned when an incarnation was published. Messages of files that are
// linked into this binary unchanged are of their generated types.
func FromFiles(fileDescriptorSet []byte) (*Set, error) {
	files, err := parseFiles(fileDescriptorSet)
	if err != nil {
		return nil, err
	}
	return encodedSet(files)
}

// FromSet reads what Files returned in a process of the same binary, and takes it to be
// canonical: it is not encoded anew, which takes most of FromFiles' time.
func FromSet(canonical []byte) (*Set, error) {
	files, err := parseFiles(canonical)
	if err != nil {
		return nil, err
	}
	return newSet(files, func() []byte { return canonical })
}

// encodedSet is a set whose files can be encoded, which is found out here.
func encodedSet(files *protoregistry.Files) (*Set, error) {
	encoded, err := serialize(files)
	if err != nil {
		return nil, err
	}
	return newSet(files, func() []byte { return encoded })
}

// newSet makes a set. encode returns the canonical encoding of the files.
func newSet(files *protoregistry.Files, encode func() []byte) (schemas *Set, err error) {
	schemas = &Set{files: files, types: newTypes(files), bytes: sync.OnceValue(encode)}
	schemas.digest = sync.OnceValue(func() intent.Digest { return intent.Sum("lehr.schema.v1", schemas.bytes()) })
	schemas.digests = sync.OnceValue(schemas.fileDigests)
	schemas.encoding = &encoder{types: schemas.types}
	for name := range schemas.types.messages {
		schemas.names = append(schemas.names, intent.TypeName(name))
	}
	slices.Sort(schemas.names)
	if schemas.reaching, err = newReach(schemas.types.messages); err != nil {
		return nil, err
	}
	if schemas.indexed, err = newIndexed(schemas.types.messages); err != nil {
		return nil, err
	}
	schemas.rules = sync.OnceValues(func() (protovalidate.Validator, error) {
		rules, err := protovalidate.New(protovalidate.WithExtensionTypeResolver(schemas.types))
		if err != nil {
			return nil, fault.New(fault.Internal, "cannot prepare the validation of payloads: %w", err)
		}
		return rules, nil
	})
	return schemas, nil
}

// Rules returns what applies the buf.validate rules of the set's types. It compiles a
// type's rules when they are first needed.
func (s *Set) Rules() (protovalidate.Validator, error) { return s.rules() }

// Files returns the serialized FileDescriptorSet, canonical: sorted by path,
// without comments. Do not modify it.
func (s *Set) Files() []byte { return s.bytes() }

// Digest of Files.
func (s *Set) Digest() intent.Digest { return s.digest() }

// Descriptors of all files of the set.
func (s *Set) Descriptors() *protoregistry.Files { return s.files }

// Types resolves messages, enums and extensions of the set, for decoders.
func (s *Set) Types() Types { return s.types }

// New returns an empty message of the type. It accepts full names only, and
// names near misses when it does not know one.
func (s *Set) New(name intent.TypeName) (proto.Message, error) {
	messageType, err := s.find(name)
	if err != nil {
		return nil, err
	}
	return messageType.New().Interface(), nil
}

// Has reports whether the set has the message type of that full name.
func (s *Set) Has(name intent.TypeName) bool {
	return s.types.messages[protoreflect.FullName(name)] != nil
}

func (s *Set) find(name intent.TypeName) (protoreflect.MessageType, error) {
	if messageType := s.types.messages[protoreflect.FullName(name)]; messageType != nil {
		return messageType, nil
	}
	unknown := fault.New(fault.NotFound, "no message type is named %.120q", name)
	if suggestions := s.nearest(name); len(suggestions) > 0 {
		return nil, unknown.WithHint("did you mean %s?", strings.Join(suggestions, " or "))
	}
	return nil, unknown.WithHint("write the full name of a type, for example lehr.process.v1.Job")
}

// Resolve turns a short name, such as "Job" or "v1.Job", into the full name.
// A full name stays as it is. Types of google.* and buf.* have no short names.
func (s *Set) Resolve(short string) (intent.TypeName, error) {
	if s.Has(intent.TypeName(short)) {
		return intent.TypeName(short), nil
	}
	var matches []string
	for _, name := range s.names {
		if !foreign(name) && short != "" && strings.HasSuffix(string(name), "."+short) {
			matches = append(matches, string(name))
		}
	}
	switch {
	case len(matches) == 1:
		return intent.TypeName(matches[0]), nil
	case len(matches) > 1:
		return "", fault.New(fault.Invalid, "type %.120q is ambiguous: %s", short, strings.Join(matches, ", ")).
			WithHint("write one of the full names")
	}
	unknown := fault.New(fault.Invalid, "no message type is named %.120q", short)
	if suggestions := s.nearest(intent.TypeName(short)); len(suggestions) > 0 {
		return "", unknown.WithHint("did you mean %s?", strings.Join(suggestions, " or "))
	}
	return "", unknown.WithHint("known types: %s", strings.Join(s.payloadNames(), ", "))
}

func foreign(name intent.TypeName) bool {
	return strings.HasPrefix(string(name), "google.") || strings.HasPrefix(string(name), "buf.")
}

// payloadNames are the first names that a person may have meant.
func (s *Set) payloadNames() []string {
	const most = 30
	var names []string
	for _, name := range s.names {
		if !foreign(name) && len(names) < most {
			names = append(names, string(name))
		}
	}
	return names
}

// nearest lists at most three types whose last name differs from the one given
// in case or in at most two letters.
func (s *Set) nearest(name intent.TypeName) []string {
	const longest = 100
	wanted := strings.ToLower(lastName(string(name)))
	if wanted == "" || len(wanted) > longest {
		return nil
	}
	var byDistance [3][]string
	for _, candidate := range s.names {
		last := strings.ToLower(lastName(string(candidate)))
		if foreign(candidate) || len(last) > len(wanted)+2 || len(wanted) > len(last)+2 {
			continue
		}
		if distance := spell.Distance(wanted, last); distance <= 2 && distance < len(wanted) {
			byDistance[distance] = append(byDistance[distance], string(candidate))
		}
	}
	suggestions := slices.Concat(byDistance[0], byDistance[1], byDistance[2])
	return suggestions[:min(len(suggestions), 3)]
}

func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
