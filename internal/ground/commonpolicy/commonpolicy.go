// Package commonpolicy says what the common policy of a server asks of one partition:
// which of its rules select it, and what they add to what the partition asks of itself.
// It is pure. The enforcer, the pipeline, plans and commands call it, so that all of them
// mean the same.
package commonpolicy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// prefix of the names of common checks and validation rules. A partition cannot name one of
// its own so: its names have no dot.
const prefix = "common."

// secretsRule is the name, within a common rule, of the validation rule that its list of secrets
// is. No other has it, for it has a dot.
const secretsRule = "allow.secrets"

// CheckName is the name of a rule's check, in reports, audits and overrides.
func CheckName(rule, check string) string { return prefix + rule + "." + check }

// RuleOf returns the rule that a check's or validation rule's name is of; false: it is none
// of a common policy.
func RuleOf(name string) (rule string, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return "", false
	}
	rule, _, ok = strings.Cut(rest, ".")
	return rule, ok
}

// Encode returns a policy's canonical bytes and their digest. The empty policy has none.
func Encode(policy *intentpb.CommonPolicy) (body []byte, digest intent.Digest, err error) {
	if len(policy.GetRules()) == 0 && len(policy.GetRegister()) == 0 && len(policy.GetPartitions()) == 0 {
		return nil, intent.Digest{}, nil
	}
	body, err = proto.MarshalOptions{Deterministic: true}.Marshal(policy)
	return body, intent.Sum("lehr.common.v1", body), err
}

// Decode reads what Encode wrote.
func Decode(body []byte) (*intentpb.CommonPolicy, error) {
	policy := &intentpb.CommonPolicy{}
	if err := proto.Unmarshal(body, policy); err != nil {
		return nil, fault.New(fault.Internal, "the stored common policy cannot be read: %w", err).WithHint("the store is damaged: restore it from a backup")
	}
	return policy, nil
}

// Partition is what rules select partitions by.
type Partition struct {
	ID     intent.PartitionID
	Owner  string
	Labels map[string]string
}

// TraitsOf a partition are those that the policy gives it. An owner that it does not give is
// that which the partition's own definition names.
func TraitsOf(policy *intentpb.CommonPolicy, id intent.PartitionID, definedOwner string) Partition {
	p := Partition{ID: id, Labels: map[string]string{}}
	for _, entry := range policy.GetPartitions() {
		if !Matches(entry.Name, string(id)) {
			continue
		}
		if p.Owner == "" {
			p.Owner = entry.Owner
		}
		for _, key := range slices.Sorted(maps.Keys(entry.Labels)) {
			if _, ok := p.Labels[key]; !ok {
				p.Labels[key] = entry.Labels[key]
			}
		}
	}
	if p.Owner == "" {
		p.Owner = definedOwner
	}
	return p
}

// Selects reports whether a rule is about a partition.
func Selects(s *intentpb.Selector, p Partition) bool {
	anyOf := func(patterns []string, text string) bool {
		return len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return Matches(pattern, text) })
	}
	if !anyOf(s.GetNames(), string(p.ID)) || !anyOf(s.GetOwners(), p.Owner) {
		return false
	}
	for key, value := range s.GetLabels() {
		if p.Labels[key] != value {
			return false
		}
	}
	return true
}

// Rules that are about a partition, in the order of the file.
func Rules(policy *intentpb.CommonPolicy, p Partition) (rules []*intentpb.CommonRule) {
	for _, rule := range policy.GetRules() {
		if Selects(rule.GetSelect(), p) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Required reports whether a rule is in force, and not only observed.
func Required(rule *intentpb.CommonRule) bool {
	return rule.GetMode() == intentpb.CommonRule_MODE_REQUIRE
}

// ValidationRules are those by which a rule judges candidates, each as severe as the rule's mode
// lets it be. Its list of secrets is one of them.
func ValidationRules(rule *intentpb.CommonRule) []*intentpb.ValidationRule {
	list := slices.Clone(rule.GetPolicy().GetRules())
	if secrets := rule.GetAllow().GetSecrets(); len(secrets) > 0 {
		list = append(list, &intentpb.ValidationRule{
			Id: CheckName(rule.Name, secretsRule), Scope: intentpb.ValidationRule_SCOPE_ASSET, Severity: intentpb.ValidationRule_SEVERITY_ERROR, AllowedSecrets: secrets,
		})
	}
	if Required(rule) {
		return list
	}
	for i := range list {
		list[i] = proto.CloneOf(list[i])
		list[i].Severity = intentpb.ValidationRule_SEVERITY_WARNING
	}
	return list
}

// PartOfRule is the part of a common rule that a validation rule of it is written in, such as
// "rules.two".
func PartOfRule(rule *intentpb.CommonRule, id string) string {
	if own := strings.TrimPrefix(id, CheckName(rule.Name, "")); own != secretsRule {
		return "rules." + own
	}
	return "allow"
}

// PartOfProgram is the part of a common rule that a checking program of it is written in.
func PartOfProgram(rule *intentpb.CommonRule, name string) string {
	return "programs." + strings.TrimPrefix(name, CheckName(rule.Name, ""))
}

// Left lists the required rules that are about a partition of one owner and not about the same
// partition of another: a definition does not change its owner to leave them.
func Left(policy *intentpb.CommonPolicy, id intent.PartitionID, from, to string) (rules []*intentpb.CommonRule) {
	fromTraits, toTraits := TraitsOf(policy, id, from), TraitsOf(policy, id, to)
	for _, rule := range Rules(policy, fromTraits) {
		if Required(rule) && !Selects(rule.GetSelect(), toTraits) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Place says which rule asks for something, who answers for it and where it is written. Part
// is that of the rule, such as "checks.freeze"; a part that the file has no line for has
// that of its rule.
func Place(policy *intentpb.CommonPolicy, rule *intentpb.CommonRule, part string) string {
	text := fmt.Sprintf("common rule %s of %s, %s:%d", rule.GetName(), rule.GetOwner(), policy.GetFile(), LineOf(rule, part))
	if !Required(rule) {
		text += ", observed only"
	}
	return text
}

// LineOf a part of a rule, or of the rule.
func LineOf(rule *intentpb.CommonRule, part string) int {
	if line, ok := rule.GetLines()[part]; ok {
		return int(line)
	}
	return int(rule.GetLine())
}

// Matches reports whether a text is that of a pattern, in which "*" stands for any text.
func Matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, last)
}
