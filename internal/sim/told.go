package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/notify"
)

// In runs that tell, people are notified by receivers that go wrong.

// Disturbances of runs that tell.
const (
	Receiver Kind = "a receiver of notifications goes wrong"
	Awaited  Kind = "much waits for approvals"
	Noticed  Kind = "notifications are edited"
)

var tellingKinds = []weighed{{Receiver, 30}, {Awaited, 20}, {Noticed, 6}, {PersonLooks, 6}}

// receivers are whom the partition tells, awaiting the notification that the monitor
// holds Lehr to.
var receivers = []string{"chat", "mail"}

const awaiting = "awaiting"

// notices are the notifications of the partition, of some kind or, without a choice, of
// the first.
func notices(r *rand.Rand) string {
	one := func(kinds ...string) string {
		if r == nil {
			return kinds[0]
		}
		return kinds[r.IntN(len(kinds))]
	}
	return "notifications:\n" +
		one(`  `+awaiting+`:
    when: report.waiting.exists(w, w.kind == "approval")
`+one("    group: '\"approvals\"'\n", "    group: report.type\n", "")+one("", "    for: 1m\n", "    repeat: 10m\n")+
			one("", "    text: report.asset + \" waits: \" + report.waiting[0].reason\n")+one("    to: [chat, mail]\n", "    to: [mail, chat]\n", "    to: [chat]\n", "    to: [mail]\n"),
			one("  "+awaiting+":\n    when: report.waiting.exists(w, w.kind == \"approval\")\n    to: [mail, chat]\n", "")) +
		one(`  held:
    when: report.waiting.exists(w, w.kind == "hold")
    to: [chat]
`, "") + `  stopped:
    of: partition
    when: has(partition.stop)
    to: [mail]
`
}

// Tells reports whether runs of a seed notify people.
func Tells(seed uint64) bool { return seed > 0 && seed%27 == 0 }

// tells reports whether this run does.
func (l *Lab) tells() bool { return l.options.Definition == "" && Tells(l.options.Seed) }

// What becomes of messages.
const (
	receiverFails = "fails"
	receiverHangs = "hangs"
	receiverLoses = "loses the answer"
)

// receiver is what is wrong with some of those that are told; all where it is empty.
type receiver struct {
	kind, target string
	until        time.Time
}

// receive takes a message, as the sender of a replica delivers it: within its time.
func (r *Replica) receive(ctx context.Context, target string, message notify.Message) error {
	const most = 20 * time.Second
	l := r.lab
	kind := ""
	if !l.healing && l.receiver.until.After(l.Now()) && (l.receiver.target == "" || l.receiver.target == target) {
		kind = l.receiver.kind
		l.mark("receiver: " + kind)
	}
	l.showsValue("a message to "+target, message)
	takes := time.Duration(l.stream("receiver").Int64N(int64(time.Second)))
	if kind == receiverHangs {
		takes = most
	}
	if err := r.Wait(ctx, takes, nil); err != nil {
		return err
	}
	switch kind {
	case receiverFails:
		return fault.New(fault.Unavailable, "target %s answered 503", target)
	case receiverHangs:
		return fault.New(fault.Unavailable, "%s did not answer within %s", target, most)
	}
	l.taken(target, message)
	if kind == receiverLoses {
		return fault.New(fault.Unavailable, "target %s did not take it: connection reset", target)
	}
	return nil
}

// taken notes a message that was delivered.
func (l *Lab) taken(target string, message notify.Message) {
	l.mark("notified: " + message.Name + " is " + message.Status)
	if l.messages[target+message.ID] {
		l.mark("notified: a second time")
	}
	l.messages[target+message.ID] = true
	if message.Name != awaiting || message.Status != "firing" {
		return
	}
	for _, m := range message.Assets {
		l.Monitor.Notified(target, m.Asset, message.At)
	}
}

// receives has receivers go wrong for a while.
func (l *Lab) receives(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "receiver")
	l.receiver = receiver{
		kind:   []string{receiverFails, receiverHangs, receiverLoses}[r.IntN(3)],
		target: []string{"", "chat", "mail"}[r.IntN(3)],
		until:  l.Now().Add(min(d.Length+time.Duration(1+r.IntN(12))*time.Minute, 20*time.Minute)),
	}
	l.tell("%s: %q %s", d, l.receiver.target, l.receiver.kind)
	l.receivers()
	l.after(l.receiver.until.Sub(l.Now()), l.receivers)
}

// receivers tells the monitor which of them work.
func (l *Lab) receivers() {
	for _, target := range receivers {
		wrong := !l.healing && l.receiver.until.After(l.Now()) && (l.receiver.target == "" || l.receiver.target == target)
		l.Monitor.Receives(target, !wrong)
	}
}

// notifiesOtherwise has people notified otherwise from now on, or of less.
func (l *Lab) notifiesOtherwise(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	next.Notices = notices(r)
	l.note(d.Kind, "sources")
	l.save(d.Number, next, "people are notified otherwise")
}

// awaits has some things wait for approvals that nobody gives for a while, and at times
// the process end then, or people be notified otherwise.
func (l *Lab) awaits(d Disturbance, r *rand.Rand) {
	next := l.good.clone()
	var actions []string
	for at := range next.Things {
		if t := &next.Things[at]; (t.Kind == "command" || t.Kind == "login") && t.Mode == "" && !t.Turndown {
			t.Approval = true
			actions = append(actions, t.alter(r))
		}
	}
	if len(actions) == 0 {
		return
	}
	l.note(d.Kind, "sources")
	l.save(d.Number, next, strings.Join(actions, "; "))
	if r.IntN(2) == 0 {
		l.receives(Disturbance{Number: d.Number, Kind: Receiver, Length: d.Length, Seed: d.Seed}, r)
	}
	if r.IntN(2) == 0 {
		l.after(time.Duration(20+r.IntN(60))*time.Second, func() {
			l.mark("notified: restart while something is owed")
			l.restart(Disturbance{Number: d.Number, Kind: Restart, Seed: d.Seed}, r)
		})
	}
	if r.IntN(3) == 0 {
		l.after(time.Duration(60+r.IntN(120))*time.Second, func() {
			l.mark("notified: otherwise while something waits")
			l.notifiesOtherwise(Disturbance{Number: d.Number, Kind: Noticed, Seed: d.Seed}, r)
		})
	}
	l.after(10*time.Minute+time.Duration(r.IntN(600))*time.Second, func() { l.strike(Disturbance{Number: d.Number, Kind: PersonApprove, Seed: d.Seed}) })
}

// told are the receivers that the monitor holds Lehr to; none where nobody is told.
func (l *Lab) told() []string {
	if !l.tells() {
		return nil
	}
	return slices.Clone(receivers)
}
