package kargo

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// stage is one of the project.
type stage struct {
	object   *object
	name     string
	requests []*request
	vars     *yaml.Node
	// template is the promotion; without steps the Stage only directs what goes on.
	template, steps *yaml.Node
	verify          []verification
	verifications   *yaml.Node
	// isAutomatic: versions come without a person.
	isAutomatic bool
	// writes are what promotions set, by artifact.
	writes map[*artifact]*write
	// verdicts are of steps that may stop a promotion.
	verdicts []verdict
	// pullRequest is the host's name where promotions are proposed.
	pullRequest string
	// proposes: a promotion waits for people at a pull request, also where Lehr can open none.
	proposes bool
	// kept are the steps that may stand in its asset.
	kept []*keptStep
	apps []string
}

// request is freight of one Warehouse.
type request struct {
	node   *yaml.Node
	origin string
	// warehouse is the origin, once all are read.
	warehouse *warehouse
	isDirect  bool
	upstream  []string
	isAll     bool
	soak      string
	// groups are the environments that must have had a version, once Stages without steps are seen through.
	groups []group
}

// group is environments of which all, or one, had a version.
type group struct {
	names []string
	any   bool
	soak  string
}

func (s *stage) isControlFlow() bool { return s.steps == nil || len(s.steps.Content) == 0 }

// artifact is what a Stage requests, by its repository, and where two have it by chart or Warehouse.
func (s *stage) artifact(kind, repository string, more ...string) *artifact {
	for _, request := range s.requests {
		w := request.warehouse
		if w == nil {
			continue
		}
		for _, a := range w.artifacts {
			isMeant := a.kind == kind && repositoryKey(a.repository) == repositoryKey(repository)
			for _, text := range more {
				isMeant = isMeant && (text == a.chart || text == w.object.name)
			}
			if isMeant {
				return a
			}
		}
	}
	return nil
}

func (r *reading) readStage(o *object) {
	s := &stage{object: o, name: o.name, writes: map[*artifact]*write{}}
	if old := cmp.Or(child(o.node, "spec", "subscriptions"), child(o.node, "spec", "promotionMechanisms")); old != nil {
		r.refuse(old, "the Stage %s is written for Kargo before 1.0 (subscriptions, promotionMechanisms): write requestedFreight and promotionTemplate", s.name)
		return
	}
	r.readSpec(o, map[string]func(*yaml.Node){
		"shard": r.leaveAll("shard", "a partition is run by the server that has it"),
		"vars":  func(node *yaml.Node) { s.vars = node },
		"requestedFreight": func(node *yaml.Node) {
			r.eachItem(node, "requestedFreight", func(item *yaml.Node) { r.readRequest(s, item) })
		},
		"promotionTemplate": func(node *yaml.Node) { r.readPromotionTemplate(s, node) },
		"verification":      func(node *yaml.Node) { r.readVerification(s, node) },
		"targets": func(node *yaml.Node) {
			r.refuse(node, "the Stage %s fans out to targets: write a Stage for each, or an environment with each: by hand", s.name)
		},
	})
	if len(s.requests) == 0 {
		r.refuse(o.node, "the Stage %s requests no freight", s.name)
	}
	for _, other := range r.stages {
		if segment(other.name) == segment(s.name) {
			r.refuse(o.node, "the Stages %s and %s would be one environment", other.name, s.name)
		}
	}
	if !named.MatchString(segment(s.name)) {
		r.refuse(o.node, "the Stage %q has no name that an environment can have", s.name)
	}
	r.stages = append(r.stages, s)
}

func (r *reading) readPromotionTemplate(s *stage, node *yaml.Node) {
	r.eachKey(node, "promotionTemplate", map[string]func(*yaml.Node){
		"spec": func(spec *yaml.Node) {
			r.eachKey(spec, "promotionTemplate.spec", map[string]func(*yaml.Node){
				"vars": func(vars *yaml.Node) { s.template = vars }, "steps": func(steps *yaml.Node) { s.steps = steps },
			})
		},
	})
}

