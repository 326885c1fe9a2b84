package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

// In every fourth run that delivers, the application and its versions are in a partition of their own, and its
// environments in the one that is watched, which grants their fields.

// GrantEdited is a disturbance of these runs.
const GrantEdited Kind = "a partition no longer lets another's application set a field"

// acrossKinds are those of runs in which the application's home is another partition.
var acrossKinds = append(slices.Clone(deliveryKinds), weighed{GrantEdited, 20})

// releasesPartition is the home of the application in runs in which its environments are in another
// partition than its definition and its versions.
const (
	releasesPartition  = intent.PartitionID("releases")
	releasesDefinition = "/releases/lehr.yaml"
)

// releasesText is the whole partition: it has no assets of its own.
const releasesText = `lehr: v1
partition: releases
mode: enforce
sources:
  builds: {pushed: builds, file: builds.json}
generate: {}
`

// grants has the partition of the environments let the application set their fields, but for those
// of one.
func grants(without string) string {
	var fields []string
	for _, name := range deliveredEnvironments {
		if name != without {
			fields = append(fields, "/"+name)
		}
	}
	return fmt.Sprintf("promotions:\n  grants:\n    - {application: releases/web, document: fields, fields: [%s]}\n", strings.Join(fields, ", "))
}

// DeliversAcross reports whether it is delivered from one partition to another.
func DeliversAcross(seed uint64) bool { return Delivers(seed) && seed/27%4 == 1 }

// deliveryHome is the partition whose definition has the application.
func (l *Lab) deliveryHome() intent.PartitionID {
	if l.delivers() && DeliversAcross(l.options.Seed) {
		return releasesPartition
	}
	return l.partition
}

// releasesFiles are those of the partition that is the application's home, whose environments are in another.
func releasesFiles(environments intent.PartitionID) map[string]string {
	text := releasesText + applicationText()
	return map[string]string{releasesDefinition: strings.ReplaceAll(text, "        assets: id", fmt.Sprintf("        partition: %s\n        assets: id", environments))}
}

// editGrant takes the grant of one environment's field away for some minutes, and has a version
// come that would go there.
func (l *Lab) editGrant(d Disturbance, r *rand.Rand) {
	l.note(d.Kind, "sources")
	edit := func(without string) {
		next := l.good.clone()
		if next.Ungranted = without; !l.healing {
			l.save(d.Number, next, "promotions: no grant of "+without)
		}
	}
	edit(deliveredEnvironments[r.IntN(len(deliveredEnvironments))])
	l.mark("delivery: a grant is taken away")
	l.after(3*time.Minute+within(r, 5*time.Minute), func() { edit("") })
	l.after(5*time.Second+within(r, time.Minute), func() {
		l.person(Disturbance{Number: d.Number, At: d.At, Kind: VersionBuilt, Seed: d.Seed}, r)
	})
}

// partitionOf a document of delivery.
func (p person) partitionOf(document string) string {
	if document == buildsDocument {
		return string(p.deliveryHome())
	}
	return string(p.partition)
}
