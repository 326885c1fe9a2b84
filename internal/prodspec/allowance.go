package prodspec

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
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
	all := uses(d)
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

// uses lists what a definition uses of what may be bounded.
func uses(d definition.Definition) (all []used) {
	add := func(kind, value, field string, line int) {
		if value != "" {
			all = append(all, used{kind, value, field, line})
		}
	}
	for _, binding := range d.Policy.GetPlugins() {
		field := "plugins." + binding.Type
		if len(binding.Run) > 0 {
			add("plugin", binding.Run[0], field+".run", d.PluginLines[binding.Type])
		}
		add("plugin", binding.Dial, field+".dial", d.PluginLines[binding.Type])
	}
	for _, g := range slices.Concat(d.Generators, checkers(d)) {
		if g.Language == work.Native {
			add("program", g.Program, "generate."+g.Name, g.Line)
		}
	}
	for _, src := range d.Sources {
		if src.Remote == nil {
			continue
		}
		for _, address := range addressesOf(*src.Remote) {
			add("address", address, "sources."+src.Name, src.Line)
		}
		for _, secret := range secretsOf(*src.Remote) {
			add("secret", secret, "sources."+src.Name, src.Line)
		}
	}
	for i, c := range d.Policy.GetChecks() {
		line, field := d.CheckPlaces[i][""].Line, "checks."+c.Name
		for _, text := range []string{c.GetQuery().GetPrometheus(), c.GetPeak().GetPrometheus(), c.GetAlerts().GetAlertmanager(), c.GetProtection().GetHttp()} {
			add("address", hostOf(text), field, line)
		}
		if words := c.GetProtection().GetCommand().GetLine(); len(words) > 0 {
			add("program", words[0], field, line)
		}
	}
	for i, r := range d.Policy.GetRules() {
		line, field := d.RulePlaces[i][""].Line, "validate.rules."+r.Id
		add("address", hostOf(r.GetExternal().GetHttp()), field, line)
		if words := r.GetExternal().GetCommand().GetLine(); len(words) > 0 {
			add("program", words[0], field, line)
		}
	}
	return all
}

func addressesOf(r source.Remote) []string {
	var list []string
	if r.Git != nil {
		list = append(list, hostOf(r.Git.URL))
	}
	if r.HTTP != nil {
		list = append(list, hostOf(r.HTTP.URL))
	}
	if v := r.Versions; v != nil {
		list = append(list, hostOf(v.Registry), hostOf(v.Debian))
		if v.Tags != nil {
			list = append(list, hostOf(v.Tags.URL))
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
		add(r.Versions.Token)
	}
	return list
}

// hostOf a URL, without its port; empty: it has none, as the name of an operator's address.
func hostOf(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		return ""
	}
	if host, _, err := net.SplitHostPort(parsed.Host); err == nil {
		return host
	}
	return parsed.Host
}
