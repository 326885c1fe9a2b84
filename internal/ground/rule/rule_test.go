package rule_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

const jobType intent.TypeName = "lehr.process.v1.Job"

// asset packs a payload and addons.
func asset(t testing.TB, id intent.AssetID, payload proto.Message, addons ...proto.Message) intent.Asset {
	t.Helper()
	made := intent.Asset{ID: id, Payload: pack(t, payload)}
	for _, addon := range addons {
		made.Addons = append(made.Addons, pack(t, addon))
	}
	body, _, err := schema.Builtin().Encode(made)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = schema.Decode(body); err != nil {
		t.Fatal(err)
	}
	return made
}

func pack(t testing.TB, m proto.Message) intent.Message {
	t.Helper()
	packed, err := schema.Builtin().Pack(m)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// frontend is the job that most tests look at.
func frontend(t testing.TB) intent.Asset {
	return asset(t, "web/a/frontend",
		&processpb.Job{Name: "web/a", Replicas: 3, Binary: "/bin/web", Version: "v1.2", BasePort: 8000, Args: []string{"--one", "--two"}, Env: map[string]string{"MODE": "live"}},
		&intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a"}},
		&intentpb.Labels{Labels: map[string]string{"team": "web", "empty": ""}},
		&intentpb.Owner{Owner: "web-sre@example.com"},
		&intentpb.Dependencies{Dependencies: []*intentpb.Dependency{{On: "lb/a", Rule: intentpb.Dependency_RULE_ORDER}}},
	)
}

func TestFilter(t *testing.T) {
	environment := rule.New(schema.Builtin())
	job := frontend(t)
	for text, want := range map[string]bool{
		`type == "Job"`:                          true,
		`type == "lehr.process.v1.Job"`:          true,
		`"Job" == type`:                          true,
		`type != "Job"`:                          false,
		`type in ["Balancer", "Job"]`:            true,
		`type == "Balancer"`:                     false,
		`id == "web/a/frontend"`:                 true,
		`id.startsWith("web/")`:                  true,
		`payload.replicas > 2`:                   true,
		`payload.replicas > 2u`:                  true,
		`payload.replicas >= 3.0`:                true,
		`payload.replicas == 3`:                  true,
		`payload.replicas != 3`:                  false,
		`type == "Job" && payload.replicas == 3`: true,
		`type == "Job" && 4.0 != payload.replicas && payload.replicas in [1, 3] && payload.base_port == 8000`: true,
		`payload.replicas in [1, 3]`:                     true,
		`type == "Job" && payload.replicas > 2`:          true,
		`payload.replicas > 3 && type == "Job"`:          false,
		`type == "Balancer" && payload.name == "web/a"`:  false,
		`type == "Job" || payload.listen.size() > 0`:     true,
		`payload.listen.size() > 0`:                      false,
		`payload.env["MODE"] == "live"`:                  true,
		`payload.env["OTHER"] == "live"`:                 false,
		`payload.args.exists(a, a == "--two")`:           true,
		`payload.args.all(a, a.startsWith("--"))`:        true,
		`"--one" in payload.args`:                        true,
		`payload.version.matches("^v1\\.[0-9]+$")`:       true,
		`has(payload.health)`:                            false,
		`has(addons.Owner)`:                              true,
		`has(addons.Mode)`:                               false,
		`"Owner" in addons`:                              true,
		`"lehr.intent.v1.Owner" in addons`:               true,
		`"Mode" in addons`:                               false,
		`addons.Owner.owner == "web-sre@example.com"`:    true,
		`addons["Owner"].owner.endsWith("@example.com")`: true,
		`addons.Mode.mode == 1`:                          false,
		`addons.size() == 4`:                             true,
		`owner == "web-sre@example.com"`:                 true,
		`labels["team"] == "web"`:                        true,
		`labels.team == "web"`:                           true,
		`labels.nosuch == "web"`:                         false,
		`"team" in labels`:                               true,
		`has(labels.team)`:                               true,
		`has(labels.nosuch)`:                             false,
		`labels["empty"] == ""`:                          true,
		`scopes["cluster"] == "a"`:                       true,
		`scopes.cluster == "a"`:                          true,
		`scope == "a"`:                                   true,
		`"lb/a" in refs`:                                 true,
		`"lb/b" in refs`:                                 false,
		`refs.size() == 1 && refs[0] == "lb/" + scope`:   true,
		`payload.name.split("/")[0] == "web"`:            true,
		`payload.name.substring(4).upperAscii() == "A"`:  true,
		`["x", payload.name].join("-") == "x-web/a"`:     true,
		`payload.name.replace("/", ".") == "web.a"`:      true,
		`payload.replicas / 0u == 1u`:                    false,
		`addons.Dependencies.dependencies.exists(d, d.rule == lehr.intent.v1.Dependency.Rule.RULE_ORDER)`: true,
		`true`:  true,
		`!true`: false,
	} {
		filter, err := environment.Filter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := filter.Match(job)
		if err != nil || got != want {
			t.Errorf("%s is %v, want %v (%v)", text, got, want, err)
		}
	}
}

func TestScopeOfSeveralIsNone(t *testing.T) {
	environment := rule.New(schema.Builtin())
	wide := asset(t, "wide", &processpb.Job{Name: "w", Binary: "/w"}, &intentpb.ImpactedScope{Scopes: map[string]string{"cluster": "a", "region": "eu"}})
	expression, err := environment.Compile(`"lb/" + scope`, jobType)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := expression.Text(wide); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "2 scopes") {
		t.Errorf("a wide asset has the scope %q (%v)", text, err)
	}
	if text, err := expression.Text(frontend(t)); err != nil || text != "lb/a" {
		t.Errorf("the text is %q (%v)", text, err)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	environment := rule.New(schema.Builtin())
	for text, words := range map[string][]string{
		`type == "Jobb"`:                            {`"Jobb"`, "column 9", "did you mean lehr.process.v1.Job?"},
		`type in ["Job", "Blancer"]`:                {"column 17", "lehr.caddy.v1.Balancer"},
		`type == "Job" && payload.replicaz > 2`:     {"column 25", `no field "replicaz" of lehr.process.v1.Job`, "did you mean replicas?"},
		`payload.replicaz > 2`:                      {`no field "replicaz" of any type`, "did you mean replicas?"},
		`type == "Job" && payload.health.pth == ""`: {"HealthCheck", "did you mean path?"},
		`has(addons.Ownr)`:                          {`"Ownr"`, "lehr.intent.v1.Owner"},
		`"Ownr" in addons`:                          {"column 1", "lehr.intent.v1.Owner"},
		`addons.Owner.ownr == "x"`:                  {"did you mean owner?"},
		`replicas > 2`:                              {`nothing is named "replicas"`, "did you mean payload.replicas?"},
		`lables.team == "web"`:                      {"did you mean labels?"},
		`type == Job`:                               {`nothing is named "Job"`, "in quotes"},
		`type == "Job" && payload.name > 2`:         {`">" does not work on (string, int)`},
		`type == "Job" && payload.name == 2`:        {`"==" does not work on (string, int)`},
		`type == "Job" && payload.replicas * 2 > 5`: {`"*" does not work on (uint, int)`, "int(…)"},
		`id`:                                  {"gives a text, not a truth value"},
		`payload.replicas >`:                  {"it is not CEL: it ends too early", "column"},
		`type = "Job"`:                        {"not CEL", "== compares"},
		`type == "Job" and id == "a"`:         {"not CEL", "column 15", "&& is and"},
		`true & false`:                        {"not CEL", "&& is and"},
		`"open`:                               {"not CEL"},
		`type == "Job" &&`:                    {"it is not CEL"},
		``:                                    {"it is not CEL"},
		"true &&\n  typo":                     {"line 2, column 3"},
		`id == "shop@3"`:                      {`"shop@3"`, "column 7"},
		`id == "Web"`:                         {`segment "Web"`},
		`"shop@3/web" in refs`:                {`"shop@3/web"`},
		`id.matches("(")`:                     {"missing closing"},
		`id.matches(owner)`:                   {"literal"},
		`id.matches("(a{30}){30}")`:           {"too large"},
		`["a"].exists(payload, payload=="a")`: {"payload is the asset's"},
		`owner == timestamp("then")`:          {"column"},
	} {
		_, err := environment.Filter(text)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: the error is %v", text, err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q is not in: %v", text, word, err)
			}
		}
		if len(err.Error()) > 1500 {
			t.Errorf("%s: the error has %d bytes", text, len(err.Error()))
		}
	}
}

