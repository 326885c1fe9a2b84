package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	// hitsInPartition and mostHits bound the hits of one kind.
	hitsInPartition, mostHits = 20, 100
	// incarnationsSearched are the newest of a partition whose sources and authors are read, and
	// versionsSearched those of an application.
	incarnationsSearched, versionsSearched = 200, 200
	// workflowRunsSearched are the newest of a partition.
	workflowRunsSearched = 200
	// shortestQuery and longestQuery are in letters. Shorter texts are in nearly everything.
	shortestQuery, longestQuery = 2, 200
)

// Kinds of hits, in the order of the answer.
const (
	hitAsset       = "asset"
	hitIncarnation = "incarnation"
	hitCommit      = "commit"
	hitVersion     = "version"
	hitRollout     = "rollout"
	hitWorkflow    = "workflow"
	hitPerson      = "person"
)

var hitKinds = []string{hitAsset, hitIncarnation, hitCommit, hitVersion, hitRollout, hitWorkflow, hitPerson}

// search is one search in everything that a caller may read.
type search struct {
	*Server
	// given is the query, and text and words are it in lower case.
	given      string
	words      []string
	text       string
	partitions map[intent.PartitionID]*store.Standing
	wanted     map[string]bool
	hits       map[string][]*apipb.SearchHit
	counts     map[hitPlace]int
	seen       map[string]bool
	more       map[string]bool
	problems   []*apipb.SearchProblem
}

type hitPlace struct {
	kind      string
	partition intent.PartitionID
}

// Search finds things of all kinds. The number of store calls does not grow with the partitions, only with those that
// deliver applications.
func (s *Server) Search(ctx context.Context, request *apipb.SearchRequest) (*apipb.SearchResponse, error) {
	text := strings.ToLower(strings.TrimSpace(request.Query))
	switch length := len([]rune(text)); {
	case length < shortestQuery:
		return nil, fault.New(fault.Invalid, "%q is too short to search for", text).WithHint("write %d letters or more", shortestQuery)
	case length > longestQuery:
		return nil, fault.New(fault.Invalid, "%d letters are too many to search for", length).WithHint("write %d or fewer", longestQuery)
	case request.Kind != "" && !slices.Contains(hitKinds, request.Kind):
		return nil, fault.New(fault.Invalid, "%.40q is no kind of thing to search for", request.Kind).WithHint("there are: %s", strings.Join(hitKinds, ", "))
	}
	standings, err := s.visibleStandings(ctx)
	if err != nil {
		return nil, err
	}
	standings = slices.DeleteFunc(standings, func(p store.Standing) bool { return request.Partition != "" && string(p.ID) != request.Partition })
	policies, err := s.headPolicies(ctx, standings)
	if err != nil {
		return nil, err
	}
	f := &search{
		Server: s, text: text, given: strings.TrimSpace(request.Query), words: strings.Fields(text), partitions: map[intent.PartitionID]*store.Standing{},
		wanted: map[string]bool{}, hits: map[string][]*apipb.SearchHit{}, counts: map[hitPlace]int{}, seen: map[string]bool{}, more: map[string]bool{},
	}
	for _, kind := range hitKinds {
		f.wanted[kind] = request.Kind == "" || request.Kind == kind
	}
	for i := range standings {
		f.partitions[standings[i].ID] = &standings[i]
	}
	if len(standings) == 0 {
		return &apipb.SearchResponse{}, nil
	}
	if err := f.find(ctx, intent.PartitionID(request.Partition), standings, policies); err != nil {
		return nil, err
	}
	response := &apipb.SearchResponse{Searched: int32(len(standings)), Problems: f.problems}
	for _, kind := range hitKinds {
		response.Hits = append(response.Hits, f.hits[kind]...)
		if f.more[kind] {
			response.More = append(response.More, kind)
		}
	}
	return response, nil
}

