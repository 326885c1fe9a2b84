package web

import (
	"regexp"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// Ages in the texts of a chain grow with every look, so that a page which
// stays open would never be quiet, and one that is not would show old ages.
// They are left out: the page counts from the times beside them.

// dated are the kinds of reason whose text has an age, before anything that a
// person wrote.
var dated = map[string]bool{
	"stop": true, "in-sync": true, "candidate-held": true, "candidate-rejected": true, "unknown": true, "outdated": true, "pin": true, "cycle": true, "approval": true,
}

var age = regexp.MustCompile(`(?: \(so reported| \(report of|; the last pass was)? (?:just now|at an unknown time|[0-9]+(?:h[0-9]{2})?[smhd] ago)\)?`)

// ageless leaves ages out of a chain, and out of its summary, which repeats
// one of the texts.
func ageless(explanation *apipb.WhyResponse) {
	explanation.Summary = agelessReasons(explanation.Reasons, explanation.Summary)
}

func agelessReasons(reasons []*apipb.Reason, summary string) string {
	for _, reason := range reasons {
		if dated[reason.Kind] {
			if at := age.FindStringIndex(reason.Text); at != nil {
				lasting := reason.Text[:at[0]] + reason.Text[at[1]:]
				summary = strings.Replace(summary, reason.Text, lasting, 1)
				reason.Text = lasting
			}
		}
		summary = agelessReasons(reason.Causes, summary)
	}
	return summary
}
