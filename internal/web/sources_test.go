package web_test

import (
	"testing"
	"time"

	"lehr.dev/internal/ground/intent"
)

// A source that fails is told of on the page of all partitions and on its own,
// with the words of others as text.
func TestSourcesThatFailAreShown(t *testing.T) {
	w := newWorld(t)
	head := w.publish(0)
	w.must(w.store.Cover(t.Context(), w.lease, head.ID, []intent.SourceRevision{{
		Source: "service", Revision: "0123456789abcdef0123456789abcdef01234567", Commit: intent.Commit{Author: "Ann", Subject: "Begin", Time: time.Unix(1, 0).UTC()},
		Failing: intent.Failing{Since: time.Now(), Reason: "the server says <script>alert(1)</script>"},
	}}))
	w.shows("/", "source service cannot be read")
	w.shows("/partition/shop", "The source service is as it was read last", "the server says &lt;script&gt;")
}
