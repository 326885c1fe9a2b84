package rule_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/structpb"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// within fails a test that would otherwise compute for minutes or for ever. The limit is of the
// processor time of the process, so that a busy machine changes nothing; no test of the package
// runs beside another.
func within(t *testing.T, limit time.Duration, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	begin := computed(t)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			if computed(t)-begin > limit {
				t.Fatalf("it is not over after %v of computing", limit)
			}
		}
	}
}

// computed returns the processor time of the process.
func computed(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestExpensiveEvaluationsEnd(t *testing.T) {
	thousand := "[" + strings.Repeat("0,", 999) + "0]"
	big := asset(t, "big", &processpb.Job{Name: "big", Binary: "/b", Version: strings.Repeat("a", 140_000)})
	for name, text := range map[string]string{
		"loops within loops":       fmt.Sprintf("payload.name == 'big' && %[1]s.all(a, %[1]s.all(b, %[1]s.all(c, a + b + c == 0)))", thousand),
		"a text that doubles":      `["xxxxxxxxxxxxxxxx"]` + strings.Repeat(".map(a, a+a)", 25) + ` == [payload.name]`,
		"a list that doubles":      `[[payload.name]]` + strings.Repeat(".map(a, a+a)", 25) + `.exists(l, l.exists(e, e == "no"))`,
		"values within values":     `[[payload.name]]` + strings.Repeat(".map(a, [a,a])", 25) + ` == [[payload.name]]` + strings.Repeat(".map(a, [a,a])", 25),
		"maps within maps":         `[{"a": payload.name}]` + strings.Repeat(`.map(a, {"l": a, "r": a})`, 20) + ` == [{"a": payload.name}]` + strings.Repeat(`.map(a, {"l": a, "r": a})`, 20),
		"looking through values":   `[payload.name, [[payload.name]]` + strings.Repeat(".map(a, [a,a])", 25) + `] in [[payload.name, [[payload.name]]` + strings.Repeat(".map(a, [a,a])", 25) + `]]`,
		"a pattern on a long text": `payload.version.matches("(a?){15}(a?){15}(a?){15}b")`,
		"a long text replaced":     `payload.version.replace("", payload.version) == ""`,
		"a long text joined":       `payload.version.split("").join(payload.version) == ""`,
		"a long text split":        `payload.version.split("").size() == 0`,
		"a long text in loops":     fmt.Sprintf(`%[1]s.exists(i, %[1]s.exists(j, payload.version.contains("ab")))`, thousand),
		"a long text measured":     fmt.Sprintf(`%[1]s.exists(i, size(payload.version) == i)`, thousand),
		"a long text parsed":       fmt.Sprintf(`%[1]s.exists(i, %[1]s.exists(j, int(payload.version) == 1 || false))`, thousand),
		"a long text compared":     fmt.Sprintf(`%[1]s.exists(i, %[1]s.exists(j, payload.version + "a" == payload.version + "b"))`, thousand),
	} {
		t.Run(name, func(t *testing.T) {
			within(t, 30*time.Second, func() {
				filter, err := rule.New(schema.Builtin()).Filter(text)
				if err != nil {
					t.Fatal(err)
				}
				matched, err := filter.Match(big)
				if matched || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "costs more than is allowed") {
					t.Errorf("it matched: %v (%v)", matched, err)
				}
				if err != nil && len(err.Error()) > 1000 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

func TestHostileTextsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"parentheses":  strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000),
		"lists":        strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + " == []",
		"open":         strings.Repeat("[", 9000),
		"selections":   "payload" + strings.Repeat(".a", 4000) + " == 1",
		"conditionals": strings.Repeat("true?", 1500) + "true" + strings.Repeat(":true", 1500),
		"macros":       strings.Repeat("[1].exists(x,", 400) + "true" + strings.Repeat(")", 400),
		"too long":     "true" + strings.Repeat(" ", 10_000),
		"no UTF-8":     "\xff\xfe == 1",
		"zero bytes":   "type == \"\x00\"",
		"many errors":  strings.Repeat("nosuch ", 1400),
		"calls":        strings.Repeat("a(", 3000),
	} {
		t.Run(name, func(t *testing.T) {
			within(t, 30*time.Second, func() {
				_, err := rule.New(schema.Builtin()).Filter(text)
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("it is accepted (%v)", err)
				} else if len(err.Error()) > 1500 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// What is long and simple compiles, or is refused, without taking long: a check
// of many equalities takes time that grows with the square of their number.
func TestLongTextsCompileSoon(t *testing.T) {
	environment := rule.New(schema.Builtin())
	for name, text := range map[string]string{
		"numbers":  strings.Repeat("1==1u||", 1420) + "true",
		"lists":    strings.Repeat("[]==[]||", 1240) + "true",
		"maps":     strings.Repeat("{}=={}||", 1240) + "true",
		"loops":    strings.Repeat("[1].map(a,a)==[]||", 500) + "true",
		"fields":   strings.Repeat(`payload.name==""||`, 550) + "true",
		"ids":      "id in [" + strings.Repeat(`"a",`, 2400) + `"a"]`,
		"patterns": strings.Repeat(`id.matches("a")||`, 580) + "true",
	} {
		t.Run(name, func(t *testing.T) {
			within(t, 30*time.Second, func() {
				if _, err := environment.Filter(text); err != nil && !fault.Is(err, fault.Invalid) {
					t.Error(err)
				}
			})
		})
	}
	if _, err := environment.Filter(strings.Repeat("1==1u||", 250) + "true"); err != nil {
		t.Errorf("many numbers of different kinds: %v", err)
	}
}

// What a caller asks for is theirs; what it keeps is bounded.
func TestCompiledIsBounded(t *testing.T) {
	environment := rule.New(schema.Builtin())
	job := frontend(t)
	var before, after runtime.MemStats
	compile := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := must(environment.Filter(fmt.Sprintf("payload.replicas == %d", i))).Match(job); err != nil {
				t.Fatal(err)
			}
		}
	}
	compile(0, 600)
	runtime.GC()
	runtime.ReadMemStats(&before)
	compile(600, 2400)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 8<<20 {
		t.Errorf("1800 more filters keep %d bytes", grown)
	}
}

func TestOneEnvironmentForMany(t *testing.T) {
	environment := rule.New(schema.Builtin())
	job := frontend(t)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 40 {
				text := fmt.Sprintf(`type == "Job" && payload.replicas > %d`, (worker+i)%6)
				matched, err := must(environment.Filter(text)).Match(job)
				if err != nil || matched != ((worker+i)%6 < 3) {
					t.Errorf("%s is %v (%v)", text, matched, err)
				}
			}
		})
	}
	all.Wait()
}

// A payload that is broken is not one that does not match.
func TestUnreadableAssetIsAnError(t *testing.T) {
	environment := rule.New(schema.Builtin())
	filter := must(environment.Filter(`payload.replicas > 2`))
	for _, payload := range []intent.Message{{Type: jobType, Bytes: []byte{0xff}}, {Type: "no.such.Type"}} {
		if matched, err := filter.Match(intent.Asset{ID: "a", Payload: payload}); err == nil {
			t.Errorf("%v matched: %v", payload, matched)
		}
	}
}

// A filter that turns out to be none is an error, not one that nothing matches.
func TestFilterOfAnotherKind(t *testing.T) {
	filter := must(rule.New(schema.Builtin()).Filter(`payload.replicas`))
	if matched, err := filter.Match(frontend(t)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "not a truth value") {
		t.Errorf("it matched: %v (%v)", matched, err)
	}
}

// Content whose fields are not declared: only values are there to look at.
func TestUntypedContent(t *testing.T) {
	environment := rule.New(schema.Builtin())
	content, err := structpb.NewStruct(map[string]any{"replicas": 3, "items": []any{"a", map[string]any{"b": true}}})
	if err != nil {
		t.Fatal(err)
	}
	free := asset(t, "free", content)
	for text, want := range map[string]bool{
		`type == "google.protobuf.Struct" && payload.replicas == 3`:      true,
		`type == "google.protobuf.Struct" && payload.none == 3`:          false,
		`type == "google.protobuf.Struct" && payload.items[1].b`:         true,
		`type == "google.protobuf.Struct" && payload["items"][0] == "a"`: true,
	} {
		filter, err := environment.Filter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if matched, err := filter.Match(free); err != nil || matched != want {
			t.Errorf("%s is %v (%v)", text, matched, err)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, text := range []string{
		`type == "Job" && payload.replicas > 2`, `id.startsWith("a") || "b" in refs`, `labels.x == "y" && has(addons.Owner)`,
		`addons.all(k, k.size() > 2)`, `scope + owner`, `payload.env.map(k, payload.env[k])`, `"a b".split(" ").join("-")`,
		`timestamp("2026-01-01T00:00:00Z") < timestamp(owner)`, `id.matches("[a-z]+")`, `{"a": 1}["a"] == 1 ? refs : [id]`,
		`lehr.process.v1.Job{name: id}.name == id`, `payload`, `type(payload)`, `dyn(payload).x`, `[1, 2u, 3.0, b"x", null]`,
	} {
		f.Add(text)
	}
	environment := rule.New(schema.Builtin())
	job := frontend(f)
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := environment.Filter(text)
		if err == nil {
			matched, err := filter.Match(job)
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("matching is %v", err)
			}
			if narrow := filter.Narrow(); matched && !satisfies(t, job, narrow) {
				t.Errorf("%q matches, and is not in %+v", text, narrow)
			}
		} else if !fault.Is(err, fault.Invalid) {
			t.Errorf("compiling is %v", err)
		}
		for _, over := range []intent.TypeName{"", jobType} {
			expression, err := environment.Compile(text, over)
			if err != nil {
				continue
			}
			if number, err := expression.Number(job); err == nil && !(number >= 0) {
				t.Errorf("the number is %v", number)
			}
			_, err = expression.Text(job)
			if known := new(fault.Error); err != nil && !errors.As(err, &known) {
				t.Errorf("the text's error is %v", err)
			}
		}
	})
}

// TestHostileRulesAreRefused: what a rule sees beside an asset is bounded as all
// else is.
func TestHostileRulesAreRefused(t *testing.T) {
	environment := rule.New(schema.Builtin())
	of := frontend(t)
	var many []intent.Asset
	for range 2000 {
		many = append(many, of)
	}
	within(t, 60*time.Second, func() {
		for text, added := range map[string]rule.Added{
			`to.all(a, to.all(b, to.all(c, a.id + b.id + c.id != "x")))`:                    {To: many},
			`from.all(a, from.map(b, b.payload) == from.map(c, c.payload) && a.id != "")`:   {From: many},
			`to.map(a, a.payload.env).all(e, to.exists(b, b.payload.env != e) || to == to)`: {To: many},
		} {
			condition, err := environment.Condition(text, "", rule.Among)
			if err != nil {
				t.Errorf("%s: %v", text, err)
			} else if holds, err := condition.Holds(of, added); holds || err == nil || !strings.Contains(err.Error(), "costs more than is allowed") {
				t.Errorf("%s: %v, %v", text, holds, err)
			}
		}
		condition, err := environment.Condition(`answer.body.all(a, answer.body.all(b, answer.body.all(c, a + b + c > 0.0)))`, "", rule.Answered)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := condition.Holds(of, rule.Added{Answer: rule.Answer{Text: "[" + strings.Repeat("1,", 2999) + "1]"}}); err == nil || !strings.Contains(err.Error(), "costs more than is allowed") {
			t.Errorf("a large answer: %v", err)
		}
		for name, text := range map[string]string{
			"a large pattern":      `count(id.matches("(a{100}){100}")) > 0`,
			"a pattern to find":    `count(id.matches(owner)) > 0`,
			"many aggregates":      strings.Repeat("count(true) > 0 && ", 20) + "true",
			"aggregates in depth":  strings.Repeat("count(", 100) + "true" + strings.Repeat(")", 100) + " > 0",
			"deep":                 "count(" + strings.Repeat("(", 500) + "true" + strings.Repeat(")", 500) + ") > 0",
			"long":                 "count(true) > 0" + strings.Repeat(" ", 10_000),
			"conditions":           "count(true) > 0 && " + strings.Repeat("true?", 1500) + "true" + strings.Repeat(":true", 1500),
			"an aggregate as text": `count("x") > 0`,
		} {
			if _, err := environment.Whole(text); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", name, err)
			} else if len(err.Error()) > 1500 {
				t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
			}
		}
		dear, err := environment.Whole(`count([1,2,3,4,5,6,7,8,9,10].all(a, ` + strings.Repeat(`[1,2,3,4,5,6,7,8,9,10].all(b, `, 6) + `a + b > 0` + strings.Repeat(")", 7) + `) > 0`)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, contributes, err := dear.Aggregates[0].Of(of); contributes || err == nil || !strings.Contains(err.Error(), "costs more than is allowed") {
			t.Errorf("a filter that is too dear: %v, %v", contributes, err)
		}
	})
}

func FuzzValidationRule(f *testing.F) {
	for _, text := range []string{
		`to.all(n, n.type == "Job")`, `from.exists(n, n.payload.replicas > 1 && n.labels["a"] == scope)`, `answer.status == 200 && answer.body.owner == id`,
		`answer.rows.all(r, r.name == owner)`, `count(type == "Job" && scope == key) >= 2`, `sum(payload.replicas, true) + max(1, id == key) < 3.0`,
		`count(key == key) > 0`, `count(count(true) > 0) > 0`, `min(size(id)) > 0.0 || key == "a"`, `count(@0) > 0`, `to == from`, `key`,
	} {
		f.Add(text)
	}
	environment := rule.New(schema.Builtin())
	job := frontend(f)
	f.Fuzz(func(t *testing.T, text string) {
		check := func(err error) {
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
		}
		for _, view := range []rule.View{rule.Alone, rule.Among, rule.Answered} {
			condition, err := environment.Condition(text, "", view)
			if err == nil {
				_, err = condition.Holds(job, rule.Added{To: []intent.Asset{job}, Answer: rule.Answer{Text: `{"a": [1, "x", null]}`, Rows: []map[string]any{{"name": "a"}}}})
			}
			check(err)
		}
		environment.IsExpression(text)
		whole, err := environment.Whole(text)
		check(err)
		if err != nil {
			return
		}
		values := make([]float64, len(whole.Aggregates))
		for i, aggregate := range whole.Aggregates {
			_, number, contributes, err := aggregate.Of(job)
			check(err)
			if contributes && !(number >= 0) {
				t.Errorf("%q contributes %v", text, number)
			}
			values[i] = number
		}
		_, err = whole.Holds("a", values)
		check(err)
	})
}
