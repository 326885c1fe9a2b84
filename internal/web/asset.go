package web

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

const pushesShown = 20

// showAsset is all about one asset: why it is as it is first.
func showAsset(ctx context.Context, r *reader, at address) (page, error) {
	p, err := r.readPartition(ctx, at.partition)
	if err != nil {
		return page{}, err
	}
	pageData := page{
		Title: at.name, Partition: p.Id,
		Back: crumb{"partition " + p.Id, address{kind: "partition", partition: p.Id}.String()},
	}
	content, missing := r.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: p.Id, Asset: at.name})
	if missing != nil && !absent(missing) {
		return page{}, missing
	}
	explanation, err := r.Reports.Why(ctx, &apipb.WhyRequest{Partition: p.Id, Asset: at.name})
	switch {
	case err != nil && missing != nil:
		return page{}, err
	case err != nil:
		pageData.Parts = append(pageData.Parts, problem("why", err))
	default:
		ageless(explanation)
		pageData.Parts = append(pageData.Parts, makePart("why", "why", whyView{WhyResponse: explanation, Partition: p.Id, About: at.name}),
			makePart("why-drawn", "graph", reasonGraph(p.Id, at.name, explanation.State, explanation.Reasons)))
	}
	report := explanation.GetReport()
	pageData.Parts = append(pageData.Parts,
		makePart("acts", "act-links", r.assetActs(ctx, p, at.name, report, isTurnedDown(content))),
		makePart("report", "report", reportView{
			Report: report, Asset: content.GetAsset(), Partition: p, Standing: explanation.GetStanding(), Group: groupOf(content),
		}),
		makePart("checks", "checks", report))
	if missing != nil {
		pageData.Parts = append(pageData.Parts, makePart("plan", "plan", report))
	} else {
		pageData.Parts = append(pageData.Parts, makePart("plan", "plan-heading", report))
		pageData.Parts = append(pageData.Parts, makePart("sides", "sides", r.readSides(ctx, at, content, explanation)),
			makePart("references", "neighbours", neighboursView{neighbourGraph(p.Id, content), link(p.Id, "references", at.name)}))
	}
	pageData.Parts = append(pageData.Parts,
		r.pushes(ctx, p.Id, at.name),
		r.progress(ctx, p.Id, report),
		r.timeline(ctx, at),
		makePart("moment", "moment-form", momentView{at: at}))
	if missing == nil {
		pageData.Parts = append(pageData.Parts, makePart("content", "content", contentView{content, p.Id, addons(content.Addons)}))
	}
	pageData.Parts = append(pageData.Parts, makePart("commands", "commands", r.assetCommands(p, at.name, report)))
	return pageData, nil
}

// neighboursView is what an asset refers to and what refers to it, and where the rest is.
type neighboursView struct {
	*graph
	All string
}

type whyView struct {
	*apipb.WhyResponse
	Partition, About string
}

// Chain is the reasons of one level, and what they are said of.
func (w whyView) Chain() chain { return chain{w.Partition, w.About, w.Reasons} }

// Adds reports whether the chain says more than its summary.
func (w whyView) Adds() bool {
	if len(w.Reasons) != 1 {
		return len(w.Reasons) > 1
	}
	r := w.Reasons[0]
	return len(r.Causes) > 0 || len(r.Findings) > 0 || r.Owner != "" || r.Since != nil || r.Until != nil
}

type chain struct {
	Partition, About string
	Reasons          []*apipb.Reason
}

// Below are the causes of one of the reasons.
func (c chain) Below(reason *apipb.Reason) chain {
	return chain{c.Partition, reason.Asset, reason.Causes}
}

// Subject is the asset that a reason is said of, when it is another.
func (c chain) Subject(reason *apipb.Reason) string {
	if reason.Asset == c.About {
		return ""
	}
	return reason.Asset
}

type reportView struct {
	*apipb.Report
	Asset     *apipb.Asset
	Partition *apipb.Partition
	Standing  *apipb.Standing
	// Group that it is in; empty: none.
	Group string
}

// groupOf is the name of the group that an asset is in.
func groupOf(content *apipb.GetAssetResponse) string {
	fields := content.GetAddons()[string((&intentpb.Group{}).ProtoReflect().Descriptor().FullName())].GetFields()
	return intent.Group{Service: fields["service"].GetStringValue(), Instance: fields["instance"].GetStringValue()}.Name()
}

