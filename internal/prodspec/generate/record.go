package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/derive"
	"lehr.dev/internal/prodspec/generate/work"
	"lehr.dev/internal/prodspec/validate"
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
// gave. It holds while every read is as it was. What is derived from what the
// program gave is derived anew when derivations change, without a run.
type record struct {
	// Base covers what is no input: partition, program, versions, schema.
	Base  intent.Digest `json:"base"`
	Reads []Read        `json:"reads"`
	// Findings of a run that failed, until then if it may end otherwise.
	Findings []intent.Finding `json:"findings,omitempty"`
	Until    time.Time        `json:"until,omitzero"`
	// Warnings of a run that gave its assets.
	Warnings []intent.Finding `json:"warnings,omitempty"`
	// Reported is what a checking program said.
	Reported []work.Report `json:"reported,omitempty"`
	// Given are the assets as the program gave them, and Blobs what it gave beside
	// them.
	Given []work.Asset `json:"given,omitempty"`
	Blobs []work.Blob  `json:"blobs,omitempty"`
	judged
}

// judged is what follows from what a program gave, by the types and derivations.
type judged struct {
	// Rules that it was derived by: what they say, or where they say it, too, when
	// Underived. Zero: there were none.
	Rules intent.Digest `json:"rules,omitzero"`
	// Documents covers what the partition's own documents said of its assets; of all, when
	// Underived.
	Documents intent.Digest `json:"documents,omitzero"`
	// Underived: the program gave its assets, and the findings are of what was made
	// of them.
	Underived bool `json:"underived,omitempty"`
	// Assets with what was derived; in the cache without the bodies that are the
	// program's.
	Assets []work.Asset `json:"assets,omitempty"`
	// Refers is, for each asset, the read references, which the effective
	// digest needs.
	Refers [][]intent.AssetID `json:"refers,omitempty"`
	// Derived is, for each asset, which derivations gave it addons; nil when
	// none gave any.
	Derived [][]derive.Derived `json:"derived,omitempty"`
	// Names is, for each asset, which blobs it names; nil when none names any.
	Names [][]intent.Digest `json:"names,omitempty"`
	// Serves is, for each asset, those that it has a capacity edge to; nil when
	// none has any.
	Serves [][]intent.AssetID `json:"serves,omitempty"`
}

// Quarantine is how long a run that was stopped from outside is left alone.
const Quarantine = time.Minute

// recorder makes records of results: with which types, and what is derived.
type recorder struct {
	set   *schema.Set
	rules *derive.Rules
	now   time.Time
}

// record checks a result, for replies are claims (S26), derives what is to be
// derived, and makes it a record.
func (r recorder) record(base intent.Digest, job Job, result Result) (record, error) {
	rec := record{Base: base, Reads: result.Reads, Findings: result.Findings}
	if result.Died {
		// What it read is not known: any of its inputs may mend it.
		rec.Reads = work.Everything(job)
	}
	if job.Key != "" {
		rec.Reads = append(rec.Reads, Read{Kind: work.ReadKey, Name: job.File, Digest: valueDigest(job.Key, job.Value)})
	}
	if result.Stopped {
		rec.Until = r.now.Add(Quarantine)
	}
	if len(rec.Findings) > 0 {
		return rec, nil
	}
	rec.Warnings, rec.Blobs, rec.Given, rec.Reported = result.Warnings, result.Blobs, result.Assets, result.Reported
	for _, blob := range rec.Blobs {
		if intent.BlobSum(blob.Bytes) != blob.Digest || len(blob.Bytes) > intent.MaxBlobBytes {
			return record{}, fault.New(fault.Internal, "the run of %s gave a blob %s that is not what it says", job.Name(), blob.Digest)
		}
	}
	return rec, r.judge(&rec, job)
}

