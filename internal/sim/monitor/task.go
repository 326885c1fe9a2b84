package monitor

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// In runs with tasks, rows are judged in the order in which they were stored: that a task runs must follow from the
// rows before. Versions are 1.N.0, and N is what is compared.

// CartApplication has tasks, and CartDocument holds what its environments and tasks have.
const (
	CartApplication = "cart"
	CartDocument    = "carts"
)

// CartTasks are those of the application. The second waits for the first, and production for the second.
var CartTasks = []string{"scan", "migrate", "report", "clean"}

// CartPlaces are its environments and its tasks.
func CartPlaces() []string { return append([]string{"test", "production"}, CartTasks...) }

// carts are what is known of the application.
type carts struct {
	revision int
	places   map[string]*cartPlace
	// bad are versions that people marked, by place; of the empty one, in all.
	bad map[cartVersion]bool
	// failed are versions that failed in an environment while it had them: on these a task runs.
	failed   map[cartVersion]bool
	attempts map[cartVersion]int
	// forced are constraints that people passed over, restarted the tasks that are to run once more.
	forced    map[cartConstraint]bool
	restarted map[cartVersion]bool
	pins      map[string]int
	// promoted are the revisions of the document that rows say, and what each set.
	promoted map[string]cartEdit
}

type cartVersion struct {
	place  string
	number int
}

type cartConstraint struct {
	cartVersion
	constraint string
}

// cartPlace is what an environment or a task has, and what became of each version there.
type cartPlace struct {
	has, newest int
	stays       map[int]cartStay
	paused      bool
}

// cartStay is the last stay of a version, and what is so of all of them.
type cartStay struct {
	found, good bool
	// wasGood: at some time, in any of the stays.
	wasGood bool
	count   int
}

type cartEdit struct {
	place, version string
	run            int
}

func newCarts() carts {
	c := carts{
		places: map[string]*cartPlace{}, bad: map[cartVersion]bool{}, failed: map[cartVersion]bool{}, attempts: map[cartVersion]int{},
		forced: map[cartConstraint]bool{}, restarted: map[cartVersion]bool{}, pins: map[string]int{}, promoted: map[string]cartEdit{},
	}
	for _, name := range CartPlaces() {
		c.places[name] = &cartPlace{has: -1, newest: -1, stays: map[int]cartStay{}}
	}
	return c
}

// hasRun reports whether a task ended well for a version, or somebody wrote that it did.
func (c *carts) hasRun(task string, number int) bool {
	stay := c.places[task].stays[number]
	return (stay.good || stay.found) && !c.restarted[cartVersion{task, number}]
}

// cartRow takes up a row of the application.
func (m *Monitor) cartRow(row intent.DeliveryRecord) {
	c, number := &m.carts, goodsNumber(row.Version.Name)
	key := cartVersion{row.Environment, number}
	switch row.Kind {
	case intent.DeliveryFound:
		c.places[row.Environment].begin(number, true)
	case intent.DeliveryStanding:
		p := c.places[row.Environment]
		stay := p.stays[number]
		stay.good, stay.wasGood = row.Good, stay.wasGood || row.Good
		p.stays[number] = stay
	case intent.DeliveryAttempt:
		c.attempts[key]++
		if most := map[string]int{"test": 100, "production": 2, "migrate": 2}[row.Environment]; c.attempts[key] >= max(1, most) {
			c.failed[key] = true
		}
	case intent.DeliveryAct:
		m.cartAct(row, number)
	case intent.DeliveryPromotion:
		edit := cartEdit{place: row.Environment, version: row.Version.Name}
		p := c.places[row.Environment]
		m.hold(!p.paused, "S18", "%s of %s was given %s, and is paused", row.Environment, CartApplication, row.Version.Name)
		switch isTask := row.Environment != "test" && row.Environment != "production"; {
		case isTask:
			m.taskRuns(row.Environment, number)
			edit.run = p.stays[number].count + 1
		case row.Environment == "production" && !row.Back && number > p.newest:
			isPassed := c.forced[cartConstraint{key, "migrated"}]
			m.hold(isPassed || c.hasRun("migrate", number), "S19", "production was given %s, for which migrate has not ended well: %+v, asked for once more: %v", row.Version.Name, c.places["migrate"].stays[number], c.restarted[cartVersion{"migrate", number}])
		}
		delete(c.restarted, key)
		p.begin(number, false)
		c.promoted[row.Revision] = edit
	}
}

func (p *cartPlace) begin(number int, found bool) {
	p.has, p.newest = number, max(p.newest, number)
	previous := p.stays[number]
	p.stays[number] = cartStay{found: found, wasGood: previous.wasGood, count: previous.count + 1}
}

