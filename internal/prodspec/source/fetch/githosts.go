package fetch

import (
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/prodspec/source"
)

// ListedGitHost is a repository at a git host to which statuses of commits, and requests, of some
// partitions may be posted.
type ListedGitHost struct {
	Name string `yaml:"name"`
	// Kind is github or gitlab; API and Repository are as githost.Host has them.
	Kind       githost.Kind `yaml:"kind"`
	API        string       `yaml:"api"`
	Repository string       `yaml:"repository"`
	// Token is where the secret is found.
	Token      TokenPlace          `yaml:"token"`
	Partitions operator.Partitions `yaml:"partitions"`
	// Statuses are applications of these partitions whose versions have a status at their commits;
	// "*": all. Empty: none has.
	Statuses []string `yaml:"statuses"`
}

// TokenPlace is a variable of the server, or a file of its machine. One is set.
type TokenPlace struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

func (h *ListedGitHost) complete(folder string) error {
	if h.Name == "" || (h.Token.Env == "") == (h.Token.File == "") {
		return errors.New("it has no name, or its token is not in one place: write {name: shop, kind: github, api: \"https://api.github.com\", repository: team/shop, token: {env: GIT_TOKEN}, partitions: [shop]}")
	}
	if h.Token.File != "" && !filepath.IsAbs(h.Token.File) {
		h.Token.File = filepath.Join(folder, h.Token.File)
	}
	if err := (githost.Host{Kind: h.Kind, API: h.API, Repository: h.Repository}).Check(); err != nil {
		return err
	}
	if parsed, err := url.Parse(h.API); err == nil && parsed.Scheme == "http" {
		if name := parsed.Hostname(); name != "localhost" && !strings.HasPrefix(name, "127.") && name != "::1" {
			return errors.New("a token would be sent to " + name + " in the clear: use https")
		}
	}
	return h.Partitions.Check()
}

// GitHost is the git host of a name that the operator lists for the partition. The token is read
// for each request, so that a new one counts at once. Denied: none is listed.
func (o Options) GitHost(partition intent.PartitionID, name string, runtime loop.Runtime) (githost.Host, error) {
	g := o.guard()
	for _, listed := range g.policy().GitHosts {
		if listed.Name != name || !listed.Partitions.Has(partition) {
			continue
		}
		return g.gitHost(listed, runtime), nil
	}
	return githost.Host{}, fault.New(fault.Denied, "partition %s has no git host %s: this server's policy of sources lists none of that name for it", partition, name).
		WithHint("whoever runs the server adds it to githosts in the file of --sources")
}

// StatusHosts are the git hosts to which the statuses of an application are posted, by the names
// that the operator gave them.
func (o Options) StatusHosts(partition intent.PartitionID, application string, runtime loop.Runtime) map[string]githost.Host {
	g, hosts := o.guard(), map[string]githost.Host{}
	for _, listed := range g.policy().GitHosts {
		isOf := slices.Contains(listed.Statuses, application) || slices.Contains(listed.Statuses, "*")
		if isOf && listed.Partitions.Has(partition) {
			hosts[listed.Name] = g.gitHost(listed, runtime)
		}
	}
	return hosts
}

func (g guard) gitHost(listed ListedGitHost, runtime loop.Runtime) githost.Host {
	place := source.Secret{Env: listed.Token.Env, File: listed.Token.File}
	return githost.Host{
		Kind: listed.Kind, API: listed.API, Repository: listed.Repository, Runtime: runtime,
		Token: func() (string, error) { return value(place) }, Reach: g.address,
	}
}