// judge derives what is to be derived from what a run gave, and judges the outcome.
func (r recorder) judge(rec *record, job Job) error {
	rec.judged, rec.Findings = judged{}, nil
	for _, asset := range rec.Given {
		content, err := schema.Decode(asset.Body)
		if err == nil && (intent.BodyDigest(asset.Body) != asset.Digest || content.ID != asset.ID || content.Payload.Type != asset.Type) {
			err = fault.New(fault.Internal, "the run of %s gave an asset %s that is not what it says", job.Name(), asset.ID)
		}
		if err != nil {
			return err
		}
		if err := r.derive(rec, job.Generator, &asset, &content); err != nil {
			return err
		}
		references, err := r.set.References(content)
		if err != nil {
			return err
		}
		var refers []intent.AssetID
		for _, reference := range references {
			if reference.Read {
				refers = append(refers, reference.To)
			}
		}
		rec.Refers = append(rec.Refers, refers)
		if err := rec.serve(content); err != nil {
			return err
		}
		if err := r.external(rec, asset, content); err != nil {
			return err
		}
		rec.Assets = append(rec.Assets, asset)
	}
	rec.Documents = r.rules.ByDocuments(rec)
	if rec.Rules = r.rules.Digest(); len(rec.Findings) > 0 {
		// The places of derivations move: what failed is derived anew then.
		rec.Findings, rec.judged = intent.GroupFindings(rec.Findings), judged{Rules: r.rules.Places(), Documents: r.rules.ByDocuments(nil), Underived: true}
	}
	return nil
}

// external judges what the next asset names outside of it, and notes the blobs.
func (r recorder) external(rec *record, asset work.Asset, content intent.Asset) error {
	externals, err := r.set.Externals(content)
	if err != nil {
		return err
	}
	var names []intent.Digest
	for _, external := range externals {
		refuse := func(hint, format string, arguments ...any) {
			rec.Findings = append(rec.Findings, intent.Finding{
				Rule: "external", Severity: intent.Error, Asset: asset.ID, File: asset.File, Line: max(asset.Line, 1), Field: external.Field,
				Message: fmt.Sprintf("asset %s: %s ", asset.ID, external.Field) + fmt.Sprintf(format, arguments...), Hint: hint,
			})
		}
		digest, blob := intent.BlobDigest(external.URI)
		switch {
		case external.URI == "":
			refuse("write the URI of the content, or leave the reference out", "names nothing")
		case external.Digest.IsZero():
			refuse("write its sha256, 32 bytes: what lies elsewhere must never change", "names %.200q without its digest", external.URI)
		case !blob && strings.HasPrefix(external.URI, "blob:"):
			refuse("write blob:sha256: and 64 digits of hex, as the SDK's Blob gives it", "names %.200q, which is no blob", external.URI)
		case blob && digest != external.Digest:
			refuse("take both from what the SDK's Blob gives", "names the blob %s with another digest, %s", digest, external.Digest)
		case blob && !slices.Contains(names, digest):
			names = append(names, digest)
		}
	}
	if len(names) > 0 && rec.Names == nil {
		rec.Names = make([][]intent.Digest, len(rec.Assets))
	}
	if rec.Names != nil {
		rec.Names = append(rec.Names, names)
	}
	return nil
}

// serve notes the capacity edges of the next asset.
func (rec *record) serve(content intent.Asset) error {
	addon := &intentpb.Dependencies{}
	if _, err := schema.Addon(content, addon); err != nil {
		return err
	}
	var serves []intent.AssetID
	for _, d := range addon.Dependencies {
		if d.Rule == intentpb.Dependency_RULE_CAPACITY {
			serves = append(serves, intent.AssetID(d.On))
		}
	}
	if len(serves) > 0 && rec.Serves == nil {
		rec.Serves = make([][]intent.AssetID, len(rec.Assets))
	}
	if rec.Serves != nil {
		rec.Serves = append(rec.Serves, serves)
	}
	return nil
}

