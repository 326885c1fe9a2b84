package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	processpb "lehr.dev/gen/lehr/process/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
)

// limit is something simple that a figure is made of, and that this machine does so
// many times a second at most. It is taken in the same run, right beside the figure: where
// others have the cores or the disk, both suffer, and their ratio tells of Lehr.
type limit struct {
	name, unit string
	// rate a second.
	rate func(*limits, context.Context) (float64, error)
}

var (
	// byAdmission is one admission a call, which is durable before the next one; and
	// byAdmissions many a call, as an enforcer with much to do has. Both are of the
	// bare store, on the same database and disk.
	byAdmission  = &limit{"admission", "admissions/s", func(l *limits, ctx context.Context) (float64, error) { return l.admit(ctx, 1) }}
	byAdmissions = &limit{"admissions", "admissions/s", func(l *limits, ctx context.Context) (float64, error) { return l.admit(ctx, 128) }}
	// byRoundTrip is a look of a plugin that does nothing at one asset, one call at a
	// time; and byRoundTrips at as many as a call may have, four calls at once. Both are of the bare
	// protocol, with a process of its own.
	byRoundTrip  = &limit{"round_trip", "looks/s", func(l *limits, ctx context.Context) (float64, error) { return l.look(ctx, 1, 1) }}
	byRoundTrips = &limit{"round_trips", "looks/s", func(l *limits, ctx context.Context) (float64, error) { return l.look(ctx, plugin.MaxBatch, 4) }}
	// byComputing is a fixed piece of work on one core: an asset is written, read and
	// digested. byCoreTime is the same by the time that the core computed, for figures of
	// that time.
	byComputing = &limit{"computing", "units/s", func(*limits, context.Context) (float64, error) { return compute(sinceStart) }}
	byCoreTime  = &limit{"core_time", "units/s", func(*limits, context.Context) (float64, error) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return compute(computedByThread)
	}}
	// byDisk is 4 kB appended to a file, and on the disk before the next.
	byDisk = &limit{"disk", "appends/s", func(*limits, context.Context) (float64, error) { return appendAll() }}
)

// What bounds pushes, and what bounds the way of one change.
var (
	pushing  = []*limit{byAdmissions, byRoundTrips, byComputing}
	changing = []*limit{byAdmission, byRoundTrip, byComputing}
)

const (
	// limitLasts is how long a limit is taken to be as it was.
	limitLasts = 10 * time.Second
	// limitTakes is how long it is measured.
	limitTakes = 300 * time.Millisecond
)

// machine is what this run takes limits of.
var machine = &limits{open: openFile, taken: map[*limit]taken{}}

// opener opens a store, and says how to close it.
type opener func(context.Context) (store.All, func(), error)

// limits are of one machine, in one run.
type limits struct {
	plugin string
	// open a database to make admissions in.
	open  opener
	taken map[*limit]taken
	child *remote.Child
	// failed: a limit could not be taken.
	failed error
}

type taken struct {
	at   time.Time
	rate float64
}

// use has admissions made elsewhere than in a file, until what it returns is called.
func (l *limits) use(open opener) (end func()) {
	set := func(open opener) {
		l.open = open
		delete(l.taken, byAdmission)
		delete(l.taken, byAdmissions)
	}
	set(open)
	return func() { set(openFile) }
}

// openFile opens a new store in a file where those of beds are.
func openFile(ctx context.Context) (store.All, func(), error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return nil, nil, err
	}
	file, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(folder, "limit.db")})
	if err != nil {
		os.RemoveAll(folder)
		return nil, nil, err
	}
	return file, func() { file.Close(); os.RemoveAll(folder) }, nil
}

func (l *limits) close() {
	if l.child != nil {
		l.child.Close()
	}
}

// figure prints a figure, and beside it each limit in the same unit with the ratio
// of both. A time is of so many things: pushes, assets; a rate is of one a second.
func (l *limits) figure(name string, value float64, unit string, things int, by ...*limit) {
	print(name, value, unit)
	for _, one := range by {
		rate, err := l.take(one)
		if err != nil {
			l.failed = errors.Join(l.failed, fmt.Errorf("taking the limit %s beside %s: %w", one.name, name, err))
			continue
		}
		at, in := one.in(unit, rate, things)
		print(name+"_limit_by_"+one.name, at, in)
		print(name+"_to_limit_by_"+one.name, value/at, "x")
	}
}

// in is the limit in the unit of a figure: a time is that of so many things, one after
// the other.
func (l *limit) in(unit string, rate float64, things int) (at float64, in string) {
	switch unit {
	case "s":
		return float64(things) / rate, unit
	case "ms":
		return float64(things) * 1e3 / rate, unit
	case "us":
		return float64(things) * 1e6 / rate, unit
	}
	return rate, l.unit
}

