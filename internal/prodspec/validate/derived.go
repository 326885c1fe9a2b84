package validate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/turndown"
)

// entryIndex is the index of an entry in a list that is derived.
var entryIndex = regexp.MustCompile(`^\.[a-z_]+\[(\d+)\]`)

// derived gives a finding about a derived addon, or about a field that a resolver
// changed, the place of that: the program that made the asset says nothing of it.
func (o Origin) derived(finding *intent.Finding) {
	var derivation *Derived
	for i := range o.Derived {
		d := &o.Derived[i]
		if d.Field != "" {
			if finding.Field == string(d.Payload)+strings.TrimPrefix(d.Field, "payload") {
				derivation = d
			}
			continue
		}
		rest, ok := strings.CutPrefix(finding.Field, string(d.Addon))
		if !ok || rest != "" && rest[0] != '.' {
			continue
		}
		if match := entryIndex.FindStringSubmatch(rest); match != nil {
			if at, err := strconv.Atoi(match[1]); err != nil || at < d.From {
				continue
			}
		}
		derivation = d // The last whose part begins before it.
	}
	switch {
	case derivation == nil:
		return
	case derivation.Unknown:
		// It is judged again once it is known, and is not pushed before.
		finding.Severity = intent.Warning
		finding.Message += fmt.Sprintf(" (%s)", derivation.Reason)
		return
	case derivation.Derivation == outputs.Document:
		finding.Message += fmt.Sprintf(" (it asks for an output: %s)", derivation.Reason)
		return
	}
	finding.File, finding.Line = derivation.File, derivation.Line
	verb := "derived"
	switch {
	case derivation.Derivation == turndown.Document:
		finding.Message += " (turned down by command)"
		return
	case derivation.Derivation == branchpreview.Provided:
		finding.Message += " (turned down because its preview has ended)"
		return
	case derivation.Field != "":
		verb = "set"
	}
	finding.Message += fmt.Sprintf(" (%s by generate.%s)", verb, derivation.Derivation)
}
