package kargo

import (
	"cmp"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// warehouse is where versions come from.
type warehouse struct {
	object    *object
	artifacts []*artifact
	// isManual: people assemble freight, so nothing comes by itself.
	isManual bool
	interval string
	verdicts []verdict
}

func (r *reading) warehouse(name string) *warehouse {
	for _, w := range r.warehouses {
		if w.object.name == name {
			return w
		}
	}
	return nil
}

func (r *reading) readWarehouse(o *object) {
	w := &warehouse{object: o}
	var policy string
	r.readSpec(o, map[string]func(*yaml.Node){
		"interval": r.text(&w.interval), "freightCreationPolicy": r.text(&policy),
		"shard": r.leaveAll("shard", "a partition is run by the server that has it"),
		"freightCreationCriteria": func(node *yaml.Node) {
			w.verdicts = append(w.verdicts, verdict{name: "freight-criteria", text: attribute(node, "expression")})
			r.wrong(node, "Warehouse "+o.name+": freightCreationCriteria", "Lehr asks no expression of versions that go together: have a program that knows call lehr delivery verdict ENVIRONMENT freight-criteria good|bad --reason REASON", node)
		},
		"subscriptions": func(node *yaml.Node) {
			r.eachItem(node, "subscriptions", func(item *yaml.Node) { r.readSubscription(w, item) })
		},
	})
	if policy != "" && policy != "Automatic" && policy != "Manual" {
		r.refuse(o.node, "the Warehouse %s has the freightCreationPolicy %q, which is neither Automatic nor Manual", o.name, policy)
	}
	if w.interval = r.duration(o.node, "interval", w.interval); w.interval != "" {
		for _, a := range w.artifacts {
			a.source["every"] = w.interval
		}
	}
	w.isManual = policy == "Manual"
	r.warehouses = append(r.warehouses, w)
	r.nameArtifacts(w)
	if len(w.artifacts) > 1 {
		r.wrong(o.node, "Warehouse "+o.name, "its "+strconv.Itoa(len(w.artifacts))+" artifacts go together in Kargo; here each is an application that goes by itself. Where one needs the other, write a constraint {verdict: outside}, or have one artifact name the other")
	}
}

// nameArtifacts gives each artifact the name of an application.
func (r *reading) nameArtifacts(w *warehouse) {
	for _, a := range w.artifacts {
		a.name = segment(w.object.name)
		if len(w.artifacts) > 1 {
			last := a.repository[strings.LastIndexAny(strings.TrimSuffix(a.repository, "/"), "/:")+1:]
			a.name = segment(w.object.name + "-" + strings.TrimSuffix(cmp.Or(a.chart, last), ".git"))
		}
		for count, base := 2, a.name; r.hasApplication(a); count++ {
			a.name = base + "-" + strconv.Itoa(count)
		}
		if !named.MatchString(a.name) {
			r.refuse(a.node, "the Warehouse %s has no name that an application can have", w.object.name)
		}
	}
}

func (r *reading) hasApplication(a *artifact) bool {
	for _, w := range r.warehouses {
		for _, other := range w.artifacts {
			if other != a && other.name == a.name {
				return true
			}
		}
	}
	return false
}

// imageName is a repository of images, as Kargo has it.
var imageName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]*(/[a-zA-Z0-9._-]+)*$`)

// subscription is what one may say, of any kind.
type subscription struct {
	repository, name, strategy, constraint, oldConstraint string
	branch, limit, pattern                                string
	allowed, ignored                                      []string
	isLoose                                               bool
}

func (r *reading) readSubscription(w *warehouse, node *yaml.Node) {
	if node.Kind != yaml.MappingNode || len(node.Content) != 2 {
		r.refuse(node, "a subscription has one of the keys image, git and chart")
		return
	}
	kind, content := node.Content[0].Value, node.Content[1]
	if !slices.Contains([]string{"image", "git", "chart"}, kind) {
		r.refuse(node, "the Warehouse %s subscribes to %q, of which Lehr has no source: write one of the kind listing, command or pushed, and take the subscription out", w.object.name, kind)
		return
	}
	a := &artifact{warehouse: w, node: node, kind: kind}
	s := r.readSubscribed(a, content)
	a.repository, a.chart = s.repository, s.name
	if a.repository == "" {
		r.refuse(content, "the subscription has no repoURL")
		return
	}
	switch {
	case kind == "image" && !imageName.MatchString(a.repository):
		r.refuse(content, "%q is no repository of images", a.repository)
	case kind == "chart" && !strings.HasPrefix(a.repository, "oci://") && (s.name == "" || !strings.HasPrefix(a.repository, "https://")):
		r.refuse(content, "the chart of %q has no name, or no address with https:// or oci://", a.repository)
	}
	a.source, a.order = map[string]any{}, map[string]any{}
	switch kind {
	case "image":
		r.imageSource(a, s)
	case "git":
		r.gitSource(a, s)
	default:
		a.source["charts"] = a.repository
		if s.name != "" {
			a.source["name"] = s.name
		}
		r.orderBySemver(a, s)
	}
	r.allow(a, s)
	a.ignored = s.ignored
	if number, err := strconv.Atoi(cmp.Or(s.limit, "20")); err != nil || number < 1 {
		r.refuse(content, "discoveryLimit %q is no number above 0", s.limit)
	} else {
		a.source["limit"] = min(number, 500)
	}
	w.artifacts = append(w.artifacts, a)
}

func (r *reading) readSubscribed(a *artifact, content *yaml.Node) (s subscription) {
	strict := true
	filter := func(name string) func(*yaml.Node) {
		return func(node *yaml.Node) {
			a.verdicts = append(a.verdicts, verdict{name: name, text: node.Value})
			r.wrong(node, name, "Lehr asks no expression of commits: have a program that knows call lehr delivery verdict ENVIRONMENT "+segment(name)+" good|bad --reason REASON", node)
		}
	}
	paths := r.leaveAll("paths of a subscription", "commits are versions whatever they change: one that changes nothing in these paths comes as a version of its own, with the same content there")
	r.eachKey(content, "the subscription", map[string]func(*yaml.Node){
		"repoURL": r.text(&s.repository), "name": r.text(&s.name), "branch": r.text(&s.branch), "discoveryLimit": r.text(&s.limit),
		"constraint": r.text(&s.constraint), "semverConstraint": r.text(&s.oldConstraint), "strictSemvers": r.truth(&strict),
		"imageSelectionStrategy": r.text(&s.strategy), "commitSelectionStrategy": r.text(&s.strategy), "tagSelectionStrategy": r.text(&s.strategy),
		"allowTags":        r.text(&s.pattern),
		"allowTagsRegexes": func(node *yaml.Node) { r.eachItem(node, "allowTagsRegexes", r.appendText(&s.allowed)) },
		"ignoreTags":       func(node *yaml.Node) { r.eachItem(node, "ignoreTags", r.appendText(&s.ignored)) },
		"ignoreTagsRegexes": func(node *yaml.Node) {
			r.refuse(node, "ignoreTagsRegexes cannot be carried over: say with allowTagsRegexes which tags are meant")
		},
		"expressionFilter": filter("expressionFilter"),
		"includePaths":     paths, "excludePaths": paths,
		"platform":              r.leaveAll("platform", "the digest of a version is that of all its platforms"),
		"insecureSkipTLSVerify": r.leaveAll("insecureSkipTLSVerify", "Lehr always verifies: give the server the authority's certificate"),
		"gitRepoURL":            r.leaveAll("gitRepoURL", "it is a link for people; an image names its repository by a label"),
		"cacheByTag":            r.leaveAll("cacheByTag", "each digest is read once"),
		"since":                 r.leaveAll("since", "limit says how far back versions are read"),
	})
	s.isLoose = !strict
	if s.pattern != "" {
		s.allowed = append(s.allowed, s.pattern)
	}
	if s.isLoose {
		r.Hints = append(r.Hints, "tags of "+s.repository+" with less than three numbers are listed as unordered: Lehr orders whole semantic versions")
	}
	return s
}

func (r *reading) appendText(to *[]string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		var text string
		r.text(&text)(node)
		*to = append(*to, text)
	}
}

func (r *reading) imageSource(a *artifact, s subscription) {
	a.source["registry"] = registryAddress(a.repository)
	switch s.strategy {
	case "", "SemVer":
		r.orderBySemver(a, s)
	case "Lexical":
		r.orderByLetters(a, s)
	case "NewestBuild":
		a.order["by"] = "created"
	case "Digest":
		a.order["by"], a.isMutable = "created", true
		tag := cmp.Or(s.constraint, s.oldConstraint, "latest")
		a.source["regexp"] = regexp.QuoteMeta(tag)
	default:
		r.refuse(a.node, "the strategy %q leaves it open which image is newer", s.strategy)
	}
}

// registryAddress is the address of an image's repository, as Docker completes it.
func registryAddress(repository string) string {
	host, rest, ok := strings.Cut(repository, "/")
	switch {
	case !ok:
		return "https://registry-1.docker.io/library/" + repository
	case host == "docker.io":
		return "https://registry-1.docker.io/" + rest
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		return "https://registry-1.docker.io/" + repository
	}
	return "https://" + repository
}

func (r *reading) gitSource(a *artifact, s subscription) {
	key := "git_tags"
	switch s.strategy {
	case "", "NewestFromBranch":
		key = "git_commits"
		a.order["by"] = "build"
		if s.branch == "" {
			s.branch = "main"
			r.Hints = append(r.Hints, "the subscription to "+a.repository+" names no branch: it follows main; say another where the repository has one")
		}
	case "SemVer":
		r.orderBySemver(a, s)
	case "Lexical":
		r.orderByLetters(a, s)
	case "NewestTag":
		a.order["by"] = "created"
	default:
		r.refuse(a.node, "the strategy %q leaves it open which commit is newer", s.strategy)
	}
	a.source[key] = a.repository
	if s.branch != "" {
		a.source["branch"] = s.branch
	}
}

// orderBySemver orders semantic versions, and has a constraint leave the others without a place.
func (r *reading) orderBySemver(a *artifact, s subscription) {
	a.order["by"] = "semver"
	constraint := cmp.Or(s.constraint, s.oldConstraint)
	if constraint == "" {
		// Without a constraint Kargo takes versions before a release as well.
		a.order["prereleases"] = []string{"*"}
		return
	}
	pattern, err := rangePattern(constraint)
	if err != nil {
		r.refuse(a.node, "the constraint of %s cannot be carried over: %v", a.repository, err)
		return
	}
	if a.order["match"] = pattern; strings.Contains(constraint, "-0") {
		a.order["prereleases"] = []string{"*"}
	}
}

// orderByLetters orders tags whose letters differ in digits of a fixed count alone: of these the
// greatest number is the last by letters.
func (r *reading) orderByLetters(a *artifact, s subscription) {
	a.order["by"] = "number"
	if len(s.allowed) == 1 {
		if pattern, ok := digitGroups(s.allowed[0]); ok {
			a.order["match"] = pattern
			return
		}
	}
	r.refuse(a.node, "the strategy Lexical of %s can be carried over where one allowTags has digits of a fixed count only, as ^nightly-\\d{8}$; write it so, or choose NewestBuild or NewestTag", a.repository)
}

// digitGroups makes groups of the digits by which names of a pattern are ordered.
func digitGroups(pattern string) (string, bool) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	parts := []*syntax.Regexp{tree}
	if tree.Op == syntax.OpConcat {
		parts = tree.Sub
	}
	if len(parts) < 3 || parts[0].Op != syntax.OpBeginText || parts[len(parts)-1].Op != syntax.OpEndText {
		return "", false
	}
	var made strings.Builder
	groups, isTail := 0, false
	for _, part := range parts[1 : len(parts)-1] {
		part = uncaptured(part)
		isDigits := part.Op == syntax.OpRepeat && part.Min == part.Max && part.Sub[0].String() == "[0-9]"
		switch {
		case isDigits && !isTail:
			groups++
			made.WriteString("(" + part.String() + ")")
			continue
		case part.Op != syntax.OpLiteral:
			isTail = true
		}
		made.WriteString(part.String())
	}
	return made.String(), groups > 0
}

// uncaptured has groups of a regular expression capture nothing: in a source a group would be the version.
func uncaptured(tree *syntax.Regexp) *syntax.Regexp {
	for tree.Op == syntax.OpCapture {
		tree = tree.Sub[0]
	}
	for i, sub := range tree.Sub {
		tree.Sub[i] = uncaptured(sub)
	}
	return tree
}

// allow has a source list the tags that one of the patterns finds.
func (r *reading) allow(a *artifact, s subscription) {
	var parts []string
	for _, pattern := range s.allowed {
		tree, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			r.refuse(a.node, "the pattern %q of tags is no regular expression (RE2)", pattern)
			return
		}
		parts = append(parts, "(?:.*(?:"+uncaptured(tree).String()+").*)")
	}
	if len(parts) > 0 && !a.isMutable {
		a.source["regexp"] = strings.Join(parts, "|")
	}
	if source := maps.Clone(a.order); len(source) > 0 && a.source["git_commits"] == nil {
		a.source["order"] = source
	}
}