func (l *limits) take(one *limit) (float64, error) {
	if t, ok := l.taken[one]; ok && time.Since(t.at) < limitLasts {
		return t.rate, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rate, err := one.rate(l, ctx)
	if err == nil {
		l.taken[one] = taken{time.Now(), rate}
	}
	return rate, err
}

// started is when this run was.
var started = time.Now()

func sinceStart() time.Duration { return time.Since(started) }

// computedByThread is what the calling thread has computed.
func computedByThread() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// repeat counts how many things are done in a second of the clock, so many at each step.
func repeat(clock func() time.Duration, each int, step func() error) (float64, error) {
	began, count := clock(), 0
	for clock()-began < limitTakes {
		if err := step(); err != nil {
			return 0, err
		}
		count += each
	}
	return float64(count) / (clock() - began).Seconds(), nil
}

// admit counts admissions in calls of a size.
func (l *limits) admit(ctx context.Context, size int) (float64, error) {
	database, end, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	a, err := newAdmitting(ctx, database)
	if err != nil {
		return 0, err
	}
	return a.rate(ctx, size, limitTakes)
}

// looks is as many assets as four full calls.
const looks = 4 * plugin.MaxBatch

// look counts looks in calls of a size, so many at once, at assets whose content the
// plugin has.
func (l *limits) look(ctx context.Context, size, atOnce int) (float64, error) {
	if l.child == nil {
		given, err := newGiven()
		if err != nil {
			return 0, err
		}
		options := remote.DefaultOptions()
		options.Run, options.Contents = []string{l.plugin, "-adopt"}, given
		options.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		l.child = remote.Start(context.Background(), options)
	}
	for _, err := l.child.Describe(); err != nil; _, err = l.child.Describe() {
		if ctx.Err() != nil {
			return 0, fmt.Errorf("starting the plugin %s: %w", l.plugin, err)
		}
		time.Sleep(often)
	}
	ids := make([]intent.AssetID, looks)
	for i := range ids {
		ids[i] = givenID(i)
	}
	at := intent.IncarnationID{Partition: partition, Sequence: 1}
	round := func() error {
		errs := make([]error, atOnce)
		var running sync.WaitGroup
		for i := range atOnce {
			running.Go(func() {
				_, errs[i] = l.child.Diff(ctx, plugin.DiffRequest{Incarnation: at, Assets: ids[i*size : (i+1)*size]})
			})
		}
		running.Wait()
		return errors.Join(errs...)
	}
	if err := round(); err != nil {
		return 0, err
	}
	return repeat(sinceStart, size*atOnce, round)
}

// given is intent in memory: nothing is read to answer a plugin.
type given map[intent.AssetID]content

type content struct {
	body   []byte
	digest intent.Digest
}

func givenID(i int) intent.AssetID { return intent.AssetID(fmt.Sprintf("job-%d", i)) }

// aJob is about as large as those of beds.
func aJob(name string) *processpb.Job {
	return &processpb.Job{
		Name: name, Replicas: 3, Binary: "/opt/" + name, Version: "v1",
		Args: []string{"--port={port}", "--flag=value", "--cluster=" + name}, Env: map[string]string{"MODE": "production", "REGION": "europe-west"},
	}
}

func newGiven() (given, error) {
	made := given{}
	for i := range looks {
		id := givenID(i)
		payload, err := schema.Builtin().Pack(aJob(string(id)))
		if err != nil {
			return nil, err
		}
		body, digest, err := schema.Builtin().Encode(intent.Asset{ID: id, Payload: payload})
		if err != nil {
			return nil, err
		}
		made[id] = content{body, digest}
	}
	return made, nil
}

func (g given) Content(_ context.Context, _ intent.IncarnationID, asset intent.AssetID) ([]byte, intent.Digest, error) {
	return g[asset].body, g[asset].digest, nil
}

func (g given) Reads(context.Context, intent.IncarnationID, intent.AssetID) ([]intent.AssetID, error) {
	return nil, nil
}

// compute counts pieces of work on one core. Nothing of it is Lehr's, so that a faster
// Lehr is no lower limit.
func compute(clock func() time.Duration) (float64, error) {
	const each = 100
	job, digest := aJob("job"), [sha256.Size]byte{}
	return repeat(clock, each, func() error {
		for range each {
			text, err := proto.MarshalOptions{Deterministic: true}.Marshal(job)
			if err != nil {
				return err
			}
			if err := proto.Unmarshal(text, &processpb.Job{}); err != nil {
				return err
			}
			digest = sha256.Sum256(append(text, digest[:]...))
		}
		return nil
	})
}

// appendAll counts durable appends to a file where stores are.
func appendAll() (float64, error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	file, err := os.Create(filepath.Join(folder, "appended"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	page := make([]byte, 4096)
	return repeat(sinceStart, 1, func() error {
		if _, err := file.Write(page); err != nil {
			return err
		}
		return file.Sync()
	})
}
