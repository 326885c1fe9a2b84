package prodspec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/source"
)

// used is something that a definition uses, which a common rule may not allow.
type used struct {
	// kind is "plugin", "program", "address" or "secret".
	kind, value, field string
	line               int
}

// judgeDefinition says what of a definition the common rules refuse, and what they would where
// they only observe.
func (c common) judgeDefinition(file string, d definition.Definition) (errors, warnings []intent.Finding) {
	for _, rule := range c.left {
		errors = append(errors, intent.Finding{
			Rule: definition.CommonSource, Severity: intent.Error, File: file, Line: max(d.Lines["owner"], 1), Field: "owner",
			Message: fmt.Sprintf("with the owner %q the partition would not be under the %s any more", c.owner, commonpolicy.Place(c.policy, rule, "")),
			Hint:    fmt.Sprintf("no partition leaves a common rule by itself: keep the owner, or have %s name the new one under partitions of %s", rule.Owner, c.policy.File),
		})
	}
	refused, remarks := c.judgeUses(file, uses(d))
	return append(errors, refused...), remarks
}

// JudgeLists says what of a definition the lists of common rules do not allow. Invalid when the
// definition cannot be read.
func JudgeLists(file string, content []byte, types *schema.Set, policy *intentpb.CommonPolicy, rules []*intentpb.CommonRule) ([]intent.Finding, error) {
	asked := common{policy: policy, rules: rules}
	d, findings := definition.ParseWithDefaults(filepath.Base(file), content, types, asked.defaults(), nil)
	if len(findings) > 0 {
		f := findings[0]
		return nil, fault.New(fault.Invalid, "the definition cannot be used as it is now: %s:%d: %s", f.File, f.Line, f.Message).WithHint("%s", f.Hint)
	}
	refused, _ := asked.judgeDefinition(filepath.Base(file), d)
	return refused, nil
}

// judgeUses says what the lists of the common rules do not allow of what is used, and what they
// would not where they only observe.
func (c common) judgeUses(file string, all []used) (errors, warnings []intent.Finding) {
	for _, rule := range c.rules {
		for _, u := range all {
			list := allowedOf(rule.GetAllow(), u.kind)
			if len(list) == 0 || slices.ContainsFunc(list, func(pattern string) bool { return commonpolicy.Matches(pattern, u.value) }) {
				continue
			}
			f := intent.Finding{
				Rule: definition.CommonSource, Severity: intent.Error, File: file, Line: max(u.line, 1), Field: u.field,
				Message: fmt.Sprintf("%s: the %s %.200q is not allowed (%s)", u.field, u.kind, u.value, commonpolicy.Place(c.policy, rule, "allow")),
				Hint:    fmt.Sprintf("allowed: %s; %s answers for the rule", strings.Join(list, ", "), rule.Owner),
			}
			if commonpolicy.Required(rule) {
				errors = append(errors, f)
				continue
			}
			f.Severity = intent.Warning
			warnings = append(warnings, f)
		}
	}
	return errors, warnings
}

// judgeHosts judges where sources were read from beside the addresses that the definition
// names, such as those of charts that a chart depends on. What was read from there is not built
// from.
func (s *sources) judgeHosts(d *definition.Definition, r *reading) {
	var all []used
	for _, src := range d.Sources {
		f := s.folders[src.Name]
		if src.Remote == nil || f.snapshot == nil {
			continue
		}
		for _, host := range f.snapshot.Hosts {
			all = append(all, used{"address", host, "sources." + src.Name, src.Line})
		}
	}
	refused, remarks := r.common.judgeUses(s.file, all)
	r.findings, r.warnings = append(r.findings, refused...), append(r.warnings, remarks...)
}

func allowedOf(a *intentpb.Allowance, kind string) []string {
	switch kind {
	case "plugin":
		return a.GetPlugins()
	case "program":
		return a.GetPrograms()
	case "address":
		return a.GetAddresses()
	default:
		return a.GetSecrets()
	}
}

// usesOf gathers what a definition uses of what may be bounded.
type usesOf struct{ all []used }

