package web

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// runView is a run of a rollout, on its own or in a list.
type runView struct {
	*apipb.RolloutRun
	Partition, Name string
	// Governs: head's policy has the rollout.
	Governs bool
}

// Brings an incarnation, or a value.
func (r runView) Brings() string {
	if r.To != "" {
		return r.To
	}
	return r.Value
}

// Open: the run goes on.
func (r runView) Open() bool { return r.RolloutRun != nil && intent.RolloutState(r.State).Open() }

// Link to the run.
func (r runView) Link() string {
	return address{kind: "rollout", partition: r.Partition, name: r.Name}.withValue("run", strconv.FormatUint(r.Run, 10))
}

// Bar of all its stages: done, let go on, the rest.
func (r runView) Bar() []piece {
	var done, selected, total int64
	for _, stage := range r.Stages {
		done, selected, total = done+stage.Done, selected+stage.Selected, total+stage.Total
	}
	return pieces(done, selected, total)
}

// piece of a bar that is barWidth wide.
type piece struct {
	Class       string
	From, Width float64
}

func pieces(done, selected, total int64) []piece {
	if total == 0 {
		return nil
	}
	at := func(n int64) float64 { return float64(n) / float64(total) * barWidth }
	return []piece{{"state-in-sync", 0, at(done)}, {"state-pushing", at(done), at(max(selected, done)) - at(done)}}
}

// showRollouts lists rollouts, each with its newest run.
func showRollouts(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Rollouts of "+at.partition)
	if err != nil {
		return page{}, err
	}
	offset, err := at.number("from")
	if err != nil {
		return page{}, err
	}
	response, err := r.Rollouts.ListRollouts(ctx, &apipb.ListRolloutsRequest{Partition: at.partition})
	if err != nil {
		return page{}, err
	}
	some, next := slice(response.Rollouts, offset, rowsShown)
	var rows []part
	for _, rollout := range some {
		rows = append(rows, makeRow(rollout.Name, "rollout-row", rolloutView{Rollout: rollout}))
	}
	pageData.Parts = []part{makeList("rollouts", "rollouts", at.pager("from", len(rows), next), rows)}
	return pageData, nil
}

// showRuns lists the runs of a rollout, the newest first.
func showRuns(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Runs of "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"rollout " + at.name, link(at.partition, "rollout", at.name)}
	cursor, err := runNumber(at, "before")
	if err != nil {
		return page{}, err
	}
	response, err := r.Rollouts.ListRuns(ctx, &apipb.ListRunsRequest{Partition: at.partition, Rollout: at.name, Before: cursor, Limit: rowsShown})
	if err != nil {
		return page{}, err
	}
	var rows []part
	for _, run := range response.Runs {
		rows = append(rows, makeRow(strconv.FormatUint(run.Run, 10), "run-row", runView{RolloutRun: run, Partition: at.partition, Name: at.name}))
	}
	next := ""
	if response.Next != 0 {
		next = strconv.FormatUint(response.Next, 10)
	}
	pageData.Parts = []part{makeList("runs", "runs", at.pager("before", len(rows), next), rows)}
	return pageData, nil
}

func runNumber(at address, key string) (uint64, error) {
	number, err := strconv.ParseUint("0"+at.query.Get(key), 10, 63)
	if err != nil {
		return 0, fault.New(fault.Invalid, "%.40q is not the number of a run", at.query.Get(key))
	}
	return number, nil
}

// rolloutView is a rollout with one of its runs.
type rolloutView struct {
	*apipb.Rollout
	// Orders are commands that make sense now.
	Orders []order
}

type order struct {
	What, Command string
	Act           actButton
}

// This is the run that is shown.
func (v rolloutView) This() runView {
	return runView{RolloutRun: v.Run, Partition: v.Partition, Name: v.Name, Governs: v.Governs}
}

// Pause is the last of the run; nil: there was none.
func (v rolloutView) Pause() *apipb.RolloutEvent {
	for _, event := range slices.Backward(v.GetRun().GetEvents()) {
		if event.Kind == string(intent.OrderPause) {
			return event
		}
	}
	return nil
}

// Waits is what the run waits for, as a sentence.
func (v rolloutView) Waits() string {
	if waits := v.GetRun().GetWaits(); !strings.HasPrefix(waits, "for ") {
		return waits
	}
	return "waits " + v.Run.Waits
}

// Columns are the stages of the run.
func (v rolloutView) Columns() (columns []column) {
	for _, stage := range v.GetRun().GetStages() {
		columns = append(columns, column{RolloutStage: stage, Partition: v.Partition, State: intent.RolloutState(v.This().GetState())})
	}
	return columns
}

