package definition

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
)

// longestTrain bounds for how long a train may keep assets from being enforced.
const longestTrain = 90 * 24 * time.Hour

// train reads a check that waits while a train of releases is in an environment.
func (p *parser) train(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	train := &intentpb.Train{Application: p.text(fields["train"], at+".train")}
	c.Kind = &intentpb.Check_Train{Train: train}
	for _, key := range []string{"environment", "longest"} {
		if fields[key] == nil {
			p.at(fields["train"], at+"."+key, "%s.%s is missing", at, key).hint("write {train: payments, environment: production, longest: 72h}")
		}
	}
	if environment := fields["environment"]; environment != nil {
		train.Environment = p.text(environment, at+".environment")
	}
	longest := fields["longest"]
	if longest == nil {
		return
	}
	length := p.duration(longest, at+".longest")
	if length > longestTrain {
		p.at(longest, at+".longest", "%s.longest is %s, at most 90d are allowed", at, longest.Value).hint("what is not enforced for longer than that is better held: lehr hold ASSET --reason WHY")
	}
	train.Longest = durationpb.New(length)
}

// trainChecks completes the checks that name an environment, once all applications are read.
func (p *parser) trainChecks(d *Definition) {
	for i, c := range d.Policy.GetChecks() {
		train := c.GetTrain()
		if train.GetApplication() == "" || train.GetEnvironment() == "" {
			continue
		}
		places, at := d.CheckPlaces[i], "checks."+c.GetName()
		wrong := func(key, message, hint string) {
			place := places[key]
			p.at(&yaml.Node{Line: place.Line, Column: place.Column}, at+"."+key, "%s", message).hint("%s", hint)
		}
		home, name, isElsewhere := strings.Cut(train.Application, "/")
		switch {
		case !isElsewhere:
			home, name = string(d.Partition), train.Application
		case home != string(d.Partition):
			if _, err := intent.ParsePartitionID(home); err != nil || name == "" || strings.Contains(name, "/") {
				wrong("train", fmt.Sprintf("%s.train: %q is no application", at, train.Application), "write NAME of an application of this partition, or PARTITION/NAME")
				continue
			}
			if c.Where == "" {
				wrong("", fmt.Sprintf("%s.where is missing: which assets are not enforced while a train is in an environment of another partition's application", at), "write where: …, for example the assets of that environment")
			}
			continue
		}
		train.Application = home + "/" + name
		known := slices.IndexFunc(d.Policy.GetDeliveries(), func(a *intentpb.Delivery) bool { return a.GetName() == name })
		if known < 0 {
			wrong("train", fmt.Sprintf("%s.train: there is no application %q under delivery", at, name), "write the name of one, or PARTITION/NAME of another partition's")
			continue
		}
		application := d.Policy.GetDeliveries()[known]
		if application.GetReleases() == "" {
			wrong("train", fmt.Sprintf("%s.train: the application %s takes no releases, so no train is ever in it", at, name), "write releases: LINE in the application, or remove the check")
		}
		environment := slices.IndexFunc(application.GetEnvironments(), func(e *intentpb.DeliveryEnvironment) bool {
			return e.GetName() == train.Environment && e.GetTask() == nil
		})
		if environment < 0 {
			wrong("environment", fmt.Sprintf("%s.environment: the application %s has no environment %q", at, name, train.Environment), "write the name of one of its environments")
			continue
		}
		e := application.GetEnvironments()[environment]
		if other := e.GetPartition(); other != "" && other != string(d.Partition) {
			wrong("environment", fmt.Sprintf("%s.environment: %s is in partition %s, and a check is about assets of its own partition", at, train.Environment, other), "write the check in the lehr.yaml of that partition")
			continue
		}
		if c.Where == "" {
			c.Where = e.GetAssets()
		}
	}
}
