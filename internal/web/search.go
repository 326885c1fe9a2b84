package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// searchAtOnce partitions are read at a time.
	searchAtOnce = 8
	// foundInPartition and foundAtMost bound what is shown of one kind.
	foundInPartition, foundAtMost = 20, 100
	// incarnationsSearched are the newest of a partition whose sources and authors are read.
	incarnationsSearched = 200
	// shortestSearch in letters: what is shorter is in nearly everything.
	shortestSearch = 2
)

// kindsSearched are what a search finds, in the order in which it is shown.
var kindsSearched = []word{
	{"asset", "assets"}, {"incarnation", "incarnations"}, {"commit", "commits"}, {"version", "versions"}, {"rollout", "rollouts"}, {"person", "people"},
}

// hit is one thing that a search found.
type hit struct {
	Kind, Partition, Text, Link, Note string
}

// searchView is what was searched for, and where.
type searchView struct {
	Query     string
	Kinds     []option
	Partition string
	// Found is what was found, by kind, and Cut kinds of which there is more.
	Found    []foundKind
	Searched int
	Problems []string
}

type foundKind struct {
	Label string
	Hits  []hit
	More  bool
}

// Nothing was found.
func (v searchView) Nothing() bool { return len(v.Found) == 0 }

// showSearch finds things of all kinds in all partitions that the viewer may see.
func showSearch(ctx context.Context, r *reader, at address) (page, error) {
	text := strings.TrimSpace(at.query.Get("q"))
	view := searchView{Query: text, Partition: at.query.Get("partition"), Kinds: []option{{Text: "everything", Selected: at.query.Get("kind") == ""}}}
	for _, kind := range kindsSearched {
		view.Kinds = append(view.Kinds, option{kind.name, kind.label, at.query.Get("kind") == kind.name})
	}
	pageData := page{Title: "Search", Fixed: true, Form: true, Back: crumb{"home", home}}
	if text != "" {
		pageData.Title = "Search for " + text
	}
	form := makePart("search", "search-form", view)
	switch {
	case text == "":
		pageData.Parts = []part{form, makePart("found", "search-help", nil)}
		return pageData, nil
	case len([]rune(text)) < shortestSearch:
		pageData.Parts = []part{form, problem("found", fault.New(fault.Invalid, "%q is too short to search for", text).WithHint("write %d letters or more", shortestSearch))}
		return pageData, nil
	}
	if err := r.search(ctx, &view, at.query.Get("kind")); err != nil {
		return page{}, err
	}
	pageData.Parts = []part{form, makePart("found", "search-found", view)}
	return pageData, nil
}

// search asks each partition for each kind.
func (r *reader) search(ctx context.Context, view *searchView, only string) error {
	response, err := r.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return err
	}
	partitions := slices.DeleteFunc(response.Partitions, func(p *apipb.Partition) bool { return view.Partition != "" && p.Id != view.Partition })
	view.Searched = len(partitions)
	hits := make([][]hit, len(partitions))
	problems := make([]error, len(partitions))
	var group errgroup.Group
	group.SetLimit(searchAtOnce)
	for i, p := range partitions {
		group.Go(func() error {
			hits[i], problems[i] = searchPartition(ctx, r, p, view.Query, only)
			return nil
		})
	}
	_ = group.Wait()
	for i, err := range problems {
		if err != nil {
			view.Problems = append(view.Problems, partitions[i].Id+": "+err.Error())
		}
	}
	for _, kind := range kindsSearched {
		found := foundKind{Label: kind.label}
		for _, list := range hits {
			for _, h := range list {
				if h.Kind == kind.name {
					found.Hits = append(found.Hits, h)
				}
			}
		}
		if found.Hits = mergePeople(found.Hits); len(found.Hits) == 0 {
			continue
		}
		if len(found.Hits) > foundAtMost {
			found.Hits, found.More = found.Hits[:foundAtMost], true
		}
		view.Found = append(view.Found, found)
	}
	return nil
}

// mergePeople drops what was found twice.
func mergePeople(hits []hit) []hit {
	seen := map[hit]bool{}
	return slices.DeleteFunc(hits, func(h hit) bool {
		repeated := seen[h]
		seen[h] = true
		return repeated
	})
}

// partitionSearch is a search of one partition.
type partitionSearch struct {
	*reader
	partition *apipb.Partition
	text      string
	hits      []hit
	counts    map[string]int
}

func searchPartition(ctx context.Context, r *reader, p *apipb.Partition, text, only string) ([]hit, error) {
	s := &partitionSearch{reader: r, partition: p, text: strings.ToLower(text), counts: map[string]int{}}
	s.person(p.Owner, "owns the partition", link(p.Id, "partition", ""))
	asks := map[string]bool{}
	for _, kind := range kindsSearched {
		asks[kind.name] = only == "" || only == kind.name
	}
	for _, step := range []struct {
		wanted bool
		read   func(context.Context) error
	}{
		{asks["asset"], s.assets},
		{asks["incarnation"] || asks["commit"] || asks["person"], s.incarnations},
		{asks["version"] || asks["commit"], s.versions},
		{asks["rollout"] || asks["person"], s.rollouts},
		{asks["person"], s.brakes},
	} {
		if !step.wanted {
			continue
		}
		if err := step.read(ctx); err != nil && !absent(err) {
			return s.hits, err
		}
	}
	return slices.DeleteFunc(s.hits, func(h hit) bool { return !asks[h.Kind] }), nil
}

// matches reports whether a text has each word that is searched for, in whatever case.
func (s *partitionSearch) matches(text string) bool {
	text = strings.ToLower(text)
	return !slices.ContainsFunc(strings.Fields(s.text), func(word string) bool { return !strings.Contains(text, word) })
}