// find looks for each kind.
func (f *search) find(ctx context.Context, partition intent.PartitionID, standings []store.Standing, policies map[intent.PartitionID]*intentpb.Policy) error {
	for i := range standings {
		f.person(standings[i].ID, policies[standings[i].ID].GetOwner(), "owns the partition", &apipb.SearchHit{})
	}
	filter := store.SearchFilter{Partition: partition, Fragment: fragmentOf(f.text)}
	if f.wanted[hitAsset] {
		if err := f.objects(ctx, partition); err != nil {
			return err
		}
		if err := f.assets(ctx, partition); err != nil {
			return err
		}
	}
	if f.wanted[hitIncarnation] || f.wanted[hitCommit] || f.wanted[hitPerson] {
		if err := f.incarnations(ctx, filter); err != nil {
			return err
		}
	}
	if f.wanted[hitVersion] || f.wanted[hitCommit] {
		for i := range standings {
			f.versions(ctx, standings[i].Partition, policies[standings[i].ID].GetDeliveries())
		}
	}
	if f.wanted[hitRollout] || f.wanted[hitPerson] {
		if err := f.rollouts(ctx, filter, standings, policies); err != nil {
			return err
		}
	}
	if f.wanted[hitWorkflow] || f.wanted[hitPerson] {
		if err := f.workflows(ctx, filter, standings, policies); err != nil {
			return err
		}
	}
	if f.wanted[hitPerson] {
		return f.brakes(ctx, filter)
	}
	return ctx.Err()
}

// fragmentOf returns the longest part of a text that no record can encode in another way: ASCII letters and digits.
func fragmentOf(text string) string {
	isOther := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	return longest(strings.FieldsFunc(text, isOther))
}

func longest(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
}

// matches reports whether a text has each word of the query, in any case.
func (f *search) matches(text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(f.words, func(word string) bool { return !strings.Contains(text, word) })
}

// add adds a hit unless it is there already, and reports whether more of its kind can be added.
func (f *search) add(hit *apipb.SearchHit) bool {
	place := hitPlace{hit.Kind, intent.PartitionID(hit.Partition)}
	note := hit.Note
	if hit.Kind == hitAsset {
		note = "" // Its state, which is read later.
	}
	key := strings.Join([]string{hit.Kind, hit.Partition, hit.Name, note, hit.Asset, hit.Incarnation, hit.Application, hit.Version.GetDigest(), hit.Workflow, strconv.FormatUint(hit.Run, 10)}, "\x00")
	switch {
	case !f.wanted[hit.Kind] || f.partitions[place.partition] == nil || f.seen[key]:
		return true
	case len(f.hits[hit.Kind]) >= mostHits:
		f.more[hit.Kind] = true
		return false
	case f.counts[place] >= hitsInPartition:
		f.more[hit.Kind] = true
		return true
	}
	f.seen[key] = true
	f.counts[place]++
	f.hits[hit.Kind] = append(f.hits[hit.Kind], hit)
	return true
}

// person adds a person whose name matches, with what they do and where.
func (f *search) person(partition intent.PartitionID, name, note string, where *apipb.SearchHit) {
	if name != "" && f.matches(name) {
		where.Kind, where.Partition, where.Name, where.Note = hitPerson, string(partition), name, note
		f.add(where)
	}
}

// assets finds assets by words of their ids.
func (f *search) assets(ctx context.Context, partition intent.PartitionID) error {
	filter := store.SearchFilter{Partition: partition, Fragment: longest(f.words)}
	var hits []*apipb.SearchHit
	found, err := f.store.SearchAssets(ctx, filter, func(id intent.PartitionID, asset intent.AssetID) (taken, more bool) {
		if !f.matches(string(asset)) {
			return false, true
		}
		hit := &apipb.SearchHit{Kind: hitAsset, Partition: string(id), Name: string(asset), Asset: string(asset)}
		count := len(f.hits[hitAsset])
		more = f.add(hit)
		if taken = len(f.hits[hitAsset]) > count; taken {
			hits = append(hits, hit)
		}
		return taken, more
	})
	for i := range found {
		hits[i].Note = string(found[i].State)
	}
	return err
}

