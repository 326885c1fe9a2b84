// Package sops reads one value of a document of YAML or JSON that SOPS encrypted for
// age. It verifies the whole document before it gives a part: each value by its place,
// all together by the document's MAC. It writes no documents, and knows no keys but
// those of age. The format is that of SOPS 3 (https://github.com/getsops/sops), of
// which cipher.go, walk.go and metadata.go are readings of our own. Package resolver
// calls it.
package sops

import (
	"errors"
	"slices"
	"strings"

	"filippo.io/age"

	"lehr.dev/internal/ground/fault"
)

// MaxDocument is how large a document may be, in bytes.
const MaxDocument = 1 << 20

// Read returns the value at a path of a document, whose keys are for one of the
// identities. Invalid: it is no such document, it was changed since SOPS wrote it, or
// nothing encrypted is at the path. Denied: it is for none of the identities. No error
// holds a value.
func Read(document []byte, path []string, identities []age.Identity) ([]byte, error) {
	if len(document) > MaxDocument {
		return nil, refuse("it has more than %d bytes", MaxDocument).WithHint("split it")
	}
	tree, meta, err := parse(document)
	if err != nil {
		return nil, err
	}
	key, err := meta.dataKey(identities)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	opened, err := tree.open(key, meta)
	defer opened.wipe()
	if err != nil {
		return nil, err
	}
	return opened.take(path)
}

// refuse is Invalid of a document.
func refuse(format string, arguments ...any) *fault.Error {
	return fault.New(fault.Invalid, "the SOPS document cannot be used: "+format, arguments...)
}

// changed is Invalid of a document that is not as SOPS wrote it.
func changed(format string, arguments ...any) error {
	return refuse(format, arguments...).
		WithHint("give the file as `sops` wrote it, byte for byte: a renderer, a merge or an edit by hand that changes any of it makes it useless; edit it with `sops edit`")
}

// leaf is a value of a document, after it was opened.
type leaf struct {
	path      []string
	content   []byte
	encrypted bool
}

// leaves of a document in its order.
type leaves []leaf

func (l leaves) wipe() {
	for _, leaf := range l {
		clear(leaf.content)
	}
}

// take returns a copy of what is at a path.
func (l leaves) take(path []string) ([]byte, error) {
	text := strings.Join(path, ".")
	at := slices.IndexFunc(l, func(leaf leaf) bool { return slices.Equal(leaf.path, path) })
	if at < 0 {
		below := slices.ContainsFunc(l, func(leaf leaf) bool {
			return len(leaf.path) > len(path) && slices.Equal(leaf.path[:len(path)], path)
		})
		if below {
			return nil, refuse("at %.300q is no single value, but several", text).WithHint("name one of them in path")
		}
		return nil, refuse("nothing is at %.300q", text).WithHint("path lists the keys on the way to the value, and positions in lists from 0")
	}
	if !l[at].encrypted {
		return nil, refuse("what is at %.300q is not encrypted, so it is no secret", text).WithHint("name another value, or have SOPS encrypt it (unencrypted_suffix, encrypted_regex and the like in .sops.yaml)")
	}
	return slices.Clone(l[at].content), nil
}

// errNoIdentity is of a document that is for nobody here.
var errNoIdentity = errors.New("no identity matches a recipient of the document")
