package definition

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/prodspec/source"
)

// maxKept names are written in one source.
const maxKept = 100

// versions is a source that lists the versions of an artifact.
func (r *remoteParser) versions(kind string, login source.Login) *source.Versions {
	count := len(r.findings)
	v := &source.Versions{
		Login: login, File: r.file(), Match: r.text("match"), Pattern: r.text("regexp"), Branch: r.text("branch"), Branches: r.text("branches"),
		Verify: r.text("verify"), Attested: r.text("attested"), Predicate: r.text("predicate"), Items: r.text("items"), Sums: r.text("sums"),
	}
	switch kind {
	case "registry":
		v.Registry = r.text(kind)
	case "debian":
		v.Debian, v.Package = r.text(kind), r.text("package")
	case "git_tags":
		v.Tags = r.git(kind, login)
	case "git_commits":
		v.Commits = r.git(kind, login)
		v.Commits.Branch, v.Branch = v.Branch, ""
	case "charts":
		packed, err := source.ParseChart(r.text(kind), r.text("name"))
		r.check(r.fields[kind], r.at+"."+kind, err)
		v.Charts, v.Chart, v.InRegistry = packed.Address, packed.Chart, packed.InRegistry
	case "listing":
		v.Listing = r.text(kind)
	case "command":
		v.Command = r.text(kind)
	case "pushed":
		v.Pushed = r.text(kind)
	}
	if node := r.fields["order"]; node != nil {
		v.Order = r.versionOrder(node)
	}
	if node := r.fields["status"]; node != nil {
		v.Status = r.texts(node, r.at+".status")
	}
	if node := r.fields["pull_requests"]; node != nil {
		v.Requested = choice(r.parser, node, r.at+".pull_requests", truths, "true or false")
	}
	if node := r.fields["limit"]; node != nil {
		v.Limit = int(r.number(node, r.at+".limit", 1))
	}
	if node := r.fields["keep"]; node != nil {
		if v.Keep = r.texts(node, r.at+".keep"); len(v.Keep) > maxKept {
			r.parser.at(node, r.at+".keep", "%s.keep names %d versions, at most %d are allowed", r.at, len(v.Keep), maxKept).hint("what environments of delivery have is kept anyway")
		}
	}
	if node := r.fields["fields"]; node != nil {
		v.Fields = r.metadata(node)
	}
	if len(r.findings) == count {
		r.check(r.fields[kind], r.at+"."+kind, source.Remote{Versions: v}.CheckVersions())
	}
	return v
}

// versionOrder is a word, or a mapping with more.
func (r *remoteParser) versionOrder(node *yaml.Node) *source.VersionOrder {
	at := r.at + ".order"
	order := &source.VersionOrder{}
	by := node
	if node.Kind != yaml.ScalarNode {
		fields := r.parser.fields(node, at, orderKeys)
		if by = fields["by"]; fields["match"] != nil {
			order.Match = r.parser.text(fields["match"], at+".match")
		}
		if fields["layout"] != nil {
			order.Layout = r.parser.text(fields["layout"], at+".layout")
		}
		if fields["prereleases"] != nil {
			order.Prereleases = r.texts(fields["prereleases"], at+".prereleases")
		}
	}
	if by != nil {
		choice(r.parser, by, at, orders, "one of "+strings.Join(slices.Sorted(maps.Keys(orders)), ", "))
		order.By = by.Value
	}
	return order
}

// metadata says where metadata of a version is found.
func (r *remoteParser) metadata(node *yaml.Node) map[string]string {
	found := map[string]string{}
	at := r.at + ".fields"
	for name, value := range r.parser.fields(node, at, source.MetadataFields) {
		found[name] = r.parser.text(value, at+"."+name)
	}
	return found
}
