package definition

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/ground/promotion"
	"lehr.dev/internal/ground/spell"
	"lehr.dev/internal/prodspec/source"
)

const (
	// maxDeliveries of a partition, environments and tasks of one, and constraints of these.
	maxDeliveries, maxEnvironments, maxConstraints = 50, 200, 20
	maxVerifications, maxQuorum, maxAttempts       = 10, 20, 100
)

var (
	deliveryKeys    = []string{"versions", "releases", "order", "environments", "tasks"}
	setKeys         = []string{"document", "field", "digest", "pull_request"}
	taskSetKeys     = append(slices.Clone(setKeys), "parameters")
	orderKeys       = []string{"by", "match", "layout", "prereleases"}
	taskKeys        = []string{"set", "assets", "partition", "each", "constraints", "after", "on_failure", "attempts", "retry"}
	environmentKeys = []string{"set", "assets", "partition", "each", "constraints", "verify", "on_bad", "newer", "attempts", "retry"}
)

var orders = source.VersionOrders

var deliveryOnBads = map[string]intentpb.DeliveryEnvironment_OnBad{
	"back": intentpb.DeliveryEnvironment_ON_BAD_GO_BACK, "stay": intentpb.DeliveryEnvironment_ON_BAD_STAY,
}

var deliveryNewers = map[string]intentpb.DeliveryEnvironment_Newer{
	"supersedes": intentpb.DeliveryEnvironment_NEWER_SUPERSEDES, "queues": intentpb.DeliveryEnvironment_NEWER_QUEUES,
}

// eachWord is where the values of each: are put in an environment's texts.
const eachWord = "{each}"

// deliveries reads applications, and which environments their versions move through.
func (p *parser) deliveries(node *yaml.Node, d *Definition) {
	owners, ordered := map[deliveredField]string{}, map[string]string{}
	p.eachPair(node, "delivery", func(key, value *yaml.Node) {
		at := "delivery." + key.Value
		if len(d.Policy.Deliveries) > maxDeliveries {
			return // A finding says so.
		}
		if !checkName().MatchString(key.Value) {
			p.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
		}
		r := &deliveryParser{parser: p, at: at, definition: d, key: key, ordered: ordered, nodes: map[string]*yaml.Node{}, places: RulePlaces{"": {key.Line, key.Column}}}
		d.Policy.Deliveries = append(d.Policy.Deliveries, r.delivery(value))
		d.DeliveryPlaces = append(d.DeliveryPlaces, r.places)
		r.alone(d.Policy.Deliveries[len(d.Policy.Deliveries)-1], owners)
		keepDeployed(d.Policy.Deliveries[len(d.Policy.Deliveries)-1], d.Sources)
	})
	if len(d.Policy.Deliveries) > maxDeliveries {
		p.at(node, "delivery", "there are more than %d applications", maxDeliveries).hint("define several partitions")
	}
}

// keepDeployed has a source of versions leave out none that an environment has in a document of the
// partition.
func keepDeployed(spec *intentpb.Delivery, sources []Source) {
	stored, _ := documentsOf(sources)
	for _, s := range sources {
		if s.Name != spec.GetVersions() || s.Remote == nil || s.Remote.Versions == nil {
			continue
		}
		for _, e := range spec.GetEnvironments() {
			if e.GetPartition() == "" && stored[e.GetDocument()] != "" {
				s.Remote.Versions.Deployed = append(s.Remote.Versions.Deployed, source.DocumentField{Document: e.GetDocument(), Pointer: e.GetPointer()})
			}
		}
	}
}

// deliveryParser reads one application.
type deliveryParser struct {
	*parser
	at         string
	definition *Definition
	key        *yaml.Node
	// nodes of environments and constraints, by the fields that promotion names.
	nodes  map[string]*yaml.Node
	places RulePlaces
	// ordered are the sources without an order of their own that take that of an application, by
	// whose they take.
	ordered map[string]string
	// selectors of environments, in the order of the file.
	selectors []*intentpb.EnvironmentSelector
}