func (l *usesOf) add(kind, value, field string, line int) {
	if value != "" {
		l.all = append(l.all, used{kind, value, field, line})
	}
}

// addProgram adds the program of a command line.
func (l *usesOf) addProgram(words []string, field string, line int) {
	if len(words) > 0 {
		l.add("program", words[0], field, line)
	}
}

func uses(d definition.Definition) []used {
	l := &usesOf{}
	l.addPlugins(d)
	for _, g := range slices.Concat(d.Generators, checkers(d)) {
		field := "generate."
		if g.Check {
			field = "validate.programs."
		}
		if g.Language == work.Native {
			l.add("program", g.Program, field+g.Name, g.Line)
		}
	}
	for _, src := range d.Sources {
		if src.Remote == nil {
			continue
		}
		for _, address := range addressesOf(*src.Remote) {
			l.add("address", address, "sources."+src.Name, src.Line)
		}
		for _, secret := range secretsOf(*src.Remote) {
			l.add("secret", secret, "sources."+src.Name, src.Line)
		}
	}
	l.addAsked(d)
	return l.all
}

func (l *usesOf) addPlugins(d definition.Definition) {
	for _, binding := range d.Policy.GetPlugins() {
		field, line := "plugins."+binding.Type, d.PluginLines[binding.Type]
		if len(binding.Run) > 0 {
			l.add("plugin", binding.Run[0], field+".run", line)
		}
		l.add("plugin", binding.Dial, field+".dial", line)
	}
}

// addAsked adds what checks, validation rules and validations of rollouts ask.
func (l *usesOf) addAsked(d definition.Definition) {
	for i, c := range d.Policy.GetChecks() {
		line, field := d.CheckPlaces[i][""].Line, "checks."+c.Name
		for _, text := range []string{c.GetQuery().GetPrometheus(), c.GetPeak().GetPrometheus(), c.GetAlerts().GetAlertmanager(), c.GetProtection().GetHttp()} {
			l.add("address", source.HostOf(text), field, line)
		}
		l.addProgram(c.GetProtection().GetCommand().GetLine(), field, line)
	}
	for i, r := range d.Policy.GetRules() {
		line, field := d.RulePlaces[i][""].Line, "validate.rules."+r.Id
		l.add("address", source.HostOf(r.GetExternal().GetHttp()), field, line)
		l.addProgram(r.GetExternal().GetCommand().GetLine(), field, line)
	}
	for _, v := range d.Policy.GetValidations() {
		for _, m := range v.GetMetrics() {
			line, field := d.Lines["validations"], "validations."+v.Name+".metrics."+m.Name
			for _, text := range []string{m.GetSource().GetPrometheus(), m.GetSource().GetHttp()} {
				l.add("address", source.HostOf(text), field, line)
			}
			l.addProgram(m.GetSource().GetCommand().GetLine(), field, line)
		}
	}
}

func addressesOf(r source.Remote) []string {
	var list []string
	if r.Git != nil {
		list = append(list, source.HostOf(r.Git.URL))
	}
	if r.HTTP != nil {
		list = append(list, source.HostOf(r.HTTP.URL))
	}
	if r.Packed != nil {
		list = append(list, source.HostOf(r.Packed.Address))
	}
	if v := r.Versions; v != nil {
		list = append(list, source.HostOf(v.Registry), source.HostOf(v.Debian), source.HostOf(v.Charts), source.HostOf(v.Listing))
		if git := v.Repository(); git != nil {
			list = append(list, source.HostOf(git.URL))
		}
	}
	return list
}

func secretsOf(r source.Remote) []string {
	var list []string
	add := func(s source.Secret) { list = append(list, s.Env+s.File) }
	if r.Git != nil {
		add(r.Git.Token)
		add(r.Git.Key)
	}
	if r.HTTP != nil {
		add(r.HTTP.Token)
	}
	if r.SQL != nil {
		add(r.SQL.DSN)
	}
	if r.Versions != nil {
		if git := r.Versions.Repository(); git == nil {
			add(r.Versions.Token)
		} else {
			add(git.Token)
			add(git.Key)
		}
	}
	if r.Packed != nil {
		add(r.Packed.Token)
	}
	return list
}
