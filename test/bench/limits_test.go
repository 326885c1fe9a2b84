package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"lehr.dev/internal/store/sqlite"
)

func TestALimitIsInTheUnitOfItsFigure(t *testing.T) {
	l := &limit{unit: "admissions/s"}
	for _, c := range []struct {
		unit   string
		things int
		want   float64
		in     string
	}{
		{"pushes/s", 1, 200, "admissions/s"},
		{"s", 1000, 5, "s"},
		{"ms", 1, 5, "ms"},
		{"us", 2, 10_000, "us"},
	} {
		if at, in := l.in(c.unit, 200, c.things); at != c.want || in != c.in {
			t.Errorf("of a figure in %s, of %d: %g %s, want %g %s", c.unit, c.things, at, in, c.want, c.in)
		}
	}
}

// Figures that are printed together have one limit; one that cannot be taken fails the
// run, and not the figure.
func TestLimitsAreTakenBesideFigures(t *testing.T) {
	times, broken := 0, errors.New("no disk")
	good := &limit{"good", "units/s", func(*limits, context.Context) (float64, error) { times++; return 200, nil }}
	bad := &limit{"bad", "units/s", func(*limits, context.Context) (float64, error) { return 0, broken }}
	l := &limits{taken: map[*limit]taken{}}
	l.figure("one", 1, "s", 1, good, bad)
	l.figure("other", 1, "s", 1, good)
	if times != 1 {
		t.Errorf("taken %d times", times)
	}
	if !errors.Is(l.failed, broken) {
		t.Errorf("what could not be taken is told as %v", l.failed)
	}
}

// One database is asked several times in a run: what was admitted before is in nobody's way.
func TestAdmissionsAreCountedAgain(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "lehr.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		a, err := newAdmitting(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, 128} {
			if _, err := a.rate(t.Context(), size, time.Microsecond); err != nil {
				t.Error(err)
			}
		}
	}
}