func (r *deliveryParser) delivery(value *yaml.Node) *intentpb.Delivery {
	count := len(r.findings)
	spec := &intentpb.Delivery{Name: r.key.Value, Order: &intentpb.VersionOrder{}}
	fields := r.fields(value, r.at, deliveryKeys)
	for _, needed := range []string{"versions", "environments"} {
		if fields[needed] == nil && value.Kind == yaml.MappingNode {
			r.parser.at(r.key, r.at+"."+needed, "%s.%s is missing", r.at, needed).
				hint(`write %s: {versions: images, environments: {test: {set: {document: knobs, field: /test/version}, assets: 'scope == "test"'}}}`, r.key.Value)
		}
	}
	if node := fields["versions"]; node != nil {
		spec.Versions = r.text(node, r.at+".versions")
		r.versionSource(node, spec.Versions)
	}
	if node := fields["releases"]; node != nil {
		spec.Releases = r.releases(node)
	}
	if node := fields["order"]; node != nil {
		r.order(node, spec.Order)
	}
	r.shareOrder(spec, fields["order"])
	for _, kind := range []placeKind{environmentPlaces, taskPlaces} {
		r.eachPair(fields[kind.name], r.at+"."+kind.name, func(key, value *yaml.Node) {
			if len(spec.Environments) <= maxEnvironments { // Else a finding says so.
				spec.Environments = append(spec.Environments, r.environment(kind, key, value)...)
			}
		})
	}
	spec.Selectors = r.selectors
	if n := len(spec.Environments); n > maxEnvironments {
		r.parser.at(r.key, r.at+".environments", "%s has more than %d environments and tasks", r.at, maxEnvironments).hint("make several applications of it")
	} else if n == 0 && len(r.selectors) == 0 && fields["environments"] != nil && len(r.findings) == count {
		r.parser.at(fields["environments"], r.at+".environments", "%s has no environments", r.at).hint("write one, as test: {set: …, assets: …}")
	}
	if len(r.findings) == count {
		r.together(spec)
	}
	return spec
}

// versionSource is a source that lists versions.
func (r *deliveryParser) versionSource(node *yaml.Node, name string) {
	var names []string
	for _, s := range r.definition.Sources {
		if s.Remote != nil && s.Remote.Versions != nil {
			names = append(names, s.Name)
		}
	}
	if name == "" || slices.Contains(names, name) {
		return
	}
	hint := "write one under sources, as images: {registry: …}, {debian: …}, {git_tags: …} or {pushed: …}"
	if len(names) > 0 {
		hint = "known: " + strings.Join(names, ", ")
	}
	if suggestion := spell.Nearest(name, names); suggestion != "" {
		hint = "did you mean " + suggestion + "? " + hint
	}
	r.parser.at(node, r.at+".versions", "no source %q lists versions", name).hint("%s", hint)
}

// order is a word, or a mapping with more.
func (r *deliveryParser) order(node *yaml.Node, order *intentpb.VersionOrder) {
	at := r.at + ".order"
	words := strings.Join(slices.Sorted(maps.Keys(orders)), ", ")
	if node.Kind == yaml.ScalarNode {
		order.By = choice(r.parser, node, at, orders, "one of "+words)
		return
	}
	count := len(r.findings)
	fields := r.fields(node, at, orderKeys)
	if by := fields["by"]; by != nil {
		order.By = choice(r.parser, by, at+".by", orders, "one of "+words)
	}
	if match := fields["match"]; match != nil {
		order.Match = r.text(match, at+".match")
	}
	if layout := fields["layout"]; layout != nil {
		order.Layout = r.text(layout, at+".layout")
	}
	if prereleases := fields["prereleases"]; prereleases != nil {
		order.Prereleases = r.texts(prereleases, at+".prereleases")
	}
	if len(r.findings) == count {
		_, err := ordering.New(order)
		r.check(node, at, err)
	}
}

// shareOrder has an application and the source of its versions go by one order, whichever of them
// says it: what the source cannot order it lists apart, and the application would never get.
func (r *deliveryParser) shareOrder(spec *intentpb.Delivery, node *yaml.Node) {
	at := slices.IndexFunc(r.definition.Sources, func(s Source) bool {
		return s.Name == spec.GetVersions() && s.Remote != nil && s.Remote.Versions != nil
	})
	if at < 0 {
		return
	}
	versions := r.definition.Sources[at].Remote.Versions
	own := versions.OrderSpec()
	if node == nil {
		spec.Order = &intentpb.VersionOrder{By: own.GetBy(), Match: own.GetMatch(), Layout: own.GetLayout()}
		if versions.Order == nil {
			r.ordered[spec.GetVersions()] = spec.GetName()
		} else {
			spec.Order.Prereleases = versions.Order.Prereleases // Where it names none, it lists all, and none is taken.
		}
		return
	}
	order := spec.Order
	switch other := r.ordered[spec.GetVersions()]; {
	case versions.Order != nil && other == "":
		return // It has an order of its own, and may list more than the application takes.
	case other != "" && own.GetBy() == order.GetBy():
		return // Likewise.
	case other != "":
		r.parser.at(node, r.at+".order", "%s orders the versions of the source %s in another way than %s, and the source has no order of its own", spec.GetName(), spec.GetVersions(), other).
			hint("write order: under sources.%s, or give each of them a source of its own", spec.GetVersions())
		return
	}
	r.ordered[spec.GetVersions()] = spec.GetName()
	for word, by := range orders {
		if by == order.GetBy() {
			versions.Order = &source.VersionOrder{By: word, Match: order.GetMatch(), Layout: order.GetLayout()}
		}
	}
}

