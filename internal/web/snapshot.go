package web

// snapshot is a page as it was at one moment, never changed afterwards.
type snapshot struct {
	// version covers everything; empty: of a browser that has nothing.
	version  string
	parts    []part
	versions map[string]string
}

func take(parts []part) *snapshot {
	s := &snapshot{parts: parts, versions: map[string]string{}}
	var all []string
	note := func(p part) {
		s.versions[p.ID] = p.Version
		all = append(all, p.ID, p.Version)
	}
	for _, p := range parts {
		note(p)
		for _, row := range p.Rows {
			note(row)
		}
	}
	s.version = version(all...)
	return s
}

// fragment is a piece of a page that replaces the one of the same id.
type fragment struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// changesSince are the pieces that differ from an earlier snapshot: of a list only
// the rows, while it has the same ones.
func (s *snapshot) changesSince(previous *snapshot) []fragment {
	var fragments []fragment
	differs := func(p part) bool {
		earlier, ok := previous.versions[p.ID]
		return !ok || earlier != p.Version
	}
	for _, p := range s.parts {
		if differs(p) {
			fragments = append(fragments, fragment{p.ID, string(p.HTML)})
			continue
		}
		for _, row := range p.Rows {
			if differs(row) {
				fragments = append(fragments, fragment{row.ID, string(row.HTML)})
			}
		}
	}
	return fragments
}
