package source

import (
	"path"
	"regexp"
	"strings"
	"sync"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/ordering"
)

// Versions are those of an artifact, as one file (package versionlist). One of Registry, Debian,
// Tags, Commits, Charts, Listing, Command and Pushed is set.
type Versions struct {
	// Registry is the URL of a repository of a container registry.
	Registry string
	// Debian is the URL of a Packages index, and Package whose versions in it.
	Debian, Package string
	// Tags is a repository whose tags are versions.
	Tags *Git
	// Commits is a repository, and a branch, whose commits are versions.
	Commits *Git `json:",omitempty"`
	// Charts is the URL of a folder with an index.yaml, or with InRegistry of a repository of a
	// registry; Chart is the chart's name.
	Charts, Chart string `json:",omitempty"`
	InRegistry    bool   `json:",omitempty"`
	// Listing is the URL of a page that lists files, or of a JSON document.
	Listing string `json:",omitempty"`
	// Items is where in a JSON document the list is, as a JSON pointer; empty: the document itself,
	// or its "versions".
	Items string `json:",omitempty"`
	// Sums is the name of a file beside a page with the SHA-256 of each file; empty: there is none.
	Sums string `json:",omitempty"`
	// Command is the name of one that the operator lists.
	Command string `json:",omitempty"`
	// Pushed is a document of the partition in which programs put versions by call.
	Pushed string `json:",omitempty"`

	File string
	// Match is a glob, and Pattern a regular expression, of names that count; empty: all. A group
	// of Pattern is the version.
	Match   string
	Pattern string `json:",omitempty"`
	// Branch that the commit must be on, or Branches, a regular expression of their whole names; empty: any.
	Branch   string `json:",omitempty"`
	Branches string `json:",omitempty"`
	// Status are those of which the build must have one; empty: any.
	Status []string `json:",omitempty"`
	// Requested: it must have been built of a pull or merge request.
	Requested bool `json:",omitempty"`
	// Verify and Attested are names of keys of the operator's by which a version, and its
	// attestation of the type Predicate, must be signed; empty: need not.
	Verify    string `json:",omitempty"`
	Attested  string `json:",omitempty"`
	Predicate string `json:",omitempty"`
	// Order by which newer is decided; nil: that of the kind.
	Order *VersionOrder `json:",omitempty"`
	// Limit is how many of the newest are listed; 0: MostVersions.
	Limit int `json:",omitempty"`
	// Keep are names that no limit leaves out, beside those that delivery keeps.
	Keep []string `json:",omitempty"`
	// Deployed are fields of the partition's documents that hold versions, which no limit leaves
	// out: those of the environments that this source delivers to.
	Deployed []DocumentField `json:",omitempty"`
	// Fields say where metadata is found: labels of an image, fields of a package, or pointers
	// into an item of JSON, by the names in MetadataFields.
	Fields map[string]string `json:",omitempty"`
	Login
}

// MostVersions are listed of one source.
const MostVersions = 500

// DocumentField is a field of a document that the store holds.
type DocumentField struct{ Document, Pointer string }

// VersionOrder is how versions are ordered, in the words of lehr.yaml.
type VersionOrder struct {
	By          string   `json:",omitempty"`
	Match       string   `json:",omitempty"`
	Layout      string   `json:",omitempty"`
	Prereleases []string `json:",omitempty"`
}

// VersionOrders are the words for ways to order.
var VersionOrders = map[string]intentpb.VersionOrder_By{
	"semver": intentpb.VersionOrder_BY_SEMVER, "debian": intentpb.VersionOrder_BY_DEBIAN, "number": intentpb.VersionOrder_BY_NUMBER,
	"date": intentpb.VersionOrder_BY_DATE, "created": intentpb.VersionOrder_BY_CREATED, "build": intentpb.VersionOrder_BY_BUILD,
}

// MetadataFields are the names of what can be read of a version beside its name.
var MetadataFields = []string{"author", "branch", "build", "build_url", "commit", "created", "digest", "message", "name", "pull_request", "repository", "status", "version"}

// Repository is the one whose tags or commits are versions; nil: there is none.
func (v *Versions) Repository() *Git {
	if v.Commits != nil {
		return v.Commits
	}
	return v.Tags
}

// Ordering is the order of the list. Those of kinds count versions before a release too.
func (v *Versions) Ordering() (*ordering.Order, error) { return ordering.New(v.OrderSpec()) }

// OrderSpec is how versions are ordered: as the source says, or as is usual for its kind.
func (v *Versions) OrderSpec() *intentpb.VersionOrder {
	spec := &intentpb.VersionOrder{By: intentpb.VersionOrder_BY_SEMVER, Prereleases: []string{"*"}}
	switch {
	case v.Order != nil:
		spec = &intentpb.VersionOrder{By: VersionOrders[v.Order.By], Match: v.Order.Match, Layout: v.Order.Layout, Prereleases: v.Order.Prereleases}
		if v.Order.By == "" || v.Order.By == "semver" {
			if spec.By = intentpb.VersionOrder_BY_SEMVER; len(spec.Prereleases) == 0 {
				spec.Prereleases = []string{"*"}
			}
		}
	case v.Debian != "":
		spec = &intentpb.VersionOrder{By: intentpb.VersionOrder_BY_DEBIAN}
	case v.Commits != nil:
		spec = &intentpb.VersionOrder{By: intentpb.VersionOrder_BY_BUILD}
	}
	return spec
}

