package prodspec

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/commonpolicy"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/validate"
)

// common is what the server's common policy asks of one partition.
type common struct {
	policy *intentpb.CommonPolicy
	rules  []*intentpb.CommonRule
	// left are required rules that the definition would leave by its owner.
	left  []*intentpb.CommonRule
	owner string
	// digest of rules and left; zero: nothing is asked.
	digest intent.Digest
}

// identity is what a definition says that common rules select by.
type identity struct {
	// revision of the definition's file.
	revision  intent.Digest
	owner     string
	partition intent.PartitionID
}

// readCommon finds which rules are about the partition, and notes them as a source. The owner
// that the definition had before counts too: nobody leaves a rule by another owner.
func (s *sources) readCommon(ctx context.Context, own *source.Snapshot, r *reading) error {
	if s.program.Common == nil {
		return nil
	}
	policy, err := s.program.Common(ctx)
	if err != nil || len(policy.GetRules()) == 0 {
		return err
	}
	if s.identity.revision != own.Revision {
		content, err := s.own.Content(own.Files[0])
		if err != nil {
			return s.cannotRead(ctx, err, definition.Source{Name: definition.DefinitionSource, Line: 1}, r)
		}
		s.identity = identity{own.Revision, definition.OwnerOf(s.file, content), definition.PartitionOf(s.file, content)}
	}
	asked, id := common{policy: policy, owner: s.identity.owner}, s.program.Partition
	if id == "" {
		id = s.identity.partition
	}
	asked.rules = commonpolicy.Rules(policy, commonpolicy.TraitsOf(policy, id, asked.owner))
	if s.servedOwner != nil {
		asked.left = commonpolicy.Left(policy, id, *s.servedOwner, asked.owner)
	}
	if len(asked.rules) == 0 && len(asked.left) == 0 {
		return nil
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&intentpb.CommonPolicy{Rules: slices.Concat(asked.rules, asked.left), File: policy.File})
	if err != nil {
		return err
	}
	asked.digest = intent.Sum("lehr.common.asked.v1", body)
	r.common = asked
	r.revisions = append(r.revisions, intent.SourceRevision{Source: definition.CommonSource, Revision: asked.digest.String()})
	return nil
}

// defaults of the required rules, for what the definition does not say.
func (c common) defaults() (list []string) {
	for _, rule := range c.rules {
		if commonpolicy.Required(rule) && rule.Defaults != "" {
			list = append(list, rule.Defaults)
		}
	}
	return list
}

// judged is a policy with what the common rules ask of candidates: each validation rule as it
// is, an observed one as a warning, and the stricter shrink guard.
func (c common) judged(policy *intentpb.Policy) *intentpb.Policy {
	if len(c.rules) == 0 || policy == nil {
		return policy
	}
	all := proto.CloneOf(policy)
	for _, rule := range c.rules {
		all.Rules = append(all.Rules, commonpolicy.ValidationRules(rule)...)
		if shrink := rule.GetPolicy().GetShrink(); shrink != nil && commonpolicy.Required(rule) {
			all.Shrink = validate.StricterShrink(all.Shrink, shrink)
		}
	}
	return all
}

// known is head's policy with those common rules by which head was judged already, so that
// they cost what changes.
func (c common) known(policy *intentpb.Policy, judgedUnder intent.Digest) *intentpb.Policy {
	if policy == nil || judgedUnder.IsZero() || judgedUnder != c.digest {
		return policy
	}
	all := proto.CloneOf(policy)
	all.Rules = c.judged(policy).Rules
	return all
}

// named says of each finding of a common rule whose rule it is and where it is written.
func (c common) named(findings []intent.Finding) []intent.Finding {
	if len(c.rules) == 0 {
		return findings
	}
	list := slices.Clone(findings)
	for i, f := range list {
		for _, rule := range c.rules {
			part := c.partOf(rule, f)
			if part == "" {
				continue
			}
			list[i].Message += " (" + commonpolicy.Place(c.policy, rule, part) + ")"
			list[i].Hint = fmt.Sprintf("%s answers for it; lehr policy show tells all that the common policy asks", rule.Owner)
			if rule.Reason != "" {
				list[i].Hint = rule.Reason + "; " + list[i].Hint
			}
			break
		}
	}
	return list
}

// partOf a rule that a finding is of; empty: none.
func (c common) partOf(rule *intentpb.CommonRule, f intent.Finding) string {
	for _, program := range rule.GetPolicy().GetCheckingPrograms() {
		if f.Rule == validate.ProgramRule(program.Name) || f.Rule == validate.NotChecked && f.Field == programField(program.Name) {
			return commonpolicy.PartOfProgram(rule, program.Name)
		}
	}
	for _, r := range commonpolicy.ValidationRules(rule) {
		if f.Rule == "rules."+r.Id {
			return commonpolicy.PartOfRule(rule, r.Id)
		}
	}
	if (f.Rule == "shrink" || f.Rule == "change") && rule.GetPolicy().GetShrink() != nil && commonpolicy.Required(rule) {
		return "validate.shrink"
	}
	return ""
}

// brokenBy are those findings that are of a common validation rule.
func (c common) brokenBy(findings []intent.Finding) (list []intent.Finding) {
	for _, f := range findings {
		if _, ok := commonpolicy.RuleOf(strings.TrimPrefix(f.Rule, "rules.")); ok {
			list = append(list, f)
		}
	}
	return list
}
