package monitor

import "testing"

// What is committed without its record is a breach at once, and not only when
// the next commit is told of.
func TestBetweenCommitsItLooksToo(t *testing.T) {
	r := newRun(t)
	r.Between()
	r.fine()
	r.behind("UPDATE partitions SET epoch = epoch + 1")
	r.Between()
	r.found("S25", "the last that was recorded is 1")
}
