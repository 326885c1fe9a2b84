package monitor

import (
	"maps"
	"slices"
	"strings"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/sim/world"
)

// PreviewPrefix begins the ids of what previews make, and the names of the real things.
const PreviewPrefix = "review-"

// previewOf is the preview that an id, or the name of a thing, is of.
func previewOf(name string) string {
	preview, _, _ := strings.Cut(strings.TrimPrefix(name, PreviewPrefix), "/")
	return preview
}

// makes notes who made what is there, of what previews are to make; what was there may have been made by both.
func (m *Monitor) makes(e world.Effect) {
	_, name, _ := strings.Cut(string(e.Key), "/")
	if e.Refused != "" || !strings.HasPrefix(name, PreviewPrefix) {
		return
	}
	switch {
	case e.After == "":
		delete(m.makers, e.Key)
	case e.Before == "":
		m.makers[e.Key] = e.By
	}
}

// previewRemoved: a rule of previews is the approval of a removal only of what the preview itself made, once its pull
// request is closed, as head has the rule; and of nothing that people are to approve (S9).
func (m *Monitor) previewRemoved(p *push, c content, marked bool) {
	m.ask("S9")
	preview := previewOf(string(p.asset))
	m.hold(c.turndown && !marked && len(p.approvers) == 0, "S9", "push %s of %s was admitted by a rule of previews; turndown: %t, marked: %t, approved by %v", p.id, p.asset, c.turndown, marked, p.approvers)
	rule, ok := branchpreview.Find(m.policyAt(m.head), c.preview.GetRule())
	m.hold(ok && c.preview.GetDigest() == rule.Digest.String() && c.preview.GetPreview() == preview && strings.HasPrefix(string(p.asset), PreviewPrefix+preview+"/"), "S9",
		"push %s of %s was admitted by a rule of previews, its Turndown names %v, and head has %v", p.id, p.asset, c.preview, rule.PreviewRule)
	if m.options.Closed != nil && m.paces.moved.IsZero() { // Another time may be that at which it expires.
		m.hold(m.options.Closed(preview), "S9", "push %s removes %s, and the pull request of its preview is open", p.id, p.asset)
	}
	if by, isThere := m.makers[p.key]; isThere && !p.swapped {
		m.hold(by == world.ByLehr, "S9", "push %s of %s was admitted by a rule of previews, and %s made what is there", p.id, p.asset, by)
	}
}

// previewsGone: once all is at rest, nothing is there that a preview made and whose pull request is closed (L1).
func (m *Monitor) previewsGone() {
	for _, key := range slices.Sorted(maps.Keys(m.makers)) {
		_, name, _ := strings.Cut(string(key), "/")
		m.ask("L1")
		m.hold(m.makers[key] != world.ByLehr || m.options.Closed == nil || !m.options.Closed(previewOf(name)), "L1", "%s is there, which the preview of a closed pull request made", key)
	}
}

// makers is who made things of previews, by their keys.
type makers map[intent.ResourceKey]string
