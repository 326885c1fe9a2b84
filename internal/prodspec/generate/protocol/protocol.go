// Package protocol is what generators that are programs of their own, modules
// and native commands, are told and say: lehr.generator.v1, in JSON. It reads
// what they say strictly: half of it, or anything after its end, is nothing
// (S6, S26). Packages wasm and native use it, in a limited child.
package protocol

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	generatorpb "lehr.dev/gen/lehr/generator/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/prodspec/generate/work"
)

// Version changes whenever the same inputs may give other assets.
const Version = "generator/1"

// Limits of what a program says. Text grows as JSON: escapes, base64, names.
const (
	growth       = 4
	maxLine      = 2 * growth * intent.MaxAssetBytes
	maxBlobLine  = 2 * intent.MaxBlobBytes
	mostFindings = 50
	mostText     = 2000
)

// mostBlobBytes of a run.
const mostBlobBytes = 2 * intent.MaxBlobBytes

// MostBytes of output that are read, for so many bytes of assets; blobs
// are among it.
func MostBytes(outputBytes int) int64 { return growth * int64(outputBytes) }

// AssetList is the name of the list of other generators' assets, in the folder
// that holds them.
const AssetList = "assets.json"

// AssetName is the name of the asset at an index of the list, in that folder.
func AssetName(index int) string { return strconv.Itoa(index) + ".json" }

// AssetIndex is the index for a name; false: it is no asset's.
func AssetIndex(name string, job *work.Job) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".json")
	index, err := strconv.Atoi(digits)
	return index, ok && err == nil && index >= 0 && index < len(job.Assets) && AssetName(index) == name
}

// Job is what a run reads first, with the path of the list.
func Job(job *work.Job, list string) ([]byte, error) {
	wire := &generatorpb.Job{Partition: string(job.Partition), Generator: job.Generator, File: job.File, Assets: list}
	if job.Key != "" {
		wire.File, wire.Key, wire.Value = "", job.Key, string(job.Value)
	}
	return encode(wire, protojson.MarshalOptions{})
}

// List is the list of other generators' assets.
func List(assets []work.Input) ([]byte, error) {
	list := &generatorpb.AssetList{}
	for i, asset := range assets {
		list.Assets = append(list.Assets, &generatorpb.AssetList_Entry{Id: asset.Name, Type: string(asset.Type), Path: AssetName(i)})
	}
	return encode(list, protojson.MarshalOptions{})
}

// Asset is another generator's asset, from its canonical bytes.
func Asset(schemas *schema.Set, body []byte) ([]byte, error) {
	content, err := schema.Decode(body)
	if err != nil {
		return nil, err
	}
	asset := &intentpb.Asset{Id: string(content.ID), Payload: packed(content.Payload)}
	for _, addon := range content.Addons {
		asset.Addons = append(asset.Addons, packed(addon))
	}
	return encode(asset, protojson.MarshalOptions{Resolver: schemas.Types()})
}

func packed(m intent.Message) *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.Type), Value: m.Bytes}
}

// encode varies nothing from build to build, as protojson alone does.
func encode(m proto.Message, options protojson.MarshalOptions) ([]byte, error) {
	text, err := options.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot render a %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, err
	}
	return append(compact.Bytes(), '\n'), nil
}

// FilePath is where a run finds an input, from its working directory: a path
// that leads out of the folder of lehr.yaml is without its .. or its /.
func FilePath(name string) string { return path.Join("/", name)[1:] }

// Place is the file of a finding about a run: the one that it runs for, or else
// its program's.
func Place(job *work.Job) string {
	if job.File != "" {
		return strings.TrimSuffix(job.File, "#"+job.Key)
	}
	return job.Where()
}

// Fail is the result of a run that gave nothing.
func Fail(job *work.Job, hint, format string, arguments ...any) work.Result {
	return work.Result{Findings: []intent.Finding{{
		Rule: "generate", Severity: intent.Error, File: job.Where(), Line: 1,
		Message: fmt.Sprintf("the run of %s ", job.Name()) + fmt.Sprintf(format, arguments...), Hint: hint,
	}}}
}

