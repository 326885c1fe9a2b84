package storetest

import (
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// admitPreviewRule: a rule of previews is the approval of the removal of what it names, of that
// preview, as head's policy has it, and only of what Lehr was admitted to create for the asset (S9).
func admitPreviewRule(w *world) {
	ctx := w.t.Context()
	policy := &intentpb.Policy{Mode: intentpb.EnforcementMode_ENFORCEMENT_MODE_ENFORCE, Previews: []*intentpb.PreviewRule{
		{Name: "review", Before: "preview/", After: "/", Generator: "review"},
	}}
	rule := branchpreview.Rules(policy)[0]
	const made, found, late, lost, shared intent.AssetID = "preview/pr-7/made", "preview/pr-7/found", "preview/pr-7/late", "preview/pr-7/lost", "shared"
	w.publish(entry(string(made), "x"), entry(string(found), "x"), entry(string(late), "x"), entry(string(lost), "x"), entry(string(shared), "x"), w.policyEntry(policy))
	// One is created. The other was there: it is adopted by a push, and by being seen.
	create := intent.Plan{Action: intent.ActionCreate, Changes: []intent.FieldChange{{Path: "name"}}}
	update := intent.Plan{Action: intent.ActionUpdate, Changes: []intent.FieldChange{{Path: "size"}}}
	count := 0
	push := func(asset intent.AssetID, plan intent.Plan, change func(*store.Admission)) store.Admission {
		count++
		a := w.admission("p"+strings.Repeat("x", count), string(asset), w.partition(shop).Head)
		a.PlanDetail, a.Plan, a.ResourceKey = plan, plan.Digest(), intent.ResourceKey("k/"+string(asset))
		change(&a)
		return a
	}
	carryOut := func(a store.Admission) {
		w.admitted(a)
		w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: a.Push, Ending: "pushed", At: noon}}))
	}
	none := func(*store.Admission) {}
	carryOut(push(made, create, none))
	carryOut(push(made, update, none))
	carryOut(push(found, update, none))
	// The push that was to create it did not succeed, so somebody else may have made what is there then.
	for _, ending := range []string{"stale", "failed", "stopped"} {
		overtaken := push(late, create, none)
		w.admitted(overtaken)
		w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: overtaken.Push, Ending: ending, At: noon}}))
		if got, err := w.HasMade(ctx, shop, late, intent.ResourceKey("k/"+string(late))); err != nil || got {
			w.t.Errorf("after a push that ended as %s: made %t, %v", ending, got, err)
		}
	}
	carryOut(push(late, update, none))
	// What was in doubt was created.
	doubted := push(lost, create, none)
	w.admitted(doubted)
	w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: doubted.Push, Ending: store.EndingInDoubt, At: noon}}))
	w.must(w.ClosePushes(ctx, w.lease, []store.Closing{{Push: doubted.Push, Ending: store.EndingSettled, At: noon}}))
	removal := intent.Plan{Action: intent.ActionDelete, Changes: []intent.FieldChange{{Path: "name", Destructive: true}}}
	byRule := func(a *store.Admission) {
		a.Removes, a.Rule = true, &intent.RuleApproval{Rule: "review", Digest: rule.Digest, Preview: "pr-7"}
	}
	for what, a := range map[string]store.Admission{
		"what was there before": push(found, removal, byRule),
		"what came before it":   push(late, removal, byRule),
		"what no preview is":    push(shared, removal, byRule),
		"another preview":       push(made, removal, func(a *store.Admission) { byRule(a); a.Rule.Preview = "pr-8" }),
		"another digest":        push(made, removal, func(a *store.Admission) { byRule(a); a.Rule.Digest = digestOf("another") }),
		"a rule of generations": push(made, removal, func(a *store.Admission) { byRule(a); a.Rule.Preview = "" }),
		"no Turndown":           push(made, removal, func(a *store.Admission) { byRule(a); a.Removes = false }),
		"another resource":      push(made, removal, func(a *store.Admission) { byRule(a); a.ResourceKey = "k/another" }),
		"an update":             push(made, update, byRule),
	} {
		if waiting := w.waits(a, intent.WaitApproval); !strings.Contains(waiting.Reason, "is no approval of plan") {
			w.t.Errorf("%s: %s", what, waiting.Reason)
		}
	}
	for asset, want := range map[intent.AssetID]bool{made: true, found: false, late: false, lost: true, shared: false} {
		if got, err := w.HasMade(ctx, shop, asset, intent.ResourceKey("k/"+string(asset))); err != nil || got != want {
			w.t.Errorf("%s was made: %t, %v", asset, got, err)
		}
	}
	carryOut(push(made, removal, byRule))
	said, well := audit.ParseAdmitted(w.lastDetail("admit"))
	if !well || said.Rule != audit.RuleOf(&intent.RuleApproval{Rule: "review", Digest: rule.Digest, Preview: "pr-7"}) || said.Approved {
		w.t.Errorf("the audit says %q", w.lastDetail("admit"))
	}
	// A claim that is given back and found again is made by nobody.
	w.enforce(absent(w.sighting(string(made), "")))
	w.enforced(string(made), "k/"+string(made))
	if got, err := w.HasMade(ctx, shop, made, intent.ResourceKey("k/"+string(made))); err != nil || got {
		w.t.Errorf("what was found is made: %t, %v", got, err)
	}
}

// previewDocuments are edited by the previewer under its lease, and by nobody else.
func previewDocuments(w *world) {
	ctx := w.t.Context()
	edit := func(base, path, value string) document.Edit {
		return document.Edit{Base: base, Reason: "a try", Operations: []document.Operation{{Path: path, Value: []byte(value)}}}
	}
	stale := w.lease
	stale.Epoch++
	_, err := w.SavePreviews(ctx, stale, "review", edit("", "/pr-7", "{}"))
	w.refused(err, fault.Conflict)
	made, err := w.SavePreviews(ctx, w.lease, "review", edit("", "/pr-7", "{}"))
	w.must(err)
	_, err = w.SavePreviews(ctx, w.lease, "review", edit(made.Revision.ID, "/pr-8", "{}"))
	w.must(err)
	_, err = w.SavePreviews(ctx, w.lease, "review", edit(made.Revision.ID, "/pr-9", "{}"))
	w.refused(err, fault.Conflict)
	name := branchpreview.Document("review")
	_, err = w.EditDocument(ctx, shop, name, edit("2", "/pr-7", "{}"), bob)
	w.refused(err, fault.Denied)
	_, err = w.CreateDocument(ctx, shop, branchpreview.Document("other"), []byte("{}"), "a try", bob)
	w.refused(err, fault.Denied)
	_, err = w.DeleteDocument(ctx, shop, name, "2", "a try", bob)
	w.refused(err, fault.Denied)
	_, err = w.UndoDocument(ctx, shop, name, "2", "a try", bob)
	w.refused(err, fault.Denied)
	_, err = w.SetFields(ctx, w.lease, w.revision(), name, edit("2", "/pr-7", "{}"), intent.RolloutHolder("sizes"))
	w.refused(err, fault.Denied)
	doc, err := w.Document(ctx, shop, name, "")
	w.must(err)
	if string(doc.Content) != `{"pr-7":{},"pr-8":{}}` || doc.Revision.By != intent.PreviewActor {
		w.t.Errorf("%s by %s", doc.Content, doc.Revision.By.Name)
	}
}
