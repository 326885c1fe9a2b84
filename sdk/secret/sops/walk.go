package sops

import (
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
)

// onlyEncryptedStart is what SOPS hashes first where the MAC is over encrypted values
// alone, so that such a MAC is never one of the other kind.
const onlyEncryptedStart = "\x8a\x3f\xd2\xad\x54\xce\x66\x52\x7b\x10\x34\xf3\xd1\x47\xbe\x0b\x0b\x97\x5b\x3b\xf4\x4f\x72\xc6\xfd\xad\xec\x81\x76\xf2\x7d\x69"

// walker opens the values of a document in its order.
type walker struct {
	key    []byte
	meta   *metadata
	mac    hash.Hash
	opened leaves
}

// open decrypts all values and verifies the MAC over them. What it returns is to be
// wiped, also with an error.
func (n *node) open(key []byte, meta *metadata) (leaves, error) {
	w := &walker{key: key, meta: meta, mac: sha512.New()}
	if meta.onlyEncrypted {
		w.mac.Write([]byte(onlyEncryptedStart))
	}
	if err := w.walk(n, nil, nil); err != nil {
		return w.opened, err
	}
	want, _, err := openValue(meta.mac, key, meta.lastModified)
	if err != nil {
		return w.opened, changed("its MAC, or its lastmodified, is not as SOPS wrote it")
	}
	got := strings.ToUpper(hex.EncodeToString(w.mac.Sum(nil)))
	if subtle.ConstantTimeCompare([]byte(got), want) != 1 {
		return w.opened, changed("its MAC does not verify: some value was added, removed, changed or moved")
	}
	return w.opened, nil
}

// walk takes a node. Keys are those of mappings alone, by which SOPS binds a value to
// its place; path has positions in lists as well.
func (w *walker) walk(n *node, keys, path []string) error {
	if n.isMap {
		for i, child := range n.children {
			if err := w.walk(child, append(slices.Clone(keys), n.keys[i]), append(slices.Clone(path), n.keys[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if !n.isList {
		_, err := w.visit(n, keys, path)
		return err
	}
	// SOPS writes a comment between items as one more item, which has no position.
	at := 0
	for _, child := range n.children {
		below, wasComment := append(slices.Clone(path), strconv.Itoa(at)), false
		var err error
		if child.isMap || child.isList {
			err = w.walk(child, keys, below)
		} else {
			wasComment, err = w.visit(child, keys, below)
		}
		if err != nil {
			return err
		}
		if !wasComment {
			at++
		}
	}
	return nil
}

// visit opens a scalar, and reports whether it is a comment. SOPS leaves null as it is,
// and out of the MAC.
func (w *walker) visit(n *node, keys, path []string) (wasComment bool, err error) {
	if n.value == nil {
		return false, nil
	}
	encrypted, kind := w.meta.isEncrypted(keys), ""
	var content []byte
	if encrypted {
		text, ok := n.value.(string)
		if !ok {
			return false, changed("the value at %.300q is not encrypted", strings.Join(path, "."))
		}
		content, kind, err = openValue(text, w.key, place(keys))
	} else {
		content, err = plainBytes(n.value)
	}
	if err != nil {
		return false, changed("the value at %.300q: %v", strings.Join(path, "."), err)
	}
	if kind == commentType {
		return true, nil
	}
	if encrypted || !w.meta.onlyEncrypted {
		w.mac.Write(content)
	}
	w.opened = append(w.opened, leaf{path: path, content: content, encrypted: encrypted})
	return false, nil
}