// timeline is the newest of what became of an asset.
func (r *reader) timeline(ctx context.Context, at address) part {
	view, err := r.readTimeline(ctx, at, time.Time{}, eventsFirst)
	if err != nil && !absent(err) {
		return problem("timeline", err)
	}
	view.All, view.pager = link(at.partition, "timeline", at.name), pager{}
	return makePart("timeline", "timeline", view)
}

type contentView struct {
	*apipb.GetAssetResponse
	Partition string
	Addons    []addon
}

type addon struct {
	Type    string
	Content *structpb.Struct
}

func addons(byType map[string]*structpb.Struct) []addon {
	var list []addon
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		list = append(list, addon{name, byType[name]})
	}
	return list
}

func (r *reader) pushes(ctx context.Context, partition, asset string) part {
	response, err := r.Journal.ListPushes(ctx, &apipb.ListPushesRequest{Partition: partition, Asset: asset, Limit: pushesShown})
	if err != nil {
		return problem("pushes", err)
	}
	var pushes []pushView
	for _, push := range response.Pushes {
		pushes = append(pushes, pushView{push, partition})
	}
	return makePart("pushes", "pushes", pushes)
}

// advice is a command, and what it is for.
type advice struct{ For, Command string }

// assetActs are what can be done about an asset now, the most likely first.
func (r *reader) assetActs(ctx context.Context, p *apipb.Partition, asset string, report *apipb.Report, isTurnedDown bool) (list []actButton) {
	add := func(name string) { list = append(list, newActButton(p.Id, name, asset)) }
	waits := map[string]bool{}
	for _, waiting := range report.GetWaiting() {
		waits[waiting.Kind] = true
	}
	if report.GetPlanDigest() != "" {
		if waits["approval"] {
			add("approve")
		}
		add("reject")
	}
	if waits["rejected"] {
		add("withdraw")
		add("overrule")
	}
	if waits["order"] || waits["capacity"] || waits["version"] {
		add("override")
	}
	// What is in sync waits for nothing, and may be held all the same.
	if waits["hold"] || r.isHeld(ctx, p.Id, asset) {
		add("unhold")
	} else {
		add("hold")
	}
	if report.GetPinned() != "" {
		add("unpin")
	} else if p.Head != "" {
		add("pin")
	}
	add("retry")
	if isTurnedDown {
		add("undo-turndown")
	} else if p.Head != "" {
		add("turndown")
	}
	return list
}

// isHeld reports whether an asset is held; where that cannot be read, that it is not.
func (r *reader) isHeld(ctx context.Context, partition, asset string) bool {
	response, err := r.Brakes.ListHolds(ctx, &apipb.ListHoldsRequest{Partition: partition})
	return err == nil && slices.ContainsFunc(response.Holds, func(hold *apipb.Hold) bool { return hold.Asset == asset && !hold.Expired })
}

// assetCommands are what a person may want to do, the most likely first.
func (r *reader) assetCommands(p *apipb.Partition, asset string, report *apipb.Report) []advice {
	var list []advice
	say := func(purpose string, words ...string) { list = append(list, advice{purpose, r.command(p.Id, words...)}) }
	isHeld := false
	for _, waiting := range report.GetWaiting() {
		switch waiting.Kind {
		case "approval":
			if report.PlanDigest != "" {
				say("Allow this plan, once", "approve", asset, "--plan", short(report.PlanDigest), "--reason", "WHY")
			}
		case "rejected":
			say("Take a rejection of this plan back", "reject", asset, "--withdraw", "--of", waiting.Owner, "--reason", "WHY")
		case "hold":
			isHeld = true
		}
	}
	if isHeld {
		say("End the hold", "unhold", asset, "--reason", "WHY")
	} else {
		say("Keep it from being pushed", "hold", asset, "--reason", "WHY")
	}
	if report.GetPinned() != "" {
		say("Let it follow head again", "unpin", asset, "--reason", "WHY")
	} else if p.Head != "" {
		say("Keep it at an incarnation", "pin", asset, p.Head, "--reason", "WHY")
	}
	say("Wait until it is in sync", "wait", asset)
	say("See this page in a terminal", "why", asset)
	if p.Head != "" {
		say("See which file and commit it comes from", "blame", asset)
	}
	return list
}
