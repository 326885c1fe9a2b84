package schema

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"lehr.dev/internal/ground/intent"
)

// Changed are the types of the set that are not known to be what they were in
// another: those in files that differ, or that import one that does.
func (s *Set) Changed(older *Set) map[intent.TypeName]bool {
	changed := map[intent.TypeName]bool{}
	if s.Digest() == older.Digest() {
		return changed
	}
	mine, theirs := s.digests(), older.digests()
	for _, name := range s.names {
		path := s.types.messages[protoreflect.FullName(name)].Descriptor().ParentFile().Path()
		if mine[path] != theirs[path] {
			changed[name] = true
		}
	}
	return changed
}

// fileDigests are of each file with all that it imports.
func (s *Set) fileDigests() map[string]intent.Digest {
	digests := map[string]intent.Digest{}
	var sum func(file protoreflect.FileDescriptor) intent.Digest
	sum = func(file protoreflect.FileDescriptor) intent.Digest {
		if cached, ok := digests[file.Path()]; ok {
			return cached
		}
		// It was encoded when the set was made, or is linked.
		encoded, _ := encodeBuilt(file)
		parts := [][]byte{encoded}
		for i := range file.Imports().Len() {
			digest := sum(file.Imports().Get(i).FileDescriptor)
			parts = append(parts, digest[:])
		}
		digests[file.Path()] = intent.Sum("lehr.schema.file.v1", parts...)
		return digests[file.Path()]
	}
	s.files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		sum(file)
		return true
	})
	return digests
}
