package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// reach holds the types in which a reference, to an asset or to what lies
// elsewhere, may be found, at any depth. Of
// the others no content is decoded.
type reach map[protoreflect.FullName]bool

// newReach refuses marks on fields that hold no text.
func newReach(messages map[protoreflect.FullName]protoreflect.MessageType) (reach, error) {
	reaching := reach{}
	holders := map[protoreflect.FullName][]protoreflect.FullName{}
	var todo []protoreflect.FullName
	for _, name := range slices.Sorted(maps.Keys(messages)) { // The first that is wrong is told.
		descriptor := messages[name].Descriptor()
		reaches := name == "google.protobuf.Any" || name == externalName || name == secretName || descriptor.ExtensionRanges().Len() > 0
		fields := descriptor.Fields()
		for i := range fields.Len() {
			field := elementOf(fields.Get(i))
			if field.Message() != nil {
				holders[field.Message().FullName()] = append(holders[field.Message().FullName()], name)
			}
			marked, used := mark(fields.Get(i)) != nil, useOf(fields.Get(i)) != intentpb.Use_USE_UNSPECIFIED
			if !marked && !used {
				continue
			}
			if field.Kind() != protoreflect.StringKind {
				role := "a reference"
				if used {
					role = "something that a plugin uses"
				}
				return nil, fault.New(fault.Invalid, "field %s is marked as %s, but holds no text", fields.Get(i).FullName(), role)
			}
			reaches = true
		}
		if reaches {
			reaching[name] = true
			todo = append(todo, name)
		}
	}
	for len(todo) > 0 {
		name := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, holder := range holders[name] {
			if !reaching[holder] {
				reaching[holder] = true
				todo = append(todo, holder)
			}
		}
	}
	return reaching, nil
}

// elementOf is the field itself, or the values of a map.
func elementOf(field protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	if field.IsMap() {
		return field.MapValue()
	}
	return field
}

// mark returns the option lehr.intent.v1.reference of a field, or nil.
func mark(field protoreflect.FieldDescriptor) *intentpb.Reference {
	options := field.Options()
	if options == nil || !proto.HasExtension(options, intentpb.E_Reference) {
		return nil
	}
	return proto.GetExtension(options, intentpb.E_Reference).(*intentpb.Reference)
}

// useOf returns the option lehr.intent.v1.use of a field.
func useOf(field protoreflect.FieldDescriptor) intentpb.Use {
	options := field.Options()
	if options == nil || !proto.HasExtension(options, intentpb.E_Use) {
		return intentpb.Use_USE_UNSPECIFIED
	}
	return proto.GetExtension(options, intentpb.E_Use).(intentpb.Use)
}

// Used is a text of an asset with which a plugin does something on its machine.
type Used struct {
	// Field is its path.
	Field string
	Use   intentpb.Use
	Text  string
}

// Uses lists what a plugin of the asset uses on its machine, in the order of the
// fields.
func (s *Set) Uses(a intent.Asset) ([]Used, error) {
	collected, err := s.gather(a)
	return collected.used, err
}

// References lists what the asset's payload and addons refer to: every text
// that is not empty in a field marked lehr.intent.v1.reference, be it single,
// in a list or a value of a map, in the order of the fields.
func (s *Set) References(a intent.Asset) ([]intent.Reference, error) {
	collected, err := s.gather(a)
	return collected.references, err
}

// External is a lehr.intent.v1.ExternalRef in an asset.
type External struct {
	// Field is its path.
	Field string
	URI   string
	// Digest of the content; zero: it has none that is one, and is refused.
	Digest intent.Digest
}

const externalName = protoreflect.FullName("lehr.intent.v1.ExternalRef")

// Externals lists what the asset's payload and addons name outside of it, in the
// order of the fields.
func (s *Set) Externals(a intent.Asset) ([]External, error) {
	collected, err := s.gather(a)
	return collected.externals, err
}

// Secret is a lehr.intent.v1.SecretRef in an asset.
type Secret struct {
	// Field is its path.
	Field string
	// Name of what it refers to: a variable, the path of a file, "command:NAME",
	// "kubernetes:NAMESPACE/NAME/KEY", or "sops:PATH" with dots in the path.
	Name string
}

const secretName = protoreflect.FullName("lehr.intent.v1.SecretRef")

// Secrets lists the secrets that the asset's payload and addons refer to, in the order of the
// fields. It reads none of them.
func (s *Set) Secrets(a intent.Asset) ([]Secret, error) {
	collected, err := s.gather(a)
	return collected.secrets, err
}

// nameOfSecret is empty for a reference to nothing.
func nameOfSecret(m protoreflect.Message) string {
	content, err := proto.Marshal(m.Interface())
	ref := &intentpb.SecretRef{}
	if err != nil || proto.Unmarshal(content, ref) != nil {
		return ""
	}
	switch source := ref.GetSource().(type) {
	case *intentpb.SecretRef_Env:
		return source.Env
	case *intentpb.SecretRef_File:
		return source.File
	case *intentpb.SecretRef_Command:
		return "command:" + source.Command
	case *intentpb.SecretRef_Kubernetes:
		return fmt.Sprintf("kubernetes:%s/%s/%s", source.Kubernetes.GetNamespace(), source.Kubernetes.GetName(), source.Kubernetes.GetKey())
	case *intentpb.SecretRef_Sops:
		return "sops:" + strings.Join(source.Sops.GetPath(), ".")
	}
	return ""
}