// placeKind is whether an entry is an environment or a task.
type placeKind struct {
	// name of the section, keys of an entry, and keys of its field.
	name          string
	keys, setKeys []string
}

var (
	environmentPlaces = placeKind{"environments", environmentKeys, setKeys}
	taskPlaces        = placeKind{"tasks", taskKeys, taskSetKeys}
)

// environment is one, or a task; or with each: one for each value.
func (r *deliveryParser) environment(kind placeKind, key, value *yaml.Node) (list []*intentpb.DeliveryEnvironment) {
	at := r.at + "." + kind.name + "." + key.Value
	if !checkName().MatchString(key.Value) {
		r.parser.at(key, at, "%q is not a name", key.Value).hint("use a-z, 0-9, - and _, at most 63")
	}
	fields := r.fields(value, at, kind.keys)
	for _, needed := range []string{"set", "assets"} {
		if fields[needed] == nil && value.Kind == yaml.MappingNode {
			r.parser.at(key, at+"."+needed, "%s.%s is missing", at, needed).hint(`write %s: {set: {document: knobs, field: /%s/version}, assets: 'scope == "%s"'}`, key.Value, key.Value, key.Value)
		}
	}
	spec := &intentpb.DeliveryEnvironment{Name: key.Value}
	if kind.name == taskPlaces.name {
		r.taskFields(spec, fields, at)
	}
	r.environmentFields(spec, fields, at)
	constraints := map[string]*yaml.Node{}
	r.eachPair(fields["constraints"], at+".constraints", func(name, value *yaml.Node) {
		if c := r.constraint(name, value, at+".constraints."+name.Value); c != nil && len(spec.Constraints) <= maxConstraints {
			spec.Constraints, constraints[c.GetName()] = append(spec.Constraints, c), name
		}
	})
	if len(spec.Constraints) > maxConstraints {
		r.parser.at(fields["constraints"], at+".constraints", "%s has more than %d constraints", at, maxConstraints).hint("join those of one kind")
	}
	list = r.expand(fields["each"], at, spec)
	for _, e := range list {
		field := promotion.FieldOf(e)
		r.nodes[field], r.places[field] = key, Place{key.Line, key.Column}
		if assets := fields["assets"]; assets != nil {
			r.places[field+".assets"] = Place{assets.Line, assets.Column}
		}
		for _, c := range e.GetConstraints() {
			r.nodes[field+".constraints."+c.GetName()] = constraints[c.GetName()]
		}
	}
	return list
}

func (r *deliveryParser) environmentFields(spec *intentpb.DeliveryEnvironment, fields map[string]*yaml.Node, at string) {
	if node := fields["partition"]; node != nil {
		if spec.Partition = r.text(node, at+".partition"); spec.Partition != "" {
			_, err := intent.ParsePartitionID(strings.ReplaceAll(spec.Partition, eachWord, "x"))
			r.check(node, at+".partition", err)
		}
		if spec.Partition == string(r.definition.Partition) {
			spec.Partition = ""
		}
	}
	if node := fields["set"]; node != nil {
		r.set(node, spec, at+".set")
	}
	if assets := r.expression(fields["assets"], at+".assets"); assets != nil {
		spec.Assets = assets.Text
	}
	if node := fields["verify"]; node != nil {
		r.verifications(node, spec, at+".verify")
	}
	if node := fields["on_bad"]; node != nil {
		spec.OnBad = choice(r.parser, node, at+".on_bad", deliveryOnBads, "back or stay")
	}
	if node := fields["newer"]; node != nil {
		spec.Newer = choice(r.parser, node, at+".newer", deliveryNewers, "supersedes or queues")
	}
	if node := fields["attempts"]; node != nil {
		if spec.Attempts = r.number(node, at+".attempts", 1); spec.Attempts > maxAttempts {
			r.parser.at(node, at+".attempts", "%s.attempts: %d are more than %d", at, spec.Attempts, maxAttempts).hint("write attempts: 3")
		}
	}
	if node := fields["retry"]; node != nil {
		spec.Retry = durationpb.New(r.duration(node, at+".retry"))
	}
}

