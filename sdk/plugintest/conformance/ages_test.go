package conformance

import (
	"context"
	"strings"
	"testing"
	"time"

	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/sdk/serve"
)

const (
	ruleAges          = "an answer tells its age"
	ruleReadsNow      = "a fact of now is read now"
	rulePending       = "pending says what, and ends"
	rulePendingBefore = ruleReadsNow
)

// cacheLies are those of the subject that keeps what it read. The first is honest.
var cacheLies = []string{"keeps what it read", "keeps what it read, and tells it as new", "keeps what it read, and tells it as from after the question", "keeps what it read, whatever is asked for"}

// cached is a kind that keeps its answers, for a cadence of a minute.
type cached struct {
	serve.Kind
	subject *subject
	kept    map[string]serve.Difference
}

func (c *cached) Served() serve.Served {
	served := c.Kind.Served()
	served.Cadence = time.Minute
	return served
}

func (c *cached) Diff(ctx context.Context, assets []serve.Intent) []serve.Difference {
	now := time.Now()
	differences := c.Kind.Diff(ctx, assets)
	c.subject.mutex.Lock()
	defer c.subject.mutex.Unlock()
	for i, asset := range assets {
		kept, isKept := c.kept[asset.Incarnation.String()]
		mayUse := asset.ReadSince.IsZero() || !kept.At.Before(asset.ReadSince)
		switch {
		case isKept && (mayUse || c.subject.lie != cacheLies[0]):
			differences[i] = kept
		case c.subject.lie != cacheLies[3] || asset.ReadSince.IsZero() || !isKept:
			differences[i].At = now
			c.kept[asset.Incarnation.String()] = differences[i]
		}
		switch c.subject.lie {
		case cacheLies[1], cacheLies[3]:
			// As if production had been read for this question.
			if c.subject.lie == cacheLies[1] || !asset.ReadSince.IsZero() {
				differences[i].At = time.Time{}
			}
		case cacheLies[2]:
			differences[i].At = time.Now().Add(time.Hour)
		}
	}
	return differences
}

func (c *cached) Push(ctx context.Context, push serve.Push, permits serve.Permits) serve.Outcome {
	outcome := c.Kind.Push(ctx, push, permits)
	c.subject.mutex.Lock()
	defer c.subject.mutex.Unlock()
	clear(c.kept)
	return outcome
}

// TestAPluginThatKeepsWhatItReadConforms, as long as it says so and reads when asked to.
func TestAPluginThatKeepsWhatItReadConforms(t *testing.T) {
	notShort(t)
	t.Parallel()
	report := checkSubject(t, plugin.Unguarded, cacheLies[0], "")
	for _, result := range report.Results {
		if result.Outcome == Failed {
			t.Errorf("%s: %s", result.Name, result.Detail)
		}
	}
	if result := report.result(t, ruleAges); result.Outcome != Passed || !strings.Contains(result.Detail, "with its age") {
		t.Errorf("%+v", result)
	}
}

// TestLiesAboutAgesAreCaught.
func TestLiesAboutAgesAreCaught(t *testing.T) {
	notShort(t)
	for _, c := range []struct{ lie, rule, says string }{
		{cacheLies[1], ruleAges, "after the change"},
		{cacheLies[1], ruleReadsNow, "tells what was so before"},
		{cacheLies[3], ruleReadsNow, "tells what was so before"},
		{"tells facts of the future", ruleAges, "which cannot be"},
		{"tells facts of last year", ruleReadsNow, "is allowed here"},
	} {
		t.Run(strings.ReplaceAll(c.lie+" "+c.rule, " ", "-"), func(t *testing.T) {
			t.Parallel()
			result := checkRules(t, plugin.Unguarded, c.lie, c.rule, c.rule).result(t, c.rule)
			if result.Outcome != Failed || !strings.Contains(result.Detail, c.says) {
				t.Errorf("%+v, want failed because %q", result, c.says)
			}
		})
	}
}

// TestALieAboutAnEarlierChangeIsCaught: what the process did not see under the rule before is
// told under the next.
func TestALieAboutAnEarlierChangeIsCaught(t *testing.T) {
	notShort(t)
	t.Parallel()
	result := checkRules(t, plugin.Unguarded, cacheLies[1], ruleReadsNow, ruleAges, ruleReadsNow).result(t, ruleReadsNow)
	if result.Outcome != Failed {
		t.Errorf("%+v", result)
	}
}

// TestLiesAboutWhatIsPendingAreCaught.
func TestLiesAboutWhatIsPendingAreCaught(t *testing.T) {
	notShort(t)
	for lie, says := range map[string]string{
		"runs, and does not say what ends it": "not what ends it",
		"runs, and has begun just now":        "the time since when stays",
		"runs, and begins tomorrow":           "a time to come",
		"runs, and pushes while it runs":      "carried out a push while a change was under way",
		"runs, and never ends":                "is pending still: run of",
	} {
		t.Run(strings.ReplaceAll(lie, " ", "-"), func(t *testing.T) {
			t.Parallel()
			result := checkRules(t, plugin.Unguarded, lie, rulePending, rulePendingBefore, rulePending).result(t, rulePending)
			if result.Outcome != Failed || !strings.Contains(result.Detail, says) {
				t.Errorf("%+v, want failed because %q", result, says)
			}
		})
	}
}

// TestWhatIsNeverPendingIsSkipped, and an honest run is not.
func TestWhatIsNeverPendingIsSkipped(t *testing.T) {
	notShort(t)
	t.Parallel()
	for lie, want := range map[string]Outcome{"": Skipped, onceLies[0]: Passed} {
		if result := checkRules(t, plugin.Unguarded, lie, rulePending, rulePending).result(t, rulePending); result.Outcome != want {
			t.Errorf("%q: %+v, want %s", lie, result, want)
		}
	}
}
