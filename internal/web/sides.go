package web

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// sidesView is what an asset is to be in the end, what it is to be now, and what production
// has, field by field, as far as these differ.
type sidesView struct {
	Partition, Asset string
	// Desired and Target are incarnations; Desired is empty where head does not have it.
	Desired, Target string
	Current         string
	Fields          []sideField
	Hidden          int
	// Unified: one column, with what goes and what comes below each other.
	Unified bool
	// Other shows them the other way.
	Other string
	// Unread says why the target's content is not shown; empty: it is.
	Unread string
}

// sideField is a field of which not all three are equal.
type sideField struct {
	Path                     string
	Desired, Target, Current side
	Destructive              bool
	// LeftToProduction: production may own it.
	LeftToProduction bool
	Reason, Writer   string
	// Provenance leads to where the desired value comes from; empty: that is no field of
	// intent.
	Provenance string
}

// AssetProvenance leads to where the asset comes from.
func (v sidesView) AssetProvenance() string { return provenanceLink(v.Partition, v.Asset, "") }

// placeView is a place in a file, and what it is to an asset.
type placeView struct {
	What  string
	Place *apipb.Place
}

// File of the place.
func (v placeView) File() string { return v.Place.File }

// side is one of the three values of a field.
type side struct {
	Text string
	// Note stands in place of a text: why there is none.
	Note string
}

// fieldsShown bounds the fields of one page.
const fieldsShown = 200

// readSides reads what an asset is to be, by head and by its target.
func (r *reader) readSides(ctx context.Context, at address, content *apipb.GetAssetResponse, explanation *apipb.WhyResponse) sidesView {
	report, standing := explanation.GetReport(), explanation.GetStanding()
	view := sidesView{
		Partition: at.partition, Asset: at.name, Desired: content.GetIncarnation(), Target: standing.GetTarget(), Current: standing.GetCurrent(),
		Unified: at.query.Get("diff") == "unified",
	}
	view.Other = at.withValue("diff", "unified")
	if view.Unified {
		view.Other = at.withValue("diff", "")
	}
	desired := flattenContent(content)
	target := desired
	if view.Target != "" && view.Target != view.Desired {
		response, err := r.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: at.partition, Asset: at.name, Incarnation: view.Target})
		if err != nil {
			view.Unread = err.Error()
		} else {
			target = flattenContent(response)
		}
	}
	fields := compareSides(desired, target, report, view.Current == "in-sync")
	if len(fields) > fieldsShown {
		view.Hidden = len(fields) - fieldsShown
		fields = fields[:fieldsShown]
	}
	for i, f := range fields {
		if path := intentPath(f.Path, desired); path != "" {
			fields[i].Provenance = provenanceLink(at.partition, at.name, path)
		}
	}
	view.Fields = fields
	return view
}

