package previewer

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/branchpreview"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// BlobKind of what is remembered beside the entries, by the names of the rules.
const BlobKind = "previews"

// Memory is what is known of a rule beside its entries. It is written when it changes.
type Memory struct {
	// Waiting are the branches and pull requests without a preview, and why, as last listed, at most
	// mostWaiting; More are the rest.
	Waiting []branchpreview.Waiting `json:"waiting,omitempty"`
	More    int                     `json:"more,omitempty"`
	// Problem says why the place cannot be listed, or the entries not be read, and Since when; empty:
	// it answers.
	Problem string    `json:"problem,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// Expired are those whose previews expired, each with the commit at which it did.
	Expired []Expired `json:"expired,omitempty"`
	// Posted are the statuses that were posted, by the names of the previews.
	Posted map[string]Posted `json:"posted,omitempty"`
}

// Expired is a branch or pull request whose preview expired at a commit.
type Expired struct {
	Branch      string `json:"branch,omitempty"`
	PullRequest int    `json:"pull_request,omitempty"`
	Commit      string `json:"commit"`
}

// Posted is the status that was posted last of a preview.
type Posted struct {
	Commit      string `json:"commit"`
	State       string `json:"state"`
	Description string `json:"description"`
}

// mostWaiting are remembered of a rule.
const mostWaiting = 1000

// ReadMemory reads what is remembered of a rule. One that is damaged is empty: previews expire, are
// listed and told anew by it, and nothing ends.
func ReadMemory(ctx context.Context, blobs interface {
	GetBlob(ctx context.Context, partition intent.PartitionID, kind, name string) ([]byte, error)
}, partition intent.PartitionID, rule string) (m Memory, _ error) {
	text, err := blobs.GetBlob(ctx, partition, BlobKind, rule)
	if fault.Is(err, fault.NotFound) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if json.Unmarshal(text, &m) != nil {
		return Memory{}, nil
	}
	return m, nil
}

func (m Memory) expired() map[branchpreview.Key]string {
	all := map[branchpreview.Key]string{}
	for _, e := range m.Expired {
		all[branchpreview.Key{PullRequest: e.PullRequest, Branch: e.Branch}] = e.Commit
	}
	return all
}

func (m *Memory) setExpired(all map[branchpreview.Key]string) {
	m.Expired = nil
	for key, commit := range all {
		m.Expired = append(m.Expired, Expired{key.Branch, key.PullRequest, commit})
	}
	slices.SortFunc(m.Expired, func(a, b Expired) int {
		if a.PullRequest != b.PullRequest {
			return a.PullRequest - b.PullRequest
		}
		return strings.Compare(a.Branch, b.Branch)
	})
}

func (m *Memory) setWaiting(waiting []branchpreview.Waiting) {
	m.Waiting = waiting[:min(len(waiting), mostWaiting)]
	m.More = len(waiting) - len(m.Waiting)
}
