package kargo

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// task is a list of steps that Stages use.
type task struct {
	object      *object
	vars, steps *yaml.Node
	isUsed      bool
}

func (r *reading) readTask(o *object) {
	t := &task{object: o}
	r.readSpec(o, map[string]func(*yaml.Node){
		"vars": func(node *yaml.Node) { t.vars = node }, "steps": func(node *yaml.Node) { t.steps = node },
	})
	r.tasks[o.kind+"/"+o.name] = t
}

// process reads the steps of a promotion of one Stage, in their order.
type process struct {
	*reading
	stage     *stage
	checkouts []*checkout
	writes    []*write
	// isPushed: what comes now does not keep a version out of this Stage any more.
	isPushed bool
	// target is the branch that a pull request is to be merged into.
	target string
	// opensRequest: the promotion waits for a pull request.
	opensRequest bool
}

// checkout is a folder of the promotion, and the branch that it holds.
type checkout struct {
	folder, repository, branch string
	isCleared, isPushed        bool
}

// write is a field of a file that a step sets.
type write struct {
	step          *yaml.Node
	file, pointer string
	digest        string
	reference     reference
	// list and name say of a field in a list which entry is meant.
	list, name string
	document   *document
}

// keptStep is one that stands in the Stage's asset, unless a promotion of Lehr's does the same.
type keptStep struct {
	node, config *yaml.Node
	content      map[string]any
	// isGit: it commits what other steps make. isDone: delivery does it. isOutside: a program does it, and
	// hands the result in.
	isGit, isDone, isOutside bool
}

// step is where a step stands: its own keys, and what its expressions may ask.
type step struct {
	*scope
	node, config *yaml.Node
	uses, alias  string
	// goesOn: the promotion goes on when it fails.
	goesOn bool
}

// runPromotions reads what promotions do, without doing it.
func (r *reading) runPromotions() {
	for _, s := range r.stages {
		if s.isControlFlow() {
			r.keepControlFlow(s)
			continue
		}
		p := &process{reading: r, stage: s}
		sc := &scope{reading: r, stage: s, vars: map[string]any{}, outputs: map[string]any{}, taskOutputs: map[string]any{}}
		r.stageVariables(sc)
		r.eachItem(s.steps, "steps", func(node *yaml.Node) { p.read(sc, node, false) })
		p.settle()
	}
	for _, name := range slices.Sorted(maps.Keys(r.tasks)) {
		if t := r.tasks[name]; !t.isUsed {
			r.leave(t.object.node, name, "no Stage uses it", child(t.object.node, "spec"))
		}
	}
}

func (r *reading) keepControlFlow(s *stage) {
	for _, node := range []*yaml.Node{s.vars, s.template, s.steps} {
		if node != nil {
			r.keep(node)
		}
	}
	if len(s.verify) > 0 {
		r.refuse(s.object.node, "the Stage %s has no steps, and a verification: move it to the Stages before it", s.name)
	}
}

// read reads a step, or the task that it names.
func (p *process) read(sc *scope, node *yaml.Node, isTask bool) {
	s := &step{scope: sc, node: node}
	var condition, vars, reference *yaml.Node
	p.eachKey(node, "the step", map[string]func(*yaml.Node){
		"uses": p.text(&s.uses), "as": p.text(&s.alias), "continueOnError": p.truth(&s.goesOn),
		"if": func(n *yaml.Node) { condition = n }, "vars": func(n *yaml.Node) { vars = n }, "config": func(n *yaml.Node) { s.config = n },
		"task":  func(n *yaml.Node) { reference = n },
		"retry": p.leaveAll("retry of a step", "Lehr tries again by itself, and says since when it cannot: attempts and retry of an environment say how often a version may fail"),
	})
	if !p.runs(s, condition) {
		return
	}
	own := map[string]any{}
	p.variables(sc, vars, own)
	switch {
	case reference != nil && isTask:
		p.refuse(reference, "a task uses a task, which Kargo refuses")
	case reference != nil:
		p.readTaskOf(s, reference, own)
	case s.uses == "":
		p.refuse(node, "the step has neither uses nor task")
	default:
		s.scope = sc.within(own)
		p.readUses(s)
		p.giveOutputs(sc, s, isTask)
	}
}

// runs reports whether a step is a part of the promotion. What only a promotion can know is taken
// as if it ran.
func (p *process) runs(s *step, condition *yaml.Node) bool {
	if condition == nil {
		return true
	}
	text := condition.Value
	switch {
	case strings.Contains(text, "failure(") || strings.Contains(text, "status("):
		p.leave(condition, "step "+s.title(), "it runs when a promotion has failed: notifications tell of that (docs/operate/notifications.md, of: delivery)", s.node)
		return false
	case strings.Contains(text, "outputs"):
		p.leave(condition, "if of the step "+s.title(), "what a step before gives is known at a promotion only: the step is read as one that runs", condition)
		return true
	}
	result, err := s.resolveAt(condition)
	if err != nil {
		p.refuse(condition, "whether the step %s runs in the Stage %s cannot be said: %v; write true or false", s.title(), p.stage.name, err)
		return false
	}
	p.keep(condition)
	if result == "false" {
		p.keep(s.node)
		return false
	}
	return true
}

// title names a step for people.
func (s *step) title() string {
	if s.alias != "" {
		return s.alias
	}
	return s.uses
}