func TestExpressions(t *testing.T) {
	environment := rule.New(schema.Builtin())
	job := frontend(t)
	for text, want := range map[string]float64{
		`payload.replicas`: 3, `double(payload.replicas) * 1.5`: 4.5, `0`: 0, `-0.0`: 0, `payload.args.size()`: 2,
	} {
		expression, err := environment.Compile(text, jobType)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := expression.Number(job); err != nil || got != want {
			t.Errorf("%s is %v, want %v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{`-1`, `0.0/0.0`, `1.0/0.0`, `"3"`, `payload.name`, `payload.env["none"]`, `[1]`, `true`, `1/0`} {
		expression, err := environment.Compile(text, jobType)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := expression.Number(job); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "web/a/frontend") {
			t.Errorf("%s is the number %v (%v)", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`payload.version`: "v1.2", `payload.replicas`: "3", `1.5`: "1.5", `true`: "true", `-2`: "-2", `string(payload.replicas) + "x"`: "3x",
	} {
		expression, err := environment.Compile(text, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := expression.Text(job); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", text, got, want, err)
		}
	}
	expression, err := environment.Compile(`payload.listen[0]`, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := expression.Text(job); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "listen") {
		t.Errorf("a missing field is the text %q (%v)", got, err)
	}
	if truth, err := must(environment.Compile(`payload.replicas > 2`, jobType)).Bool(job); err != nil || !truth {
		t.Errorf("Bool is %v (%v)", truth, err)
	}
	if _, err := must(environment.Compile(`payload.replicas`, jobType)).Bool(job); !fault.Is(err, fault.Invalid) {
		t.Errorf("a number is a truth value (%v)", err)
	}
	if _, err := environment.Compile(`payload.name`, "lehr.process.v1.Jobb"); err == nil || !strings.Contains(err.Error(), "Jobb") {
		t.Errorf("an unknown type is accepted (%v)", err)
	}
	if _, err := environment.Compile(`payload.nam`, jobType); err == nil || !strings.Contains(err.Error(), "did you mean name?") {
		t.Errorf("a misspelt field is accepted (%v)", err)
	}
	other := asset(t, "o", &intentpb.Policy{Owner: "o"})
	if _, err := must(environment.Compile(`payload.name`, jobType)).Text(other); !fault.Is(err, fault.Invalid) {
		t.Errorf("an asset of another type is accepted (%v)", err)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