// incarnations finds incarnations by id, label or author, and the commits that they were made from.
func (f *search) incarnations(ctx context.Context, filter store.SearchFilter) error {
	var list []intent.Incarnation
	err := f.store.SearchIncarnations(ctx, filter, incarnationsSearched, func(incarnation intent.Incarnation) {
		if f.partitions[incarnation.ID.Partition] != nil {
			list = append(list, incarnation)
		}
	})
	if err != nil {
		return err
	}
	type revision struct {
		partition      intent.PartitionID
		source, commit string
	}
	brought := map[revision]bool{}
	for _, incarnation := range slices.Backward(list) { // Of a partition the oldest first.
		for _, source := range incarnation.Sources {
			key := revision{incarnation.ID.Partition, string(source.Source), source.Revision}
			if !brought[key] {
				brought[key] = true
				f.commit(incarnation.ID, source)
			}
		}
	}
	for _, incarnation := range list {
		id, digest := incarnation.ID.String(), toDigest(incarnation.Digest)
		isNamed := f.matches(id) || digest != "" && len(f.text) >= 6 && strings.HasPrefix(digest, f.text)
		for key, value := range incarnation.Labels {
			isNamed = isNamed || f.matches(key+"="+value)
		}
		if isNamed {
			state := "superseded"
			if incarnation.ID == f.partitions[incarnation.ID.Partition].Head {
				state = "head"
			}
			f.add(&apipb.SearchHit{Kind: hitIncarnation, Partition: string(incarnation.ID.Partition), Name: id, Note: state, Incarnation: id})
		}
		f.person(incarnation.ID.Partition, incarnation.Acknowledger.Name, "let "+id+" through", &apipb.SearchHit{Incarnation: id})
	}
	return nil
}

// commit adds a commit with the first incarnation that was made from it.
func (f *search) commit(id intent.IncarnationID, revision intent.SourceRevision) {
	source := toSource(revision)
	commit := source.GetCommit()
	if strings.HasPrefix(strings.ToLower(source.Revision), f.text) || f.matches(commit.GetSubject()) {
		note := strings.TrimSpace(fmt.Sprintf("first in %s %s %s", id, commit.GetAuthor(), commit.GetSubject()))
		f.add(&apipb.SearchHit{
			Kind: hitCommit, Partition: string(id.Partition), Name: source.Source + " " + shortRevision(source.Revision), Note: note, Incarnation: id.String(), Revision: source.Revision,
		})
	}
	f.person(id.Partition, commit.GetAuthor(), "wrote "+id.String(), &apipb.SearchHit{Incarnation: id.String()})
}

func shortRevision(revision string) string { return revision[:min(len(revision), 12)] }

// versions finds versions of a partition's applications by name, digest or commit. What cannot be read is reported, and
// the rest is still found.
func (f *search) versions(ctx context.Context, p store.Partition, specs []*intentpb.Delivery) {
	for _, spec := range specs {
		application, err := f.decided(ctx, p, spec)
		if err != nil {
			f.problems = append(f.problems, &apipb.SearchProblem{Partition: string(p.ID), Problem: err.Error()})
			return
		}
		ordered := application.Catalogue.Ordered()
		last := application.lastStays()
		for i := range min(len(ordered), versionsSearched) {
			f.version(p.ID, application.version(ordered[len(ordered)-1-i].VersionName(), "", last))
		}
		for _, aside := range application.Catalogue.Aside()[:min(len(application.Catalogue.Aside()), max(0, versionsSearched-len(ordered)))] {
			f.version(p.ID, application.version(aside.VersionName(), "", last))
		}
	}
}

