package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is an engine with a clock.
type bench struct {
	*testing.T
	engine
	now     time.Time
	reports map[intent.AssetID]*intent.Report
	rows    rows
}

func newBench(t *testing.T, notifications ...*intentpb.Notification) *bench {
	t.Helper()
	b := &bench{T: t, now: noon, reports: map[intent.AssetID]*intent.Report{}, rows: rows{}}
	b.engine = engine{partition: "shop", State: NewState(), problem: func(name string, err error) { t.Logf("%s: %v", name, err) }}
	b.reportOf = func(id intent.AssetID) *intent.Report { return b.reports[id] }
	b.policy(notifications...)
	return b
}

func (b *bench) policy(notifications ...*intentpb.Notification) {
	b.Helper()
	rules, problems := compile(&intentpb.Policy{Notifications: notifications})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	anew := b.adopt(rules)
	for _, r := range b.reports {
		b.report(anew, *r, nil, b.now)
	}
}

// is reports an asset: what it waits for, or its state.
func (b *bench) is(asset, what string, blockers ...intent.AssetID) {
	id := intent.AssetID(asset)
	r := intent.Report{Partition: "shop", Asset: id, Type: "t", At: b.now, State: intent.State(what), Target: intent.IncarnationID{Partition: "shop", Sequence: 3}}
	if what != "in-sync" && what != "pushing" {
		r.State, r.Waiting = intent.StateWaiting, []intent.WaitingOn{{Kind: intent.WaitingKind(what), Reason: what + " it is", Blockers: blockers}}
	}
	before := b.reports[id]
	b.reports[id] = &r
	b.report(b.rules, r, before, b.now)
}

// pass lets time pass, tick by tick, and returns the titles of what is told meanwhile.
func (b *bench) pass(d time.Duration) string {
	b.Helper()
	var told []string
	for end := b.now.Add(d); ; {
		next := b.tick(b.now)
		for _, delivery := range b.Outbox {
			told = append(told, fmt.Sprintf("%s@%s", delivery.Message.Title, b.now.Sub(noon)))
		}
		b.Outbox = nil
		if !next.After(b.now) && !next.IsZero() {
			b.Fatalf("at %s it is due at %s again", b.now, next)
		}
		if next.IsZero() || next.After(end) {
			b.now = end
			return strings.Join(told, "\n")
		}
		b.now = next
		// It may restart at any time.
		b.restart()
	}
}

// restart from what was stored.
func (b *bench) restart() {
	b.Helper()
	rows, err := b.Rows()
	if err != nil {
		b.Fatal(err)
	}
	b.rows.put(rows)
	if b.State, err = Load(b.Context(), b.rows, "shop"); err != nil {
		b.Fatal(err)
	}
}

// rows are what is stored.
type rows map[string][]byte

func (r rows) put(changed map[string][]byte) {
	for name, row := range changed {
		if r[name] = row; row == nil {
			delete(r, name)
		}
	}
}

func (r rows) GetBlob(_ context.Context, _ intent.PartitionID, _, name string) ([]byte, error) {
	if row, ok := r[name]; ok {
		return row, nil
	}
	return nil, fault.New(fault.NotFound, "no %s", name)
}

func (b *bench) want(got, want string) {
	b.Helper()
	if got != want {
		b.Errorf("at %s it told\n%s\nwant\n%s", b.now.Sub(noon), got, want)
	}
}

func on(name, when string) *intentpb.Notification {
	return &intentpb.Notification{Name: name, When: when, To: []string{"chat"}}
}

const waiting = `report.state == "waiting"`

// TestItLastsBeforeItIsTold: for, the end, and what was over in time.
func TestItLastsBeforeItIsTold(t *testing.T) {
	n := on("slow", waiting)
	n.For = durationpb.New(10 * time.Minute)
	b := newBench(t, n)
	b.is("web", "approval")
	b.is("short", "approval")
	b.want(b.pass(5*time.Minute), "")
	b.is("short", "in-sync")
	b.is("web", "hold") // Another reason is no new beginning.
	b.want(b.pass(10*time.Minute), "[shop] slow: web: hold: hold it is@10m30s")
	b.is("web", "in-sync")
	b.want(b.pass(10*time.Minute), "[shop] slow: over (hold of )@15m30s")
	if len(b.Groups) != 0 || len(b.Active["slow"]) != 0 {
		t.Errorf("it remembers %v, %v", b.Groups, b.Active)
	}
}