// derive replaces an asset by the one with derived addons.
func (r recorder) derive(rec *record, generator string, asset *work.Asset, content *intent.Asset) error {
	if r.rules.Digest().IsZero() && r.rules.ByDocuments(nil).IsZero() && !derive.AsksOutputs(asset.Body) {
		rec.noteDerived(nil)
		return nil
	}
	applied, derived, findings := r.rules.Apply(*content, generator)
	for i := range findings {
		if findings[i].File == "" { // It is about what the generator gave.
			findings[i].File, findings[i].Line = asset.File, max(asset.Line, 1)
		}
	}
	rec.Findings = append(rec.Findings, findings...)
	rec.noteDerived(derived)
	if len(findings) > 0 || len(derived) == 0 {
		return nil
	}
	body, digest, err := r.set.Encode(applied)
	if err != nil {
		finding := validate.FromError("derive", content.ID, err)
		finding.File, finding.Line = asset.File, asset.Line
		rec.Findings = append(rec.Findings, finding)
		return nil
	}
	asset.Body, asset.Digest = body, digest
	*content, err = schema.Decode(body)
	return err
}

// encode a record for the cache, with each body once.
func (rec record) encode() ([]byte, error) {
	same := func(a, b work.Asset) bool { return a.Digest == b.Digest }
	if slices.EqualFunc(rec.Assets, rec.Given, same) {
		rec.Assets = nil // Nothing was derived.
	}
	rec.Assets = slices.Clone(rec.Assets)
	for i := range rec.Assets {
		if same(rec.Assets[i], rec.Given[i]) {
			rec.Assets[i].Body = nil
		}
	}
	return json.Marshal(rec)
}

func parseRecord(stored []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(stored, &rec); err != nil {
		return record{}, fault.New(fault.Internal, "a stored run cannot be read: %w", err)
	}
	if len(rec.Findings) > 0 {
		return rec, nil
	}
	if rec.Assets == nil {
		rec.Assets = rec.Given
	}
	if len(rec.Assets) != len(rec.Given) || len(rec.Refers) != len(rec.Assets) {
		return record{}, fault.New(fault.Internal, "a stored run does not hold together")
	}
	for i := range rec.Assets {
		if len(rec.Assets[i].Body) == 0 {
			rec.Assets[i].Body = rec.Given[i].Body
		}
	}
	return rec, nil
}

// runName is a run's name in the cache: its place, not its content, so that
// old records are replaced and the cache does not grow.
func runName(generator, file string) string {
	return intent.Sum("lehr.run.v1", []byte(generator), []byte(file)).String()
}

// noteDerived notes what was derived of the next asset.
func (rec *record) noteDerived(derived []derive.Derived) {
	if len(derived) > 0 && rec.Derived == nil {
		rec.Derived = make([][]derive.Derived, len(rec.Assets), len(rec.Given))
	}
	if rec.Derived != nil {
		rec.Derived = append(rec.Derived, derived)
	}
}

// IDs of what the program gave.
func (rec *record) IDs(yield func(intent.AssetID) bool) {
	for i := range rec.Given {
		if !yield(rec.Given[i].ID) {
			return
		}
	}
}

// Asked are the outputs that what the program gave asks for.
func (rec *record) Asked(yield func(outputs.ID) bool) {
	for _, derived := range rec.Derived {
		if !yieldAsked(derived, yield) {
			return
		}
	}
}

func yieldAsked(derived []derive.Derived, yield func(outputs.ID) bool) bool {
	for _, d := range derived {
		if d.Derivation == derive.Outputs && !yield(d.Output) {
			return false
		}
	}
	return true
}

// Asked are the outputs of other assets that those of a run ask for.
func (r *Run) Asked(yield func(outputs.ID) bool) {
	for i := range r.Outputs {
		if !yieldAsked(r.Outputs[i].Derived(), yield) {
			return
		}
	}
}

// IDs of the outputs of a run, in their order.
func (r *Run) IDs(yield func(intent.AssetID) bool) {
	for i := range r.Outputs {
		if !yield(r.Outputs[i].ID) {
			return
		}
	}
}