// Place is where the versions are listed, for people.
func (v *Versions) Place() string {
	switch {
	case v.Repository() != nil:
		return v.Repository().URL
	case v.Charts != "":
		return Packed{Address: v.Charts, Chart: v.Chart, InRegistry: v.InRegistry}.String()
	case v.Command != "":
		return "the command " + v.Command
	case v.Pushed != "":
		return "the document " + v.Pushed
	}
	for _, place := range []string{v.Registry, v.Debian, v.Listing} {
		if place != "" {
			return place
		}
	}
	return ""
}

var (
	packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	commandName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`) })
)

// CheckVersions says what is wrong with a list of versions, but for paths that are relative still.
func (r Remote) CheckVersions() error {
	v := *r.Versions
	if v.Repository() == nil {
		return v.check()
	}
	v.Tags, v.Commits = &Git{URL: "/any", Branch: v.Repository().Branch}, nil
	if r.Versions.Commits != nil {
		v.Tags, v.Commits = nil, v.Tags
	}
	return v.check()
}

func (v *Versions) check() error {
	if _, err := path.Match(v.Match, ""); err != nil {
		return fault.New(fault.Invalid, "%.300q is no pattern: %w", v.Match, err).WithHint("write one as of files, such as v1.*")
	}
	if pattern, err := regexp.Compile(v.Pattern); err != nil {
		return fault.New(fault.Invalid, "%.300q is no regular expression: %w", v.Pattern, err).WithHint("write one of RE2, as v([0-9.]+)-stable")
	} else if pattern.NumSubexp() > 1 {
		return fault.New(fault.Invalid, "%.300q has %d groups, of which one can hold the version", v.Pattern, pattern.NumSubexp()).WithHint("write (?:…) for groups that hold nothing")
	}
	if v.Limit < 0 || v.Limit > MostVersions {
		return fault.New(fault.Invalid, "limit: %d is not between 1 and %d", v.Limit, MostVersions).WithHint("write limit: 50, and name versions that are to stay with keep")
	}
	if v.Branch != "" && !reference(v.Branch) {
		return fault.New(fault.Invalid, "%.300q is no name of a branch", v.Branch).WithHint("write branch: main")
	}
	if v.Branch != "" && v.Branches != "" {
		return fault.New(fault.Invalid, "branch names one branch, and branches a pattern of several").WithHint("write one of both")
	}
	if _, err := regexp.Compile(v.Branches); err != nil {
		return fault.New(fault.Invalid, "%.300q is no regular expression: %w", v.Branches, err).WithHint("write one of RE2, as release/.*")
	}
	if _, err := v.Ordering(); err != nil {
		return err
	}
	if err := v.checkSigning(); err != nil {
		return err
	}
	return v.checkPlace()
}

// checkSigning refuses keys where nothing is signed.
func (v *Versions) checkSigning() error {
	inRegistry := v.Registry != "" || v.InRegistry
	for _, key := range []string{v.Verify, v.Attested} {
		if key != "" && !keyName().MatchString(key) {
			return fault.New(fault.Invalid, "%.300q is no name of a key", key).WithHint("write the name that the operator gave it under keys in the file of --sources")
		}
	}
	switch {
	case v.Verify != "" && !inRegistry && v.Debian == "":
		return fault.New(fault.Invalid, "verify: signatures are of images and charts in a registry, and of indexes of Debian packages").WithHint("remove verify")
	case v.Attested != "" && !inRegistry:
		return fault.New(fault.Invalid, "attested: attestations are of what lies in a registry").WithHint("remove attested")
	case (v.Attested == "") != (v.Predicate == ""):
		return fault.New(fault.Invalid, "an attestation has a key and a type").WithHint("write attested: KEY and predicate: https://slsa.dev/provenance/v1")
	}
	return nil
}

func (v *Versions) checkPlace() error {
	switch {
	case v.Commits != nil:
		if v.Commits.Branch == "" {
			return fault.New(fault.Invalid, "whose commits are versions is not said").WithHint("write branch: main")
		}
		return v.Commits.check()
	case v.Tags != nil:
		return v.Tags.check()
	case v.Registry != "":
		return checkURL(v.Registry, v.Login, "https", "http")
	case v.Charts != "":
		if !chartName().MatchString(v.Chart) {
			return fault.New(fault.Invalid, "%.300q is no name of a chart", v.Chart).WithHint("write name: web")
		}
		return checkURL(v.Charts, v.Login, "https", "http")
	case v.Listing != "":
		if strings.ContainsAny(v.Sums, "/\\?#") {
			return fault.New(fault.Invalid, "%.300q is no name of a file beside the page", v.Sums).WithHint("write sums: SHA256SUMS")
		}
		return checkURL(v.Listing, v.Login, "https", "http")
	case v.Command != "":
		if !commandName().MatchString(v.Command) {
			return fault.New(fault.Invalid, "%.300q is no name of a command", v.Command).WithHint("write the name that the operator gave it in the file of --sources")
		}
		return nil
	case v.Pushed != "":
		return document.CheckName(v.Pushed)
	}
	if !packageName.MatchString(v.Package) {
		return fault.New(fault.Invalid, "%.300q is no name of a package", v.Package).WithHint("write package: shop-web")
	}
	return checkURL(v.Debian, v.Login, "https", "http")
}
