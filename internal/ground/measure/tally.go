package measure

import "sync"

// Stance is what a thing is now, and if it waits, for what.
type Stance struct{ State, Kind string }

// Place of a thing in a Tally; 0: it has none yet.
type Place uint8

// Tally counts things by their stance. It has room for some 250 stances.
type Tally struct {
	mutex   sync.Mutex
	places  map[Stance]Place
	stances []Stance
	counts  []int
}

// Move moves a thing to a stance, and returns its new place.
func (t *Tally) Move(from Place, to Stance) Place {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.places == nil {
		t.places, t.stances, t.counts = map[Stance]Place{}, []Stance{{}}, []int{0}
	}
	place, ok := t.places[to]
	if !ok {
		const most = 250
		if place = Place(len(t.stances)); place > most {
			return from
		}
		t.places[to], t.stances, t.counts = place, append(t.stances, to), append(t.counts, 0)
	}
	t.leave(from)
	t.counts[place]++
	return place
}

// Leave takes a thing out.
func (t *Tally) Leave(from Place) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.leave(from)
}

func (t *Tally) leave(from Place) {
	if from > 0 && int(from) < len(t.counts) {
		t.counts[from]--
	}
}

// Read returns how many are in each stance that ever had one, and all together.
func (t *Tally) Read() (by map[Stance]int, all int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	by = map[Stance]int{}
	for stance, place := range t.places {
		by[stance] = t.counts[place]
		all += t.counts[place]
	}
	return by, all
}

// Reset takes all things out.
func (t *Tally) Reset() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	clear(t.counts)
}
