package delivery

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/promotion"
)

// Train is the train of releases that is in an environment.
type Train struct {
	// Release is its number; 0: no train is in it.
	Release int
	Version string
	// Since is when the environment was given the version.
	Since time.Time
}

// Train says which train is in an environment of an application, PARTITION/NAME, which must be in the partition that
// asks. A version of a train is there from the row that brings it, which is stored before or with the field, so
// whoever has read the field finds it here. Of a field in a repository that is the row of its landing, before it is
// committed.
func (r *Reader) Train(ctx context.Context, partition intent.PartitionID, application, environment string) (none Train, err error) {
	home, name, _ := strings.Cut(application, "/")
	owner, err := r.Store.Partition(ctx, intent.PartitionID(home))
	if fault.Is(err, fault.NotFound) {
		return none, fmt.Errorf("there is no partition %s on this server, which has the application %s", home, name)
	}
	if err != nil {
		return none, err
	}
	policy, err := r.Policy(ctx, owner.Head)
	if err != nil {
		return none, err
	}
	for _, spec := range policy.GetDeliveries() {
		if spec.GetName() != name {
			continue
		}
		for _, e := range spec.GetEnvironments() {
			if e.GetName() != environment || e.GetTask() != nil {
				continue
			}
			if in := PartitionOf(owner.ID, e); in != partition {
				// What it does there is not this partition's to know.
				return none, fmt.Errorf("the environment %s of %s is not in this partition", environment, application)
			}
			m := &Moment{Home: owner, Spec: spec}
			listed, err := r.catalogue(ctx, owner, spec)
			if err != nil {
				return none, err
			}
			if m.Records, err = r.records(ctx, owner, name); err != nil {
				return none, err
			}
			m.Facts = factsOf(m.Records, listed.catalogue, listed.versions)
			if err := r.lineOf(ctx, m); err != nil {
				return none, err
			}
			return m.trainIn(environment), nil
		}
	}
	return none, fmt.Errorf("there is no environment %s of an application %s", environment, application)
}

// trainIn is the train that is in an environment.
func (m *Moment) trainIn(environment string) (train Train) {
	stay := promotion.Stay{}
	if facts := m.Facts.Environments[environment]; facts != nil && len(facts.Stays) > 0 {
		stay = facts.Stays[len(facts.Stays)-1]
	}
	if landing := landingOf(m.Records, environment); landing != nil && landing.Version.Name != "" {
		stay = promotion.Stay{VersionName: landing.Version, Start: landing.At, Back: landing.Back}
	}
	if release := m.Facts.TrainOf(stay); release != nil {
		train = Train{Release: release.Number, Version: stay.Name, Since: stay.Start}
	}
	return train
}
