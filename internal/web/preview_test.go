package web_test

import (
	"encoding/json"
	"strings"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/document"
)

// TestPreviews: delivery leads to the previews of branches and pull requests, each with its state, its end and where it
// is seen. A text of a branch or a host leads nowhere else.
func TestPreviews(t *testing.T) {
	w := newWorld(t)
	w.three()
	w.shows("/partition/shop/previews", "This partition has no previews")
	if text := w.shows("/partition/shop/delivery"); strings.Contains(text, "shop/previews") {
		t.Error("delivery leads to previews where there are none")
	}
	w = newWorld(t)
	w.deliver(func(p *intentpb.Policy) {
		p.Previews = []*intentpb.PreviewRule{{Name: "review", Before: "preview/", After: "/", Generator: "review", Source: "shop", Branches: []string{"*"}, AtMost: 10}}
	})
	_, err := w.store.SavePreviews(t.Context(), w.lease, "review", document.Edit{Reason: "a try", Operations: []document.Operation{
		{Path: "/feature-cart", Value: json.RawMessage(`{"branch": "feature/cart", "commit": "0123456789abcdef", "url": "https://cart.example.com", "created_at": "2026-11-28T08:00:00Z", "expires_at": "2026-12-05T08:00:00Z"}`)},
		{Path: "/pr-7", Value: json.RawMessage(`{"branch": "<b>menu</b>", "commit": "fedcba", "pull_request": 7, "link": "javascript:alert(1)", "created_at": "2026-11-28T08:00:00Z", "expires_at": "2026-12-05T08:00:00Z",
			"ending": {"since": "2026-11-29T08:00:00Z", "cause": "pull-request-closed"}}`)},
	}})
	w.must(err)
	w.shows("/partition/shop/delivery", `href="partition/shop/previews"`)
	text := w.shows("/partition/shop/previews", `href="https://cart.example.com"`, `href="commit?revision=0123456789abcdef"`, `datetime="2026-12-05T08:00:00Z"`, "#7 &lt;b&gt;menu", ">ending<")
	if strings.Contains(text, "javascript:") || strings.Contains(text, "<b>menu") {
		t.Errorf("a text from outside is taken for more:\n%s", text)
	}
}
