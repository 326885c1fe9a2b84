package validation

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/judge"
)

// recordVersion tells records from other files.
const recordVersion = "validation/v1"

// MaxRecord is the size of a record that is read, in bytes. With MostAllSamples, and as
// many trials, one has less.
const MaxRecord = 16 << 20

// Record is an assessment with all that it was made of, so that it can be made again:
// about 60 bytes for each sample.
type Record struct {
	Version string `json:"record"`
	// Of says what was changed, for people.
	Of         string     `json:"of,omitempty"`
	Settings   Settings   `json:"settings"`
	Began      time.Time  `json:"began,omitzero"`
	Changed    time.Time  `json:"changed"`
	Now        time.Time  `json:"now"`
	Readings   []Reading  `json:"readings"`
	Assessment Assessment `json:"assessment"`
}

// NewRecord assesses, as Assess does, and keeps what it was made of. It returns the samples
// that were judged, too.
func NewRecord(subject string, s Settings, change Change, readings []Reading, now time.Time) (Record, []judge.Series, error) {
	s, err := s.settled()
	if err != nil {
		return Record{}, nil, err
	}
	r := Record{Version: recordVersion, Of: subject, Settings: s, Began: change.Began, Changed: change.Done, Now: now, Readings: readings}
	a, all, err := assess(s, change, readings, now)
	r.Assessment = a
	return r, seriesOf(all), err
}

// Pack it to be kept: JSON, by gzip.
func (r Record) Pack() ([]byte, error) {
	var packed bytes.Buffer
	out := gzip.NewWriter(&packed)
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return nil, err
	}
	err := out.Close()
	return packed.Bytes(), err
}

// Unpack is Invalid for what Pack did not make.
func Unpack(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fault.New(fault.Invalid, "it is no packed record: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, MaxRecord+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Invalid, "it is no packed record: %w", err)
	case len(text) > MaxRecord:
		return nil, fault.New(fault.Invalid, "it has more than %d bytes", MaxRecord)
	}
	return text, nil
}

// IsRecord reports whether a file says that it is one.
func IsRecord(text []byte) bool {
	var header struct{ Record string }
	return json.Unmarshal(text, &header) == nil && header.Record != ""
}

// ReadRecord is Invalid for what is none.
func ReadRecord(text []byte) (r Record, err error) {
	if len(text) > MaxRecord {
		return r, fault.New(fault.Invalid, "it has %d bytes, more than %d", len(text), MaxRecord).WithHint("name the record of a validation")
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fault.New(fault.Invalid, "it is no record of a validation: %w", err).WithHint("name a file that Lehr wrote, as a whole")
	}
	if r.Version != recordVersion {
		return r, fault.New(fault.Invalid, "its version %.40q is not known", r.Version).WithHint("this lehr reads %s", recordVersion)
	}
	return r, nil
}

// Again assesses anew, and returns the samples that were judged, and where a verdict
// differs from that of the record, in words.
func (r Record) Again() (a Assessment, series []judge.Series, differs []string, err error) {
	a, all, err := assess(r.Settings, Change{Began: r.Began, Done: r.Changed}, r.Readings, r.Now)
	if err != nil {
		return a, nil, nil, err
	}
	compare := func(name string, recorded, recomputed Verdict) {
		if recorded != recomputed {
			if recorded == "" {
				recorded = "not recorded"
			}
			differs = append(differs, fmt.Sprintf("%s was %s, and is %s", name, recorded, recomputed))
		}
	}
	compare("all", r.Assessment.Verdict, a.Verdict)
	recorded := map[string]Verdict{}
	for _, m := range r.Assessment.Metrics {
		recorded[m.Judged.Name] = m.Verdict
	}
	for _, m := range a.Metrics {
		compare(m.Judged.Name, recorded[m.Judged.Name], m.Verdict)
	}
	for i, interval := range a.Intervals {
		recorded := Verdict("")
		if i < len(r.Assessment.Intervals) {
			recorded = Verdict(r.Assessment.Intervals[i].Verdict)
		}
		compare(fmt.Sprintf("interval %d", i+1), recorded, Verdict(interval.Verdict))
	}
	return a, seriesOf(all), differs, nil
}
