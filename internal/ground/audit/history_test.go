package audit_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/intent"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// chains are records "verb subject | detail" by partition, well linked, so that
// only the rules can find something.
type chains map[intent.PartitionID][]string

func (c chains) verify() audit.Report {
	v := audit.NewVerifier(nil)
	for _, partition := range []intent.PartitionID{"", "shop"} {
		v.Begin(partition)
		chain := audit.Chain{Partition: partition}
		for i, line := range c[partition] {
			said, detail, _ := strings.Cut(line, " | ")
			verb, subject, _ := strings.Cut(said, " ")
			r := intent.AuditRecord{
				Partition: partition, Number: uint64(i + 1), At: noon, By: intent.Actor{Name: "server", Origin: "server"},
				Verb: verb, Subject: subject, Detail: detail, Version: audit.Version,
			}
			chain.Link = audit.Link(chain.Link, r)
			r.Link = audit.Short(chain.Link)
			v.Next(r)
		}
		v.End()
	}
	return v.Report()
}

func admit(push string, target, epoch, revision, global int, approved bool) string {
	return audit.Admitted{
		Push: intent.PushID(push), Target: intent.IncarnationID{Partition: "shop", Sequence: intent.Sequence(target)},
		Content: "c0", Plan: "d0", Approved: approved, Epoch: uint64(epoch), Revision: uint64(revision), Global: uint64(global), Checks: []string{"order"},
	}.String()
}

// begun is how each of the histories begins.
var begun = []string{"add-partition shop | /srv/lehr.yaml", "acquire shop | epoch 1", "publish shop@1 | 1 assets; digest 00, under epoch 1"}

