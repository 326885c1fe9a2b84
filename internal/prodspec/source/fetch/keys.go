package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// ListedKey is a key by which charts and artifacts of some partitions may be, or must
// be, signed. Which keys are to be trusted is the operator's to say.
type ListedKey struct {
	Name string `yaml:"name"`
	// PGP is a keyring, for Helm's provenance; Cosign a public key. One is set.
	PGP    string `yaml:"pgp"`
	Cosign string `yaml:"cosign"`
	// RequiredOf are hosts of which nothing is used that it did not sign.
	RequiredOf []string            `yaml:"required_of"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// complete makes the paths absolute, and says what is wrong.
func (k *ListedKey) complete(folder string) error {
	if k.Name == "" {
		return errors.New("it has no name")
	}
	if (k.PGP == "") == (k.Cosign == "") {
		return errors.New("it is of one kind: pgp or cosign")
	}
	for _, file := range []*string{&k.PGP, &k.Cosign} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(folder, *file)
		}
	}
	return k.Partitions.Check()
}

// mostKey bytes are read of a file of keys.
const mostKey = 1 << 20

// trusted is a key that was read.
type trusted struct {
	artifact.Key
	name string
	// digest of its file: another key is asked anew.
	digest string
}

func (k *ListedKey) read() (trusted, error) {
	path, parse := k.PGP, artifact.ParseKeyring
	if k.Cosign != "" {
		path, parse = k.Cosign, artifact.ParsePublicKey
	}
	failed := func(err error) error {
		return fault.New(fault.Unavailable, "the key %s (%s) cannot be read: %w", k.Name, path, err).
			WithHint("whoever runs the server puts a public key there: gpg --export, or cosign.pub")
	}
	file, err := files.OpenGiven(path)
	if err != nil {
		return trusted{}, failed(reason(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostKey))
	if err != nil {
		return trusted{}, failed(reason(err))
	}
	key, err := parse(text)
	if err != nil {
		return trusted{}, failed(err)
	}
	return trusted{Key: key, name: k.Name, digest: artifact.Digest(text)}, nil
}

// keys are those by which something packed must be signed: the one that the definition
// names, and those that the operator requires of the host.
func (g guard) keys(packed source.Packed) (list []trusted, err error) {
	host := ""
	if parsed, err := url.Parse(packed.Address); err == nil {
		host = parsed.Host
	}
	ok := packed.Verify == ""
	for i := range g.policy().Keys {
		k := &g.policy().Keys[i]
		if !k.Partitions.Has(g.partition) {
			continue
		}
		named := k.Name == packed.Verify
		ok = ok || named
		bare, _, _ := strings.Cut(host, ":")
		if !named && !slices.Contains(k.RequiredOf, host) && !slices.Contains(k.RequiredOf, bare) {
			continue
		}
		key, err := k.read()
		if err != nil {
			return nil, err
		}
		if err := fits(packed, key); err != nil {
			return nil, err
		}
		list = append(list, key)
	}
	if !ok {
		return nil, g.noKey(packed.Verify)
	}
	return list, nil
}

func (g guard) noKey(name string) error {
	return fault.New(fault.Denied, "the sources of partition %s have no key %s: this server's policy of sources lists none of that name for it", g.partition, name).
		WithHint("whoever runs the server adds the key and the partition to keys in the file of --sources")
}

// key is one that the operator lists for the partition.
func (g guard) key(name string) (trusted, error) {
	for i := range g.policy().Keys {
		if k := &g.policy().Keys[i]; k.Name == name && k.Partitions.Has(g.partition) {
			return k.read()
		}
	}
	return trusted{}, g.noKey(name)
}

// fits refuses a key of a kind that what was packed cannot be signed by.
func fits(packed source.Packed, key trusted) error {
	switch {
	case key.IsPGP() && packed.Chart == "":
		return fault.New(fault.Invalid, "the key %s is of PGP, which signs charts, and %s is none", key.name, packed).WithHint("name a key of cosign")
	case !key.IsPGP() && !packed.InRegistry:
		return fault.New(fault.Invalid, "the key %s is of cosign, which signs what lies in a registry, and %s is an index", key.name, packed).WithHint("name a keyring of PGP, or put the chart into a registry")
	}
	return nil
}

// digestsOf tell whether other keys are in force.
func digestsOf(keys []trusted) string {
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s=%s", k.name, k.digest))
	}
	return strings.Join(parts, " ")
}