// TestOneCauseIsOneMessage: many assets that wait for one stop, or for one asset in the end.
func TestOneCauseIsOneMessage(t *testing.T) {
	b := newBench(t, on("all", waiting))
	for i := range 1000 {
		b.is(fmt.Sprintf("a/%04d", i), "stop")
	}
	b.is("db", "approval")
	b.is("mid", "order", "db")
	for i := range 30 {
		b.is(fmt.Sprintf("b/%04d", i), "order", "mid")
	}
	b.want(b.pass(time.Minute), "[shop] all: 32 assets (approval at shop@3), as b/0000: order: order it is@30s\n[shop] all: 1000 assets (stop), as a/0000: stop: stop it is@30s")
	// One that comes later is told of with the others, and not at once.
	b.is("late", "stop")
	b.want(b.pass(time.Minute), "")
	b.want(b.pass(10*time.Minute), "[shop] all: 1001 assets (stop), as a/0000: stop: stop it is@5m30s")
	// One that leaves and comes back within the window is no end.
	for _, asset := range slices.Sorted(maps.Keys(b.reports)) {
		b.is(string(asset), "in-sync")
	}
	b.want(b.pass(10*time.Second), "")
	b.is("db", "approval")
	b.want(b.pass(time.Hour), "[shop] all: over (stop)@12m30s")
}

// TestAWaitGoesOn: over heads that do not concern it, restarts, and other words for it; not
// over other content.
func TestAWaitGoesOn(t *testing.T) {
	n := on("all", waiting)
	n.For = durationpb.New(time.Minute)
	b := newBench(t, n)
	head, content := intent.Sequence(2), intent.Sum("v1")
	commit := func() {
		head++
		for _, asset := range []intent.AssetID{"db", "web"} {
			r := intent.Report{
				Partition: "shop", Asset: asset, Type: "t", At: b.now, State: intent.StateWaiting, Effective: content,
				Target:  intent.IncarnationID{Partition: "shop", Sequence: head},
				Waiting: []intent.WaitingOn{{Kind: intent.WaitApproval, Reason: fmt.Sprintf("needs an approval, as %d others do", head)}},
			}
			if asset == "web" {
				r.Waiting[0] = intent.WaitingOn{Kind: intent.WaitOrder, Reason: "must come after db", Blockers: []intent.AssetID{"db"}}
			}
			b.reports[asset] = &r
			b.report(b.rules, r, nil, b.now)
		}
	}
	told := ""
	for range 20 {
		commit()
		b.restart()
		told += b.pass(20 * time.Second)
	}
	b.want(told, "[shop] all: 2 assets (approval at shop@3), as db: approval: needs an approval, as 7 others do@1m30s")
	content = intent.Sum("v2")
	commit()
	b.want(b.pass(time.Minute), "[shop] all: over (approval at shop@3)@6m40s\n[shop] all: 2 assets (approval at shop@23), as db: approval: needs an approval, as 23 others do@7m10s")
}

func TestItIsRepeated(t *testing.T) {
	n := on("again", waiting)
	n.Repeat, n.SilentEnd = durationpb.New(4*time.Hour), true
	b := newBench(t, n)
	b.is("web", "approval")
	b.want(b.pass(9*time.Hour), "[shop] again: web: approval: approval it is@30s\n[shop] again: web: approval: approval it is@4h0m30s\n[shop] again: web: approval: approval it is@8h0m30s")
	b.is("web", "in-sync")
	b.want(b.pass(9*time.Hour), "")
}

// TestMessagesHaveOneID: each of a group has another, and one that is made again has its own.
func TestMessagesHaveOneID(t *testing.T) {
	ids := func() []string {
		n := on("again", waiting)
		n.Repeat, n.To = durationpb.New(time.Hour), []string{"chat", "mail"}
		b := newBench(t, n)
		b.is("web", "approval")
		var all []string
		for range 3 {
			next := b.tick(b.now)
			for _, d := range b.Outbox {
				all = append(all, d.Target+d.Message.ID)
			}
			b.Outbox, b.now = nil, next
		}
		return all
	}
	first, second := ids(), ids()
	if len(first) != 4 || fmt.Sprint(first) != fmt.Sprint(second) || first[0][4:] != first[1][4:] || first[0] == first[2] {
		t.Errorf("ids are %v, then %v", first, second)
	}
}

func TestTextsAndGroupsAreExpressions(t *testing.T) {
	n := on("own", `report.waiting.exists(w, w.kind == "backoff") && before.state == "pushing"`)
	n.Text, n.Group = `report.asset.upperAscii() + " failed\nBcc: <!channel>"`, `"one"`
	b := newBench(t, n)
	b.is("quiet", "backoff")
	b.is("web", "pushing")
	b.is("web", "backoff")
	b.want(b.pass(time.Minute), `[shop] own: web: WEB failed\nBcc: <!channel>@30s`)
	// One that has no value is told of, and is not so.
	b.policy(on("bad", `report.waiting[3].kind == "x"`))
	b.is("web", "hold")
	b.want(b.pass(time.Minute), "")
}

