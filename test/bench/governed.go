package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
)

// commonRules are how many rules the common policy has.
const commonRules = 20

// commonFile is a common policy: of its rules the first is for one partition, the second for
// all, and the others are for those of a label. Ages are the least ones that the first two ask
// for.
func commonFile(one intent.PartitionID, ages [2]int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "lehr: v1\npartitions: {\"bench-*\": {labels: {tier: front}}}\nrules:\n")
	rule := func(i int, selector string, age int) {
		fmt.Fprintf(&text, "  rule-%d:\n    owner: platform\n    mode: require\n    for: {%s}\n    checks: {young: {min_age: %ds}}\n    validate: {rules: [{id: named, where: type == \"Job\", must: size(id) > 0}]}\n", i, selector, age)
	}
	rule(0, fmt.Sprintf("partition: %s", one), ages[0])
	rule(1, `partition: "*"`, ages[1])
	for i := 2; i < commonRules; i++ {
		rule(i, "labels: {tier: front}", 60)
	}
	return text.String()
}

// measureGoverned measures what a change of one common rule takes: from its file to the last of
// the partitions that it is about, built under it, and the time of cores that this takes; and
// the same of a rule that is about one partition only.
func measureGoverned(ctx context.Context, plugin string, partitions int) error {
	ages := [2]int{1, 1}
	var file string
	write := func() error {
		if err := os.WriteFile(file+"~", []byte(commonFile("bench-0000", ages)), 0o600); err != nil {
			return err
		}
		return os.Rename(file+"~", file)
	}
	c, err := newCrowd(ctx, plugin, partitions, perFile, func(folder string, options *app.Options) error {
		file = filepath.Join(folder, "lehr-policy.yaml")
		options.CommonPolicy = file
		return write()
	})
	if err != nil {
		return err
	}
	defer c.end()
	name := func(what string) string {
		return fmt.Sprintf("%s_%d_partitions_%d_rules", what, partitions, commonRules)
	}
	machine.figure(name("governed_all_built"), c.took.Seconds(), "s", partitions*perFile, byComputing)
	for _, measured := range []struct {
		what  string
		rule  int
		about []intent.PartitionID
	}{{"one_rule_for_one", 0, c.ids[:1]}, {"one_rule_for_all", 1, c.ids}} {
		var durations, cores []float64
		for range 3 {
			before, err := c.commonRevisions(ctx, measured.about)
			if err != nil {
				return err
			}
			ages[measured.rule]++
			start, used := time.Now(), computed()
			if err := write(); err != nil {
				return err
			}
			if err := c.until(ctx, often, func() bool {
				now, err := c.commonRevisions(ctx, measured.about)
				return err == nil && !slices.ContainsFunc(measured.about, func(id intent.PartitionID) bool { return now[id] == before[id] })
			}); err != nil {
				return err
			}
			durations = append(durations, ms(time.Since(start)))
			time.Sleep(time.Second) // What those do that the rule is not about is counted, too.
			cores = append(cores, ms(computed()-used))
		}
		machine.figure(name(measured.what), median(durations), "ms", len(measured.about), byAdmission, byComputing)
		machine.figure(name(measured.what+"_core_time"), median(cores), "ms", partitions, byCoreTime)
	}
	return nil
}

// commonRevisions are the revisions of the common policy that partitions are known to be built
// under.
func (c *crowd) commonRevisions(ctx context.Context, ids []intent.PartitionID) (map[intent.PartitionID]string, error) {
	list, err := c.app.Store().ListPartitions(ctx)
	revisions := map[intent.PartitionID]string{}
	for _, p := range list {
		for _, source := range p.Covered {
			if source.Source == "common-policy" && slices.Contains(ids, p.ID) {
				revisions[p.ID] = source.Revision
			}
		}
	}
	return revisions, err
}
