package ordering

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

const (
	byDebian  = intentpb.VersionOrder_BY_DEBIAN
	byNumber  = intentpb.VersionOrder_BY_NUMBER
	byDate    = intentpb.VersionOrder_BY_DATE
	byCreated = intentpb.VersionOrder_BY_CREATED
	byBuild   = intentpb.VersionOrder_BY_BUILD
)

func TestSort(t *testing.T) {
	for _, test := range []struct {
		name  string
		order *intentpb.VersionOrder
		names string
		// want are the names, newest first; then, after a bar, those aside with their causes.
		want string
	}{
		{"releases only", &intentpb.VersionOrder{}, "v1.9.0 v1.10.0 v1.10.1-rc.1 latest 1.2", "v1.10.0 v1.9.0 | v1.10.1-rc.1:3 latest:2 1.2:2"},
		{"candidates count", &intentpb.VersionOrder{Prereleases: []string{"rc"}}, "1.0.0-rc.2 1.0.0-alpha.1 1.0.0-rc.10 1.0.0", "1.0.0 1.0.0-rc.10 1.0.0-rc.2 | 1.0.0-alpha.1:3"},
		{"all prereleases count", &intentpb.VersionOrder{Prereleases: []string{"*"}}, "1.0.0-0 1.0.0-alpha", "1.0.0-alpha 1.0.0-0 |"},
		{"a part of the name", &intentpb.VersionOrder{Match: "web-v(.*)"}, "web-v1.2.0 api-v9.0.0 web-v1.10.0 web-v1", "web-v1.10.0 web-v1.2.0 | api-v9.0.0:1 web-v1:2"},
		{"dpkg", &intentpb.VersionOrder{By: byDebian}, "1.0~rc1-1 1.0-1 1:0.1 .1", "1:0.1 1.0-1 1.0~rc1-1 | .1:2"},
		{"several numbers", &intentpb.VersionOrder{By: byNumber, Match: `release-(\d+)\.(\d+)`}, "release-9.10 release-10.2 release-9.9 release-10", "release-10.2 release-9.10 release-9.9 | release-10:1"},
		{"a number of any length", &intentpb.VersionOrder{By: byNumber}, "99999999999999999999998 7 099999999999999999999999 x", "099999999999999999999999 99999999999999999999998 7 | x:2"},
		{"dates", &intentpb.VersionOrder{By: byDate, Match: `b(.*)-[0-9a-f]+`, Layout: "YYYYMMDD.hhmm"}, "b20260131.0900-aa b20260201.0000-bb b20261301.0000-cc", "b20260201.0000-bb b20260131.0900-aa | b20261301.0000-cc:2"},
		{"when made", &intentpb.VersionOrder{By: byCreated}, "b@1 a@3 c@2 d", "a c b | d:4"},
		{"builds", &intentpb.VersionOrder{By: byBuild}, "x#9 y#10 z", "y x | z:4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, err := New(test.order)
			if err != nil {
				t.Fatal(err)
			}
			if got := told(o, read(test.names)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// read versions: name@when and name#build.
func read(names string) (versions []Version) {
	for text := range strings.FieldsSeq(names) {
		v := Version{Name: text}
		if name, when, ok := strings.Cut(text, "@"); ok {
			var n int64
			_, _ = fmt.Sscan(when, &n)
			v = Version{Name: name, Created: time.Unix(n, 0)}
		}
		if name, build, ok := strings.Cut(text, "#"); ok {
			v.Name = name
			_, _ = fmt.Sscan(build, &v.Build)
		}
		versions = append(versions, v)
	}
	return versions
}

func told(o *Order, versions []Version) string {
	var words []string
	sorted, aside := o.Sort(versions)
	for _, i := range sorted {
		words = append(words, versions[i].Name)
	}
	words = append(words, "|")
	for _, a := range aside {
		words = append(words, fmt.Sprintf("%s:%d", versions[a.Index].Name, a.Cause))
	}
	return strings.Join(words, " ")
}

// Whatever the versions and in whatever order they come: each is in the order or aside, once;
// the order is the same; each is older than the one before it or equal to it.
func TestSortKeepsAllAndIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]*intentpb.VersionOrder{
			{}, {Prereleases: []string{"*"}}, {By: byDebian}, {By: byNumber, Match: `(\d+)\.?(\d+)?.*`}, {By: byCreated}, {By: byBuild}, {By: byDate, Layout: "YYYYMM"},
		}).Draw(t, "order")
		o, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		versions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Version {
			return Version{
				Name:  rapid.StringMatching(`v?[0-2]\.[0-2]\.[0-2](-(rc|a)\.[0-9])?(\+[ab])?|[0-9]{6}|[a-c~]{1,3}`).Draw(t, "name"),
				Build: rapid.Uint64Range(0, 3).Draw(t, "build"), Created: []time.Time{{}, time.Unix(1, 0), time.Unix(2, 0)}[rapid.IntRange(0, 2).Draw(t, "created")],
			}
		}), 0, 12).Draw(t, "versions")
		sorted, aside := o.Sort(versions)
		seen := slices.Clone(sorted)
		for _, a := range aside {
			seen = append(seen, a.Index)
		}
		slices.Sort(seen)
		for i := range versions {
			if len(seen) != len(versions) || seen[i] != i {
				t.Fatalf("of %d versions there are %v", len(versions), seen)
			}
		}
		for i := 1; i < len(sorted); i++ {
			if order, ok := o.Compare(versions[sorted[i-1]], versions[sorted[i]]); !ok || order < 0 {
				t.Fatalf("%+v is before %+v: %d, %t", versions[sorted[i-1]], versions[sorted[i]], order, ok)
			}
		}
		shuffled := slices.Clone(versions)
		rand.New(rand.NewPCG(uint64(len(versions)), 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		inOrder := func(list []Version) (all []Version) {
			sorted, _ := o.Sort(list)
			for _, i := range sorted {
				all = append(all, Version{Name: list[i].Name, Created: list[i].Created})
			}
			return all
		}
		if difference := cmp.Diff(inOrder(versions), inOrder(shuffled)); difference != "" {
			t.Fatal(difference)
		}
	})
}

func TestBadOrders(t *testing.T) {
	for says, spec := range map[string]*intentpb.VersionOrder{
		"no regular expression":        {Match: "("},
		"has 2 groups":                 {Match: "(a)(b)"},
		"has no year":                  {By: byDate, Layout: "MMDD"},
		"a layout is of dates":         {Layout: "YYYY"},
		"prereleases are of semver on": {By: byDebian, Prereleases: []string{"rc"}},
	} {
		if _, err := New(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}
