package measure

import "sync"

// Progress is what a long piece of work does at the moment, for whoever waits for it.
// Nil ones take all and tell nothing.
type Progress struct {
	mutex   sync.Mutex
	current Doing
}

// Doing is one step of a piece of work.
type Doing struct {
	// Pass that the step belongs to, in words; empty: there is only one.
	Pass string
	// Step in words, such as "run generator web"; empty: none has begun.
	Step string
	// Done of All, where there is something to count; else both are 0.
	Done, All int
}

// EnterPass says which pass the next steps belong to.
func (p *Progress) EnterPass(pass string) {
	p.change(func(d *Doing) { *d = Doing{Pass: pass} })
}

// BeginStep ends the step before. All is how many things the step is about; 0: they are
// not counted.
func (p *Progress) BeginStep(step string, all int) {
	p.change(func(d *Doing) { *d = Doing{Pass: d.Pass, Step: step, All: all} })
}

// AddDone says that so many more are done.
func (p *Progress) AddDone(n int) {
	p.change(func(d *Doing) { d.Done = min(d.Done+n, d.All) })
}

// SetDone says how many are done in all.
func (p *Progress) SetDone(n int) {
	p.change(func(d *Doing) { d.Done = min(n, d.All) })
}

func (p *Progress) change(how func(*Doing)) {
	if p == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	how(&p.current)
}

// Read returns what is done now.
func (p *Progress) Read() Doing {
	if p == nil {
		return Doing{}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.current
}