func TestRules(t *testing.T) {
	approve := "approve a | " + audit.Approved{Plan: "d0", Content: "c0", Until: noon.Add(time.Hour)}.String()
	for name, c := range map[string]struct {
		global []string
		shop   []string
		// wrong is part of the one problem; empty: there is none.
		wrong string
	}{
		"all well": {[]string{"stop ", "resume "}, []string{
			approve, "admit a | " + admit("p1", 1, 1, 3, 2, true), "doubt a | push p1: lost", "close a | push p1 settled", "admit a | " + admit("p2", 1, 1, 3, 2, false),
			"close a | push p2 failed: no answer, of http://x: y", "pin a | to shop@1, revision 1", "pin a | to shop@1, revision 2", "release shop | epoch 1",
			"acquire shop | epoch 2", "publish shop@2 | 1 assets, under epoch 2", "stop shop", "resume shop", "admit a | " + admit("p3", 2, 2, 9, 2, false),
		}, ""},
		"two at once":            {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "admit a | " + admit("p2", 1, 1, 3, 0, false)}, "while push p1 of the asset was open"},
		"of different ones":      {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "admit b | " + admit("p2", 1, 1, 3, 0, false)}, ""},
		"ended twice":            {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "close a | push p1 pushed", "close a | push p1 pushed"}, "push p1 was not open"},
		"never admitted":         {nil, []string{"close a | push p1 pushed"}, "push p1 was not open"},
		"doubt of nothing":       {nil, []string{"doubt a | push p1: lost"}, "push p1 was not open"},
		"epoch again":            {nil, []string{"acquire shop | epoch 1"}, "epochs only grow"},
		"epoch back":             {nil, []string{"acquire shop | epoch 5", "acquire shop | epoch 4"}, "epoch 4 follows epoch 5"},
		"old epoch":              {nil, []string{"acquire shop | epoch 2", "admit a | " + admit("p1", 1, 1, 3, 0, false)}, "under epoch 1"},
		"released":               {nil, []string{"release shop | epoch 1", "admit a | " + admit("p1", 1, 1, 3, 0, false)}, "held epoch 1"},
		"published late":         {nil, []string{"acquire shop | epoch 2", "publish shop@2 | x, under epoch 1"}, "published under epoch 1"},
		"skipped":                {nil, []string{"publish shop@3 | x, under epoch 1"}, "head was 1"},
		"under a stop":           {nil, []string{"stop shop", "admit a | " + admit("p1", 1, 1, 3, 0, false)}, "the partition was stopped"},
		"under all's stop":       {[]string{"stop "}, []string{"admit a | " + admit("p1", 1, 1, 3, 1, false)}, "all partitions were stopped"},
		"before all's stop":      {[]string{"stop "}, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false)}, ""},
		"after what is not":      {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 1, false)}, "only 0 are there"},
		"all's order":            {[]string{"stop ", "resume "}, []string{"admit a | " + admit("p1", 1, 1, 3, 2, false), "admit b | " + admit("p2", 1, 1, 3, 0, false)}, "after one that saw 2"},
		"not published":          {nil, []string{"admit a | " + admit("p1", 2, 1, 3, 0, false)}, "shop@2 was not published yet"},
		"stale":                  {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "admit b | " + admit("p2", 1, 1, 2, 0, false)}, "after one that rested on 3"},
		"not approved":           {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, true)}, "nobody had given"},
		"approval twice":         {nil, []string{approve, "admit a | " + admit("p1", 1, 1, 3, 0, true), "close a | push p1 pushed", "admit a | " + admit("p2", 1, 1, 3, 0, true)}, "nobody had given"},
		"approval void":          {nil, []string{approve, "void a | the approval of plan d0 of content c0: shop@2 changes the asset", "admit a | " + admit("p1", 1, 1, 3, 0, true)}, "nobody had given"},
		"approval ended":         {nil, []string{strings.Replace(approve, "13:00", "12:00", 1), "admit a | " + admit("p1", 1, 1, 3, 0, true)}, "that ended at"},
		"another's":              {nil, []string{approve, "admit b | " + admit("p1", 1, 1, 3, 0, true)}, "nobody had given"},
		"pin back":               {nil, []string{"pin a | to shop@1, revision 2", "pin b | to shop@1, revision 2"}, "pins move forward"},
		"pin to what is to come": {nil, []string{"pin a | to shop@2, revision 2"}, "shop@2 was not published yet"},
		"removed":                {nil, []string{"remove-partition shop", "admit a | " + admit("p1", 1, 1, 3, 0, false)}, "the partition was not registered"},
		"resumed twice":          {nil, []string{"stop shop", "resume shop", "resume shop"}, "it was going on already"},
		"memo":                   {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "memo a | push p1: run, 7 bytes, digest c0", "memo a | push p1: run, forgotten", "close a | push p1 pushed"}, ""},
		"memo of no push":        {nil, []string{"admit b | " + admit("p1", 1, 1, 3, 0, false), "memo a | push p1: run, 7 bytes, digest c0"}, "push p1 was not open"},
		"memo of a closed push":  {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "close a | push p1 pushed", "memo a | push p1: run, forgotten"}, "push p1 was not open"},
		"memo of an old epoch":   {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "acquire shop | epoch 2", "memo a | push p1: run, 7 bytes, digest c0"}, "admitted under epoch 1, and the epoch was 2"},
		"memo after a release":   {nil, []string{"admit a | " + admit("p1", 1, 1, 3, 0, false), "release shop | epoch 1", "memo a | push p1: run, forgotten"}, "held epoch 1"},
		"memo of nothing":        {nil, []string{"memo a | something"}, "does not say which push"},
		"no push":                {nil, []string{"admit a | something"}, "does not say what was admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			report := chains{"": c.global, "shop": append(append([]string(nil), begun...), c.shop...)}.verify()
			var said []string
			for _, p := range report.Problems {
				said = append(said, p.Message)
			}
			all := strings.Join(said, "\n")
			if report.OK() != (c.wrong == "") || !strings.Contains(all, c.wrong) {
				t.Errorf("found %q, want %q", all, c.wrong)
			}
		})
	}
}

