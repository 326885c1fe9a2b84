package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/intent"
)

const (
	// tellers tell an output each, which one other asset asks for.
	tellers = 20
	// outputChanges of each are measured: more would be damped.
	outputChanges = 2
)

// tellerScript prints the output, and notes when it first told each value; userScript notes
// when it was first pushed with each.
const (
	tellerScript = `cd $(dirname $0)
value=$(cat value.$2)
[ $1 = push ] && exit 0
[ -e told.$value ] || touch told.$value
echo "{\"value\": \"$value\"}"
`
	userScript = `cd $(dirname $0)
wanted=$(cat)
case $1 in
diff)
  [ -e has.$2 ] || exit 3
  [ "$(cat has.$2)" = "$wanted" ] && exit 0
  exit 2 ;;
push)
  echo "$wanted" >has.$2
  [ -e pushed.$wanted ] || touch pushed.$wanted ;;
esac
`
)

// measureOutputs measures how long it takes from when a plugin tells another output until
// what asks for it was pushed with it: a document, an incarnation, checks and a push.
func measureOutputs(ctx context.Context, programs string) error {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	programs, err = filepath.Abs(programs)
	if err != nil {
		return err
	}
	b := &bed{folder: folder, size: 2 * tellers}
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, "store"), 0o755), b.writeOutputs(programs)); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.close()
	var times []float64
	for change := range outputChanges + 1 {
		for i := range tellers {
			if err := b.write(fmt.Sprintf("value.%d", i), fmt.Sprintf("v-%d-%d", i, change)); err != nil {
				return err
			}
		}
		if err := b.lookAtTellers(ctx, change); err != nil {
			return err
		}
		if err := b.until(ctx, betimes, func() bool {
			missing := 0
			for i := range tellers {
				if _, err := os.Stat(filepath.Join(folder, fmt.Sprintf("pushed.v-%d-%d", i, change))); err != nil {
					missing++
				}
			}
			return missing == 0
		}); err != nil {
			return err
		}
		for i := range tellers {
			duration, err := b.betweenMarks(fmt.Sprintf("v-%d-%d", i, change))
			if err != nil {
				return err
			}
			if change > 0 { // The first comes with all else that is new.
				times = append(times, duration.Seconds()*1000)
			}
		}
	}
	slices.Sort(times)
	print("output_told_to_pushed_p50", times[len(times)/2], "ms")
	print("output_told_to_pushed_max", times[len(times)-1], "ms")
	return nil
}

// writeOutputs writes the definition of the partition, its assets and their scripts.
func (b *bed) writeOutputs(programs string) error {
	var things strings.Builder
	for i := range tellers {
		fmt.Fprintf(&things, "id: teller/%d\ntype: Command\npayload: {diff: [/bin/sh, %s/teller.sh, diff, %q], push: [/bin/sh, %s/teller.sh, push, %q], outputs: true}\n---\n", i, b.folder, fmt.Sprint(i), b.folder, fmt.Sprint(i))
		fmt.Fprintf(&things, "id: user/%d\ntype: Command\npayload: {diff: [/bin/sh, %s/user.sh, diff, %q], push: [/bin/sh, %s/user.sh, push, %q], input: \"${output:teller/%d#value}\"}\n---\n", i, b.folder, fmt.Sprint(i), b.folder, fmt.Sprint(i), i)
	}
	definition := fmt.Sprintf("lehr: v1\npartition: %s\nowner: bench@example.com\nmode: enforce\nsources:\n  things: {dir: ., files: [things.yaml]}\ngenerate:\n  made: {render: assets, from: [things]}\nplugins:\n  Command: {run: [%s]}\n",
		partition, filepath.Join(programs, "lehr-command"))
	err := errors.Join(b.write("teller.sh", tellerScript), b.write("user.sh", userScript), b.write("things.yaml", strings.TrimSuffix(things.String(), "---\n")), b.write("lehr.yaml", definition))
	for i := range tellers {
		err = errors.Join(err, b.write(fmt.Sprintf("value.%d", i), fmt.Sprintf("v-%d-0", i)))
	}
	return err
}

// lookAtTellers has each looked at soon, as a person who asks for another try does.
// The first look comes by itself.
func (b *bed) lookAtTellers(ctx context.Context, change int) (err error) {
	for i := range tellers {
		if change > 0 {
			err = errors.Join(err, b.app.Store().Retry(ctx, partition, intent.AssetID(fmt.Sprintf("teller/%d", i)), "to measure", intent.Actor{Name: "bench", Origin: "api"}))
		}
	}
	return err
}

// betweenMarks is the time from when a value was told until it was pushed.
func (b *bed) betweenMarks(value string) (time.Duration, error) {
	told, err := os.Stat(filepath.Join(b.folder, "told."+value))
	pushed, pushErr := os.Stat(filepath.Join(b.folder, "pushed."+value))
	if err := errors.Join(err, pushErr); err != nil {
		return 0, err
	}
	return pushed.ModTime().Sub(told.ModTime()), nil
}
