package explain

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
)

// Generation is an orphan that a rule of generations names.
type Generation struct {
	// Rule by its name, and how many that head has no more it keeps.
	Rule string
	Keep int
	// Kept: it is among the newest of those. Else the rule does not remove it all the same.
	Kept bool
}

// words say why an older generation is still there, and what a person can do.
func (g Generation) words(report intent.Report) (text, hint string) {
	text = fmt.Sprintf("%s does not name it any more: an older generation, which runs on. ", report.Target)
	hint = fmt.Sprintf("to have it gone now, with an approval: lehr turndown %s --reason WHY", report.Asset)
	if g.Kept {
		return text + fmt.Sprintf("The rule %s of generations keeps the newest %d that head has no more, and it is one of them", g.Rule, g.Keep),
			"it goes by the rule once enough newer ones have left; " + hint
	}
	return text + fmt.Sprintf("The rule %s of generations keeps the newest %d only, and does not remove it: it has an addon Approval or Unmanaged, "+
		"another generator made it, the sources give no generation any more, or it cannot come back alone", g.Rule, g.Keep), "lehr plan warns of what cannot come back alone; " + hint
}
