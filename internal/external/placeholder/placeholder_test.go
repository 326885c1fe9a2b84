package placeholder_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/external/placeholder"
	"lehr.dev/internal/ground/fault"
)

var values = placeholder.Values{
	Assets: []string{"web/b", "web/a", "web/a"}, Scopes: map[string][]string{"cluster": {`e"u\1`}, "zone": {"a.b"}, "many": {"x|y", "z"}, "none": nil},
	Start: time.Unix(1000, 0), End: time.Unix(2000, 500e6), Step: 15 * time.Second, Selector: `version="v2"`,
}

func TestPromQL(t *testing.T) {
	for query, want := range map[string]string{
		`up`: `up`,
		`sum(rate(x{asset=~"$asset",$selector}[$step])) @ $end`: `sum(rate(x{asset=~"(?:web/a|web/b)",version="v2"}[15000ms])) @ 2000.5`,
		`x{zone="$scope.zone"} + $start`:                        `x{zone="a.b"} + 1000`,
		`x{zone =~ "$scope.zone-.*"}`:                           `x{zone =~ "a\\.b-.*"}`,
		`x{zone!~'$scope.many'}`:                                `x{zone!~'(?:x\\|y|z)'}`,
		`x{cluster="$scope.cluster"}`:                           `x{cluster="e\"u\\1"}`,
		`x{cluster!='$scope.cluster'}`:                          `x{cluster!='e"u\\1'}`,
		`label_replace(x{a="b\"$"}, "a", "$1", "b", "(.*)$")`:   `label_replace(x{a="b\"$"}, "a", "$1", "b", "(.*)$")`,
		"x # $asset \"\n+ 1":                                    "x # $asset \"\n+ 1",
	} {
		if got, err := placeholder.PromQL(query, values); err != nil || got != want {
			t.Errorf("%s became %s (%v), not %s", query, got, err, want)
		}
	}
	for query, words := range map[string]string{
		`x{a="$asset"}`:                           "2 values",
		`x{a="$scope.none"}`:                      "stands for nothing",
		`x{a="$scope.other"}`:                     "stands for nothing",
		`sum by ($asset) (x)`:                     "no label is matched",
		`label_replace(x, "a", "$asset", "", "")`: "no label is matched",
		`x == "$asset"`:                           "no label is matched",
		"x{a=~`$asset`}":                          "no label is matched",
		`x{a="$start"}`:                           "within quotes",
		`x{a="$selector"}`:                        "within quotes",
		`x > $limit`:                              `"$limit" is no placeholder`,
		`x > $`:                                   `"$" is no placeholder`,
		`x{a="b}`:                                 "has no end",
	} {
		if got, err := placeholder.PromQL(query, values); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s became %s (%v)", query, got, err)
		}
	}
	if _, err := placeholder.PromQL("x{$selector}", placeholder.Values{}); err == nil {
		t.Error("no selector is filled in")
	}
}

func TestSQL(t *testing.T) {
	query := `SELECT at, v FROM "x$y" -- $start
		WHERE asset = ANY($asset) AND at >= $start AND at < $end AND note <> 'a''$b' AND other = ANY($asset) /* ' */ AND z = ANY($scope.many)`
	text, arguments, err := placeholder.SQL(query, values)
	want := `SELECT at, v FROM "x$y" -- $start
		WHERE asset = ANY($1) AND at >= $2 AND at < $3 AND note <> 'a''$b' AND other = ANY($1) /* ' */ AND z = ANY($4)`
	if err != nil || text != want || !reflect.DeepEqual(arguments, []any{[]string{"web/a", "web/b"}, values.Start, values.End, []string{"x|y", "z"}}) {
		t.Errorf("%v: %s %v", err, text, arguments)
	}
	for query, words := range map[string]string{
		`SELECT '$asset'`:    "remove the quotes",
		`SELECT $1`:          `"$1" is no placeholder`,
		`SELECT $$x$$`:       "no placeholder",
		`SELECT $selector`:   "no placeholder",
		`SELECT $scope.none`: "stands for nothing",
	} {
		_, _, err := placeholder.SQL(query, values)
		if err == nil || !strings.Contains(err.Error()+errHint(err), words) {
			t.Errorf("%s: %v", query, err)
		}
	}
	if placeholder.CheckSQL(query) != nil || placeholder.CheckPromQL(`x{zone="$scope.any",$selector}`) != nil || placeholder.CheckPromQL("$x") == nil || placeholder.CheckSQL("$x") == nil {
		t.Error("checks are not those of filling")
	}
}

// FuzzPromQL: no value ends the text that it is in.
func FuzzPromQL(f *testing.F) {
	f.Add(`x{a="$asset"}`, `"} or vector(1)`)
	f.Add(`x{a=~'$asset'}`, `'\`)
	f.Fuzz(func(t *testing.T, _, value string) {
		for _, query := range []string{`x{a="$asset"}`, `x{a!='$asset'}`, `x{a=~"$asset"}`} {
			filled, err := placeholder.PromQL(query, placeholder.Values{Assets: []string{value}})
			if err != nil {
				t.Fatal(err)
			}
			quote := query[strings.IndexAny(query, `"'`)]
			inside, ok := strings.CutPrefix(filled, query[:strings.IndexByte(query, quote)+1])
			inside, ends := strings.CutSuffix(inside, string(quote)+"}")
			inside = strings.NewReplacer(`\\`, "", `\`+string(quote), "", `\n`, "").Replace(inside)
			if !ok || !ends || strings.ContainsAny(inside, string(quote)+"\n") || strings.HasSuffix(inside, `\`) {
				t.Fatalf("%s", filled)
			}
		}
	})
}

func errHint(err error) string {
	if said, ok := errors.AsType[*fault.Error](err); ok {
		return said.Hint
	}
	return ""
}