// TestOldRecords: what was written before reasons were recorded still verifies,
// and says so.
func TestOldRecords(t *testing.T) {
	v := audit.NewVerifier(nil)
	v.Begin("shop")
	chain := audit.Chain{Partition: "shop"}
	for i, r := range []intent.AuditRecord{
		{Verb: "add-partition", Subject: "shop", Detail: "/srv/lehr.yaml"},
		{Verb: "acquire", Subject: "shop", Detail: "epoch 1"},
		{Verb: "publish", Subject: "shop@1", Detail: "1 assets: 1 added, 0 changed, 0 removed; digest 00, under epoch 1"},
		{Verb: "pin", Subject: "a", Detail: "to shop@1: slow, and: so"},
		{Verb: "approve", Subject: "a", Detail: "plan d0 of content c0: fine, until then"},
		{Verb: "admit", Subject: "a", Detail: "push p1 to shop@1, content c0, plan d0, approved; passed stop"},
		{Verb: "close", Subject: "a", Detail: "push p1 pushed"},
		{Verb: "unpin", Subject: "a", Reason: "done", Version: audit.Version},
	} {
		r.Partition, r.Number, r.At, r.By = "shop", uint64(i+1), noon, intent.Actor{Name: "server", Origin: "server"}
		chain.Link = audit.Link(chain.Link, r)
		r.Link = audit.Short(chain.Link)
		v.Next(r)
	}
	v.End()
	report := v.Report()
	if !report.OK() || !strings.Contains(strings.Join(report.Notes, "\n"), "2 admissions and pins are of an older version") {
		t.Errorf("%+v", report)
	}
	// As stores of that time have it.
	first := intent.AuditRecord{Partition: "shop", Number: 1, At: noon, By: intent.Actor{Name: "ann", Origin: "cli"}, Verb: "stop", Subject: "shop", Detail: "fire"}
	if got := audit.Link(intent.Digest{}, first).String(); got != oldLink {
		t.Errorf("the link of version 0 is %s, want %s", got, oldLink)
	}
}

const oldLink = "bbd81bf7dfe6aba8f17fa3d8e01d4ac57e6c421cef9514a039210d5015e8c91a"

func TestDetailsAreReadAsTheyAreWritten(t *testing.T) {
	admitted := audit.Admitted{
		Push: "shop/4-1", Target: intent.IncarnationID{Partition: "shop", Sequence: 7}, Content: "c0", Plan: "d0", Approved: true,
		Epoch: 4, Revision: 17, Global: 2, Checks: []string{"stop", "mode"},
	}
	for _, size := range []audit.PlanSize{
		{}, {Action: intent.ActionUpdate, Changes: 1}, {Action: intent.ActionReplace, Changes: 1000, Destructive: 12}, {Action: intent.ActionDelete},
	} {
		for _, approvers := range [][]string{nil, {"ann", "bob, or not"}} {
			admitted.Size, admitted.Approvers = size, approvers
			if got, well := audit.ParseAdmitted(admitted.String()); !well || !reflect.DeepEqual(got, admitted) {
				t.Errorf("%q is read as %+v", admitted, got)
			}
		}
	}
	for _, ended := range []audit.Ended{{Push: "p1", Ending: "pushed"}, {Push: "p1", Ending: "failed", Why: "a: b\nc"}, {Push: "p1", Why: "lost"}} {
		if got, well := audit.ParseEnded(ended.String()); !well || got != ended {
			t.Errorf("%q is read as %+v", ended, got)
		}
	}
	for _, approved := range []audit.Approved{{Plan: "d0", Content: "c0"}, {Plan: "d0", Content: "c0", Until: noon.Add(time.Nanosecond)}} {
		if got, well := audit.ParseApproved(approved.String()); !well || got != approved {
			t.Errorf("%q is read as %+v", approved, got)
		}
	}
	for _, remembered := range []audit.Remembered{{Push: "shop/4-1", Key: "k", Bytes: 7, Digest: "c0"}, {Push: "p1", Key: "task:run 7"}} {
		if got, well := audit.ParseRemembered(remembered.String()); !well || got != remembered {
			t.Errorf("%q is read as %+v", remembered, got)
		}
	}
	nothing := intent.IncarnationID{Partition: admitted.Target.Partition}
	for _, pinned := range []audit.Pinned{{Incarnation: admitted.Target, Revision: 3}, {Incarnation: nothing, Revision: 4}} {
		if got, well := audit.ParsePinned(pinned.String()); !well || got != pinned {
			t.Errorf("%q is read as %+v", pinned, got)
		}
	}
}