func (m *Monitor) cartAct(row intent.DeliveryRecord, number int) {
	c, key := &m.carts, cartVersion{row.Environment, number}
	switch row.Act {
	case intent.ActMarkBad:
		c.bad[key] = true
		for _, name := range []string{"test", "production"} {
			isMeant := row.Environment == name || row.Environment == ""
			if isMeant && c.places[name].has == number {
				c.failed[cartVersion{name, number}] = true
			}
		}
	case intent.ActMarkGood:
		// What a task is to run for that failed, it no longer needs to; one that was decided before may.
		delete(c.bad, key)
	case intent.ActForce:
		c.forced[cartConstraint{key, row.Constraint}] = true
	case intent.ActRestart:
		if row.Constraint == promotion.RunConstraint {
			c.restarted[key] = true
			delete(c.attempts, key)
			delete(c.failed, key)
		}
	case intent.ActPin:
		c.pins[row.Environment] = number
	case intent.ActUnpin:
		delete(c.pins, row.Environment)
	case intent.ActPause, intent.ActResume:
		if p := c.places[row.Environment]; p != nil {
			p.paused = row.Act == intent.ActPause
		}
	}
}

// taskRuns judges that a task begins a run (S19): somebody needs it, and it did not run for that before.
func (m *Monitor) taskRuns(task string, number int) {
	c := &m.carts
	key := cartVersion{task, number}
	if c.restarted[key] {
		return
	}
	m.hold(!c.hasRun(task, number), "S19", "the task %s runs for 1.%d.0 once more, and nobody asked for that", task, number)
	m.hold(!c.failed[key], "S19", "the task %s runs for 1.%d.0 once more after it failed, and nobody asked for that", task, number)
	if task == "migrate" && !c.forced[cartConstraint{key, "scanned"}] {
		m.hold(c.hasRun("scan", number), "S19", "the task migrate runs for 1.%d.0, for which scan has not ended well", number)
	}
	if c.forced[cartConstraint{key, promotion.RunConstraint}] {
		return
	}
	production := c.places["production"]
	switch task {
	case "scan", "migrate":
		wantsScan := task == "scan" && (c.restarted[cartVersion{"migrate", number}] || c.forced[cartConstraint{cartVersion{"migrate", number}, promotion.RunConstraint}])
		if wantsScan {
			return // For migrate, which a person wants to run.
		}
		pin, isPinned := c.pins["production"]
		m.hold(!production.paused, "S18", "the task %s runs for 1.%d.0, and production is paused", task, number)
		m.hold(number > production.has || isPinned && pin == number, "S19", "the task %s runs for 1.%d.0, and production has 1.%d.0", task, number, production.has)
		m.hold(c.places["test"].stays[number].wasGood, "S19", "the task %s runs for 1.%d.0, with which test never was good", task, number)
		m.hold(!c.bad[cartVersion{"production", number}] && !c.bad[cartVersion{"", number}], "S20", "the task %s runs for 1.%d.0, which is bad in production", task, number)
	case "report":
		m.hold(production.has == number && production.stays[number].good, "S19", "the task report runs for 1.%d.0, and production has 1.%d.0: %+v", number, production.has, production.stays[number])
	case "clean":
		m.hold(c.failed[cartVersion{"test", number}] || c.failed[cartVersion{"production", number}], "S19", "the task clean runs for 1.%d.0, which failed nowhere", number)
	}
}

// cartRevised reads the new revisions of the document: what delivery set there has a row, and a run is told its own
// version and number (S25).
func (m *Monitor) cartRevised() {
	c := &m.carts
	m.unread("what tasks were told", m.database.each("SELECT revision, author, changes FROM document_revision WHERE partition = $1 AND name = $2 AND revision > $3 ORDER BY revision",
		[]any{string(m.options.Partition), CartDocument, int64(c.revision)}, func(rows *sql.Rows) error {
			var author string
			var text []byte
			if err := rows.Scan(&c.revision, &author, &text); err != nil {
				return err
			}
			var changes []fieldChange
			if err := json.Unmarshal(text, &changes); err != nil || !strings.HasPrefix(author, intent.DeliveryPrefix) {
				return err
			}
			edit, ok := c.promoted[fmt.Sprint(c.revision)]
			m.hold(ok, "S25", "delivery set something in revision %d of %s, and no row says what", c.revision, CartDocument)
			var run string
			for _, change := range changes {
				path := splitPointer(change.Path)
				m.hold(path[0] == edit.place, "S25", "delivery set %s in revision %d of %s, and its row is of %s", change.Path, c.revision, CartDocument, edit.place)
				var value string
				var parameters struct {
					Run     string `json:"run"`
					Version string `json:"version"`
				}
				switch key := path[len(path)-1]; {
				case key == "parameters":
					if err := json.Unmarshal(change.After, &parameters); err != nil {
						return err
					}
					run, value = parameters.Run, parameters.Version
				case key == "run":
					if err := json.Unmarshal(change.After, &run); err != nil {
						return err
					}
					continue
				case key == "version":
					if err := json.Unmarshal(change.After, &value); err != nil {
						return err
					}
				default:
					continue
				}
				m.hold(value == edit.version, "S25", "delivery set %s to %s in revision %d of %s, and its row says %s", change.Path, value, c.revision, CartDocument, edit.version)
			}
			if want := fmt.Sprintf("%s/%d", edit.version, edit.run); edit.run > 0 {
				m.hold(run == want, "S25", "a run of %s was told %q in revision %d of %s, and its row says %s", edit.place, run, c.revision, CartDocument, want)
			}
			return nil
		}))
}
