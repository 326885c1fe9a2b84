// Package generation knows the rules of a policy by which assets with generated names are
// generations of one thing: what such a rule names, what it approves, and which older ones
// go. It is pure. Package prodspec turns older ones down by it, validate judges the rules,
// and check, the store's admission and the simulator ask what a rule approves.
package generation

import (
	"cmp"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Name of the run that gives what rules have removed. No generator has it.
const Name = "generations"

// Rule of a policy.
type Rule struct {
	*intentpb.GenerationRule
	// Digest covers all that the rule says.
	Digest intent.Digest
}

// Rules of a policy, in its order.
func Rules(policy *intentpb.Policy) (rules []Rule) {
	for _, r := range policy.GetGenerations() {
		rules = append(rules, Rule{r, digestOf(r)})
	}
	return rules
}

func digestOf(r *intentpb.GenerationRule) intent.Digest {
	numbers := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(r.GetSuffix())), r.GetKeep())
	return intent.Sum("lehr.generation.v1", []byte(r.GetName()), []byte(r.GetPrefix()), numbers, []byte(r.GetGenerator()))
}

// Kustomize's hashes have ten of these sixteen characters. Other hashes are hexadecimal.
var suffixes = map[intentpb.GenerationRule_Suffix]*regexp.Regexp{
	intentpb.GenerationRule_SUFFIX_HASH:    regexp.MustCompile(`^(?:[2456789bcdfghkmt]{10}|[0-9a-f]{8,64})$`),
	intentpb.GenerationRule_SUFFIX_VERSION: regexp.MustCompile(`^v?[0-9]+(?:[._-][0-9]+)*$`),
}

// Covers reports whether an id begins as the rule says, whatever it ends in.
func (r Rule) Covers(id intent.AssetID) bool {
	rest, ok := strings.CutPrefix(string(id), r.GetPrefix())
	return ok && rest != ""
}

// Names reports whether an id is one that the rule is about: it begins as the rule says, and
// the rest is a hash or a version.
func (r Rule) Names(id intent.AssetID) bool {
	rest, ok := strings.CutPrefix(string(id), r.GetPrefix())
	suffix := suffixes[r.GetSuffix()]
	return ok && suffix != nil && suffix.MatchString(rest)
}

// Find returns the rule of a policy that names an asset.
func Find(policy *intentpb.Policy, id intent.AssetID) (Rule, bool) {
	rules := Rules(policy)
	if at := slices.IndexFunc(rules, func(r Rule) bool { return r.Names(id) }); at >= 0 {
		return rules[at], true
	}
	return Rule{}, false
}

// Approval is that of a removal by the rule that its Turndown names, if the policy has that
// very rule and it names the asset.
func Approval(policy *intentpb.Policy, id intent.AssetID, removal *intentpb.GenerationRemoval) (approval intent.RuleApproval, ok bool) {
	if removal == nil {
		return approval, false
	}
	for _, r := range Rules(policy) {
		if r.GetName() == removal.GetRule() && r.Digest.String() == removal.GetDigest() && r.Names(id) {
			return intent.RuleApproval{Rule: r.GetName(), Digest: r.Digest}, true
		}
	}
	return approval, false
}

// held begins the paths of what a plan removes beside the asset's own thing, as the objects
// with data in a namespace.
const held = "holds["

// RemovesOnlyItself reports whether a plan removes the asset's own thing and nothing else,
// which is all that a rule can approve.
func RemovesOnlyItself(plan intent.Plan) bool {
	return plan.Action == intent.ActionDelete && !slices.ContainsFunc(plan.Changes, func(c intent.FieldChange) bool {
		return c.Destructive && strings.HasPrefix(c.Path, held)
	})
}

// holders are the kinds of Kubernetes objects with which others, or data, are deleted. Ids of
// objects have their kinds in small letters, with their groups.
var holders = []string{"namespace", "customresourcedefinition.apiextensions.k8s.io", "persistentvolumeclaim", "persistentvolume"}

// HoldsOthers reports whether a rule is about things with which others are removed, or data:
// no rule can be the approval of that.
func (r Rule) HoldsOthers() bool {
	return slices.ContainsFunc(strings.Split(r.GetPrefix(), "/"), func(segment string) bool { return slices.Contains(holders, segment) })
}

// Older is a generation that no generator gives any more, and that runs as far as is known.
type Older struct {
	Asset intent.AssetID
	// Sequence of the incarnation that it was last recorded as enforced at, and when.
	Sequence intent.Sequence
	At       time.Time
}

// Surplus returns those that are older than the newest that the rule keeps, the newest first.
func (r Rule) Surplus(older []Older) []Older {
	sorted := slices.SortedFunc(slices.Values(older), func(a, b Older) int {
		return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), b.At.Compare(a.At), strings.Compare(string(a.Asset), string(b.Asset)))
	})
	keep := max(1, int(r.GetKeep()))
	if len(sorted) <= keep {
		return nil
	}
	return sorted[keep:]
}