// filter finds the assets whose ids, which are in lower case, have each word that is searched for.
func (s *partitionSearch) filter() string {
	var parts []string
	for _, word := range strings.Fields(s.text) {
		parts = append(parts, "id.contains("+strconv.Quote(word)+")")
	}
	return strings.Join(parts, " && ")
}

func (s *partitionSearch) add(kind, text, to, note string) {
	if s.counts[kind]++; s.counts[kind] <= foundInPartition {
		s.hits = append(s.hits, hit{Kind: kind, Partition: s.partition.Id, Text: text, Link: to, Note: note})
	}
}

// person adds somebody whose name matches, with what they do.
func (s *partitionSearch) person(name, role, to string) {
	if name != "" && s.matches(name) {
		s.add("person", name, to, role)
	}
}

// assets by words of their ids.
func (s *partitionSearch) assets(ctx context.Context) error {
	if s.partition.Head == "" {
		return nil
	}
	response, err := s.Assets.ListAssets(ctx, &apipb.ListAssetsRequest{
		Partition: s.partition.Id, Filter: s.filter(), Limit: foundInPartition,
	})
	if err != nil {
		return err
	}
	for _, asset := range response.Assets {
		s.add("asset", asset.Id, link(s.partition.Id, "asset", asset.Id), stateWord(asset.State))
	}
	return nil
}

// incarnations by id, state, label or author, and the commits that they were made of.
func (s *partitionSearch) incarnations(ctx context.Context) error {
	response, err := s.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{Partition: s.partition.Id, Limit: incarnationsSearched})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, incarnation := range slices.Backward(response.Incarnations) {
		for _, source := range incarnation.Sources {
			if known[source.Source+source.Revision] {
				continue // An earlier incarnation brought it.
			}
			known[source.Source+source.Revision] = true
			commit := source.Commit
			if strings.HasPrefix(strings.ToLower(source.Revision), s.text) || s.matches(commit.GetSubject()) {
				note := strings.TrimSpace(fmt.Sprintf("%s %s", commit.GetAuthor(), commit.GetSubject()))
				s.add("commit", source.Source+" "+short(source.Revision), incarnationLink(incarnation.Id), strings.TrimSpace("first in "+incarnation.Id+" "+note))
			}
			s.person(commit.GetAuthor(), "wrote "+incarnation.Id, incarnationLink(incarnation.Id))
		}
	}
	for _, incarnation := range response.Incarnations {
		isNamed := s.matches(incarnation.Id) || incarnation.Digest != "" && len(s.text) >= 6 && strings.HasPrefix(incarnation.Digest, s.text)
		for key, value := range incarnation.Labels {
			isNamed = isNamed || s.matches(key+"="+value)
		}
		if isNamed {
			s.add("incarnation", incarnation.Id, incarnationLink(incarnation.Id), incarnation.State)
		}
		s.person(incarnation.Acknowledger.GetName(), "let "+incarnation.Id+" through", incarnationLink(incarnation.Id))
	}
	return nil
}

// versions of the partition's applications, by name, digest or commit.
func (s *partitionSearch) versions(ctx context.Context) error {
	environments, err := s.Deliveries.ListEnvironments(ctx, &apipb.ListEnvironmentsRequest{Partition: s.partition.Id})
	if err != nil {
		return err
	}
	var applications []string
	for _, e := range environments.Environments {
		if !slices.Contains(applications, e.Application) {
			applications = append(applications, e.Application)
		}
	}
	for _, application := range applications {
		response, err := s.Deliveries.ListVersions(ctx, &apipb.ListVersionsRequest{Partition: s.partition.Id, Application: application, Limit: incarnationsSearched})
		if err != nil {
			return err
		}
		for _, version := range response.Versions {
			address := versionLink(s.partition.Id, application, version.Version)
			if s.matches(version.Version.Name) || s.matches(version.Version.Digest) {
				s.add("version", application+" "+version.Version.Name, address, standingsText(version))
			}
			if version.Commit != "" && strings.HasPrefix(strings.ToLower(version.Commit), s.text) {
				s.add("commit", short(version.Commit), address, "version "+version.Version.Name+" of "+application)
			}
		}
	}
	return nil
}

func standingsText(version *apipb.DeliveredVersion) string {
	var list []string
	for _, standing := range version.Standings {
		list = append(list, standing.Environment+": "+standing.State)
	}
	return strings.Join(list, ", ")
}

// rollouts by name, and who began their newest runs.
func (s *partitionSearch) rollouts(ctx context.Context) error {
	response, err := s.Rollouts.ListRollouts(ctx, &apipb.ListRolloutsRequest{Partition: s.partition.Id})
	if err != nil {
		return err
	}
	for _, rollout := range response.Rollouts {
		address := link(s.partition.Id, "rollout", rollout.Name)
		if s.matches(rollout.Name) {
			s.add("rollout", rollout.Name, address, rollout.GetRun().GetState())
		}
		s.person(rollout.GetRun().GetBy().GetName(), "began a run of rollout "+rollout.Name, address)
	}
	return nil
}

// brakes are holds and pins, by who set them.
func (s *partitionSearch) brakes(ctx context.Context) error {
	holds, err := s.Brakes.ListHolds(ctx, &apipb.ListHoldsRequest{Partition: s.partition.Id})
	if err != nil {
		return err
	}
	for _, hold := range holds.Holds {
		s.person(hold.Owner.GetName(), "holds "+hold.Asset, link(s.partition.Id, "asset", hold.Asset))
	}
	pins, err := s.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: s.partition.Id})
	if err != nil {
		return err
	}
	for _, pin := range pins.Pins {
		if pin.Rank == "person" {
			s.person(pin.Holder.GetName(), "pins "+pin.Asset, link(s.partition.Id, "asset", pin.Asset))
		}
	}
	return nil
}
