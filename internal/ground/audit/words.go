package audit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// What the details of some records say is written and read here, so that both
// stay one. Digests are short ones, as Digest.Short gives them.

// Admitted is the detail of "admit".
type Admitted struct {
	Push          intent.PushID
	Target        intent.IncarnationID
	Content, Plan string
	// Size of the plan; none of an admission before it was told.
	Size PlanSize
	// Approved: it consumed approvals, of the Approvers, whose own change it is
	// if it was Alone. Before version 2 none are named.
	Approved  bool
	Approvers []string
	Alone     bool
	// Epoch of the lease, and Revision of the partition that it rests on.
	Epoch, Revision uint64
	// Global is the last record of all partitions together at that moment.
	Global uint64
	Checks []string
	// Rule that was the approval in place of people's; its zero value: none was.
	Rule ApprovingRule
	// Overrides that it rests on, for people.
	Overrides []intent.Override
}

func (a Admitted) String() string {
	text := "push " + string(a.Push) + " to " + a.Target.String() + ", content " + a.Content + ", plan " + a.Plan + a.Size.words()
	if a.Approved && len(a.Approvers) == 0 {
		text += ", approved"
	}
	text += fmt.Sprintf(", epoch %d, revision %d, global %d", a.Epoch, a.Revision, a.Global)
	if len(a.Checks) > 0 {
		text += "; passed " + strings.Join(a.Checks, " ")
	}
	if len(a.Approvers) > 0 {
		approved := "; approved by "
		if a.Alone {
			approved = "; self-approved by "
		}
		text += approved + strings.Join(names(a.Approvers), ", ")
	}
	if a.Rule.Name != "" {
		text += "; approval of rule " + name(a.Rule.Name) + " " + a.Rule.Digest
	}
	for _, o := range a.Overrides {
		text += fmt.Sprintf("; %s overridden by %s until %s: %s", o.Check, name(o.By.Name), o.Until.UTC().Format(time.RFC3339), o.Reason)
	}
	return text
}

// ApprovingRule is a reviewed rule of a policy that was the approval of a push.
type ApprovingRule struct {
	Name   string
	Digest string
}

// RuleOf an admission; nil: there was none.
func RuleOf(approval *intent.RuleApproval) ApprovingRule {
	if approval == nil {
		return ApprovingRule{}
	}
	return ApprovingRule{approval.Rule, approval.Digest.Short()}
}

// PlanSize is what an admission tells of its plan.
type PlanSize struct {
	// Action is create, update, replace or delete; empty: nothing is known.
	Action intent.Action
	// Changes of fields, of which Destructive are marked so.
	Changes, Destructive int
}

// SizeOf a plan. An action that is none is left out, with all the rest: details are
// read back.
func SizeOf(plan intent.Plan) PlanSize {
	switch plan.Action {
	case intent.ActionCreate, intent.ActionUpdate, intent.ActionReplace, intent.ActionDelete:
	default:
		return PlanSize{}
	}
	size := PlanSize{Action: plan.Action, Changes: len(plan.Changes)}
	for _, c := range plan.Changes {
		if c.Destructive {
			size.Destructive++
		}
	}
	return size
}

func (s PlanSize) words() string {
	if s.Action == "" {
		return ""
	}
	text := fmt.Sprintf(" (%s, %d changes", s.Action, s.Changes)
	if s.Changes == 1 {
		text = strings.TrimSuffix(text, "s")
	}
	if s.Destructive > 0 {
		text += fmt.Sprintf(", %d destructive", s.Destructive)
	}
	return text + ")"
}

// name is as it is, or quoted where it could be taken for more than a name.
func name(raw string) string {
	if plain.MatchString(raw) {
		return raw
	}
	return strconv.Quote(raw)
}

func names(raw []string) []string {
	list := make([]string, len(raw))
	for i := range raw {
		list[i] = name(raw[i])
	}
	return list
}

// aName is a form of a name in a detail.
const aName = `(?:"(?:[^"\\]|\\.)*"|[^\s,;:"]+)`

var (
	plain = regexp.MustCompile(`^[^\s,;:"]+$`)
	named = regexp.MustCompile(aName)
)

// parseNames reads a list of names.
func parseNames(list string) (parsed []string) {
	for _, one := range named.FindAllString(list, -1) {
		parsed = append(parsed, parseName(one))
	}
	return parsed
}

func parseName(one string) string {
	if unquoted, err := strconv.Unquote(one); err == nil {
		return unquoted
	}
	return one
}

// Before plans were kept, admissions did not tell a plan's size. Before version 2, they named neither epoch nor revision, nor who
// approved.
var admittedPattern = regexp.MustCompile(`(?s)^push (\S+) to (\S+), content ([0-9a-f]+), plan ([0-9a-f]+)(?: \(([a-z]+), (\d+) changes?(?:, (\d+) destructive)?\))?(, approved)?(?:, epoch (\d+), revision (\d+), global (\d+))?` +
	`(?:; passed ([^;]*))?(?:; (self-)?approved by (` + aName + `(?:, ` + aName + `)*))?(?:; approval of rule (` + aName + `) ([0-9a-f]+))?(?:; \S+ overridden by .*)?$`)

