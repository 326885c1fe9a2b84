// Package branchpreview knows previews: environments that are made for branches or pull requests
// and removed after them. It has the rules of a policy, what such a rule names and approves, the
// entries of a rule's document, and the one function that says what follows from a listing, the
// entries and the time. It is pure: package previewer lists and keeps the entries, prodspec gives
// the assets of ended previews their Turndown, and check and the store's admission ask what a rule
// approves.
package branchpreview

import (
	"path"
	"regexp"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// Provided names the run that gives what ended previews made and their template does not give any
// more. No generator has it.
const Provided = "ended-previews"

// Rule of a policy.
type Rule struct {
	*intentpb.PreviewRule
	// Digest covers what the approval rests on: which ids the rule names, and who makes the
	// assets. How many previews there are, and for how long, is no part of it: a removal that is
	// under way goes on when these change.
	Digest intent.Digest
}

// Rules of a policy, in its order.
func Rules(policy *intentpb.Policy) (rules []Rule) {
	for _, r := range policy.GetPreviews() {
		rules = append(rules, New(r))
	}
	return rules
}

// New is one rule.
func New(r *intentpb.PreviewRule) Rule {
	whole := "open"
	if r.GetWhole() {
		whole = "whole"
	}
	return Rule{r, intent.Sum("lehr.preview.v1", []byte(r.GetName()), []byte(r.GetBefore()), []byte(r.GetAfter()), []byte(whole), []byte(r.GetGenerator()))}
}

// Find returns the rule of a name.
func Find(policy *intentpb.Policy, name string) (Rule, bool) {
	for _, r := range policy.GetPreviews() {
		if r.GetName() == name {
			return New(r), true
		}
	}
	return Rule{}, false
}

// NameOf returns the preview that an id is of by the rule; ok is false where the rule does not name
// the id.
func (r Rule) NameOf(id intent.AssetID) (preview string, ok bool) {
	rest, ok := strings.CutPrefix(string(id), r.GetBefore())
	if !ok {
		return "", false
	}
	end := strings.IndexFunc(rest, func(c rune) bool { return c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') })
	if end < 0 {
		end = len(rest)
	}
	preview, rest = rest[:end], rest[end:]
	if CheckName(preview) != nil {
		return "", false
	}
	if r.GetWhole() {
		return preview, rest == r.GetAfter()
	}
	return preview, strings.HasPrefix(rest, r.GetAfter()) && rest != r.GetAfter()
}

// Prefix begins all ids of a preview, and perhaps those of others: NameOf tells.
func (r Rule) Prefix(preview string) string { return r.GetBefore() + preview + r.GetAfter() }

// FindNaming returns the rule of a policy that names an id, and the preview that it is of.
func FindNaming(policy *intentpb.Policy, id intent.AssetID) (rule Rule, preview string, ok bool) {
	for _, r := range policy.GetPreviews() {
		if preview, ok := (Rule{PreviewRule: r}).NameOf(id); ok {
			return New(r), preview, true
		}
	}
	return Rule{}, "", false
}

// Removal is what a Turndown says of the rule that is its approval.
func (r Rule) Removal(preview string) *intentpb.PreviewRemoval {
	return &intentpb.PreviewRemoval{Rule: r.GetName(), Digest: r.Digest.String(), Preview: preview}
}

// Approval is that of a removal by the rule that its Turndown names, if the policy has that very
// rule and the asset is of that very preview (S9).
func Approval(policy *intentpb.Policy, id intent.AssetID, removal *intentpb.PreviewRemoval) (approval intent.RuleApproval, ok bool) {
	if removal == nil {
		return approval, false
	}
	for _, r := range Rules(policy) {
		preview, isNamed := r.NameOf(id)
		if r.GetName() == removal.GetRule() && r.Digest.String() == removal.GetDigest() && isNamed && preview == removal.GetPreview() {
			return intent.RuleApproval{Rule: r.GetName(), Digest: r.Digest, Preview: preview}, true
		}
	}
	return approval, false
}

// Overlaps reports whether two rules, or a rule and a prefix of ids, could be about one asset.
func (r Rule) Overlaps(prefix string) bool {
	return strings.HasPrefix(r.GetBefore(), prefix) || strings.HasPrefix(prefix, r.GetBefore())
}

// Matches reports whether a rule lists a branch: its name matches one of the patterns. In a
// pattern, * stands for any text without /, and ** for any text. A rule of pull requests lists all.
func (r Rule) Matches(branch string) bool {
	if r.GetSource() == "" {
		return true
	}
	for _, pattern := range r.GetBranches() {
		expression, err := compilePattern(pattern)
		if err == nil && expression.MatchString(branch) {
			return true
		}
	}
	return false
}

// CheckPattern refuses what is no pattern of branches.
func CheckPattern(pattern string) error {
	_, err := compilePattern(pattern)
	if err == nil && strings.Trim(pattern, "*/") == "" && pattern != "**" && pattern != "*" {
		err = path.ErrBadPattern
	}
	return err
}

func compilePattern(pattern string) (*regexp.Regexp, error) {
	if strings.ContainsAny(pattern, `?[]{}\ ~^:`) || pattern == "" {
		return nil, path.ErrBadPattern
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.ReplaceAll(quoted, `\*\*`, ".*")
	quoted = strings.ReplaceAll(quoted, `\*`, "[^/]*")
	return regexp.Compile("^(?s:" + quoted + ")$")
}