type column struct {
	*apipb.RolloutStage
	Partition string
	// State is the run's.
	State intent.RolloutState
}

// ToldWaits is what the stage waits for; empty: nothing, or the run says it as a whole.
func (c column) ToldWaits() string {
	if !c.State.Open() || c.State == intent.RolloutRollingBack {
		return ""
	}
	return c.Waits
}

func (c column) Bar() []piece { return pieces(c.Done, c.Selected, c.Total) }

// Phase of the stage, in a word.
func (c column) Phase() string {
	switch {
	case c.Skipped:
		return "skipped"
	case c.Total == 0:
		return "empty"
	case c.Ended != nil:
		return "done"
	case c.Selected > 0 || c.Began != nil: // All may be done, and wait for a validation.
		switch {
		case c.State == intent.RolloutRolledBack:
			return "went back"
		case !c.State.Open():
			return "broken off"
		}
		return "under way"
	case !c.State.Open():
		return "did not begin"
	}
	return "to come"
}

// More assets than are named.
func (c column) More() int64 {
	if len(c.Assets) == 0 {
		return 0
	}
	return max(0, c.Total-int64(len(c.Assets)))
}

// showRollout is a run of a rollout: how it stands first, then its stages.
func showRollout(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Rollout "+at.name)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"rollouts", link(at.partition, "rollouts", "")}
	number, err := runNumber(at, "run")
	if err != nil {
		return page{}, err
	}
	response, err := r.Rollouts.GetRollout(ctx, &apipb.GetRolloutRequest{Partition: at.partition, Rollout: at.name, Run: number})
	if err != nil {
		return page{}, err
	}
	view := rolloutView{Rollout: response.Rollout}
	if number == 0 {
		view.Orders = r.orders(response.Rollout)
	}
	if view.Run != nil {
		pageData.Title = fmt.Sprintf("Rollout %s, run %d", at.name, view.Run.Run)
	}
	pageData.Parts = []part{
		makePart("rollout", "rollout-state", view), makePart("stages", "stages", view), makePart("fields", "fields", view), makePart("verdicts", "verdicts", view),
	}
	state := intent.RolloutState(view.This().GetState())
	goesOn := number == 0 && (state == intent.RolloutRunning || state == intent.RolloutPaused)
	pageData.Parts = append(pageData.Parts, r.forecast(ctx, at, goesOn), makePart("orders", "orders", view), makePart("events", "rollout-events", view))
	return pageData, nil
}

// forecast is how the rest of a run would go, where the address asks for it: to reckon it takes time where there are many assets. Of
// a run that does not go on it is empty, and still there, for a page whose parts change is loaded again.
func (r *reader) forecast(ctx context.Context, at address, goesOn bool) part {
	if !goesOn {
		return makePart("forecast", "forecast-link", "")
	}
	if at.query.Get("forecast") == "" {
		return makePart("forecast", "forecast-link", at.withValue("forecast", "yes"))
	}
	plan, err := r.Rollouts.PlanRollout(ctx, &apipb.PlanRolloutRequest{Partition: at.partition, Rollout: at.name})
	if err != nil {
		return problem("forecast", err)
	}
	return makePart("forecast", "act-forecast", plan)
}

// orders are what a person may ask of the newest run now.
func (r *reader) orders(rollout *apipb.Rollout) (list []order) {
	add := func(kind intent.OrderKind, purpose string, more ...string) {
		words := append([]string{"rollout", string(kind), rollout.Name}, more...)
		list = append(list, order{
			What: purpose, Command: r.command(rollout.Partition, append(words, "--reason", "WHY")...),
			Act: newActButton(rollout.Partition, "rollout-"+string(kind), rollout.Name),
		})
	}
	if stage := askedStage(rollout); stage != nil {
		for _, approve := range []bool{true, false} {
			verb := map[bool]string{true: "approve", false: "reject"}[approve]
			list = append(list, order{
				What:    map[bool]string{true: "let it go on to stage ", false: "keep it from stage "}[approve] + stage.Name,
				Command: r.command(rollout.Partition, "rollout", verb, rollout.Name, stage.Name, "--reason", "WHY"),
				Act:     stageButton(rollout.Partition, rollout.Name, rollout.Run, stage.Name, approve),
			})
		}
	}
	state := intent.RolloutState(rollout.GetRun().GetState())
	switch {
	case state == intent.RolloutPaused:
		add(intent.OrderResume, "let it go on")
	case state == intent.RolloutRunning:
		add(intent.OrderPause, "let no more assets go on")
	case rollout.Governs && rollout.Document != "":
		add(intent.OrderStart, "begin a run", "--to", "VALUE")
	case rollout.Governs && rollout.Newer == "held" && !state.Open():
		add(intent.OrderStart, "begin a run")
	}
	if state == intent.RolloutPaused || state == intent.RolloutRunning {
		if !rollout.Run.Promoted {
			add(intent.OrderSkip, "wait no longer for the stage that it is at")
			add(intent.OrderPromote, "let all assets go on at once")
		}
		if len(rollout.Emergency) > 0 && !rollout.Run.Emergency {
			add(intent.OrderEmergency, "go by the stages for emergencies")
		}
		add(intent.OrderAbort, "end it as it stands")
	}
	if rollout.Governs && rollout.Run != nil && state != intent.RolloutRollingBack && state != intent.RolloutRolledBack && state != intent.RolloutSuperseded {
		add(intent.OrderRollback, "go back to what was good")
	}
	if rollout.GetRun().GetBad() != "" {
		add(intent.OrderForgive, "let what was judged bad be brought again")
	}
	if !rollout.Governs {
		add(intent.OrderRelease, "let its assets follow head")
	}
	return list
}