// Ended is the result of a run that ended with an exit code other than 0.
func Ended(job *work.Job, status, stderr string) work.Result {
	words := intent.Shown(cut(strings.TrimSpace(stderr)))
	if words == "" {
		words = "it said nothing on standard error"
	}
	if job.Check {
		return Fail(job, "mend the program, or what it is given: what ends with an error has checked nothing", "ended with %s: %s", status, words)
	}
	if job.Language == work.Render { // Its program is Lehr's own: what it says is about what it was given.
		return Fail(job, "mend its files, or what with: says", "failed (%s): %s", status, words)
	}
	return Fail(job, "mend the program, or the input that it was given: what ends with an error gives no assets", "ended with %s: %s", status, words)
}

func cut(text string) string {
	if len(text) > mostText {
		return strings.ToValidUTF8(text[:mostText], "") + " …"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// reader is one reading of what a run said.
type reader struct {
	job    *work.Job
	set    *schema.Set
	most   int
	output int
	blobs  int
	ids    map[intent.AssetID]bool
	// names of files that have others in the working directory.
	names    map[string]string
	result   work.Result
	complete bool
	// unlisted is how many findings of a checking program are not among its reports, and
	// unlistedErrors how many of them are errors.
	unlisted, unlistedErrors int
}

// Read takes what a run that ended well has said: all of it, or findings.
// outputBytes bounds the canonical bytes of its assets together.
func Read(output io.Reader, job *work.Job, schemas *schema.Set, outputBytes int) work.Result {
	r := &reader{job: job, set: schemas, most: outputBytes, ids: map[intent.AssetID]bool{}, names: map[string]string{}}
	for _, file := range job.Files {
		if cleaned := FilePath(file.Name); cleaned != file.Name {
			r.names[cleaned] = file.Name
		}
	}
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxBlobLine)
	number := 0
	for lines.Scan() {
		number++
		if r.complete {
			return Fail(job, "write the end once, and last", "said something after its end, in line %d", number)
		}
		if len(lines.Bytes()) > maxLine && !bytes.HasPrefix(lines.Bytes(), []byte(`{"blob":`)) {
			return tooLong(job, number)
		}
		if err := r.line(lines.Bytes()); err != nil {
			return r.wrong(number, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return tooLong(job, number+1)
	}
	if err := lines.Err(); err != nil {
		return Fail(job, "", "cannot be read: %s", err)
	}
	if !r.complete {
		return Fail(job, `the last line must be {"end":{"assets":N}}: only with it is the output whole`, "ended after %d lines without saying that this was all", number)
	}
	if r.unlisted > 0 {
		r.result.Reported = append(r.result.Reported, r.more())
	}
	if len(r.result.Findings) > 0 {
		r.result.Assets, r.result.Blobs, r.result.Warnings, r.result.Reported = nil, nil, nil, nil
	}
	return r.result
}

func tooLong(job *work.Job, number int) work.Result {
	return Fail(job, "an asset has at most 150 000 bytes, and what is larger is given as a blob", "wrote a line %d of more than %d bytes", number, maxLine)
}

func (r *reader) wrong(number int, err error) work.Result {
	hint := "write one lehr.generator.v1.Record a line, as docs/use/generators.md shows"
	if e, ok := errors.AsType[*fault.Error](err); ok {
		if err = errors.New(e.Message); e.Hint != "" {
			hint = e.Hint
		}
	}
	// protobuf's errors have a space that varies from build to build.
	return Fail(r.job, hint, "said what cannot be taken, in line %d: %s", number, cut(strings.ReplaceAll(err.Error(), "\u00a0", " ")))
}

func (r *reader) line(text []byte) error {
	record := &generatorpb.Record{}
	options := protojson.UnmarshalOptions{Resolver: r.set.Types(), RecursionLimit: 100}
	if err := options.Unmarshal(text, record); err != nil {
		return err
	}
	place := record.GetFrom()
	if place.GetLine() < 0 || place.GetColumn() < 0 || len(place.GetFile()) > 4096 {
		return fault.New(fault.Invalid, "the place is none").WithHint("lines and columns begin at 1")
	}
	if name, ok := r.names[place.GetFile()]; ok {
		place.File = name
	}
	if r.job.Check {
		return r.report(record, place)
	}
	switch said := record.GetRecord().(type) {
	case *generatorpb.Record_Asset:
		return r.asset(said.Asset, place)
	case *generatorpb.Record_Blob:
		return r.blob(said.Blob.GetContent())
	case *generatorpb.Record_Finding:
		return r.finding(said.Finding, place)
	case *generatorpb.Record_End:
		if said.End.GetAssets() != int64(len(r.result.Assets)) {
			return fault.New(fault.Invalid, "it says that there were %d assets, and there were %d", said.End.GetAssets(), len(r.result.Assets)).WithHint("count the assets")
		}
		r.complete = true
		return nil
	}
	return fault.New(fault.Invalid, "it is neither an asset, a finding nor the end")
}

func (r *reader) blob(content []byte) error {
	if len(content) > intent.MaxBlobBytes {
		return fault.New(fault.Invalid, "a blob has %d bytes, at most %d are allowed", len(content), intent.MaxBlobBytes).WithHint("keep it elsewhere, and name it by URI and digest")
	}
	if r.blobs += len(content); r.blobs > mostBlobBytes {
		return fault.New(fault.Invalid, "%s gives more than %d bytes of blobs in one run", r.job.Name(), mostBlobBytes).WithHint("split the generator, or use for_each: file")
	}
	r.result.Blobs = append(r.result.Blobs, work.Blob{Digest: intent.BlobSum(content), Bytes: content})
	return nil
}

func (r *reader) asset(message *intentpb.Asset, place *generatorpb.Place) error {
	content := intent.Asset{ID: intent.AssetID(message.GetId()), Payload: unpacked(message.GetPayload())}
	for _, addon := range message.GetAddons() {
		content.Addons = append(content.Addons, unpacked(addon))
	}
	body, digest, err := r.set.Encode(content)
	if err != nil {
		return err
	}
	if r.ids[content.ID] {
		return fault.New(fault.Invalid, "asset %s is generated twice by %s", content.ID, r.job.Name()).WithHint("an id names one asset: rename or drop one of them")
	}
	r.ids[content.ID] = true
	if r.output += len(body); r.output > r.most {
		return fault.New(fault.Invalid, "%s makes more than %d bytes of assets in one run", r.job.Name(), r.most).WithHint("split the generator, or use for_each: file")
	}
	file, line := place.GetFile(), int(place.GetLine())
	if file == "" {
		file, line = Place(r.job), 0
	}
	r.result.Assets = append(r.result.Assets, work.Asset{ID: content.ID, Type: content.Payload.Type, Digest: digest, Body: body, File: file, Line: line})
	return nil
}

func unpacked(m *anypb.Any) intent.Message {
	return intent.Message{Type: intent.TypeName(m.MessageName()), Bytes: m.GetValue()}
}

func (r *reader) finding(message *generatorpb.Finding, place *generatorpb.Place) error {
	f := intent.Finding{
		Rule: "generate", Severity: intent.Error, Message: cut(message.GetMessage()), Hint: cut(message.GetHint()),
		File: place.GetFile(), Line: max(int(place.GetLine()), 1), Column: int(place.GetColumn()), Field: cut(message.GetField()), Asset: intent.AssetID(cut(message.GetAsset())),
	}
	if f.File == "" {
		f.File = Place(r.job)
	}
	list := &r.result.Findings
	switch {
	case f.Message == "":
		return fault.New(fault.Invalid, "a finding without a message").WithHint("say what is wrong")
	case message.GetSeverity() == generatorpb.Finding_SEVERITY_WARNING:
		f.Severity, list = intent.Warning, &r.result.Warnings
	case message.GetSeverity() == generatorpb.Finding_SEVERITY_LEFT_OUT:
		f.Severity, f.LeftOut, list = intent.Warning, true, &r.result.Warnings
	case message.GetSeverity() != generatorpb.Finding_SEVERITY_ERROR:
		return fault.New(fault.Invalid, "a finding without a severity").WithHint("write SEVERITY_ERROR, SEVERITY_WARNING or SEVERITY_LEFT_OUT")
	}
	switch last := len(*list) - 1; {
	case len(*list) < mostFindings:
		*list = append(*list, f)
	case f.LeftOut:
		// One more than are kept: which they are can no longer be told.
		(*list)[last].LeftOut, (*list)[last].Asset = true, ""
	}
	return nil
}
