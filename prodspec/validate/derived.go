package validate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lehr.dev/intent"
)

// entryIndex is the index of an entry in the only list that is derived.
var entryIndex = regexp.MustCompile(`^\.dependencies\[(\d+)\]`)

// derived gives a finding about a derived addon, or about a field that a resolver
// changed, the place of that: the program that made the asset says nothing of it.
func (o Origin) derived(finding *intent.Finding) {
	var by *Derived
	for i := range o.Derived {
		d := &o.Derived[i]
		if d.Field != "" {
			if finding.Field == string(d.Payload)+strings.TrimPrefix(d.Field, "payload") {
				by = d
			}
			continue
		}
		rest, about := strings.CutPrefix(finding.Field, string(d.Addon))
		if !about || rest != "" && rest[0] != '.' {
			continue
		}
		if match := entryIndex.FindStringSubmatch(rest); match != nil {
			if at, err := strconv.Atoi(match[1]); err != nil || at < d.From {
				continue
			}
		}
		by = d // The last whose part begins before it.
	}
	if by == nil {
		return
	}
	finding.File, finding.Line = by.File, by.Line
	how := "derived"
	if by.Field != "" {
		how = "set"
	}
	finding.Message += fmt.Sprintf(" (%s by generate.%s)", how, by.Derivation)
}
