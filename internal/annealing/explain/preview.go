package explain

import (
	"fmt"
	"time"
)

// Preview is an environment that was made for a branch or a pull request.
type Preview struct {
	// Rule by its name, and what the preview is called.
	Rule, Name string
	// Subject is the branch or pull request, and Link where people see it; empty: nobody says.
	Subject, Link string
	Expires       time.Time
	// Ending says why it ends, since when; empty: it lives.
	Ending string
	Since  time.Time
}

// previewReasons say which preview the asset is of, and until when.
func (f Facts) previewReasons() []Reason {
	p := f.Preview
	if p == nil {
		return nil
	}
	reason := Reason{Kind: KindPreview, Asset: f.Asset, Text: fmt.Sprintf("it is of the preview %s (rule %s) of %s", p.Name, p.Rule, p.Subject)}
	if p.Link != "" {
		reason.Text += ", " + p.Link
	}
	if p.Ending != "" {
		reason.Text, reason.Since = reason.Text+", which ends: "+p.Ending, p.Since
		reason.Hint = "lehr get previews shows what is left of it"
		return []Reason{reason}
	}
	reason.Text += ", which expires at " + p.Expires.UTC().Format(time.RFC3339) + " if nobody pushes"
	reason.Until = p.Expires
	return []Reason{reason}
}