func (r *reading) readRequest(s *stage, node *yaml.Node) {
	q := &request{node: node}
	var kind, strategy, policy string
	r.eachKey(node, "requestedFreight", map[string]func(*yaml.Node){
		"origin": func(origin *yaml.Node) {
			r.eachKey(origin, "origin", map[string]func(*yaml.Node){"kind": r.text(&kind), "name": r.text(&q.origin)})
		},
		"sources": func(sources *yaml.Node) {
			r.eachKey(sources, "sources", map[string]func(*yaml.Node){
				"direct": r.truth(&q.isDirect), "requiredSoakTime": r.text(&q.soak), "availabilityStrategy": r.text(&strategy),
				"stages": func(stages *yaml.Node) { r.eachItem(stages, "stages", r.appendText(&q.upstream)) },
				"autoPromotionOptions": func(options *yaml.Node) {
					r.eachKey(options, "autoPromotionOptions", map[string]func(*yaml.Node){"selectionPolicy": r.text(&policy)})
					if policy == "MatchUpstream" {
						r.wrong(options, "Stage "+s.name+": selectionPolicy MatchUpstream", "an environment takes the newest version that is let in; where the one before went back, pin or roll back this one too", options)
					}
				},
			})
		},
	})
	for _, other := range s.requests {
		if other.origin == q.origin {
			r.refuse(node, "the Stage %s requests freight of the Warehouse %s twice", s.name, q.origin)
		}
	}
	if kind != "" && kind != "Warehouse" {
		r.refuse(node, "the Stage %s requests freight of the kind %q: only a Warehouse is one", s.name, kind)
	}
	if strategy != "" && strategy != "All" && strategy != "OneOf" {
		r.refuse(node, "the availabilityStrategy %q is neither All nor OneOf", strategy)
	}
	q.soak = r.duration(node, "requiredSoakTime", q.soak)
	q.isAll = strategy == "All"
	s.requests = append(s.requests, q)
}

// duration refuses what is no length of time; none, and 0, is nothing.
func (r *reading) duration(node *yaml.Node, what, text string) string {
	if text == "" {
		return ""
	}
	switch d, err := time.ParseDuration(text); {
	case err != nil || d < 0:
		r.refuse(node, "%s: %q is no length of time", what, text)
		return ""
	case d == 0:
		return ""
	}
	return text
}

func (r *reading) stage(name string) *stage {
	for _, s := range r.stages {
		if s.name == name {
			return s
		}
	}
	return nil
}

// checkStages refuses names that lead nowhere and circles, and sees through Stages without steps.
func (r *reading) checkStages() {
	for _, s := range r.stages {
		for _, q := range s.requests {
			r.checkRequest(s, q)
		}
	}
	r.checkCircles()
	if len(r.problems) > 0 {
		return
	}
	for _, s := range r.stages {
		s.isAutomatic = r.isAutomatic(s)
		for _, q := range s.requests {
			q.groups = r.groups(s, q)
		}
	}
}

func (r *reading) checkRequest(s *stage, q *request) {
	if q.warehouse = r.warehouse(q.origin); q.warehouse == nil {
		r.refuse(q.node, "the Stage %s requests freight of the Warehouse %q, which is not in what was read", s.name, q.origin)
		return
	}
	if !q.isDirect && len(q.upstream) == 0 {
		r.refuse(q.node, "the Stage %s takes freight of %s neither directly nor from a Stage: no version would ever come", s.name, q.origin)
	}
	for _, name := range q.upstream {
		up := r.stage(name)
		switch {
		case up == nil:
			r.refuse(q.node, "the Stage %s takes freight from the Stage %q, which is not in what was read", s.name, name)
		case up.request(q.origin) == nil:
			r.refuse(q.node, "the Stage %s takes freight of %s from %s, which does not request it: no version would ever come", s.name, q.origin, name)
		case up.isControlFlow() && q.soak != "":
			r.refuse(q.node, "the Stage %s has freight soak in %s, which has no steps: write the requiredSoakTime on the Stages before it", s.name, name)
		}
	}
	if q.isDirect && len(q.upstream) > 0 {
		r.Hints = append(r.Hints, "the Stage "+s.name+" takes freight directly as well as from Stages, so in Kargo nothing waits for these: neither does its environment")
	}
}

