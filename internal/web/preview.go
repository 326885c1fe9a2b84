package web

import (
	"context"
	"net/url"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// previewRule is a rule of previews, with those that it has.
type previewRule struct {
	*apipb.PreviewRuleStatus
	Previews []previewView
}

// previewView is the preview of a branch or a pull request, or why one has none.
type previewView struct{ *apipb.Preview }

// IsSafe reports whether a browser may be led to an address that a definition or a git host says.
func (previewView) IsSafe(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// showPreviews is the previews of a partition by rule: branch, state, expiry and where they are seen.
func showPreviews(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Previews of "+at.partition)
	if err != nil {
		return page{}, err
	}
	pageData.Back = crumb{"delivery of " + at.partition, link(at.partition, "delivery", "")}
	rules, err := r.readPreviews(ctx, at.partition)
	if err != nil {
		return page{}, err
	}
	for _, rule := range rules {
		pageData.Parts = append(pageData.Parts, makePart("previews:"+rule.Rule, "previews", rule))
	}
	if len(rules) == 0 {
		pageData.Parts = []part{makePart("nothing", "no-previews", nil)}
	}
	return pageData, nil
}

func (r *reader) readPreviews(ctx context.Context, partition string) (rules []previewRule, err error) {
	response, err := r.Previews.ListPreviews(ctx, &apipb.ListPreviewsRequest{Partition: partition})
	if err != nil {
		return nil, err
	}
	for _, status := range response.Rules {
		rule := previewRule{PreviewRuleStatus: status}
		for _, p := range response.Previews {
			if p.Rule == status.Rule {
				rule.Previews = append(rule.Previews, previewView{p})
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// previewsPart leads from delivery to the previews of a partition, if its policy has any.
func (r *reader) previewsPart(ctx context.Context, partition string) (parts []part, err error) {
	rules, err := r.readPreviews(ctx, partition)
	if err != nil || len(rules) == 0 {
		return nil, err
	}
	count := 0
	for _, rule := range rules {
		for _, p := range rule.Previews {
			if p.Name != "" {
				count++
			}
		}
	}
	return []part{makePart("previews", "previews-link", struct {
		Link  string
		Count int
	}{link(partition, "previews", ""), count})}, nil
}