func (f *search) version(partition intent.PartitionID, v *apipb.DeliveredVersion) {
	hit := &apipb.SearchHit{Partition: string(partition), Application: v.Application, Version: v.Version}
	if f.matches(v.Version.GetName()) || f.matches(v.Version.GetDigest()) {
		var standings []string
		for _, standing := range v.Standings {
			standings = append(standings, standing.Environment+": "+standing.State)
		}
		hit.Kind, hit.Name, hit.Note = hitVersion, v.Application+" "+v.Version.GetName(), strings.Join(standings, ", ")
		f.add(hit)
	}
	if v.Commit != "" && strings.HasPrefix(strings.ToLower(v.Commit), f.text) {
		f.add(&apipb.SearchHit{
			Kind: hitCommit, Partition: string(partition), Name: shortRevision(v.Commit), Note: "version " + v.Version.GetName() + " of " + v.Application,
			Application: v.Application, Version: v.Version, Revision: v.Commit,
		})
	}
}

// rollouts finds rollouts by name, and who began their newest runs.
func (f *search) rollouts(ctx context.Context, filter store.SearchFilter, standings []store.Standing, policies map[intent.PartitionID]*intentpb.Policy) error {
	runs := map[intent.PartitionID]map[string]intent.Rollout{}
	err := f.store.SearchRuns(ctx, filter, func(id intent.PartitionID, run intent.Rollout) {
		if runs[id] == nil {
			runs[id] = map[string]intent.Rollout{}
		}
		runs[id][run.Name] = run
	})
	if err != nil {
		return err
	}
	for i := range standings {
		id := standings[i].ID
		var names []string
		for _, spec := range policies[id].GetRollouts() {
			names = append(names, spec.GetName())
		}
		for name := range runs[id] {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			run := runs[id][name]
			if f.matches(name) {
				f.add(&apipb.SearchHit{Kind: hitRollout, Partition: string(id), Name: name, Note: string(run.State), Rollout: name})
			}
			f.person(id, run.By.Name, "began a run of rollout "+name, &apipb.SearchHit{Rollout: name})
		}
	}
	return nil
}

// workflows finds workflows by name, their newest runs by name, number, request or reason, and who started these.
func (f *search) workflows(ctx context.Context, filter store.SearchFilter, standings []store.Standing, policies map[intent.PartitionID]*intentpb.Policy) error {
	for i := range standings {
		for _, w := range policies[standings[i].ID].GetWorkflows() {
			if f.matches(w.GetName()) {
				f.add(&apipb.SearchHit{Kind: hitWorkflow, Partition: string(standings[i].ID), Name: w.GetName(), Workflow: w.GetName()})
			}
		}
	}
	// The number of a run is not in its record as it is written here.
	if _, err := strconv.ParseUint(filter.Fragment, 10, 64); err == nil || filter.Fragment == "run" {
		filter.Fragment = ""
	}
	return f.store.SearchWorkflowRuns(ctx, filter, workflowRunsSearched, func(run intent.WorkflowRun) {
		name, state := fmt.Sprintf("%s run %d", run.Workflow, run.Number), "goes on"
		if !run.Ended.IsZero() {
			state = run.Outcome
		}
		if f.matches(strings.Join([]string{name, run.Request, run.Reason}, "\n")) {
			f.add(&apipb.SearchHit{
				Kind: hitWorkflow, Partition: string(run.Partition), Name: name, Note: strings.Trim(state+", "+run.Reason, ", "), Workflow: run.Workflow, Run: run.Number,
			})
		}
		f.person(run.Partition, run.By.Name, "started "+name, &apipb.SearchHit{Workflow: run.Workflow, Run: run.Number})
	})
}

// brakes finds holds and pins by who set them.
func (f *search) brakes(ctx context.Context, filter store.SearchFilter) error {
	return f.store.SearchBrakes(ctx, filter, func(id intent.PartitionID, hold intent.Hold) {
		f.person(id, hold.Owner.Name, "holds "+string(hold.Asset), &apipb.SearchHit{Asset: string(hold.Asset)})
	}, func(pin intent.Pin) {
		f.person(pin.Incarnation.Partition, pin.Holder.Name, "pins "+string(pin.Asset), &apipb.SearchHit{Asset: string(pin.Asset)})
	})
}
