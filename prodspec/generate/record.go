package generate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/prodspec/generate/starlark"
	"lehr.dev/schema"
)

// Cache keeps the record of each run by its name, so that a restart runs
// nothing again. The same run's next record takes the place of the last.
type Cache interface {
	// Get is NotFound when there is none.
	Get(ctx context.Context, name string) ([]byte, error)
	// Put stores all or none; nil deletes.
	Put(ctx context.Context, records map[string][]byte) error
}

// NewMemory returns a cache for one process's life.
func NewMemory() Cache { return &memory{records: map[string][]byte{}} }

type memory struct {
	lock    sync.Mutex
	records map[string][]byte
}

func (m *memory) Get(_ context.Context, name string) ([]byte, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if record := m.records[name]; record != nil {
		return record, nil
	}
	return nil, fault.New(fault.NotFound, "no record of run %s", name)
}

func (m *memory) Put(_ context.Context, records map[string][]byte) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	for name, record := range records {
		m.records[name] = record
		if record == nil {
			delete(m.records, name)
		}
	}
	return nil
}

// record is what the cache keeps of a run: what it rested on, and what it
// gave. It holds while every read is as it was.
type record struct {
	// Base covers what is no input: partition, program, versions, schema.
	Base  intent.Digest `json:"base"`
	Reads []Read        `json:"reads"`
	// Findings of a run that failed, until then if it may end otherwise.
	Findings []intent.Finding `json:"findings,omitempty"`
	Until    time.Time        `json:"until,omitzero"`
	Assets   []starlark.Asset `json:"assets,omitempty"`
	// Refers is, for each asset, the read references, which the effective
	// digest needs.
	Refers [][]intent.AssetID `json:"refers,omitempty"`
}

// Quarantine is how long a run that was stopped from outside is left alone.
const Quarantine = time.Minute

// newRecord checks a result, for replies are claims (S26), and makes it a
// record.
func newRecord(set *schema.Set, base intent.Digest, job Job, result Result, now time.Time) (record, error) {
	rec := record{Base: base, Reads: result.Reads, Findings: result.Findings}
	if result.Died {
		// What it read is not known: any of its inputs may mend it.
		rec.Reads = everything(job)
	}
	if result.Stopped {
		rec.Until = now.Add(Quarantine)
	}
	if len(rec.Findings) > 0 {
		return rec, nil
	}
	for _, asset := range result.Assets {
		content, err := schema.Decode(asset.Body)
		if err == nil && (intent.BodyDigest(asset.Body) != asset.Digest || content.ID != asset.ID || content.Payload.Type != asset.Type) {
			err = fault.New(fault.Internal, "the run of %s gave an asset %s that is not what it says", job.Name(), asset.ID)
		}
		if err != nil {
			return record{}, err
		}
		references, err := set.References(content)
		if err != nil {
			return record{}, err
		}
		var refers []intent.AssetID
		for _, reference := range references {
			if reference.Read {
				refers = append(refers, reference.To)
			}
		}
		rec.Refers = append(rec.Refers, refers)
	}
	rec.Assets = result.Assets
	return rec, nil
}

// everything is the reads of a run that may have read all it could.
func everything(job Job) []Read {
	reads := []Read{{Kind: starlark.ReadFiles, Digest: starlark.Listing(job.Files)}, {Kind: starlark.ReadAssets, Digest: starlark.Listing(job.Assets)}}
	for kind, inputs := range map[starlark.Kind][]Input{starlark.ReadFile: job.Files, starlark.ReadProgram: job.Programs, starlark.ReadAsset: job.Assets} {
		for _, input := range inputs {
			reads = append(reads, Read{Kind: kind, Name: input.Name, Digest: input.Digest})
		}
	}
	return reads
}

func parseRecord(stored []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(stored, &rec); err != nil {
		return record{}, fault.New(fault.Internal, "a stored run cannot be read: %w", err)
	}
	return rec, nil
}

// runName is a run's name in the cache: its place, not its content, so that
// old records are replaced and the cache does not grow.
func runName(generator, file string) string {
	return intent.Sum("lehr.run.v1", []byte(generator), []byte(file)).String()
}