func (p *process) readTaskOf(s *step, reference *yaml.Node, own map[string]any) {
	var name, kind string
	p.eachKey(reference, "task", map[string]func(*yaml.Node){"name": p.text(&name), "kind": p.text(&kind)})
	if kind == "" {
		kind = "PromotionTask"
	}
	t := p.tasks[kind+"/"+name]
	if t == nil {
		p.refuse(reference, "the Stage %s uses the %s %q, which is not in what was read", p.stage.name, kind, name)
		return
	}
	t.isUsed = true
	if t.steps == nil {
		p.refuse(t.object.node, "the task %s has no steps", name)
		return
	}
	defaults := map[string]any{}
	given := s.scope.within(own)
	if t.vars != nil {
		p.eachItem(t.vars, "vars", func(item *yaml.Node) {
			if _, ok := given.vars[attribute(item, "name")]; ok {
				// Those of the Stage and of the step count more.
				p.keep(item)
				return
			}
			p.variables(given.within(defaults), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{item}}, defaults)
		})
	}
	inner := given.within(defaults)
	inner.taskOutputs = map[string]any{}
	p.eachItem(t.steps, "steps", func(node *yaml.Node) { p.read(inner, node, true) })
	if s.alias != "" {
		s.outputs[s.alias] = anyOutputs(nil)
	}
}

// anyOutputs are what steps of Kargo give.
func anyOutputs(config *yaml.Node) map[string]any {
	made := map[string]any{"pr": map[string]any{"id": outputMark, "url": outputMark}}
	for _, name := range []string{"branch", "commit", "commitMessage", "prNumber", "prURL", "status", "response", "tag", "digest", "image", "commitURL"} {
		made[name] = outputMark
	}
	for key := range textsOf(config) {
		made[key] = outputMark
	}
	if outputs := child(config, "outputs"); outputs != nil {
		for _, item := range outputs.Content {
			made[attribute(item, "name")] = outputMark
		}
	}
	return made
}

func (p *process) giveOutputs(sc *scope, s *step, isTask bool) {
	switch {
	case s.alias == "":
	case isTask:
		sc.taskOutputs[s.alias] = anyOutputs(s.config)
	default:
		sc.outputs[s.alias] = anyOutputs(s.config)
	}
}

// value is a resolved text of a step's configuration; what cannot be resolved is listed.
func (p *process) value(s *step, node *yaml.Node, what string) (string, bool) {
	text, err := s.resolveAt(node)
	if err != nil {
		p.wrong(node, "step "+s.title()+": "+what, err.Error()+": write what it comes to", node)
		return "", false
	}
	p.keep(node)
	return text, true
}

// take reads a value into a text.
func (p *process) take(s *step, what string, to *string) func(*yaml.Node) {
	return func(node *yaml.Node) {
		text, ok := p.value(s, node, what)
		if !ok {
			// What is not known is no place to commit to.
			text = outputMark
		}
		*to = text
	}
}

// checkoutOf is that which a path lies in.
func (p *process) checkoutOf(file string) *checkout {
	var found *checkout
	for _, c := range p.checkouts {
		isWithin := file == c.folder || c.folder == "." || strings.HasPrefix(file, c.folder+"/")
		if isWithin && !strings.HasPrefix(file, "../") && (found == nil || len(c.folder) >= len(found.folder)) {
			found = c
		}
	}
	return found
}

// inCheckout is the path of a file in its repository.
func (c *checkout) inCheckout(file string) string {
	if c.folder == "." {
		return file
	}
	return strings.TrimPrefix(strings.TrimPrefix(file, c.folder), "/")
}

// settle decides which field each version is set in: the first that is committed. Where none is,
// what is made of the version is rendered and pushed elsewhere: it is a field of Lehr's own then.
func (p *process) settle() {
	landed := map[*yaml.Node]bool{}
	for _, w := range p.writes {
		c := p.checkoutOf(w.file)
		if c != nil && isKnown(w.file) && isKnown(w.pointer) && c.isPushed && !c.isCleared && isKnown(c.repository) && isKnown(c.branch) {
			landed[w.step] = true
			p.settleIn(w, c)
		}
	}
	for _, k := range p.stage.kept {
		k.isDone = landed[k.node] || k.isGit && len(landed) > 0
		switch {
		case k.isOutside:
			p.tell(k.config)
		case !k.isDone:
			p.hold(k.config)
		}
	}
	p.checkHost()
}

func (p *process) settleIn(w *write, c *checkout) {
	branch := c.branch
	if p.opensRequest && p.target != "" {
		branch = p.target
	}
	a := w.reference.artifact
	w.document = p.documents.find(c.repository, branch, c.inCheckout(w.file))
	have := p.stage.writes[a]
	switch {
	case have == nil && w.reference.part == "version":
		p.findEntry(w)
		p.stage.writes[a] = w
	case have == nil:
		p.wrong(w.step, "step of the Stage "+p.stage.name, "it writes the digest before the version: write the version first, in a field of its own", child(w.step, "config"))
	case w.reference.part == "digest" && have.digest == "" && have.document == w.document:
		have.digest = w.pointer
	case have.document == w.document && have.pointer == w.pointer:
	default:
		p.wrong(w.step, "Stage "+p.stage.name+": a second field", fmt.Sprintf("a promotion sets one field of an application, which is %s of %s: have %s of %s refer to it, or make it an application of its own",
			have.pointer, have.document.file, w.pointer, w.document.file), child(w.step, "config"))
	}
}

// checkHost says which git host the operator has to list.
func (p *process) checkHost() {
	if !p.opensRequest {
		return
	}
	p.stage.proposes = true
	for _, w := range p.stage.writes {
		if w.document != nil {
			p.stage.pullRequest = hostName(w.document.repository)
		}
	}
}

// hostName is that of a git host in the operator's list: one is of one repository.
func hostName(repository string) string {
	return segment(path.Base(strings.TrimSuffix(strings.ReplaceAll(repository, ":", "/"), ".git")))
}