const plotWidth, plotHeight = 160, 28

// plot is the values of one side of a metric, as points of a line.
type plot struct{ Class, Points string }

// plots draws both sides of a metric on one scale. What is no number leaves a gap.
func plots(m *apipb.RolloutMetric) (lines []plot) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range slices.Concat(m.Values, m.Baseline) {
		if isNumber(v) {
			least, most = min(least, v), max(most, v)
		}
	}
	for _, side := range []struct {
		class  string
		values []float64
	}{{"baseline", m.Baseline}, {"values", m.Values}} {
		var points []string
		flush := func() {
			if len(points) == 1 {
				points = append(points, points[0])
			}
			if len(points) > 0 {
				lines = append(lines, plot{side.class, strings.Join(points, " ")})
			}
			points = nil
		}
		for i, v := range side.values {
			if !isNumber(v) {
				flush()
				continue
			}
			x, y := plotWidth/2.0, plotHeight/2.0
			if len(side.values) > 1 {
				x = 2 + float64(i)/float64(len(side.values)-1)*(plotWidth-4)
			}
			if most > least {
				y = 2 + (most/2-v/2)/(most/2-least/2)*(plotHeight-4)
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
		}
		flush()
	}
	return lines
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// span of a metric's values in words.
func span(m *apipb.RolloutMetric) string {
	numbers := slices.DeleteFunc(slices.Concat(m.Values, m.Baseline), func(v float64) bool { return !isNumber(v) })
	if len(numbers) == 0 {
		return ""
	}
	return fmt.Sprintf("from %.4g to %.4g", slices.Min(numbers), slices.Max(numbers))
}

// resultClass is what a validation found, as a class of the stylesheet.
func resultClass(result string) string {
	switch result {
	case "good":
		return "ending-pushed"
	case "bad":
		return "ending-failed"
	}
	return "ending-held"
}

// runClass is the state of a run, as a class of the stylesheet.
func runClass(state string) string {
	switch intent.RolloutState(state) {
	case intent.RolloutDone:
		return "state-in-sync"
	case intent.RolloutRunning:
		return "state-pushing"
	case intent.RolloutPaused, intent.RolloutQueued, intent.RolloutRollingBack:
		return "state-waiting"
	}
	return "state-none"
}

// actor of an event, which may be the rollout.
func actor(a *apipb.Actor) string {
	if strings.HasPrefix(a.GetName(), intent.RolloutPrefix) {
		return "itself"
	}
	return a.GetName()
}

// assetState is where an asset of a stage is, in words.
func assetState(a *apipb.RolloutAsset) string {
	switch a.State {
	case "ill":
		return "not healthy"
	case "moving":
		return "not in sync yet"
	case "soaking":
		return fmt.Sprintf("healthy %s of %s", a.Healthy.AsDuration().Truncate(1e9), a.Soak.AsDuration())
	}
	return a.State
}

// newestFirst are events in the order in which they are read.
func newestFirst(events []*apipb.RolloutEvent) []*apipb.RolloutEvent {
	events = slices.Clone(events)
	slices.Reverse(events)
	return events
}

// mostFields of a run are shown.
const mostFields = 200

func someFields(edits []*apipb.RolloutEdit) []*apipb.RolloutEdit {
	return edits[:min(len(edits), mostFields)]
}

// moreFields than are shown.
func moreFields(edits []*apipb.RolloutEdit) int { return max(0, len(edits)-mostFields) }
