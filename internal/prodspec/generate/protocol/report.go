package protocol

import (
	"fmt"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/work"
)

// mostExcerptBytes of the text of an asset beside a finding.
const mostExcerptBytes = 4000

// mostPathKeys lead to a value within an asset's JSON.
const mostPathKeys = 100

// report takes one line of a checking program.
func (r *reader) report(record *generatorpb.Record, place *generatorpb.Place) error {
	switch said := record.GetRecord().(type) {
	case *generatorpb.Record_Finding:
		return r.reported(said.Finding, place)
	case *generatorpb.Record_End:
		if said.End.GetAssets() != 0 {
			return fault.New(fault.Invalid, "it says that there were %d assets, and a checking program gives none", said.End.GetAssets()).WithHint(`write {"end":{}}`)
		}
		r.complete = true
		return nil
	}
	return fault.New(fault.Invalid, "it is neither a finding nor the end").WithHint("a checking program gives findings only: what gives assets or blobs is a generator")
}

// reported takes a finding of a checking program, which is about what it was given.
func (r *reader) reported(message *generatorpb.Finding, place *generatorpb.Place) error {
	f := intent.Finding{
		Severity: intent.Error, Message: cut(message.GetMessage()), Hint: cut(message.GetHint()), Field: cut(message.GetField()),
		File: place.GetFile(), Line: max(int(place.GetLine()), 1), Column: int(place.GetColumn()), Asset: intent.AssetID(message.GetAsset()),
	}
	if f.Message == "" {
		return fault.New(fault.Invalid, "a finding without a message").WithHint("say what is wrong")
	}
	switch message.GetSeverity() {
	case generatorpb.Finding_SEVERITY_ERROR:
	case generatorpb.Finding_SEVERITY_WARNING:
		f.Severity = intent.Warning
	default:
		return fault.New(fault.Invalid, "a finding without a severity").WithHint("a checking program writes SEVERITY_ERROR or SEVERITY_WARNING")
	}
	if _, ok := work.Find(r.job.Assets, string(f.Asset)); !ok && f.Asset != "" {
		return fault.New(fault.Invalid, "a finding about the asset %.200q, which it was not given", f.Asset).WithHint("name assets as their list does")
	}
	if !r.given(f.File) {
		return fault.New(fault.Invalid, "a finding about the file %.200q, which it was not given", f.File).WithHint("name files by their paths from the working directory")
	}
	if f.File == "" && f.Asset == "" {
		f.File = Place(r.job)
	}
	if len(message.GetExcerpt()) > mostExcerptBytes {
		return fault.New(fault.Invalid, "an excerpt of %d bytes, at most %d are allowed", len(message.GetExcerpt()), mostExcerptBytes).WithHint("give the lines just before the place, or none")
	}
	if len(message.GetPath()) > mostPathKeys {
		return fault.New(fault.Invalid, "a path of %d keys, at most %d are allowed", len(message.GetPath()), mostPathKeys).WithHint("give the path of a value around it")
	}
	r.list(work.Report{Finding: f, Excerpt: message.GetExcerpt(), Path: message.GetPath()})
	return nil
}

// given reports whether the run has a file of that name, or it is empty.
func (r *reader) given(file string) bool {
	if _, ok := work.Find(r.job.Files, file); ok || file == "" {
		return true
	}
	return false
}

// list keeps a report. Where there are too many, errors take the places of warnings: an
// error is never forgotten.
func (r *reader) list(report work.Report) {
	reports := r.result.Reported
	if len(reports) < mostFindings {
		r.result.Reported = append(reports, report)
		return
	}
	r.unlisted++
	if report.Severity != intent.Error {
		return
	}
	for i := range reports {
		if reports[i].Severity != intent.Error {
			reports[i] = report
			return
		}
	}
	r.unlistedErrors++
}

// more says how many findings are not listed.
func (r *reader) more() work.Report {
	f := intent.Finding{
		Severity: intent.Warning, File: Place(r.job), Line: 1,
		Message: fmt.Sprintf("%d more findings are not shown, %d of them errors", r.unlisted, r.unlistedErrors), Hint: "mend those that are shown first",
	}
	if r.unlistedErrors > 0 {
		f.Severity = intent.Error
	}
	return work.Report{Finding: f}
}
