package source

import (
	"net/url"
	"regexp"
	"strings"
	"sync"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source/artifact"
)

// Packed is what somebody packed under a name and a version: a chart of Helm, of an
// index or a registry, or an artifact of a registry.
type Packed struct {
	// Address is the URL of a folder with an index.yaml, or of a repository of a
	// registry: https or http in both.
	Address string
	// Chart is the name of one; empty: it is an artifact.
	Chart string `json:",omitempty"`
	// InRegistry: it lies in a registry, else in an index.
	InRegistry bool
	// Version of a chart: one, or a constraint.
	Version string `json:",omitempty"`
	// Tag of an artifact; empty: there is a Digest.
	Tag string `json:",omitempty"`
	// Digest that it must have: of the manifest in a registry, of the archive in an
	// index; empty: that of the version.
	Digest string `json:",omitempty"`
	// Verify is the name of a key of the operator's by which it must be signed;
	// empty: the definition wants none.
	Verify string `json:",omitempty"`
	Login
}

// String is the address as people write it.
func (p Packed) String() string {
	if !p.InRegistry {
		return p.Address
	}
	text := "oci://" + strings.TrimPrefix(p.Address, "https://")
	if rest, ok := strings.CutPrefix(p.Address, "http://"); ok {
		text = "oci+http://" + rest
	}
	if p.Tag != "" {
		text += ":" + p.Tag
	}
	return text
}

var (
	// Patterns with long repetitions take up to two milliseconds to compile, which each command and
	// each child would spend at its start.
	//
	// repositoryName and tagName are as the OCI distribution specification has them.
	repositoryName = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagName        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`) })
	chartName      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`) })
	keyName        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) })
)

// overHTTP is the address of what is written with a scheme of registries; ok: it is.
func overHTTP(text string) (address string, ok bool) {
	if rest, ok := strings.CutPrefix(text, "oci://"); ok {
		return "https://" + rest, true
	}
	if rest, ok := strings.CutPrefix(text, "oci+http://"); ok {
		return "http://" + rest, true
	}
	return text, false
}

// ParseChart reads where a chart lies: the URL of an index's folder, and the chart's
// name in it; or oci://HOST/PATH/NAME, without a name beside it.
func ParseChart(text, name string) (Packed, error) {
	address, inRegistry := overHTTP(text)
	p := Packed{Address: strings.TrimRight(address, "/"), Chart: name, InRegistry: inRegistry}
	switch {
	case inRegistry && name != "":
		return p, fault.New(fault.Invalid, "the name of a chart in a registry is the end of its address").WithHint("leave name out: chart: oci://registry.example.com/charts/web")
	case inRegistry:
		p.Chart = p.Address[strings.LastIndex(p.Address, "/")+1:]
	case name == "":
		return p, fault.New(fault.Invalid, "the chart has no name").WithHint("say which chart of the index it is: name: web")
	}
	return p, nil
}

// ParseArtifact reads oci://HOST/NAME:TAG, oci://HOST/NAME@sha256:…, or both.
func ParseArtifact(text string) (Packed, error) {
	address, ok := overHTTP(text)
	if !ok {
		return Packed{}, fault.New(fault.Invalid, "%.300q is no artifact of a registry", text).WithHint("write oci://registry.example.com/team/name:v1.2.3, or @sha256:… in place of the tag")
	}
	p := Packed{InRegistry: true}
	address, p.Digest, _ = strings.Cut(address, "@")
	if at := strings.LastIndex(address, ":"); at > strings.LastIndex(address, "/") {
		address, p.Tag = address[:at], address[at+1:]
	}
	p.Address = address
	return p, nil
}

func (p *Packed) check() error {
	if err := checkURL(p.Address, p.Login, "https", "http"); err != nil {
		return err
	}
	parsed, err := url.Parse(p.Address)
	switch {
	case err != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return fault.New(fault.Invalid, "the address at %s has a query or a fragment", parsed.Host).WithHint("write its scheme, host and path alone")
	case p.InRegistry && !repositoryName.MatchString(strings.Trim(parsed.Path, "/")):
		return fault.New(fault.Invalid, "%.300q is no repository of a registry", p.String()).WithHint("write oci://registry.example.com/team/name, in small letters")
	case p.Digest != "" && !artifact.IsDigest(p.Digest):
		return fault.New(fault.Invalid, "%.100q is no digest", p.Digest).WithHint("write sha256: and all 64 digits, in small letters")
	case p.Verify != "" && !keyName().MatchString(p.Verify):
		return fault.New(fault.Invalid, "verify: %.100q is no name of a key", p.Verify).WithHint("write the name of a key that whoever runs the server lists in the file of --sources")
	case p.Chart == "" && p.Tag == "" && p.Digest == "":
		return fault.New(fault.Invalid, "%.300q names neither a tag nor a digest", p.String()).WithHint("write oci://registry.example.com/team/name:v1.2.3, or @sha256:… in place of the tag")
	case p.Tag != "" && !tagName().MatchString(p.Tag):
		return fault.New(fault.Invalid, "%.100q is no tag", p.Tag)
	case p.Chart == "":
		return nil
	case !chartName().MatchString(p.Chart):
		return fault.New(fault.Invalid, "%.100q is no name of a chart", p.Chart)
	}
	wanted, err := artifact.ParseRange(p.Version)
	if err == nil && p.Digest != "" && !wanted.Exact() {
		err = fault.New(fault.Invalid, "a digest is of one version, and %q may be several", p.Version).WithHint("write the version that has the digest, such as 1.2.3")
	}
	return err
}
