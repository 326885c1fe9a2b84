package server

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// applicationsAtOnce are read at a time for an overview: each is some statements, which a database far away answers late.
const applicationsAtOnce = 8

// partitionDeliveries are the applications that a partition delivers.
type partitionDeliveries struct {
	applications []*deliveredApplication
	// problem is why one of them could not be read, or nil.
	problem error
}

// readDeliveries reads the applications of the partitions that deliver any.
func (s *Server) readDeliveries(ctx context.Context, standings []store.Standing, policies map[intent.PartitionID]*intentpb.Policy) map[intent.PartitionID]*partitionDeliveries {
	read := map[intent.PartitionID]*partitionDeliveries{}
	var group errgroup.Group
	group.SetLimit(applicationsAtOnce)
	for _, p := range standings {
		specs := policies[p.ID].GetDeliveries()
		if len(specs) == 0 {
			continue
		}
		made := &partitionDeliveries{}
		read[p.ID] = made
		group.Go(func() error {
			for _, spec := range specs {
				application, err := s.decided(ctx, p.Partition, spec)
				if err != nil {
					made.problem = err
					return nil
				}
				made.applications = append(made.applications, application)
			}
			return nil
		})
	}
	_ = group.Wait()
	return read
}

// environmentScope is where an environment is: its partitions, and its assets in them.
type environmentScope struct {
	partitions map[intent.PartitionID]bool
	assets     map[intent.PartitionID]map[intent.AssetID]bool
}

// newEnvironmentScope returns where the environments of a name are; nil: everything is asked for.
func newEnvironmentScope(name string, deliveries map[intent.PartitionID]*partitionDeliveries) *environmentScope {
	if name == "" {
		return nil
	}
	scope := &environmentScope{partitions: map[intent.PartitionID]bool{}, assets: map[intent.PartitionID]map[intent.AssetID]bool{}}
	for home, delivered := range deliveries {
		for _, application := range delivered.applications {
			for i := range application.Places {
				if place := &application.Places[i]; place.Spec.GetName() == name {
					scope.add(home, place)
				}
			}
		}
	}
	return scope
}

func (e *environmentScope) add(home intent.PartitionID, place *delivery.Place) {
	e.partitions[home] = true
	id := place.Partition.ID
	if id == "" {
		return // It could not be read.
	}
	e.partitions[id] = true
	if e.assets[id] == nil {
		e.assets[id] = map[intent.AssetID]bool{}
	}
	for _, m := range place.Assets.Members {
		e.assets[id][m.Asset] = true
	}
}

// narrow leaves out what is of assets outside the environment, and what is beyond the limit.
func (e *environmentScope) narrow(id intent.PartitionID, m *store.Matters, limit int) {
	if e == nil {
		return
	}
	assets := e.assets[id]
	m.Asking = slices.DeleteFunc(m.Asking, func(r intent.Report) bool { return !assets[r.Asset] })
	m.Pins = slices.DeleteFunc(m.Pins, func(p intent.Pin) bool { return !assets[p.Asset] })
	m.Holds = slices.DeleteFunc(m.Holds, func(h intent.Hold) bool { return !assets[h.Asset] })
	m.Overrides = slices.DeleteFunc(m.Overrides, func(o intent.Override) bool { return !assets[o.Asset] })
	m.Pushes = slices.DeleteFunc(m.Pushes, func(p store.PushRecord) bool { return !assets[p.Asset] })
	for _, length := range []int{len(m.Asking), len(m.Pins), len(m.Holds), len(m.Overrides)} {
		m.More = m.More || length > limit
	}
	m.Asking, m.Pins, m.Holds, m.Overrides = firstOf(m.Asking, limit), firstOf(m.Pins, limit), firstOf(m.Holds, limit), firstOf(m.Overrides, limit)
}

// firstOf returns so many of a list at most.
func firstOf[T any](list []T, limit int) []T { return list[:min(len(list), limit)] }

// fill adds the environments that move or wait for people, or all, of one name if the request has one.
func (d *partitionDeliveries) fill(o *apipb.PartitionOverview, limit int, request *apipb.GetOverviewRequest) error {
	for _, application := range d.applications {
		for at := range application.Places {
			if request.Environment != "" && application.Places[at].Spec.GetName() != request.Environment {
				continue
			}
			environment := application.environment(at, application.decision.Outcomes[at])
			awaited, err := application.awaited(at)
			if err != nil {
				return err
			}
			isTold := request.EveryEnvironment || environment.Wants != nil && environment.Hold == ""
			if len(o.Environments) >= limit || len(o.Awaited) >= limit {
				o.More = o.More || isTold || awaited != nil
				continue
			}
			if isTold {
				o.Environments = append(o.Environments, environment)
			}
			if awaited != nil {
				o.Awaited = append(o.Awaited, awaited)
			}
		}
	}
	return d.problem
}

// awaited returns the newest version that waits for people's judgement in an environment; nil if there is none. It
// supersedes the others.
func (a *deliveredApplication) awaited(at int) (*apipb.VersionExplanation, error) {
	name := a.Places[at].Spec.GetName()
	for _, release := range a.next(at) {
		explained, err := a.explainOne(name, release)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(explained.Awaits, func(v *apipb.AwaitedVerdict) bool { return v.Environment == name }) {
			return explained, nil
		}
	}
	return nil, nil
}
