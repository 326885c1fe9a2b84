package fetch

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/address"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/prodspec/source"
)

// Policy is which secrets of this machine, and which networks, sources may use.
// Definitions are their tenants' and only name a secret: who may use it, and
// whom it may be shown, is the operator's to say. The zero policy gives no
// secret, and no network of this machine's own.
type Policy struct {
	Version  string         `yaml:"sources"`
	Secrets  []ListedSecret `yaml:"secrets"`
	Networks []netip.Prefix `yaml:"networks"`
	Webhooks []Webhook      `yaml:"webhooks"`
	Folders  []ListedFolder `yaml:"folders"`
	Keys     []ListedKey    `yaml:"keys"`
	// Commands list versions.
	Commands []ListedCommand `yaml:"commands"`
	// GitHosts are told of commits.
	GitHosts []ListedGitHost `yaml:"githosts"`
}

// ListedFolder is a folder of this machine that sources of some partitions may
// read, beside that of their definition.
type ListedFolder struct {
	Path       string              `yaml:"path"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// FoldersOf are the folders that are listed for a partition.
func (p *Policy) FoldersOf(partition intent.PartitionID) (list []string) {
	for _, listed := range p.Folders {
		if listed.Partitions.Has(partition) {
			list = append(list, listed.Path)
		}
	}
	return list
}

// SecretFiles are the files of secrets that the policy names.
func (p *Policy) SecretFiles() (list []string) {
	for _, s := range p.Secrets {
		list = append(list, s.File)
	}
	for _, w := range p.Webhooks {
		list = append(list, w.File)
	}
	for _, h := range p.GitHosts {
		list = append(list, h.Token.File)
	}
	return list
}

// ListedSecret is a secret that sources of some partitions may use.
type ListedSecret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
	// Hosts that it may be shown: HOST or HOST:PORT. What is itself the address
	// of a database needs none.
	Hosts      []string            `yaml:"hosts"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// Webhook is a secret by which others may hint that sources changed.
type Webhook struct {
	Env        string              `yaml:"env"`
	File       string              `yaml:"file"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// ReadPolicy reads a policy. Files that it names are relative to its folder. No
// path: the zero policy.
func ReadPolicy(path string) (*Policy, error) {
	if path == "" {
		return &Policy{}, nil
	}
	policy := &Policy{}
	if err := operator.Read(path, operator.Kind{Name: "policy of sources", Key: "sources", Flag: "sources", Page: "docs/use/sources.md"}, policy); err != nil {
		return nil, err
	}
	return policy, policy.complete(filepath.Dir(path), path)
}

func (p *Policy) complete(folder, path string) error {
	place := func(kind string, i int, env string, file *string, partitions operator.Partitions) error {
		wrong := func(err error) error { return fault.New(fault.Invalid, "%s: %s %d: %w", path, kind, i+1, err) }
		if (env == "") == (*file == "") {
			return wrong(errors.New("it is in one place: env or file"))
		}
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(folder, *file)
		}
		if err := partitions.Check(); err != nil {
			return wrong(err)
		}
		return nil
	}
	for i := range p.Secrets {
		s := &p.Secrets[i]
		if err := place("secret", i, s.Env, &s.File, s.Partitions); err != nil {
			return err
		}
	}
	for i := range p.Webhooks {
		w := &p.Webhooks[i]
		if err := place("webhook", i, w.Env, &w.File, w.Partitions); err != nil {
			return err
		}
	}
	for i := range p.Keys {
		if err := p.Keys[i].complete(folder); err != nil {
			return fault.New(fault.Invalid, "%s: key %d: %w", path, i+1, err)
		}
	}
	for i := range p.Commands {
		if err := p.Commands[i].complete(folder); err != nil {
			return fault.New(fault.Invalid, "%s: command %d: %w", path, i+1, err)
		}
	}
	for i := range p.GitHosts {
		if err := p.GitHosts[i].complete(folder); err != nil {
			return fault.New(fault.Invalid, "%s: git host %d: %w", path, i+1, err)
		}
	}
	for i, listed := range p.Folders {
		if !filepath.IsAbs(listed.Path) {
			return fault.New(fault.Invalid, "%s: folder %d: %q is no absolute path", path, i+1, listed.Path)
		}
		if err := listed.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: folder %d: %w", path, i+1, err)
		}
	}
	return nil
}

// maxSecret bytes are read of a file.
const maxSecret = 64 << 10

// value reads a secret. Nothing of it is in the error.
func value(s source.Secret) (string, error) {
	if s.Env != "" {
		secret := os.Getenv(s.Env)
		if secret == "" {
			return "", fault.New(fault.Unavailable, "%s of the server is empty", s).WithHint("whoever runs the server sets it, and starts the server again")
		}
		return secret, nil
	}
	file, err := files.OpenGiven(s.File)
	if err != nil {
		return "", fault.New(fault.Unavailable, "%s cannot be read: %w", s, err).WithHint("whoever runs the server puts the secret there")
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecret))
	secret := strings.TrimRight(string(text), "\r\n")
	if err != nil || secret == "" {
		return "", fault.New(fault.Unavailable, "%s is empty or cannot be read", s).WithHint("whoever runs the server puts the secret there")
	}
	return secret, nil
}

// Hooks returns the secrets by which sources of a partition may be hinted at.
func (p *Policy) Hooks(partition intent.PartitionID) (secrets []string) {
	for _, w := range p.Webhooks {
		if !w.Partitions.Has(partition) {
			continue
		}
		if secret, err := value(source.Secret{Env: w.Env, File: w.File}); err == nil {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// guard is what a partition's sources may use.
type guard struct {
	partition intent.PartitionID
	policy    func() *Policy
	// allowedFolders are the folders of this machine that it may read; nil: all.
	allowedFolders func() []string
}

// folders are those that may be read; nil: all.
func (g guard) folders() []string {
	if g.allowedFolders == nil {
		return nil
	}
	return g.allowedFolders()
}

// allow says whether a secret may be used for a host; empty: the secret is
// itself the address.
func (g guard) allow(s source.Secret, host string) error {
	for _, listed := range g.policy().Secrets {
		if listed.Env != s.Env || listed.File != s.File || !listed.Partitions.Has(g.partition) {
			continue
		}
		bare, _, _ := strings.Cut(host, ":")
		if host == "" && len(listed.Hosts) == 0 || slices.Contains(listed.Hosts, host) || host != "" && slices.Contains(listed.Hosts, bare) {
			return nil
		}
	}
	forHost := ""
	if host != "" {
		forHost = fmt.Sprintf(" for %s", host)
	}
	return fault.New(fault.Denied, "the sources of partition %s may not use %s%s: this server's policy of sources does not allow it", g.partition, s, forHost).
		WithHint("whoever runs the server adds the secret, the partition and the host to the file of --sources")
}

// secret reads one that may be used for a host.
func (g guard) secret(s source.Secret, host string) (string, error) {
	if err := g.allow(s, host); err != nil {
		return "", err
	}
	return value(s)
}

// address says whether an address may be reached, as it was resolved.
func (g guard) address(a netip.Addr) error {
	if address.In(g.policy().Networks, a) || !address.Own(a) {
		return nil
	}
	return fault.New(fault.Denied, "sources may not reach %s: it is this machine's own, or a cloud's metadata", a).
		WithHint("whoever runs the server lists the network in the file of --sources")
}

// scrub takes secrets out of what others said.
func scrub(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return intent.Shown(text)
}