// request is that of a Warehouse.
func (s *stage) request(origin string) *request {
	for _, q := range s.requests {
		if q.origin == origin {
			return q
		}
	}
	return nil
}

// checkCircles refuses Stages that wait for themselves.
func (r *reading) checkCircles() {
	done := map[*stage]bool{}
	var visit func(s *stage, path []*stage)
	visit = func(s *stage, path []*stage) {
		if s == nil || done[s] {
			return
		}
		path = append(slices.Clone(path), s)
		for _, q := range s.requests {
			for _, name := range q.upstream {
				if up := r.stage(name); slices.Contains(path, up) {
					r.refuse(q.node, "the Stage %s takes freight from %s, which waits for it: a circle", s.name, name)
				} else {
					visit(up, path)
				}
			}
		}
		done[s] = true
	}
	for _, s := range r.stages {
		visit(s, nil)
	}
}

// groups are what must have had a version before a Stage takes it. A Stage without steps verifies
// at once what it may take, so who takes from it waits for what it waits for.
func (r *reading) groups(s *stage, q *request) []group {
	if q.isDirect {
		return nil
	}
	plain := group{any: !q.isAll && len(q.upstream) > 1, soak: q.soak}
	var all [][]group
	for _, name := range q.upstream {
		up := r.stage(name)
		if !up.isControlFlow() {
			plain.names = append(plain.names, segment(name))
			continue
		}
		through := r.groups(up, up.request(q.origin))
		if !q.isAll && len(through) == 0 && len(q.upstream) > 1 {
			// One that all may pass is enough.
			return nil
		}
		all = append(all, through)
	}
	if q.isAll || len(q.upstream) == 1 {
		made := slices.Concat(all...)
		if len(plain.names) > 0 {
			made = append([]group{plain}, made...)
		}
		return made
	}
	return r.joinAny(s, q, plain, all)
}

// joinAny is one group of which any is enough, where the Stages before a Stage without steps can be one.
func (r *reading) joinAny(s *stage, q *request, plain group, all [][]group) []group {
	for _, through := range all {
		isOne := len(through) == 1 && (through[0].any || len(through[0].names) == 1) && through[0].soak == plain.soak
		if !isOne {
			r.refuse(q.node, "the Stage %s takes what one of %s has, and what these wait for is not one list: take from the Stages before them", s.name, strings.Join(q.upstream, ", "))
			return nil
		}
		plain.names = append(plain.names, through[0].names...)
	}
	slices.Sort(plain.names)
	plain.names = slices.Compact(plain.names)
	return []group{plain}
}

// variables reads a list of names and values.
func (r *reading) variables(sc *scope, node *yaml.Node, into map[string]any) {
	if node == nil {
		return
	}
	r.eachItem(node, "vars", func(item *yaml.Node) {
		var name string
		var value *yaml.Node
		r.eachKey(item, "the variable", map[string]func(*yaml.Node){"name": r.text(&name), "value": func(n *yaml.Node) { value = n }})
		if value == nil {
			return
		}
		text, err := sc.within(into).resolveAt(value)
		if err != nil {
			// A task may never ask for it; whoever does cannot be resolved either.
			r.leave(value, "variable "+name, err.Error()+": write what it comes to", value)
			return
		}
		r.keep(value)
		into[name] = text
	})
}

// stageVariables are those of the Stage and of its template, which count more.
func (r *reading) stageVariables(sc *scope) {
	vars := maps.Clone(sc.vars)
	r.variables(sc, sc.stage.vars, vars)
	r.variables(sc, sc.stage.template, vars)
	sc.vars = vars
}
