package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// In runs with a line of releases, rows are judged in the order in which they were stored: a promotion must be right
// by all rows before it. Versions of these applications are 1.N.0, and N is what is compared.

// ReleaseLine is what the line of releases is called, and GoodsDocument holds what its applications have.
const (
	ReleaseLine   = "main"
	GoodsDocument = "goods"
	// GoodsLag is how far payments may be ahead in test of what it has in production.
	GoodsLag = 2
	// LongestTrain is for how long policy may not enforce what a train brings, in the runs in which it does so.
	LongestTrain = 3 * time.Minute
)

// GoodsApplications are those of the line. The second waits for the first in each environment.
var GoodsApplications = []string{"payments", "orders"}

// goods are what is known of the line and of its applications.
type goods struct {
	revision int
	releases []release
	places   map[placeKey]*goodsPlace
	bad      map[goodsVersion]bool
	// promoted are the revisions of the document that rows say, and what each set.
	promoted map[string]string
}

type placeKey struct{ application, environment string }

// goodsVersion is a version in an environment; of the empty one, in all.
type goodsVersion struct {
	placeKey
	number int
}

type goodsPlace struct {
	has, newest int
	good        map[int]bool
	// trainSince is when a train brought what it has; zero: none did, or all was good with it since.
	trainSince time.Time
}

type release struct {
	number    int
	versions  map[string]int
	immediate bool
	held      bool
	aborted   bool
	skipped   map[string]bool
}

func (r *release) skips(environment string) bool { return r.skipped[environment] || r.skipped[""] }

func newGoods() goods {
	return goods{places: map[placeKey]*goodsPlace{}, bad: map[goodsVersion]bool{}, promoted: map[string]string{}}
}

// goodsNumber of a version; -1: it is none of these.
func goodsNumber(name string) int {
	number := -1
	if _, err := fmt.Sscanf(name, "1.%d.0", &number); err != nil {
		return -1
	}
	return number
}

func (g *goods) place(application, environment string) *goodsPlace {
	key := placeKey{application, environment}
	if g.places[key] == nil {
		g.places[key] = &goodsPlace{has: -1, newest: -1, good: map[int]bool{}}
	}
	return g.places[key]
}

// isBad reports whether a version is bad in an environment: people said so, or aborted each release that brings it.
func (g *goods) isBad(application, environment string, number int) bool {
	for _, where := range []string{environment, ""} {
		if g.bad[goodsVersion{placeKey{application, where}, number}] {
			return true
		}
	}
	aborted := false
	for i := range g.releases {
		if version, ok := g.releases[i].versions[application]; ok && version == number {
			if !g.releases[i].aborted {
				return false
			}
			aborted = true
		}
	}
	return aborted
}

// goodsRow takes up a row of the line, or of one of its applications.
func (m *Monitor) goodsRow(row intent.DeliveryRecord) {
	g := &m.goods
	switch {
	case row.Application == ReleaseLine && row.Kind == intent.DeliveryRelease:
		made := release{number: row.Release, versions: map[string]int{}, immediate: row.Immediate, skipped: map[string]bool{}}
		for name, version := range row.Versions {
			_, application, _ := strings.Cut(name, "/")
			made.versions[application] = goodsNumber(version.Name)
		}
		m.hold(row.Release == len(g.releases)+1, "S14", "release %d was made after %d releases", row.Release, len(g.releases))
		g.releases = append(g.releases, made)
	case row.Application == ReleaseLine && row.Kind == intent.DeliveryAct:
		for i := range g.releases {
			if g.releases[i].number == row.Release {
				g.releases[i].act(row)
			}
		}
	case row.Kind == intent.DeliveryFound:
		p := g.place(row.Application, row.Environment)
		p.has = goodsNumber(row.Version.Name)
		p.newest, p.trainSince = max(p.newest, p.has), time.Time{}
	case row.Kind == intent.DeliveryStanding:
		if row.Good {
			p := g.place(row.Application, row.Environment)
			p.good[goodsNumber(row.Version.Name)], p.trainSince = true, time.Time{}
		}
	case row.Kind == intent.DeliveryAct:
		key := goodsVersion{placeKey{row.Application, row.Environment}, goodsNumber(row.Version.Name)}
		if row.Act == intent.ActMarkBad || row.Act == intent.ActMarkGood {
			g.bad[key] = row.Act == intent.ActMarkBad
		}
	case row.Kind == intent.DeliveryPromotion:
		number := goodsNumber(row.Version.Name)
		g.promoted[row.Revision] = fmt.Sprintf("/%s/%s %s", row.Application, row.Environment, row.Version.Name)
		if isBack := row.Back || row.Why == intent.WhyPinned && number <= g.place(row.Application, row.Environment).newest; !isBack {
			m.goodsPromoted(row.Application, row.Environment, number)
		}
		m.hold(!g.isBad(row.Application, row.Environment, number), "S20", "%s of %s was given %s, which is bad there", row.Environment, row.Application, row.Version.Name)
		p := g.place(row.Application, row.Environment)
		p.has, p.newest, p.trainSince = number, max(p.newest, number), time.Time{}
		if !row.Back && g.isTrain(row.Application, number) {
			p.trainSince = row.At
		}
	}
}

// isTrain reports whether trains bring a version, and no immediate release does.
func (g *goods) isTrain(application string, number int) (ok bool) {
	for i := range g.releases {
		r := &g.releases[i]
		if version, brings := r.versions[application]; !brings || r.aborted || version != number {
			continue
		}
		if r.immediate {
			return false
		}
		ok = true
	}
	return ok
}

