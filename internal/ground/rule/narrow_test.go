package rule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// satisfies says of an asset what the store's index would.
func satisfies(t testing.TB, a intent.Asset, n rule.Narrow) bool {
	t.Helper()
	fields, err := schema.Builtin().Fields(a)
	if err != nil {
		t.Fatal(err)
	}
	references, err := schema.Builtin().References(a)
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasPrefix(string(a.ID), n.Prefix) &&
		(n.Type == "" || n.Type == a.Payload.Type) &&
		(n.Field == "" || slices.ContainsFunc(fields, func(f intent.Field) bool {
			return f.Path == n.Field && (n.Value == "" || f.Value == n.Value)
		})) &&
		(n.RefersTo == "" || slices.ContainsFunc(references, func(r intent.Reference) bool { return r.To == n.RefersTo }))
}

func TestNarrow(t *testing.T) {
	environment := rule.New(schema.Builtin())
	for text, want := range map[string]rule.Narrow{
		`type == "Job"`:                                     {Type: jobType, Exact: true},
		`"Job" == type`:                                     {Type: jobType, Exact: true},
		`type == "Job" && payload.replicas > 2`:             {Type: jobType},
		`type == "Job" && payload.version == "v1"`:          {Type: jobType, Field: "lehr.process.v1.Job.version", Value: "v1", Exact: true},
		`type == "Job" && payload.version == ""`:            {Type: jobType},
		`payload.version == "v1"`:                           {},
		`type == "Job" && payload.replicas == 2`:            {Type: jobType},
		`type != "Job"`:                                     {},
		`type == "Job" || id == "a"`:                        {},
		`!(type == "Job")`:                                  {},
		`type == "Job" && type == "Balancer"`:               {Type: jobType},
		`id == "web/a"`:                                     {Prefix: "web/a"},
		`id.startsWith("web/")`:                             {Prefix: "web/", Exact: true},
		`id.startsWith("we") && id.startsWith("web/")`:      {Prefix: "web/", Exact: true},
		`id.startsWith("web/") && id.startsWith("we")`:      {Prefix: "web/", Exact: true},
		`id.startsWith("a") && id.startsWith("b")`:          {Prefix: "a"},
		`"lb/a" in refs`:                                    {RefersTo: "lb/a", Exact: true},
		`"lb/a" in refs && "lb/b" in refs`:                  {RefersTo: "lb/a"},
		`"Owner" in addons`:                                 {Field: "lehr.intent.v1.Owner", Exact: true},
		`has(addons.Owner)`:                                 {Field: "lehr.intent.v1.Owner", Exact: true},
		`owner == "x"`:                                      {Field: "lehr.intent.v1.Owner.owner", Value: "x", Exact: true},
		`owner == ""`:                                       {},
		`has(addons.Owner) && owner == "x"`:                 {Field: "lehr.intent.v1.Owner.owner", Value: "x"},
		`labels["team"] == "web"`:                           {Field: `lehr.intent.v1.Labels.labels["team"]`, Value: "web", Exact: true},
		`labels.team == "web"`:                              {Field: `lehr.intent.v1.Labels.labels["team"]`, Value: "web", Exact: true},
		`labels.team == ""`:                                 {Field: `lehr.intent.v1.Labels.labels["team"]`},
		`"team" in labels`:                                  {Field: `lehr.intent.v1.Labels.labels["team"]`, Exact: true},
		`has(labels.team)`:                                  {Field: `lehr.intent.v1.Labels.labels["team"]`, Exact: true},
		`scopes["cluster"] == "a"`:                          {Field: `lehr.intent.v1.ImpactedScope.scopes["cluster"]`, Value: "a", Exact: true},
		`addons.Group.service == "shop"`:                    {Field: "lehr.intent.v1.Group.service", Value: "shop", Exact: true},
		`addons["Group"].service == "shop"`:                 {Field: "lehr.intent.v1.Group.service", Value: "shop", Exact: true},
		`addons.Labels.labels["team"] == "web"`:             {Field: `lehr.intent.v1.Labels.labels["team"]`, Value: "web", Exact: true},
		`labels["` + strings.Repeat("k", 300) + `"] == "v"`: {},
		`owner == "` + strings.Repeat("o", 300) + `"`:       {},
		`refs.exists(r, r == "lb/a") && "lb/b" in refs`:     {RefersTo: "lb/b"},
		`true`: {},
		`type == "Job" && (owner == "x" && (id.startsWith("a")))`: {Type: jobType, Prefix: "a", Field: "lehr.intent.v1.Owner.owner", Value: "x", Exact: true},
	} {
		filter, err := environment.Filter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := filter.Narrow(); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// What Match accepts, the index finds; and where it says that nothing is left
// to evaluate, the other way round.
func TestNarrowExcludesNothing(t *testing.T) {
	environment := rule.New(schema.Builtin())
	rapid.Check(t, func(r *rapid.T) {
		text := drawFilter(r, 3)
		filter, err := environment.Filter(text)
		if err != nil && strings.Contains(err.Error(), "no field") {
			return // It is of two types at once.
		}
		if err != nil {
			r.Fatalf("%s: %v", text, err)
		}
		narrow := filter.Narrow()
		for range 20 {
			a := drawAsset(t, r)
			matched, err := filter.Match(a)
			if err != nil {
				r.Fatalf("%s: %v", text, err)
			}
			found := satisfies(t, a, narrow)
			if matched && !found {
				r.Fatalf("%s matches %+v, which is not in %+v", text, a, narrow)
			}
			if found && !matched && narrow.Exact {
				r.Fatalf("%s does not match %+v, which is in %+v", text, a, narrow)
			}
		}
	})
}

var (
	drawnWord  = rapid.SampledFrom([]string{"a", "b", "ab", ""})
	drawnID    = rapid.SampledFrom([]string{"a", "b", "ab", "a/b", "a/b/c"})
	drawnAtom  = rapid.SampledFrom([]string{"type", "id", "prefix", "refs", "has", "in", "owner", "label", "labels", "key", "scope", "version", "name", "group", "replicas", "not"})
	drawnTypes = rapid.SampledFrom([]string{"Job", "Balancer", "lehr.process.v1.Job"})
)

// drawFilter draws conditions and what joins them.
func drawFilter(r *rapid.T, depth int) string {
	if depth > 0 {
		switch rapid.IntRange(0, 5).Draw(r, "join") {
		case 0, 1, 2:
			return "(" + drawFilter(r, depth-1) + " && " + drawFilter(r, depth-1) + ")"
		case 3:
			return "(" + drawFilter(r, depth-1) + " || " + drawFilter(r, depth-1) + ")"
		}
	}
	word := drawnWord.Draw(r, "word")
	switch drawnAtom.Draw(r, "atom") {
	case "type":
		return fmt.Sprintf("type == %q", drawnTypes.Draw(r, "type"))
	case "id":
		return fmt.Sprintf("id == %q", drawnID.Draw(r, "id"))
	case "prefix":
		return fmt.Sprintf("id.startsWith(%q)", word)
	case "refs":
		return fmt.Sprintf("%q in refs", drawnID.Draw(r, "id"))
	case "has":
		return "has(addons.Owner)"
	case "in":
		return `"Group" in addons`
	case "owner":
		return fmt.Sprintf("owner == %q", word)
	case "label":
		return fmt.Sprintf("labels.a == %q", word)
	case "labels":
		return fmt.Sprintf("%q == labels[%q]", word, drawnWord.Draw(r, "key"))
	case "key":
		return fmt.Sprintf("%q in labels", word)
	case "scope":
		return fmt.Sprintf("scopes[%q] == %q", drawnWord.Draw(r, "key"), word)
	case "version":
		return fmt.Sprintf(`type == "Job" && payload.version == %q`, word)
	case "name":
		return fmt.Sprintf("payload.name == %q", word)
	case "group":
		return fmt.Sprintf("addons.Group.instance == %q", word)
	case "replicas":
		return fmt.Sprintf("payload.replicas == %d", rapid.IntRange(0, 2).Draw(r, "replicas"))
	default:
		return "!(" + drawFilter(r, 0) + ")"
	}
}

func drawAsset(t testing.TB, r *rapid.T) intent.Asset {
	id, word := intent.AssetID(drawnID.Draw(r, "id")), drawnWord.Draw(r, "word")
	var payload proto.Message = &processpb.Job{Name: word, Version: drawnWord.Draw(r, "version"), Replicas: uint32(rapid.IntRange(0, 2).Draw(r, "replicas"))}
	if rapid.Bool().Draw(r, "balancer") {
		payload = &caddypb.Balancer{Name: word}
	}
	var addons []proto.Message
	if rapid.Bool().Draw(r, "owned") {
		addons = append(addons, &intentpb.Owner{Owner: drawnWord.Draw(r, "owner")})
	}
	texts := rapid.MapOfN(drawnWord, drawnWord, 0, 3)
	if rapid.Bool().Draw(r, "labelled") {
		addons = append(addons, &intentpb.Labels{Labels: texts.Draw(r, "labels")})
	}
	if rapid.Bool().Draw(r, "scoped") {
		addons = append(addons, &intentpb.ImpactedScope{Scopes: texts.Draw(r, "scopes")})
	}
	if rapid.Bool().Draw(r, "grouped") {
		addons = append(addons, &intentpb.Group{Service: word, Instance: drawnWord.Draw(r, "instance")})
	}
	if rapid.Bool().Draw(r, "depends") {
		addons = append(addons, &intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: drawnID.Draw(r, "on")}, {On: drawnID.Draw(r, "on")}}})
	}
	return asset(t, id, payload, addons...)
}
