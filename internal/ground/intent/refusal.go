package intent

import "slices"

// Refusal says why what was built of a change of the sources is not served. Candidates are the
// newest first, and has reports whether one was built with the change. It is refused if the
// newest candidate was built with it and is rejected; a finding that a candidate of the same base
// without the change had as well is not the fault of the change.
func Refusal(candidates []Candidate, has func(*Candidate) bool) (reason string, refused bool) {
	if len(candidates) == 0 || candidates[0].State != CandidateRejected || !has(&candidates[0]) {
		return "", false
	}
	newest := &candidates[0]
	var earlier []Finding
	for i := range candidates {
		// Of another base: something was served since, so that it was not refused when the change came.
		if c := &candidates[i]; c.Base == newest.Base && c.State == CandidateRejected && !has(c) {
			earlier = c.Findings
			break
		}
	}
	reason = "what was built of it is refused"
	if len(newest.Findings) == 0 {
		return reason, true
	}
	for i := range newest.Findings {
		f := &newest.Findings[i]
		if f.Severity == Error && !slices.ContainsFunc(earlier, func(e Finding) bool { return isSameFinding(f, &e) }) {
			return reason + ": " + f.Message, true
		}
	}
	return "", false
}

// isSameFinding reports whether two findings are of one thing, which may have moved within its
// file.
func isSameFinding(a, b *Finding) bool {
	return a.Rule == b.Rule && a.Message == b.Message && a.Asset == b.Asset && a.File == b.File && a.Field == b.Field
}