// ParseAdmitted reads the detail of "admit", without its overrides.
func ParseAdmitted(detail string) (a Admitted, well bool) {
	groups := admittedPattern.FindStringSubmatch(detail)
	if groups == nil {
		return a, false
	}
	target, err := intent.ParseIncarnationID(groups[2])
	return Admitted{
		Push: intent.PushID(groups[1]), Target: target, Content: groups[3], Plan: groups[4], Approved: groups[8]+groups[14] != "",
		Size:  PlanSize{Action: intent.Action(groups[5]), Changes: int(number(groups[6])), Destructive: int(number(groups[7]))},
		Alone: groups[13] != "", Approvers: parseNames(groups[14]),
		Epoch: number(groups[9]), Revision: number(groups[10]), Global: number(groups[11]), Checks: strings.Fields(groups[12]),
		Rule: ApprovingRule{parseName(groups[15]), groups[16]},
	}, err == nil
}

// Ended is the detail of "close", and with no ending that of "doubt".
type Ended struct {
	Push   intent.PushID
	Ending string
	// Why, by whoever pushed.
	Why string
}

func (e Ended) String() string {
	text := strings.TrimSuffix("push "+string(e.Push)+" "+e.Ending, " ")
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

var endedPattern = regexp.MustCompile(`(?s)^push ([^\s:]+)(?: ([a-z-]+))?(?:: (.*))?$`)

// ParseEnded reads the detail of "close" or "doubt".
func ParseEnded(detail string) (e Ended, well bool) {
	groups := endedPattern.FindStringSubmatch(detail)
	if groups == nil {
		return e, false
	}
	return Ended{Push: intent.PushID(groups[1]), Ending: groups[2], Why: groups[3]}, true
}

// Remembered is the detail of "memo": what a push had kept, which itself is not told.
type Remembered struct {
	Push intent.PushID
	// Key is the resource key that the memo is of, Digest that of its bytes. No bytes:
	// it was forgotten.
	Key    string
	Bytes  int
	Digest string
}

func (r Remembered) String() string {
	text := "push " + string(r.Push) + ": " + name(r.Key)
	if r.Bytes == 0 {
		return text + ", forgotten"
	}
	return text + fmt.Sprintf(", %d bytes, digest %s", r.Bytes, r.Digest)
}

var rememberedPattern = regexp.MustCompile(`^push ([^\s:]+): (` + aName + `)(?:, forgotten|, (\d+) bytes, digest ([0-9a-f]+))$`)

// ParseRemembered reads the detail of "memo".
func ParseRemembered(detail string) (r Remembered, well bool) {
	groups := rememberedPattern.FindStringSubmatch(detail)
	if groups == nil {
		return r, false
	}
	return Remembered{Push: intent.PushID(groups[1]), Key: parseName(groups[2]), Bytes: int(number(groups[3])), Digest: groups[4]}, true
}

// Approved is the detail of "approve", and without an end that of "void" after
// "the approval of ", or, with who gave it, "the approval by NAME of ".
type Approved struct {
	By, Plan, Content string
	Until             time.Time
}

func (a Approved) String() string {
	text := "plan " + a.Plan + " of content " + a.Content
	if !a.Until.IsZero() {
		text += ", until " + a.Until.UTC().Format(time.RFC3339Nano)
	}
	return text
}

// Void is the same in the detail of "void".
func (a Approved) Void() string { return "the approval by " + name(a.By) + " of " + a.String() }

var approvedPattern = regexp.MustCompile(`^(?:the approval (?:by (` + aName + `) )?of )?plan ([0-9a-f]+) of content ([0-9a-f]+)(?:, until (\S+))?`)

// ParseApproved reads the detail of "approve" or "void".
func ParseApproved(detail string) (a Approved, well bool) {
	groups := approvedPattern.FindStringSubmatch(detail)
	if groups == nil {
		return a, false
	}
	a = Approved{By: parseName(groups[1]), Plan: groups[2], Content: groups[3]}
	if groups[4] != "" {
		end, err := time.Parse(time.RFC3339Nano, groups[4])
		if err != nil {
			return a, false
		}
		a.Until = end
	}
	return a, true
}

// Pinned is the detail of "pin".
type Pinned struct {
	Incarnation intent.IncarnationID
	// Revision of the pin; 0 before version 2.
	Revision uint64
}

func (p Pinned) String() string { return fmt.Sprintf("to %s, revision %d", p.Incarnation, p.Revision) }

var pinnedPattern = regexp.MustCompile(`^to ([^\s,:]+)(?:, revision (\d+)$|:)`)

// ParsePinned reads the detail of "pin".
func ParsePinned(detail string) (p Pinned, well bool) {
	groups := pinnedPattern.FindStringSubmatch(detail)
	if groups == nil {
		return p, false
	}
	p.Revision = number(groups[2])
	if name, ok := strings.CutSuffix(groups[1], "@0"); ok { // By a rollout that selected nothing for it yet.
		partition, err := intent.ParsePartitionID(name)
		p.Incarnation.Partition = partition
		return p, err == nil
	}
	incarnation, err := intent.ParseIncarnationID(groups[1])
	p.Incarnation = incarnation
	return p, err == nil
}

var (
	acquired  = regexp.MustCompile(`^epoch (\d+)$`)
	published = regexp.MustCompile(`, under epoch (\d+)$`)
)

// epochIn is 0 where a detail names none.
func epochIn(form *regexp.Regexp, detail string) uint64 {
	if groups := form.FindStringSubmatch(detail); groups != nil {
		return number(groups[1])
	}
	return 0
}

// number is 0 for what is none.
func number(digits string) uint64 {
	n, _ := strconv.ParseUint(digits, 10, 64)
	return n
}