// TestPolicyChanges: what is new begins with what is so, what is gone is silent.
func TestPolicyChanges(t *testing.T) {
	b := newBench(t)
	b.is("web", "approval")
	b.want(b.pass(time.Hour), "")
	b.policy(on("new", waiting))
	b.want(b.pass(time.Hour), "[shop] new: web: approval: approval it is@1h0m30s")
	b.policy(on("new", waiting), on("other", waiting))
	b.want(b.pass(time.Hour), "[shop] other: web: approval: approval it is@2h0m30s")
	b.policy(on("other", waiting))
	b.is("web", "in-sync")
	b.want(b.pass(time.Hour), "[shop] other: over (approval at shop@3)@3h0m30s")
}

// TestEditedGoesOn: what was told of before an edit is told to be over, whether the edit
// ended it or it ends later, and is no other one meanwhile.
func TestEditedGoesOn(t *testing.T) {
	b := newBench(t, on("it", waiting))
	b.is("web", "approval")
	b.is("db", "hold")
	b.want(b.pass(time.Hour), "[shop] it: web: approval: approval it is@30s\n[shop] it: db: hold: hold it is@30s")
	open := b.Groups["it\x00approval at shop@3"].ID
	b.policy(on("it", `report.waiting.exists(w, w.kind == "approval")`))
	b.want(b.pass(time.Hour), "[shop] it: web: approval: approval it is@1h0m0s\n[shop] it: over (hold of )@1h0m0s")
	if got := b.Groups["it\x00approval at shop@3"].ID; got != open {
		t.Errorf("what goes on is %s, and was %s", got, open)
	}
	b.is("web", "in-sync")
	b.want(b.pass(time.Hour), "[shop] it: over (approval at shop@3)@2h0m30s")
}

func TestPartitionIsTold(t *testing.T) {
	n := on("stopped", "has(partition.stop)")
	n.OfPartition, n.Text = true, `"stopped by " + partition.stop.owner`
	held := on("held", `partition.candidate.state == "held"`)
	held.OfPartition = true
	b := newBench(t, n, held)
	b.look(&intentpb.NotedPartition{Stop: &intentpb.NotedStop{Owner: "ann"}}, b.now)
	b.want(b.pass(time.Minute), "[shop] stopped: stopped by ann@0s")
	b.look(&intentpb.NotedPartition{Candidate: &intentpb.NotedCandidate{State: "held"}}, b.now)
	b.want(b.pass(2*time.Minute), "[shop] held: it is so: partition.candidate.state == \"held\"@1m0s\n[shop] stopped: over (partition)@1m30s")
}

// TestTargetThatIsDown: each message waits for the one before it, longer and longer; of
// too many the oldest are dropped, and that is told.
func TestTargetThatIsDown(t *testing.T) {
	n := on("again", waiting)
	n.To = []string{"chat", "mail"}
	b := newBench(t, n)
	for i := range mostWaiting + 10 {
		b.send(b.rules[0], &Group{ID: fmt.Sprint(i), Rule: "again", Opened: b.now}, "resolved", b.now)
	}
	if len(b.Outbox) != 2*mostWaiting || b.Targets["chat"].Dropped != 10 || b.Outbox[0].Message.ID != "10-0" {
		t.Fatalf("%d wait, %+v, the first is %s", len(b.Outbox), b.Targets["chat"], b.Outbox[0].Message.ID)
	}
	tries := 0
	for end := b.now.Add(time.Hour); b.now.Before(end); {
		ready, next := b.upTo(b.now)
		for _, d := range ready {
			if d.Target == "chat" {
				tries++
				b.delivered(d, errors.New("no"), b.now)
			}
		}
		if _, next = b.upTo(b.now); next.IsZero() {
			t.Fatal("nothing is due")
		}
		b.now = next
	}
	if tries < 12 || tries > 25 || b.Targets["chat"].Problem != "no" || !b.Targets["chat"].Since.Equal(noon) {
		t.Errorf("%d tries in an hour; %+v", tries, b.Targets["chat"])
	}
	ready, _ := b.upTo(b.now)
	if len(ready) != 2 {
		t.Fatalf("%d are ready, want one of each target", len(ready))
	}
	ready[0].Message.Dropped = 10
	b.delivered(ready[0], nil, b.now)
	if b.Targets["chat"].Dropped != 0 || b.Targets["chat"].Problem != "" || len(b.Outbox) != 2*mostWaiting-1 {
		t.Errorf("after it was taken: %+v", b.Targets["chat"])
	}
}