// compareSides are the fields of which not all three are equal: first those that a push
// would change, then those that only a later incarnation changes, then those that are left
// to production.
func compareSides(desired, target map[string]string, report *apipb.Report, isInSync bool) []sideField {
	var fields []sideField
	compared := map[string]bool{}
	for _, change := range report.GetPlan().GetChanges() {
		f := sideField{
			Path: change.Path, Current: givenSide(change.Current), Target: givenSide(change.Target), Destructive: change.Destructive,
			Reason: change.Reason, Writer: change.Writer,
		}
		f.Desired = f.Target
		if path := intentPath(change.Path, desired, target); path != "" {
			compared[path] = true
			if desired[path] != target[path] {
				f.Desired = givenSide(desired[path])
			}
		}
		fields = append(fields, f)
	}
	paths := map[string]bool{}
	for _, side := range []map[string]string{desired, target} {
		for path := range side {
			paths[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if compared[path] || desired[path] == target[path] {
			continue
		}
		f := sideField{Path: path, Desired: givenSide(desired[path]), Target: givenSide(target[path]), Current: side{Note: "its plugin names no difference from the target"}}
		if isInSync {
			f.Current = f.Target
		}
		f.Reason = "a later incarnation changes it"
		fields = append(fields, f)
	}
	for _, change := range report.GetUnmanaged() {
		note := side{Note: "left to production"}
		fields = append(fields, sideField{Path: change.Path, Desired: note, Target: note, Current: givenSide(change.Current), LeftToProduction: true, Reason: change.Reason, Writer: change.Writer})
	}
	return fields
}

func givenSide(text string) side {
	if text == "" {
		return side{Note: "(none)"}
	}
	return side{Text: text}
}

// intentPath is the path of a field of a plan within the content: plugins name fields of
// the payload without its name.
func intentPath(path string, contents ...map[string]string) string {
	for _, candidate := range []string{path, "payload." + path} {
		for _, content := range contents {
			if _, ok := content[candidate]; ok {
				return candidate
			}
		}
	}
	return ""
}

// flattenContent names each value of payload and addons by its path, as a filter does.
func flattenContent(content *apipb.GetAssetResponse) map[string]string {
	flat := map[string]string{}
	if content.GetPayload() != nil {
		flattenValue("payload", structpb.NewStructValue(content.Payload), flat)
	}
	for name, addon := range content.GetAddons() {
		flattenValue("addons."+lastName(name), structpb.NewStructValue(addon), flat)
	}
	return flat
}

func flattenValue(path string, value *structpb.Value, flat map[string]string) {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		if len(kind.StructValue.GetFields()) == 0 {
			flat[path] = "{}"
		}
		for name, field := range kind.StructValue.GetFields() {
			flattenValue(fieldPath(path, name), field, flat)
		}
	case *structpb.Value_ListValue:
		if len(kind.ListValue.GetValues()) == 0 {
			flat[path] = "[]"
		}
		for i, element := range kind.ListValue.GetValues() {
			flattenValue(fmt.Sprintf("%s[%d]", path, i), element, flat)
		}
	case *structpb.Value_StringValue:
		flat[path] = kind.StringValue
	case *structpb.Value_NumberValue:
		flat[path] = strconv.FormatFloat(kind.NumberValue, 'f', -1, 64)
	case *structpb.Value_BoolValue:
		flat[path] = strconv.FormatBool(kind.BoolValue)
	default:
		flat[path] = "null"
	}
}

// fieldPath is a field of the message or map at path.
func fieldPath(path, name string) string {
	isPlain := name != "" && strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	if isPlain {
		return path + "." + name
	}
	return path + "[" + strconv.Quote(name) + "]"
}

// provenanceLink leads to where a field comes from; without a field, the asset.
func provenanceLink(partition, asset, field string) string {
	at := address{kind: "provenance", partition: partition, name: asset, query: url.Values{}}
	if field != "" {
		at.query.Set("field", field)
	}
	return at.String()
}

// diffLine is a line of a value in the unified form.
type diffLine struct {
	// Mark is "-" of what production has, "+" of what the target has, and a space of both.
	Mark, Text string
}

const (
	// linesCompared bounds what is compared line by line: beyond it all goes and all comes.
	linesCompared = 400
	// linesAround of what is equal are kept beside a change.
	linesAround = 3
)

// Lines are the current value and the target's, line by line, with what is equal left out
// except beside changes.
func (f sideField) Lines() []diffLine {
	current, target := splitLines(f.Current), splitLines(f.Target)
	if len(current) > linesCompared || len(target) > linesCompared {
		return append(markLines("-", current), markLines("+", target)...)
	}
	return skipEqual(diffLines(current, target))
}

// Later are the lines of the desired value, where that is not the target's.
func (f sideField) Later() []diffLine {
	if f.Desired == f.Target {
		return nil
	}
	return skipEqual(diffLines(splitLines(f.Target), splitLines(f.Desired)))
}

func splitLines(s side) []string {
	if s.Text == "" {
		return nil
	}
	return strings.Split(s.Text, "\n")
}

func markLines(mark string, lines []string) []diffLine {
	marked := make([]diffLine, 0, len(lines))
	for _, line := range lines {
		marked = append(marked, diffLine{mark, line})
	}
	return marked
}

// diffLines is the shortest way from one text to another, by their longest common
// subsequence.
func diffLines(from, to []string) []diffLine {
	common := make([][]int, len(from)+1)
	for i := range common {
		common[i] = make([]int, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var lines []diffLine
	i, j := 0, 0
	for i < len(from) && j < len(to) {
		switch {
		case from[i] == to[j]:
			lines = append(lines, diffLine{" ", from[i]})
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			lines = append(lines, diffLine{"-", from[i]})
			i++
		default:
			lines = append(lines, diffLine{"+", to[j]})
			j++
		}
	}
	return append(append(lines, markLines("-", from[i:])...), markLines("+", to[j:])...)
}

// skipEqual leaves equal lines out that stand beside no change, and says how many.
func skipEqual(lines []diffLine) []diffLine {
	isNear := make([]bool, len(lines))
	for i, line := range lines {
		if line.Mark == " " {
			continue
		}
		for near := max(0, i-linesAround); near <= min(len(lines)-1, i+linesAround); near++ {
			isNear[near] = true
		}
	}
	var kept []diffLine
	for i := 0; i < len(lines); i++ {
		if isNear[i] {
			kept = append(kept, lines[i])
			continue
		}
		end := i
		for end < len(lines) && !isNear[end] {
			end++
		}
		kept = append(kept, diffLine{"…", count(end-i, "equal line")})
		i = end - 1
	}
	return kept
}

const (
	// foldedBeyond and linesBeyond: values that are longer, in bytes or lines, are folded.
	foldedBeyond, linesBeyond = 400, 8
)

// Long reports whether a value is shown folded.
func (s side) Long() bool {
	return len(s.Text) > foldedBeyond || strings.Count(s.Text, "\n") >= linesBeyond
}

// Size of a folded value, in words.
func (s side) Size() string {
	return count(strings.Count(s.Text, "\n")+1, "line") + ", " + count(len(s.Text), "byte")
}

// LongLines reports whether the unified form of a field is shown folded.
func (f sideField) LongLines() bool {
	return len(f.Lines()) > 3*linesBeyond || f.Current.Long() || f.Target.Long()
}