// besideTrain: what a train brings to production is not pushed before all is good with it, or a time is over, where
// policy says so (S1).
func (m *Monitor) besideTrain(p *push) {
	application := GoodsApplications[0]
	if p.asset != intent.AssetID("goods-"+application+"-production") || m.options.Delivered == nil || !m.options.Delivered.Relaxed || m.passesOver(p) {
		return
	}
	if moved := m.paces.moved; !moved.IsZero() && m.options.Now().Sub(moved) < LongestTrain {
		return // It was decided by another time.
	}
	place := m.goods.place(application, "production")
	of, _ := m.contentAt(p.asset, p.target)
	if place.trainSince.IsZero() || goodsNumber(of.input) != place.has || !m.goods.isTrain(application, place.has) {
		return
	}
	end := place.trainSince.Add(LongestTrain)
	m.hold(!p.admitted.Before(end), "S1", "push %s of %s with %s was admitted at %s, while a train is in its environment that policy does not enforce until %s",
		p.id, p.asset, of.input, p.admitted.UTC().Format(time.TimeOnly), end.UTC().Format(time.TimeOnly))
}

func (r *release) act(row intent.DeliveryRecord) {
	switch row.Act {
	case intent.ActHoldRelease:
		r.held = true
	case intent.ActSkipRelease:
		r.skipped[row.Environment] = true
	case intent.ActAbortRelease:
		r.aborted = true
	case intent.ActResumeRelease:
		delete(r.skipped, row.Environment)
		if row.Environment == "" {
			r.held = false
		}
	}
}

// goodsPromoted judges what delivery gave an environment that goes forward (S19): a release brings it there.
func (m *Monitor) goodsPromoted(application, environment string, number int) {
	g := &m.goods
	p := g.place(application, environment)
	// The newest comes back when a pin to something older ends.
	m.hold(number >= p.newest && number > p.has, "S19", "%s of %s was given 1.%d.0, and had 1.%d.0 before", environment, application, number, p.newest)
	m.hold(g.brings(application, environment, number, false), "S19", "%s of %s was given 1.%d.0, and no release brings it there: %+v", environment, application, number, g.releases)
	if application != GoodsApplications[0] || environment != "test" {
		return
	}
	if ahead := g.ahead(number); ahead > GoodsLag {
		m.hold(false, "S19", "test of %s was given 1.%d.0, which is %d ahead of production", application, number, ahead)
	}
	if g.brings(application, environment, number, true) {
		return
	}
	for i := range g.releases {
		earlier, ok := g.releases[i].versions[application]
		if ok && earlier > p.newest && earlier < number && !g.isBad(application, environment, earlier) {
			m.hold(!g.brings(application, environment, earlier, false), "S19", "test of %s was given 1.%d.0 by a train, before 1.%d.0 of release %d", application, number, earlier, g.releases[i].number)
		}
	}
}

// brings reports whether a release, or an immediate one, brings a version to an environment now.
func (g *goods) brings(application, environment string, number int, immediate bool) bool {
	for i := range g.releases {
		r := &g.releases[i]
		version, ok := r.versions[application]
		if !ok || version != number || r.aborted || r.held || r.skips(environment) || immediate && !r.immediate {
			continue
		}
		if !r.immediate && g.isBehindHeld(application, environment, r) {
			continue
		}
		if first, ok := r.versions[GoodsApplications[0]]; ok && application == GoodsApplications[1] && !g.reached(environment, first) {
			continue
		}
		return true
	}
	return false
}

func (g *goods) isBehindHeld(application, environment string, train *release) bool {
	for i := range g.releases {
		earlier := &g.releases[i]
		version, ok := earlier.versions[application]
		if ok && earlier.number < train.number && earlier.held && !earlier.aborted && !earlier.skips(environment) &&
			version > g.place(application, environment).newest && version < train.versions[application] && !g.isBad(application, environment, version) {
			return true
		}
	}
	return false
}

// reached reports whether the first application has a version in an environment, or a newer one, and was good with
// one of them there.
func (g *goods) reached(environment string, number int) bool {
	first := GoodsApplications[0]
	p := g.place(first, environment)
	if p.has < number {
		return false
	}
	isWell := func(n int) bool { return p.good[n] && !g.isBad(first, environment, n) }
	return isWell(number) || isWell(p.has)
}

// ahead counts the versions of payments after what production has, up to one, that may still come there.
func (g *goods) ahead(number int) (count int) {
	application := GoodsApplications[0]
	for q := g.place(application, "production").has + 1; q <= number; q++ {
		mayCome := q == number
		for i := range g.releases {
			r := &g.releases[i]
			if version, ok := r.versions[application]; ok && version == q && !r.aborted && !r.skips("production") {
				mayCome = mayCome || !g.isBad(application, "test", q) && !g.isBad(application, "production", q)
			}
		}
		if mayCome {
			count++
		}
	}
	return count
}

// goodsRevised reads the new revisions of the document: what delivery set there has a row (S25).
func (m *Monitor) goodsRevised() {
	g := &m.goods
	m.unread("what releases brought", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision > $3 ORDER BY revision",
		[]any{string(m.options.Partition), GoodsDocument, int64(g.revision)}, func(rows *sql.Rows) error {
			var author string
			var text []byte
			if err := rows.Scan(&g.revision, &author, &text); err != nil {
				return err
			}
			var changes []fieldChange
			if err := json.Unmarshal(text, &changes); err != nil {
				return err
			}
			if !strings.HasPrefix(author, intent.DeliveryPrefix) {
				return nil
			}
			for _, c := range changes {
				var value string
				if err := json.Unmarshal(c.After, &value); err != nil {
					return err
				}
				said := g.promoted[fmt.Sprint(g.revision)]
				m.hold(said == c.Path+" "+value, "S25", "delivery set %s to %s in revision %d of %s, and its row says %q", c.Path, value, g.revision, GoodsDocument, said)
			}
			return nil
		}))
}