// TestWhatIsSaidIsBounded: all of it is kept in memory, for each asset.
func TestWhatIsSaidIsBounded(t *testing.T) {
	b := newBench(t, on("all", `report.state == "waiting"`))
	b.reports["a"] = &intent.Report{Asset: "a", State: intent.StateWaiting, Waiting: []intent.WaitingOn{{Kind: "plugin", Reason: strings.Repeat("é\n", 100_000)}}}
	b.report(b.rules, *b.reports["a"], nil, b.now)
	if text := b.Active["all"]["a"].Text; text == "" || len(text) > 300 || !utf8.ValidString(text) || strings.Contains(text, "\n") {
		t.Errorf("%d bytes are kept: %.400q", len(text), text)
	}
}

// namedLinks are pages by what they are of.
type namedLinks struct{ Links }

func (namedLinks) Partition(p intent.PartitionID) string { return "page:" + string(p) }
func (namedLinks) Candidate(_ intent.PartitionID, id string) string {
	return "candidate:" + id
}
func (namedLinks) Stage(_ intent.PartitionID, rollout string, run uint64, stage string) string {
	return fmt.Sprintf("stage:%s#%d/%s", rollout, run, stage)
}

// TestMessagesOfAPartitionLinkToWhatWaits: a message about the partition leads to the confirmations
// of a held candidate and of stages that ask people, and to pull requests; what a host calls a link
// and is none is left out. One that is over leads nowhere but to the page.
func TestMessagesOfAPartitionLinkToWhatWaits(t *testing.T) {
	b := newBench(t, &intentpb.Notification{Name: "waits", When: "partition.rollouts.exists(r, r.cause == 'approval')", To: []string{"chat"}, OfPartition: true})
	b.links = namedLinks{}
	run := intent.Rollout{
		Name: "jobs", Run: 4, State: intent.RolloutRunning, Progress: intent.RolloutProgress{Cause: intent.CauseApproval, Stages: []intent.StageProgress{
			{Name: "first", Approval: &intent.StageApproval{State: intent.ApprovalGiven}}, {Name: "rest", Approval: &intent.StageApproval{State: intent.ApprovalAsked}},
		}},
		Proposals: []intent.RolloutProposal{
			{State: intent.ProposalOpen, Request: intent.PullRequest{Number: 1, Link: "https://git.example.com/pull/1"}},
			{State: intent.ProposalMerged, Request: intent.PullRequest{Number: 2, Link: "https://git.example.com/pull/2"}},
			{State: intent.ProposalOpen, Request: intent.PullRequest{Number: 3, Link: "https://git.example.com/<!channel>"}},
			{State: intent.ProposalOpen, Request: intent.PullRequest{Number: 4, Link: "javascript:alert(1)"}},
			{State: intent.ProposalOpen},
		},
	}
	view := &intentpb.NotedPartition{Id: "shop", Candidate: &intentpb.NotedCandidate{Id: "shop@~12ab", State: "held"}, Rollouts: []*intentpb.NotedRollout{notedRollout(&run)}}
	b.look(view, b.now)
	b.tick(b.now)
	if len(b.Outbox) != 1 {
		t.Fatalf("%d messages", len(b.Outbox))
	}
	first := b.Outbox[0].Message
	if got, want := linksOf(first), []string{"candidate:shop@~12ab", "stage:jobs#4/rest", "https://git.example.com/pull/1"}; !slices.Equal(got, want) {
		t.Errorf("the links are %q, want %q", got, want)
	}
	if text := slackText(first); !strings.HasSuffix(text, "\n<candidate:shop@~12ab>\n<stage:jobs#4/rest>\n<https://git.example.com/pull/1>") {
		t.Errorf("the message is %q", text)
	}
	run.State = intent.RolloutDone
	if ended := notedRollout(&run); ended.Stage != "" {
		t.Errorf("a run that ended asks for %s", ended.Stage)
	}
	b.look(&intentpb.NotedPartition{Id: "shop"}, b.now)
	b.now = b.now.Add(time.Minute)
	b.tick(b.now)
	over := b.Outbox[len(b.Outbox)-1].Message
	if got := linksOf(over); over.Status != "resolved" || len(got) > 0 {
		t.Errorf("the end is %s with %q", over.Status, got)
	}
}
