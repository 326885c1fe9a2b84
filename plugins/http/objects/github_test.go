package objects

import (
	"net/http"
	"strings"
	"testing"

	"lehr.dev/sdk/serve"
	"lehr.dev/test/apiserver"
)

// TestGitHubRepository: settings are changed field by field; nothing is created or deleted
// on a 404, which GitHub answers also to whoever may not see a repository.
func TestGitHubRepository(t *testing.T) {
	api := apiserver.NewGitHub("", "acme/web", "acme/old")
	defer api.Close()
	b := open(t, api.URL, "github")
	settings := asset(object("repository", "owner=acme,repo=web", `{"has_wiki":false,"delete_branch_on_merge":true,"description":null,"topics":["a"]}`))
	b.expect(settings, `update: body.delete_branch_on_merge false -> true; body.has_wiki true -> false; body.topics [] -> ["a"]`)
	b.pushed(settings)
	b.expect(settings, "in sync")
	if got := api.Repo("acme/web"); !strings.Contains(got, `"has_issues":true`) || !strings.Contains(got, `"has_wiki":false`) {
		t.Error(got)
	}
	b.expect(asset(object("repository", "owner=acme,repo=web", `{"visibility":"private"}`)), `update: body.visibility "public" -> "private" (destructive)`)
	b.unknown(asset(object("repository", "owner=acme,repo=none", `{"has_wiki":false}`)), "does not create any")
	b.unknown(asset(object("repository", "owner=acme,repo=web", `{}`), turndown), "does not delete any")
	outcome := b.push(asset(object("repository", "owner=acme,repo=web", `{"no_such_setting":1}`)))
	if outcome.Ending != serve.Failed || outcome.Retryable || !strings.Contains(outcome.Reason, "not a permitted key") {
		t.Errorf("a setting that GitHub does not know ended: %+v", outcome)
	}
	// A repository that was renamed is elsewhere: neither there nor absent.
	api.RenameTo("acme/old", "2")
	b.unknown(asset(object("repository", "owner=acme,repo=old", `{"has_wiki":false}`)), "redirect")
	for _, request := range api.Requests() {
		if strings.Contains(request, "/repositories/") {
			t.Errorf("the redirect was followed: %s", request)
		}
	}
}

// TestGitHubBranchProtection is told in another form than it is set in, and four of its
// fields must be there.
func TestGitHubBranchProtection(t *testing.T) {
	api := apiserver.NewGitHub("", "acme/web")
	defer api.Close()
	b := open(t, api.URL, "github")
	at := "owner=acme,repo=web,branch=main"
	protection := asset(object("branch-protection", at, `{"enforce_admins":true,"required_status_checks":{"strict":true,"contexts":["ci"]},"restrictions":{"users":["ann"],"teams":["ops"]}}`))
	if got := b.state(protection); !strings.HasPrefix(got, "create: body.enforce_admins") {
		t.Error(got)
	}
	b.pushed(protection)
	b.expect(protection, "in sync")
	// What intent does not name survives a write that replaces everything.
	b.pushed(asset(object("branch-protection", at, `{"required_pull_request_reviews":{"required_approving_review_count":2}}`)))
	b.expect(protection, "in sync")
	b.pushed(asset(object("branch-protection", at, `{"restrictions":null,"allow_deletions":true}`)))
	b.expect(asset(object("branch-protection", at, `{"restrictions":null,"enforce_admins":true,"allow_deletions":true,"required_pull_request_reviews":{"required_approving_review_count":2}}`)), "in sync")
	// Only "Branch not protected" says that there is no protection.
	b.unknown(asset(object("branch-protection", "owner=acme,repo=web,branch=dev", `{"enforce_admins":true}`)), "Branch not found")
	b.unknown(asset(object("branch-protection", "owner=acme,repo=none,branch=main", `{"enforce_admins":true}`)), "Not Found")
	gone := asset(object("branch-protection", at, `{}`), turndown)
	b.pushed(gone)
	b.expect(gone, "nothing is there")
	if api.Protection("acme/web") != "null" {
		t.Error(api.Protection("acme/web"))
	}
}

// TestGitHubRateLimit: 403 with no requests left is busy, until the API's own clock says
// so, which is years off.
func TestGitHubRateLimit(t *testing.T) {
	api := apiserver.NewGitHub("", "acme/web")
	defer api.Close()
	b := open(t, api.URL, "github")
	api.Front(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", "978307290") // 90 s later.
		w.WriteHeader(http.StatusForbidden)
	})
	settings := asset(object("repository", "owner=acme,repo=web", `{"has_wiki":true}`))
	d := b.look(settings)
	if d.Outcome != serve.Unknown || d.RetryAfter.Seconds() != 90 {
		t.Errorf("%v, after %v: %s", d.Outcome, d.RetryAfter, d.Reason)
	}
	// Until then nobody asks again, whatever it would answer.
	api.Front(nil)
	api.Requests()
	if d = b.look(settings); d.RetryAfter <= 0 || len(api.Requests()) > 0 {
		t.Errorf("it was asked again: %+v", d)
	}
}
