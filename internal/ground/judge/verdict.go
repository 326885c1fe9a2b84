package judge

import (
	"fmt"
	"strconv"
	"strings"
)

// decide rolls metrics up. Of those that are inconclusive it asks what they could
// become: it fails if no outcome of them would pass, and passes if every one would.
func (r *Result) decide() {
	groups := map[string]*[3]float64{} // all, passed, not failed
	var failed, unsure, critical []string
	decides := 0
	for _, m := range r.Metrics {
		if m.Shadow {
			continue
		}
		decides++
		weight := r.metric(m.Name).Weight
		g := groups[m.Group]
		if g == nil {
			g = &[3]float64{}
			groups[m.Group] = g
		}
		g[0] += weight
		switch m.Verdict {
		case Pass:
			g[1] += weight
			g[2] += weight
		case Inconclusive:
			g[2] += weight
			unsure = append(unsure, m.Name)
		case Fail:
			failed = append(failed, m.Name)
		}
		if m.Critical && m.Verdict == Fail {
			critical = append(critical, m.Name)
		}
	}
	score, best := r.scores(groups)
	r.Score, r.Best = figure(score), figure(best)
	switch {
	case decides == 0:
		r.Verdict, r.Why = Inconclusive, "there is no metric that decides"
	case len(critical) > 0:
		r.Verdict, r.Why = Fail, fmt.Sprintf("%s failed, which %s critical", names(critical), plural(len(critical), "is", "are"))
	case float64(r.Best) < r.Settings.leastScore():
		r.Verdict, r.Why = Fail, names(failed)+" failed"
	case float64(r.Best) < r.Settings.Pass:
		r.Verdict, r.Why = Inconclusive, names(failed)+" failed, which is marginal"
	case float64(r.Score) < r.Settings.Pass || r.criticalUnsure():
		r.Verdict, r.Why = Inconclusive, names(unsure)+plural(len(unsure), " is", " are")+" inconclusive"
	default:
		r.Verdict, r.Why = Pass, r.passed(decides, failed, unsure)
	}
	r.Why += r.scored()
	if r.Verdict != Pass {
		r.Why += r.tell()
	}
}

func (r *Result) passed(decides int, failed, unsure []string) string {
	text := plural(decides, "the metric passed", fmt.Sprintf("all %d metrics passed", decides))
	if len(failed)+len(unsure) > 0 {
		text = fmt.Sprintf("%d of %d metrics passed", decides-len(failed)-len(unsure), decides)
	}
	if len(failed) > 0 {
		text += "; " + names(failed) + " failed"
	}
	if len(unsure) > 0 {
		text += "; " + names(unsure) + plural(len(unsure), " is", " are") + " inconclusive"
	}
	return text
}

// scored tells of scores, where they are not plain.
func (r *Result) scored() string {
	switch {
	case r.Settings.Pass == 100 && r.Settings.Marginal == 0 && len(r.Settings.Groups) == 0:
		return ""
	case r.Score == r.Best:
		return fmt.Sprintf(" (score %s of the %s to pass)", number(float64(r.Score)), number(r.Settings.Pass))
	}
	return fmt.Sprintf(" (score from %s to %s, by what is inconclusive, of the %s to pass)", number(float64(r.Score)), number(float64(r.Best)), number(r.Settings.Pass))
}

// leastScore is what it fails below.
func (s *Settings) leastScore() float64 {
	if s.Marginal > 0 {
		return s.Marginal
	}
	return s.Pass
}

// tell says of the first metric that is as bad as all, why.
func (r *Result) tell() string {
	worst := r.Verdict
	if float64(r.Best) < r.Settings.Pass {
		worst = Fail
	}
	for _, m := range r.Metrics {
		if !m.Shadow && m.Verdict == worst && (m.Critical || worst != Fail || !r.hasCritical()) {
			return ". " + m.Name + ": " + m.Why
		}
	}
	return ""
}

func (r *Result) hasCritical() bool {
	for _, m := range r.Metrics {
		if m.Critical && m.Verdict == Fail {
			return true
		}
	}
	return false
}

func (r *Result) criticalUnsure() bool {
	for _, m := range r.Metrics {
		if m.Critical && m.Verdict == Inconclusive {
			return true
		}
	}
	return false
}

func (r *Result) metric(name string) Metric {
	for _, m := range r.Settings.Metrics {
		if m.Name == name {
			return m
		}
	}
	return Metric{}
}

// scores in percent: groups by their weights, metrics by theirs within. They are
// summed in the order of the metrics, so that they are the same each time.
func (r *Result) scores(groups map[string]*[3]float64) (score, best float64) {
	all := 0.0
	visited := map[string]bool{}
	for _, m := range r.Metrics {
		g := groups[m.Group]
		if visited[m.Group] || g == nil {
			continue
		}
		visited[m.Group] = true
		weight, ok := r.Settings.Groups[m.Group]
		if !ok {
			weight = 1
		}
		all += weight
		score += weight * g[1] / g[0]
		best += weight * g[2] / g[0]
	}
	if all == 0 {
		return 0, 0
	}
	return 100 * score / all, 100 * best / all
}

// names lists a few.
func names(list []string) string {
	const few = 3
	if len(list) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
	}
	if len(list) > 1 {
		return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
	}
	return strings.Join(list, "")
}

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun, noun+"s")) }

// number in four digits.
func number(f float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', 3, 64), 64)
	if err != nil {
		rounded = f
	}
	text := strconv.FormatFloat(rounded, 'f', -1, 64)
	if len(text) > 10 {
		text = strconv.FormatFloat(rounded, 'g', 4, 64)
	}
	return strings.Replace(strings.TrimPrefix(text, "+"), "Inf", "infinity", 1)
}

func percent(share float64) string { return number(100*share) + "%" }

// withUnit its unit.
func withUnit(f Number, unit string) string {
	if unit == "" {
		return number(float64(f))
	}
	return number(float64(f)) + " " + unit
}
