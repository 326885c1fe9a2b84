package schema

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// ReferenceField is a field of a type that holds the names of other assets.
type ReferenceField struct {
	// Path from the type down, as in "backends[].job"; "[]" is each element of a list, and
	// "[KEY]" each value of a map.
	Path string `json:"path"`
	// Types that may be named; none: any.
	Types []string `json:"types,omitempty"`
	// Read: the plugin reads the asset that is named, so a change of it is one of whoever
	// names it.
	Read bool `json:"read,omitempty"`
}

// ReferenceFields lists the fields of a type that hold references, in the order of its
// fields. A type within itself is told of once. What lies behind google.protobuf.Any and in
// extensions is not the type's own, and is left out. NotFound when there is no such type.
func (s *Set) ReferenceFields(name intent.TypeName) ([]ReferenceField, error) {
	messageType, err := s.find(name)
	if err != nil {
		return nil, err
	}
	walker := fieldWalker{reaching: s.reaching, within: map[protoreflect.FullName]bool{}}
	walker.walk("", messageType.Descriptor())
	return walker.fields, nil
}

// fieldWalker gathers the reference fields of a type.
type fieldWalker struct {
	reaching reach
	// within are the types that the walk is in.
	within map[protoreflect.FullName]bool
	fields []ReferenceField
}

func (w *fieldWalker) walk(prefix string, message protoreflect.MessageDescriptor) {
	name := message.FullName()
	if w.within[name] || !w.reaching[name] {
		return
	}
	w.within[name] = true
	defer delete(w.within, name)
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		path := prefix + string(field.Name())
		switch {
		case field.IsMap():
			path += "[KEY]"
		case field.IsList():
			path += "[]"
		}
		if marked := mark(field); marked != nil {
			w.fields = append(w.fields, ReferenceField{Path: path, Types: marked.GetTypes(), Read: marked.GetRead()})
		}
		if nested := elementOf(field).Message(); nested != nil {
			w.walk(path+".", nested)
		}
	}
}