// set is the field that holds the environment's version.
func (r *deliveryParser) set(node *yaml.Node, spec *intentpb.DeliveryEnvironment, at string) {
	keys := setKeys
	if spec.GetTask() != nil {
		keys = taskSetKeys
	}
	fields := r.fields(node, at, keys)
	for _, needed := range []string{"document", "field"} {
		if fields[needed] == nil {
			r.parser.at(node, at+"."+needed, "%s.%s is missing", at, needed).hint("write set: {document: knobs, field: /test/version}")
			return
		}
	}
	spec.Document, spec.Pointer = r.text(fields["document"], at+".document"), r.text(fields["field"], at+".field")
	if spec.Pointer != "" {
		_, err := document.ParsePath(spec.Pointer)
		r.check(fields["field"], at+".field", err)
	}
	if digest := fields["digest"]; digest != nil {
		if spec.DigestPointer = r.text(digest, at+".digest"); spec.DigestPointer != "" {
			_, err := document.ParsePath(spec.DigestPointer)
			r.check(digest, at+".digest", err)
		}
		if spec.DigestPointer == spec.Pointer {
			r.parser.at(digest, at+".digest", "%s.digest is the field that holds the version", at).hint("give the digest a field of its own, as /test/digest")
		}
	}
	stored, inGit := documentsOf(r.definition.Sources)
	if spec.InRepository = spec.Partition == "" && stored[spec.Document] == "" && slices.Contains(inGit, spec.Document); spec.InRepository {
		spec.Source = spec.Document
	} else if spec.Partition == "" {
		spec.Source = stored[spec.Document]
	}
	r.pullRequest(fields["pull_request"], spec, at+".pull_request")
	if parameters := fields["parameters"]; parameters != nil {
		r.parameters(parameters, spec, at+".parameters")
	}
	if spec.Document == "" || spec.Partition != "" || stored[spec.Document] != "" || slices.Contains(inGit, spec.Document) {
		return
	}
	hint := "name one under sources: knobs: {document: knobs}, or say in which partition it is"
	if names := append(slices.Sorted(maps.Keys(stored)), inGit...); len(names) > 0 {
		hint += "; known: " + strings.Join(names, ", ")
	}
	r.parser.at(fields["document"], at+".document", "no source is the document %q", spec.Document).hint("%s", hint)
}

// pullRequest names the git host where people decide on a version.
func (r *deliveryParser) pullRequest(node *yaml.Node, spec *intentpb.DeliveryEnvironment, at string) {
	if node == nil {
		return
	}
	spec.PullRequest = r.text(node, at)
	if spec.Partition == "" && !spec.InRepository && spec.Document != "" {
		r.parser.at(node, at, "the document %q is no file of a repository, so no pull request can be opened for it", spec.Document).
			hint("name a document in git, as knobs: {git: …, document: knobs.yaml}, or take pull_request out and write a judgement among the constraints")
	}
}

