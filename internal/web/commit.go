package web

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
)

const (
	// incarnationsCompared are those of a commit whose changes are shown, and changesCompared how many assets of each.
	incarnationsCompared, changesCompared = 20, 50
)

// commitView is what one commit brought: the first incarnation of each partition that was made from it, with what that
// changed, and the versions that were built from it.
type commitView struct {
	Revision, Subject, Author string
	Incarnations              []commitIncarnation
	Versions                  []hit
	// More incarnations were made than are shown, and Problems say of partitions why they could not be read.
	More     bool
	Problems []string
}

// commitIncarnation is an incarnation, and what it changed.
type commitIncarnation struct {
	*apipb.Incarnation
	Partition string
	comparisonView
	// Beside are sources with other commits, which it was made from as well.
	Beside []*apipb.SourceRevision
	// Problem is why its changes cannot be read; empty: they can.
	Problem string
}

// Compared is what the incarnation changed.
func (c commitIncarnation) Compared() comparisonView { return c.comparisonView }

func commitLink(revision string) string {
	return address{kind: commitKind, query: url.Values{"revision": {revision}}}.String()
}

// showCommit finds everything that one commit touched, in all partitions that the viewer may see.
func showCommit(ctx context.Context, r *reader, at address) (page, error) {
	revision := strings.TrimSpace(at.query.Get("revision"))
	if len(revision) < shortestSearch {
		return page{}, fault.New(fault.Invalid, "%q is no revision", revision).WithHint("search for the commit by its subject")
	}
	found, err := r.Partitions.Search(ctx, &apipb.SearchRequest{Query: revision, Kind: "commit"})
	if err != nil {
		return page{}, err
	}
	view := commitView{Revision: revision}
	for _, problem := range found.Problems {
		view.Problems = append(view.Problems, problem.Partition+": "+problem.Problem)
	}
	for _, h := range found.Hits {
		switch {
		case !strings.HasPrefix(h.Revision, revision):
			continue // It was found by its subject.
		case h.Version != nil:
			version := newHit(h)
			version.Text, version.Link = h.Application+" "+h.Version.GetName(), versionLink(h.Partition, h.Application, h.Version)
			view.Versions = append(view.Versions, version)
		case len(view.Incarnations) == incarnationsCompared:
			view.More = true
		default:
			if err := view.add(ctx, r, h); err != nil {
				return page{}, err
			}
		}
	}
	if len(view.Incarnations)+len(view.Versions) == 0 && len(view.Problems) == 0 {
		return page{}, fault.New(fault.NotFound, "no incarnation was made from commit %.80q, and no version", revision).
			WithHint("the search covers the 200 newest incarnations and versions of what you may see; lehr get incarnations lists older ones")
	}
	pageData := page{Title: "What commit " + shortRevision(revision) + " touched", Back: crumb{"search", searchKind}, Fixed: true}
	pageData.Parts = []part{makePart("commit", "commit", view)}
	return pageData, nil
}

// add adds the incarnation that a hit names, with what it changed.
func (v *commitView) add(ctx context.Context, r *reader, h *apipb.SearchHit) error {
	partition, sequence, _ := strings.Cut(h.Incarnation, "@")
	if _, err := strconv.ParseUint(sequence, 10, 63); err != nil {
		return fault.New(fault.Internal, "the search found %q, which is no incarnation", h.Incarnation)
	}
	incarnation, err := r.incarnation(ctx, address{partition: partition, name: sequence})
	if err != nil {
		return err
	}
	one := commitIncarnation{Incarnation: incarnation, Partition: partition}
	for _, source := range incarnation.Sources {
		if !strings.HasPrefix(source.Revision, v.Revision) {
			if source.Commit != nil { // Else nobody wrote it, such as the definition as it was read.
				one.Beside = append(one.Beside, source)
			}
			continue
		}
		v.Revision, v.Subject, v.Author = source.Revision, source.GetCommit().GetSubject(), source.GetCommit().GetAuthor()
	}
	compared, err := r.Incarnations.CompareIncarnations(ctx, &apipb.CompareIncarnationsRequest{From: incarnation.Parent, To: incarnation.Id, Limit: changesCompared})
	if err != nil {
		one.Problem = err.Error()
	}
	one.comparisonView = comparisonView{Partition: partition, Comparisons: compared.GetComparisons()}
	if compared.GetNext() != "" {
		one.Next = incarnationLink(incarnation.Id)
	}
	v.Incarnations = append(v.Incarnations, one)
	return nil
}

// shortRevision is a revision as people write it.
func shortRevision(revision string) string { return revision[:min(len(revision), 12)] }
