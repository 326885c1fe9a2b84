package sops

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"lehr.dev/internal/ground/fault"
)

// metadata is what SOPS writes of a document.
type metadata struct {
	// age has the data key, encrypted for each recipient, in armor.
	age []string
	// lastModified as it is bound to the MAC.
	lastModified string
	mac          string
	// onlyEncrypted: the MAC is over encrypted values alone.
	onlyEncrypted bool
	// isEncrypted says by its path whether a value is.
	isEncrypted func(path []string) bool
}

// otherKeys are the ways to keep the data key that are not read here.
var otherKeys = map[string]string{
	"kms": "AWS KMS", "gcp_kms": "GCP KMS", "hckms": "Huawei KMS", "azure_kv": "Azure Key Vault", "hc_vault": "HashiCorp Vault", "pgp": "PGP",
}

// defaultSuffix is that of values that are not encrypted, where nothing else is said.
const defaultSuffix = "_unencrypted"

func readMetadata(n *node) (*metadata, error) {
	if !n.isMap {
		return nil, refuse("its key %q is no mapping", metadataKey)
	}
	m := &metadata{mac: n.text("mac"), onlyEncrypted: n.child("mac_only_encrypted").isTrue()}
	if err := m.readKeys(n); err != nil {
		return nil, err
	}
	modified, err := n.child("lastmodified").time()
	if err != nil || m.mac == "" {
		return nil, changed("it has no mac, or no lastmodified")
	}
	m.lastModified = modified.Format(time.RFC3339)
	m.isEncrypted, err = readRule(n)
	return m, err
}

// readKeys finds the data keys for age. SOPS splits the key where there are several
// groups, and then needs more than one of them.
func (m *metadata) readKeys(n *node) error {
	groups := n.child("key_groups")
	if groups.isEmpty() {
		groups = &node{children: []*node{n}}
	}
	if threshold, _ := n.child("shamir_threshold").value.(int); len(groups.children) > 1 || threshold > 1 {
		return refuse("its key is split among several key groups (Shamir), which is not supported").WithHint("encrypt it for one group: sops encrypt --age RECIPIENT")
	}
	group := groups.children[0]
	for _, key := range group.child("age").items() {
		if encrypted := key.text("enc"); encrypted != "" {
			m.age = append(m.age, encrypted)
		}
	}
	if len(m.age) > 0 {
		return nil
	}
	for key, name := range otherKeys {
		if !group.child(key).isEmpty() {
			return refuse("its key is kept by %s alone, and only age is supported", name).WithHint("add a recipient of age: sops rotate --in-place --add-age RECIPIENT FILE")
		}
	}
	return refuse("it names no recipient of age").WithHint("encrypt it: sops encrypt --age RECIPIENT FILE")
}

// readRule says which values are encrypted.
func readRule(n *node) (func([]string) bool, error) {
	for _, key := range []string{"unencrypted_comment_regex", "encrypted_comment_regex"} {
		if n.text(key) != "" {
			return nil, refuse("comments say what of it is encrypted (%s), which is not supported", key).WithHint("say it by names: encrypted_regex, or unencrypted_suffix")
		}
	}
	var rules []func([]string) bool
	rule := func(key string, covered bool, matches func(setting string) (func(string) bool, error)) error {
		setting := n.text(key)
		if setting == "" {
			return nil
		}
		covers, err := matches(setting)
		if err != nil {
			return refuse("its %s cannot be read", key)
		}
		rules = append(rules, func(path []string) bool { return anyOf(path, covers) == covered })
		return nil
	}
	suffix := func(setting string) (func(string) bool, error) {
		return func(key string) bool { return strings.HasSuffix(key, setting) }, nil
	}
	expression := func(setting string) (func(string) bool, error) {
		compiled, err := regexp.Compile(setting)
		if err != nil {
			return nil, err
		}
		return compiled.MatchString, nil
	}
	if err := errors.Join(
		rule("unencrypted_suffix", false, suffix), rule("encrypted_suffix", true, suffix),
		rule("unencrypted_regex", false, expression), rule("encrypted_regex", true, expression),
	); err != nil {
		return nil, err
	}
	switch len(rules) {
	case 0:
		covers, _ := suffix(defaultSuffix)
		return func(path []string) bool { return !anyOf(path, covers) }, nil
	case 1:
		return rules[0], nil
	}
	return nil, refuse("it says in several ways what of it is encrypted")
}

func anyOf(path []string, covers func(string) bool) bool {
	for _, key := range path {
		if covers(key) {
			return true
		}
	}
	return false
}

// dataKey decrypts the key of the values.
func (m *metadata) dataKey(identities []age.Identity) ([]byte, error) {
	const length = 32
	for _, encrypted := range m.age {
		reader, err := age.Decrypt(armor.NewReader(strings.NewReader(encrypted)), identities...)
		if err != nil {
			continue // It is for another recipient, or damaged: the next may not be.
		}
		key, err := io.ReadAll(io.LimitReader(reader, length+1))
		if err == nil && len(key) == length {
			return key, nil
		}
		clear(key)
		return nil, changed("its key cannot be decrypted whole")
	}
	return nil, fault.New(fault.Denied, "decrypting the SOPS document: %w", errNoIdentity).
		WithHint("encrypt it for a recipient whose identity the operator lists: sops rotate --in-place --add-age RECIPIENT FILE")
}

// child of a mapping; an empty node where there is none.
func (n *node) child(key string) *node {
	if n.isMap {
		for i, other := range n.keys {
			if other == key {
				return n.children[i]
			}
		}
	}
	return &node{}
}

func (n *node) text(key string) string {
	text, _ := n.child(key).value.(string)
	return text
}

func (n *node) isTrue() bool { return n.value == true }

func (n *node) items() []*node {
	if !n.isList {
		return nil
	}
	return n.children
}

func (n *node) isEmpty() bool { return n.value == nil && len(n.children) == 0 }

// time reads what YAML may have read already.
func (n *node) time() (time.Time, error) {
	if at, ok := n.value.(time.Time); ok {
		return at, nil
	}
	text, _ := n.value.(string)
	return time.Parse(time.RFC3339, strings.TrimSpace(text))
}
