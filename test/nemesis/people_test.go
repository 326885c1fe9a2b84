package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/sdk/client"
)

// people edit sources, and brake and approve at whichever replica they come
// to, while everything breaks. Each call bears a name of its own.
type people struct {
	w     *world
	group sync.WaitGroup
	// ended: nobody edits or brakes any more.
	ended chan struct{}

	mutex sync.Mutex
	calls int
}

// How long people pause between two acts. They edit one partition after the
// other.
const (
	editPause    = 350 * time.Millisecond
	brakePause   = 300 * time.Millisecond
	approvePause = 250 * time.Millisecond
	// answerPatience is when somebody gives a call up, and does not know what
	// came of it.
	answerPatience = 3 * time.Second
)

func (w *world) newPeople() *people {
	p := &people{w: w, ended: make(chan struct{})}
	for number, act := range []struct {
		pause time.Duration
		do    func(*rand.Rand)
	}{{editPause, p.edit()}, {brakePause, p.brake}, {brakePause, p.stop}, {approvePause, p.approve}} {
		p.group.Go(func() {
			random := rand.New(rand.NewPCG(w.seed, uint64(100+number)))
			for {
				select {
				case <-p.ended:
					return
				case <-time.After(upTo(random, 2*act.pause)):
					act.do(random)
				}
			}
		})
	}
	return p
}

func (p *people) close() {
	select {
	case <-p.ended:
	default:
		close(p.ended)
	}
	p.group.Wait()
}

// edit changes some things of one partition after the other.
func (p *people) edit() func(*rand.Rand) {
	turn := 0
	return func(random *rand.Rand) {
		partition := p.w.partitions[turn%len(p.w.partitions)]
		turn++
		partition.edit(p.w, func() {
			for n := range pulses {
				partition.wishes[pulse(n)].Value = partition.value()
			}
			for range 1 + random.IntN(3) {
				wish := partition.wishes[thing(random.IntN(thingsEach))]
				wish.Value = partition.value()
				switch random.IntN(24) {
				case 0:
					wish.Disk = partition.value()
				case 1:
					wish.dropped = !wish.dropped
				case 2, 3:
					wish.Turndown = !wish.Turndown
				}
			}
		})
		p.w.tally.count("edit")
	}
}

// ask makes a call at some replica, and writes down what came of it.
func (p *people) ask(random *rand.Rand, c call, make func(context.Context, *client.Client, string) (uint64, error)) (call, bool) {
	p.mutex.Lock()
	p.calls++
	c.By = fmt.Sprintf("person-%d", p.calls)
	p.mutex.Unlock()
	replica := p.w.replicas[random.IntN(len(p.w.replicas))]
	person, err := replica.person(c.By)
	if err != nil {
		return c, false
	}
	defer person.Close()
	server := replica.server()
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	c.Asked = p.w.now()
	c.Revision, err = make(ctx, person, "said by "+c.By)
	c.Answered, c.Done = p.w.now(), err == nil
	if replica.server() == server {
		c.Server = server
	}
	p.mutex.Lock()
	p.w.history.Calls = append(p.w.history.Calls, c)
	p.mutex.Unlock()
	p.w.tally.count(c.Verb + map[bool]string{true: "", false: " (not answered well)"}[c.Done])
	return c, c.Done
}

// brake pins, holds, and ends both.
func (p *people) brake(random *rand.Rand) {
	partition := p.w.partitions[random.IntN(len(p.w.partitions))]
	c := call{Partition: partition.id, Asset: thing(random.IntN(thingsEach))}
	switch random.IntN(6) {
	case 0:
		c.Verb = "pin"
		p.ask(random, c, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
			found, err := lehr.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: c.Partition})
			if err != nil {
				return 0, err
			}
			head := sequenceOf(found.Partition.Head)
			response, err := lehr.Brakes.SetPin(ctx, &apipb.SetPinRequest{
				Partition: c.Partition, Asset: c.Asset, Reason: reason,
				Incarnation: fmt.Sprintf("%s@%d", c.Partition, head-min(head-1, random.Uint64N(4))),
			})
			return response.GetPin().GetRevision(), err
		})
	case 1:
		c.Verb = "hold"
		p.ask(random, c, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
			_, err := lehr.Brakes.SetHold(ctx, &apipb.SetHoldRequest{Partition: c.Partition, Asset: c.Asset, Reason: reason})
			return 0, err
		})
	default:
		p.release(random, c.Partition, random.IntN(2) == 0)
	}
}

