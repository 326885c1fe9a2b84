package argocd

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Names of the ConfigMaps that hold the settings and the policies of Argo CD.
const (
	settingsName = "argocd-cm"
	policyName   = "argocd-rbac-cm"
)

// policies are who may do what with Applications, as argocd-rbac-cm says it.
type policies struct {
	place string
	rules []policyRule
	// grants are the roles that subjects have, roles among them.
	grants []roleGrant
	// everyone is the role of all who log in; empty: none.
	everyone string
	// byMail: subjects may be addresses of people beside groups.
	byMail bool
	// isRegexp: objects are regular expressions, in place of globs.
	isRegexp bool
	// accounts are users that Argo CD keeps itself.
	accounts map[string]bool
}

type policyRule struct {
	subject, resource, action, object string
	isDenial                          bool
	place, text                       string
}

type roleGrant struct{ subject, role, place string }

// addSettings reads which accounts Argo CD keeps itself.
func (l *importing) addSettings(o object) {
	l.ignoredByAll = append(l.ignoredByAll, settingsDifferences(o)...)
	data, _ := o.fields["data"].(map[string]any)
	for key := range data {
		if account, ok := strings.CutPrefix(key, "accounts."); ok {
			name, _, _ := strings.Cut(account, ".")
			l.policies.accounts[name] = true
		}
	}
}

// readPolicies reads argocd-rbac-cm. A line that says nothing that is known is told.
func (l *importing) readPolicies(o object) {
	p := &l.policies
	p.place = o.place
	data, _ := o.fields["data"].(map[string]any)
	text := func(key string) string { value, _ := data[key].(string); return value }
	p.everyone = strings.TrimSpace(text("policy.default"))
	p.isRegexp = strings.TrimSpace(text("policy.matchMode")) == "regex"
	var scopes []string
	if yaml.Unmarshal([]byte(text("scopes")), &scopes) == nil {
		p.byMail = slices.Contains(scopes, "email")
	}
	for _, key := range sortedKeys(data) {
		if strings.HasPrefix(key, "policy.") && strings.HasSuffix(key, ".csv") || key == "policy.csv" {
			l.readPolicyLines(key, text(key))
		}
	}
}

func (l *importing) readPolicyLines(key, text string) {
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		place := fmt.Sprintf("%s, line %d of %s", l.policies.place, i+1, key)
		reader := csv.NewReader(bytes.NewBufferString(line))
		reader.TrimLeadingSpace, reader.FieldsPerRecord, reader.LazyQuotes = true, -1, true
		words, err := reader.Read()
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		switch {
		case err == nil && len(words) == 3 && words[0] == "g":
			l.policies.grants = append(l.policies.grants, roleGrant{words[1], words[2], place})
		case err == nil && len(words) == 6 && words[0] == "p" && (words[5] == "allow" || words[5] == "deny"):
			l.policies.rules = append(l.policies.rules, policyRule{words[1], words[2], words[3], words[4], words[5] == "deny", place, line})
		default:
			l.leave("ConfigMap "+policyName, fmt.Sprintf("%s: %q is no policy: write p, SUBJECT, RESOURCE, ACTION, PROJECT/APPLICATION, allow; or g, SUBJECT, role:NAME", place, line), true)
		}
	}
}

// Roles that Argo CD has by itself.
var builtInRules = []policyRule{
	{subject: "role:readonly", resource: "applications", action: "get", object: "*/*", text: "role:readonly"},
	{subject: "role:admin", resource: "applications", action: "*", object: "*/*", text: "role:admin"},
}