func (s *Set) gather(a intent.Asset) (collected collector, _ error) {
	for i := -1; i < len(a.Addons); i++ {
		message := a.Payload
		if i >= 0 {
			message = a.Addons[i]
		}
		if err := s.collect(&collected, string(message.Type), message, 1); err != nil {
			return collector{}, fault.New(fault.Invalid, "cannot find the references of asset %s: %w", a.ID, err)
		}
	}
	return collected, nil
}

type collector struct {
	references []intent.Reference
	externals  []External
	used       []Used
	secrets    []Secret
}

func (s *Set) collect(collected *collector, path string, m intent.Message, depth int) error {
	messageType, err := s.find(m.Type)
	if err != nil {
		return err
	}
	if !s.reaching[messageType.Descriptor().FullName()] {
		return nil
	}
	message := messageType.New()
	options := proto.UnmarshalOptions{RecursionLimit: maxDepth, Resolver: s.types}
	if err := options.Unmarshal(m.Bytes, message.Interface()); err != nil {
		return fault.New(fault.Invalid, "cannot decode a %s: %w", m.Type, err)
	}
	return s.walk(collected, path, message, depth)
}

func (s *Set) walk(collected *collector, path string, m protoreflect.Message, depth int) error {
	if depth > maxDepth {
		return fault.New(fault.Invalid, "%.200s: messages are nested more than %d deep", path, maxDepth)
	}
	plan := s.encoding.plan(m.Descriptor())
	if m.Descriptor().FullName() == externalName {
		fields := m.Descriptor().Fields()
		external := External{Field: path, URI: m.Get(fields.ByName("uri")).String()}
		if sum := m.Get(fields.ByName("sha256")).Bytes(); len(sum) == len(external.Digest) {
			external.Digest = intent.Digest(sum)
		}
		collected.externals = append(collected.externals, external)
	}
	if m.Descriptor().FullName() == secretName {
		collected.secrets = append(collected.secrets, Secret{Field: path, Name: nameOfSecret(m)})
	}
	if plan.isAny {
		url := m.Get(plan.fields[0].descriptor).String()
		if url == "" {
			return nil
		}
		messageType, err := s.types.FindMessageByURL(url)
		if err != nil {
			return fault.New(fault.Invalid, "%.200s has the unknown type %.120q", path, url)
		}
		name := intent.TypeName(messageType.Descriptor().FullName())
		content := intent.Message{Type: name, Bytes: m.Get(plan.fields[1].descriptor).Bytes()}
		return s.collect(collected, path+".("+string(name)+")", content, depth+1)
	}
	fields := plan.fields
	if plan.extensible {
		fields = plan.withExtensions(m)
	}
	for i := range fields {
		field := &fields[i]
		if err := s.walkField(collected, path+"."+field.name(), field, m, depth); err != nil {
			return err
		}
	}
	return nil
}

// walkField looks at one field. A field that holds neither a mark nor a
// message that may hold one costs nothing.
func (s *Set) walkField(collected *collector, path string, field *fieldPlan, m protoreflect.Message, depth int) error {
	marked, element := field.reference, elementOf(field.descriptor)
	nested := element.Message() != nil && s.reaching[element.Message().FullName()]
	if marked == nil && field.use == intentpb.Use_USE_UNSPECIFIED && !nested || !m.Has(field.descriptor) {
		return nil
	}
	visit := func(path string, value protoreflect.Value) error {
		if nested {
			return s.walk(collected, path, value.Message(), depth+1)
		}
		if marked != nil {
			collected.add(path, value.String(), marked)
		}
		if field.use != intentpb.Use_USE_UNSPECIFIED && value.String() != "" {
			collected.used = append(collected.used, Used{Field: path, Use: field.use, Text: value.String()})
		}
		return nil
	}
	value := m.Get(field.descriptor)
	switch field.shape {
	case shapeList:
		for i := range value.List().Len() {
			if err := visit(fmt.Sprintf("%s[%d]", path, i), value.List().Get(i)); err != nil {
				return err
			}
		}
		return nil
	case shapeMap:
		var keys []protoreflect.MapKey
		value.Map().Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
			keys = append(keys, key)
			return true
		})
		slices.SortFunc(keys, field.compareKeys)
		for _, key := range keys {
			if err := visit(fmt.Sprintf("%s[%q]", path, key.String()), value.Map().Get(key)); err != nil {
				return err
			}
		}
		return nil
	default:
		return visit(path, value)
	}
}

func (c *collector) add(path, target string, marked *intentpb.Reference) {
	if target == "" {
		return
	}
	reference := intent.Reference{Field: path, To: intent.AssetID(target), Read: marked.GetRead()}
	for _, name := range marked.GetTypes() {
		reference.Types = append(reference.Types, intent.TypeName(name))
	}
	c.references = append(c.references, reference)
}
