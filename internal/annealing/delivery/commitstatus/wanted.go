package commitstatus

import (
	"slices"
	"strings"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/external/githost"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// wantedStatus is one that a host should have.
type wantedStatus struct {
	githost.Status
	key     string
	version intent.VersionName
}

// mostNext versions that may come to an environment have a status.
const mostNext = 3

// statuses that a host should have: of what each environment has, should have and may get, and of
// what it was told of before. Of several versions of a commit the first of these counts.
func (t *Teller) statuses(host string, m *delivery.Moment) (list []wantedStatus) {
	decision := m.Application.Decide(m.Catalogue, m.Facts)
	for at := range m.Places {
		environment := m.Places[at].Spec.GetName()
		prefix := keyOf(host, m.Spec.GetName(), environment, "")
		known := t.known(prefix)
		seen := map[string]bool{}
		for _, r := range append(current(m, decision, at), known...) {
			key := prefix + m.Versions[r].Commit
			if m.Versions[r].Commit == "" || seen[key] {
				continue
			}
			seen[key] = true
			last := t.posted[key]
			state, text := standing(m, decision, at, r, last.State)
			if state == "" {
				continue
			}
			status := githost.StatusOf(string(m.Home.ID), m.Spec.GetName(), environment, m.Versions[r].Commit, state, text, "")
			list = append(list, wantedStatus{status, key, r})
		}
	}
	return list
}

// known are the versions of an environment that the host was told of, the newest first. What is
// older is told nothing more.
func (t *Teller) known(prefix string) (releases []intent.VersionName) {
	var keys []string
	for key := range t.posted {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		if order := t.posted[b].At.Compare(t.posted[a].At); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	for i, key := range keys {
		if i >= mostKept {
			delete(t.posted, key)
			t.dirty = true
			continue
		}
		version := t.posted[key].Version
		releases = append(releases, intent.VersionName{Name: version.Name, Digest: version.Digest})
	}
	return releases
}

// current are what an environment has, should have, and may get.
func current(m *delivery.Moment, decision *promotion.Decision, at int) (releases []intent.VersionName) {
	outcome := decision.Outcomes[at]
	releases = append(releases, outcome.Has, outcome.Wants)
	return append(releases, decision.Next(at, mostNext, promotion.Pending, promotion.Approved)...)
}

// standing is the status of a version in an environment, and its text, which changes only with what
// it says; empty: there is nothing to say. Last is what was said of it before.
func standing(m *delivery.Moment, decision *promotion.Decision, at int, r intent.VersionName, last githost.State) (state githost.State, text string) {
	environment := m.Places[at].Spec.GetName()
	where := r.Name + " in " + environment
	wasThere := false
	for _, stay := range m.Facts.Environments[environment].Stays {
		wasThere = wasThere || stay.VersionName == r
	}
	switch decision.State(at, r) {
	case promotion.Current:
		return githost.Success, where
	case promotion.Deploying:
		return githost.Running, r.Name + " comes to " + environment
	case promotion.Approved:
		return githost.Pending, r.Name + " is let in into " + environment
	case promotion.Pending:
		return githost.Pending, r.Name + " waits" + waitsFor(decision, environment, r)
	case promotion.Previous:
		return githost.Success, where + " before"
	case promotion.Vetoed:
		if wasThere {
			return githost.Failure, where + " was found bad, and is rolled back"
		}
		return githost.Failure, r.Name + " was found bad, and is kept out of " + environment
	case promotion.Failed:
		return githost.Failure, where + " did not converge"
	case promotion.Skipped, promotion.Superseded:
		if last != "" {
			return githost.Success, r.Name + " was passed by in " + environment + " by another version"
		}
	case promotion.Withdrawn:
		if last != "" {
			return githost.Failure, r.Name + " was withdrawn, and does not come to " + environment
		}
	}
	return "", ""
}

// waitsFor names the first constraint that does not let a version in.
func waitsFor(decision *promotion.Decision, environment string, r intent.VersionName) string {
	explained, err := decision.Explain(environment, r)
	if err != nil {
		return ""
	}
	for _, v := range explained.Verdicts {
		if v.Status != promotion.Passes {
			return " for " + v.Constraint + " before " + environment
		}
	}
	return " before " + environment
}