// subjects are who has grants: people and groups, never roles.
func (p *policies) subjects() (list []string) {
	add := func(name string) {
		if !strings.HasPrefix(name, "role:") && !strings.HasPrefix(name, "proj:") && name != "" {
			list = append(list, name)
		}
	}
	for _, r := range p.rules {
		add(r.subject)
	}
	for _, g := range p.grants {
		add(g.subject)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// rolesOf are a subject and the roles that it has, roles of roles included. A circle ends.
func (p *policies) rolesOf(subject string) []string {
	roles := []string{subject}
	for i := 0; i < len(roles); i++ {
		for _, g := range p.grants {
			if g.subject == roles[i] && !slices.Contains(roles, g.role) {
				roles = append(roles, g.role)
			}
		}
	}
	return roles
}

// coverage is how many Applications of a partition an object of a policy is about.
type coverage int

const (
	coversNone coverage = iota
	coversSome
	coversAll
)

// coverageOf compares an object, PROJECT/APPLICATION or PROJECT/NAMESPACE/APPLICATION, with the Applications of a partition.
// An error says that the pattern cannot be read.
func (p *policies) coverageOf(object, control string, apps []*app) (coverage, error) {
	pattern, err := p.patternOf(object)
	if err != nil {
		return coversNone, err
	}
	matching := 0
	for _, a := range apps {
		name := a.projectName() + "/" + a.Metadata.Name
		if a.Metadata.Namespace != "" && a.Metadata.Namespace != control {
			name = a.projectName() + "/" + a.Metadata.Namespace + "/" + a.Metadata.Name
		}
		if pattern.MatchString(name) {
			matching++
		}
	}
	switch matching {
	case 0:
		return coversNone, nil
	case len(apps):
		return coversAll, nil
	}
	return coversSome, nil
}

// patternOf an object: a regular expression as it stands, or a glob, in which * stands for any text.
func (p *policies) patternOf(object string) (*regexp.Regexp, error) {
	if p.isRegexp {
		return regexp.Compile(object)
	}
	if strings.ContainsAny(object, `[]\\`) {
		return nil, errors.New("sets of characters and escapes are not read")
	}
	return globPattern(strings.ReplaceAll(strings.ReplaceAll(object, "**", "*"), "*", "**")), nil
}

// addPolicies grants in a partition what argocd-rbac-cm grants for all of its Applications.
func (l *importing) addPolicies(p *partition) {
	subject := "ConfigMap " + policyName
	for _, name := range l.policies.subjects() {
		role := l.roleIn(p, subject, name)
		switch {
		case role == "":
		case l.policies.accounts[name] || name == "admin":
			l.addHint(fmt.Sprintf("%s: %s is an account that Argo CD keeps itself: lehr auth token create --owner %s --role %s makes a token in its place", subject, name, name, role))
		case l.policies.byMail && strings.Contains(name, "@"):
			p.grant(role, "user:"+name)
		default:
			p.grant(role, "group:"+name)
		}
	}
	if l.policies.everyone != "" {
		if role := l.roleIn(p, subject, l.policies.everyone); role != "" {
			p.grant(role, "everyone")
		}
	}
}

// roleIn is the role that a subject has in a partition: viewer, operator, or none.
func (l *importing) roleIn(p *partition, told, name string) string {
	allowed, most := "", "operator"
	roles := l.policies.rolesOf(name)
	for _, role := range roles {
		if strings.HasPrefix(role, "role:") && !l.policies.isKnownRole(role) {
			l.leave(told, fmt.Sprintf("%s: %s has the role %s, of which no policy is", l.policies.place, name, role), true)
		}
	}
	for _, rule := range slices.Concat(builtInRules, l.policies.rules) {
		if !slices.Contains(roles, rule.subject) {
			continue
		}
		given := roleOfAction(rule.action)
		if rule.resource != "applications" && rule.resource != "*" {
			l.addHint(fmt.Sprintf("%s: policies about %s are not carried over: roles of a partition are about its assets, and those of the server are in docs/operate/access.md", told, rule.resource))
			continue
		}
		covered, err := l.policies.coverageOf(rule.object, l.controlNamespace, p.apps)
		switch {
		case err != nil:
			l.leave(told, fmt.Sprintf("%s: %q: its object cannot be read: %v", rule.place, rule.text, err), true)
		case covered == coversNone:
		case rule.isDenial:
			// Lehr has no denials, so that a role which could do what is denied is not granted at all.
			l.leave(told, fmt.Sprintf("%s: %q denies something, and grants of Lehr only add up: %s has no role here that could do it; grant by hand what it needs", rule.place, rule.text, name), true)
			if given == "operator" && rule.action != "*" && most != "" {
				most = "viewer"
			} else {
				most = ""
			}
		case given == "":
		case covered == coversSome:
			l.leave(told, fmt.Sprintf("%s: %q is about some Applications of the partition, and roles are of a whole partition: import with --split project or label=KEY", rule.place, rule.text), true)
		case given == "operator" || allowed == "":
			allowed = given
		}
	}
	switch {
	case allowed == "" || most == "":
		return ""
	case most == "viewer":
		return most
	}
	return allowed
}

func (p *policies) isKnownRole(role string) bool {
	return slices.ContainsFunc(slices.Concat(builtInRules, p.rules), func(r policyRule) bool { return r.subject == role }) ||
		slices.ContainsFunc(p.grants, func(g roleGrant) bool { return g.subject == role })
}

// grant adds a subject to a role of the partition.
func (p *partition) grant(role, to string) {
	if !slices.Contains(p.access[role], to) {
		p.access[role] = append(p.access[role], to)
	}
}
