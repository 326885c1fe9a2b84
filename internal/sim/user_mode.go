package sim

import (
	"regexp"
	"strings"

	"lehr.dev/internal/ground/intent"
)

var modeLine = regexp.MustCompile(`(?m)^mode:.*$`)

// enforced is a user's definition in which the partition's mode is enforce: in
// a simulation nothing speaks against it, and else there would be nothing to
// see.
func enforced(definition string) string {
	if modeLine.MatchString(definition) {
		return modeLine.ReplaceAllString(definition, "mode: enforce")
	}
	return strings.TrimSuffix(definition, "\n") + "\nmode: enforce\n"
}

// observed reports whether a user's asset is only to be looked at.
func (l *Lab) observed(report intent.Report) bool {
	return l.options.Definition != "" && len(report.Waiting) > 0 && report.Waiting[0].Kind == intent.WaitMode
}