// release ends a pin or a hold of a partition, if there is one.
func (p *people) release(random *rand.Rand, partition string, pin bool) {
	c := call{Partition: partition, Verb: "unhold"}
	list := p.w.history.Holds
	if pin {
		c.Verb, list = "unpin", p.w.history.Pins
	}
	p.w.scribe.mutex.Lock()
	for name := range list {
		if of, asset, _ := strings.Cut(name, "/"); of == partition {
			c.Asset = asset
		}
	}
	p.w.scribe.mutex.Unlock()
	if c.Asset == "" {
		return
	}
	p.ask(random, c, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
		var err error
		if pin {
			_, err = lehr.Brakes.RemovePin(ctx, &apipb.RemovePinRequest{Partition: c.Partition, Asset: c.Asset, Reason: reason})
		} else {
			_, err = lehr.Brakes.RemoveHold(ctx, &apipb.RemoveHoldRequest{Partition: c.Partition, Asset: c.Asset, Reason: reason})
		}
		return 0, err
	})
}

// stop stops a partition, or all, for some seconds.
func (p *people) stop(random *rand.Rand) {
	const seldom = 12
	if random.IntN(seldom) > 0 || !p.w.calm.TryRLock() {
		return
	}
	defer p.w.calm.RUnlock()
	partition := ""
	if random.IntN(3) > 0 {
		partition = p.w.partitions[random.IntN(len(p.w.partitions))].id
	}
	local := false
	c, done := p.ask(random, call{Verb: "stop", Partition: partition}, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
		response, err := lehr.Brakes.SetStop(ctx, &apipb.SetStopRequest{Partition: partition, Reason: reason})
		switch {
		case err != nil:
			return 0, err
		case !strings.HasSuffix(reason, response.Stop.Owner.GetName()):
			return 0, errors.New("it was stopped before")
		case response.Stop.Reach != "":
			local = true
			return 0, errors.New("the store does not have it yet")
		}
		return 0, nil
	})
	p.w.wait(cease + upTo(random, 2*time.Second))
	s := stopped{Partition: partition, From: c.Answered, To: p.w.now()}
	if local {
		p.w.tally.count("stop (the answering replica only)")
		s.server = c.Server
		p.awaitStored(partition)
	}
	if done || s.server != 0 {
		p.mutex.Lock()
		p.w.history.Stops = append(p.w.history.Stops, s)
		p.mutex.Unlock()
	}
	p.resume(random, partition)
}

// awaitStored waits until the store has a stop that one server took, which tries again
// each second, so that it can be ended. A server that was killed may have forgotten it.
func (p *people) awaitStored(partition string) {
	for began := p.w.now(); p.w.now()-began < patience && p.stopsThere(partition) <= 0; {
		p.w.wait(beat)
	}
}

// resume until it is answered that nothing is stopped.
func (p *people) resume(random *rand.Rand, partition string) {
	for began := p.w.now(); p.w.now()-began < patience; p.w.wait(beat) {
		if _, done := p.ask(random, call{Verb: "resume", Partition: partition}, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
			stops, err := lehr.Brakes.ListStops(ctx, &apipb.ListStopsRequest{})
			if err != nil {
				return 0, err
			}
			for _, s := range stops.Stops {
				if s.Partition == partition {
					_, err = lehr.Brakes.Resume(ctx, &apipb.ResumeRequest{Partition: partition, Reason: reason})
					return 0, err
				}
			}
			return 0, errNotStopped
		}); done {
			return
		}
		if p.stopsThere(partition) == 0 {
			return
		}
	}
	p.w.Errorf("nobody could resume %q", partition)
}

var errNotStopped = errors.New("nothing is stopped")

// stopsThere counts the stops of a scope in the database; -1: not known.
func (p *people) stopsThere(partition string) (count int) {
	err := p.w.database.ask("SELECT count(*) FROM stop WHERE partition = '"+partition+"'", func(scan func(...any) error) error { return scan(&count) })
	if err != nil {
		return -1
	}
	return count
}

// approve approves what waits for it in a partition.
func (p *people) approve(random *rand.Rand) {
	partition := p.w.partitions[random.IntN(len(p.w.partitions))].id
	var waiting []string
	_ = p.w.database.ask("SELECT asset FROM report WHERE partition = '"+partition+"' AND state = 'waiting' AND record LIKE '%\"approval\"%'", func(scan func(...any) error) error {
		var asset string
		err := scan(&asset)
		waiting = append(waiting, asset)
		return err
	})
	for _, asset := range waiting {
		p.ask(random, call{Verb: "approve", Partition: partition, Asset: asset}, func(ctx context.Context, lehr *client.Client, reason string) (uint64, error) {
			shown, err := lehr.Reports.GetReport(ctx, &apipb.GetReportRequest{Partition: partition, Asset: asset})
			if err != nil {
				return 0, err
			}
			_, err = lehr.Approvals.ApproveAsset(ctx, &apipb.ApproveAssetRequest{Partition: partition, Asset: asset, Plan: shown.Report.PlanDigest, Reason: reason})
			return 0, err
		})
	}
}