// expand an environment into one for each value, which stands for {each} in its texts.
func (r *deliveryParser) expand(node *yaml.Node, at string, spec *intentpb.DeliveryEnvironment) []*intentpb.DeliveryEnvironment {
	if node == nil {
		return []*intentpb.DeliveryEnvironment{spec}
	}
	var values []string
	isSelector := node.Kind == yaml.MappingNode
	if isSelector && spec.GetTask() != nil {
		r.parser.at(node, at+".each", "assets select environments, and no tasks").hint("write the values, as each: [eu, us]")
		return nil
	}
	if isSelector {
		values = r.selector(node, at+".each", spec)
	} else {
		values = r.texts(node, at+".each")
	}
	if len(values) > maxEnvironments {
		r.parser.at(node, at+".each", "%s.each has %d values, at most %d are allowed", at, len(values), maxEnvironments).hint("make several applications of it")
		return nil
	}
	if !isSelector {
		r.checkDuplicates(node, at+".each", values, "value")
	}
	if spec.Pointer != "" && !strings.Contains(spec.Pointer, eachWord) {
		r.parser.at(node, at+".each", "%s sets one field for all that each: lists", at).hint("write the field with %s in it, as /tenants/%s/version", eachWord, eachWord)
	}
	var list []*intentpb.DeliveryEnvironment
	for i, value := range values {
		one := proto.CloneOf(spec)
		one.Name, one.Group = spec.Name+"-"+value, spec.Name
		switch {
		case value == "" || checkName().MatchString(one.Name):
		case isSelector:
			r.parser.at(node, at+".each", "an asset has the value %q, and %q is not a name of an environment", value, one.Name).
				hint("let where: leave such assets out, or give them values of a-z, 0-9, - and _, at most 63 characters with the environment's name before them")
		default:
			r.parser.at(item(node, i), at+".each", "%q is not a name", one.Name).hint("use a-z, 0-9, - and _, at most 63 with the environment's name before it")
		}
		one.Pointer, one.Assets = strings.ReplaceAll(spec.Pointer, eachWord, value), strings.ReplaceAll(spec.Assets, eachWord, value)
		one.DigestPointer = strings.ReplaceAll(spec.DigestPointer, eachWord, value)
		one.Partition = strings.ReplaceAll(spec.Partition, eachWord, value)
		for _, c := range one.Constraints {
			r.own(c, value)
		}
		if one.Task != nil {
			ownTask(one.Task, value)
		}
		for _, v := range one.Runs {
			if analysis := v.GetAnalysis(); analysis != nil {
				analysis.Against = strings.ReplaceAll(analysis.Against, eachWord, value)
			}
		}
		list = append(list, one)
	}
	return list
}

// own has names of environments that a constraint of one of each waits for lead to the same of
// each.
func (r *deliveryParser) own(c *intentpb.DeliveryConstraint, value string) {
	for _, names := range [][]string{c.GetDependsOn().GetEnvironments(), c.GetSoak().GetEnvironments(), c.GetLag().GetEnvironments()} {
		for i := range names {
			names[i] = strings.ReplaceAll(names[i], eachWord, value)
		}
	}
	if completed := c.GetCompleted(); completed != nil {
		completed.Task = strings.ReplaceAll(completed.Task, eachWord, value)
	}
}

// together judges what several parts come to.
func (r *deliveryParser) together(spec *intentpb.Delivery) {
	r.analyses(spec)
	if _, err := promotion.New(spec); err != nil {
		problem, ok := errors.AsType[*promotion.Problem](err)
		if !ok {
			r.check(r.key, r.at, err)
			return
		}
		node := r.nodes[problem.Field]
		if node == nil {
			node = r.key
		}
		r.check(node, r.at+"."+problem.Field, problem.Err)
	}
	for _, e := range spec.GetEnvironments() {
		for _, rollout := range r.definition.Policy.GetRollouts() {
			if field := rollout.GetField(); e.GetPartition() == "" && field.GetDocument() == e.GetDocument() && field != nil && mayBe(field.GetPointer(), e.GetPointer()) {
				name := promotion.FieldOf(e)
				r.parser.at(r.nodes[name], r.at+"."+name+".set", "the rollout %s sets the field %s as well, a stage at a time", rollout.GetName(), e.GetPointer()).
					hint("let the rollout go by pins, or let delivery set a field of its own, which the rollout's assets are made of")
			}
		}
	}
}

// deliveredField is a field that an environment has its version in.
type deliveredField struct{ partition, document, pointer string }

// alone refuses a field that an application before sets as well: they would undo each other.
// Owners are the environments that have a field, with their applications.
func (r *deliveryParser) alone(spec *intentpb.Delivery, owners map[deliveredField]string) {
	own := map[deliveredField]string{}
	for _, e := range spec.GetEnvironments() {
		field := deliveredField{e.GetPartition(), e.GetDocument(), e.GetPointer()}
		if owner, ok := owners[field]; ok && field.pointer != "" {
			name := promotion.FieldOf(e)
			r.parser.at(r.nodes[name], r.at+"."+name+".set", "it sets the field %s of the document %s, and so does %s", field.pointer, field.document, owner).
				hint("give each environment a field of its own")
		}
		own[field] = e.GetName() + " of " + spec.GetName()
	}
	maps.Copy(owners, own)
}

// mayBe reports whether a rollout's pointer, with {…} for what it fills in, may be a field.
func mayBe(pattern, pointer string) bool {
	parts, of := strings.Split(pattern, "/"), strings.Split(pointer, "/")
	if len(parts) != len(of) {
		return false
	}
	for i, part := range parts {
		if part != of[i] && !strings.Contains(part, "{") {
			return false
		}
	}
	return true
}
