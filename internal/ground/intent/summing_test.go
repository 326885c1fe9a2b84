package intent

import (
	"fmt"
	"slices"
	"testing"
)

// One by one, or by buckets: the digest is the same, after each.
func TestSummingIsTheMembershipDigest(t *testing.T) {
	var sum Summing
	var all [Buckets][]MemberDigest
	var ids []AssetID
	for i := range 3000 {
		ids = append(ids, AssetID(fmt.Sprintf("shop/%d", i)))
	}
	slices.Sort(ids)
	for i := -1; i < len(ids); i++ {
		if i >= 0 {
			member := MemberDigest{Asset: ids[i], Digest: BodyDigest([]byte(ids[i]))}
			sum.Add(member)
			all[BucketOf(ids[i])] = append(all[BucketOf(ids[i])], member)
		}
		if i > 2 && i%500 != 0 && i < len(ids)-1 {
			continue
		}
		var buckets [Buckets]Digest
		for bucket, members := range all {
			buckets[bucket] = BucketDigest(members)
		}
		if got, want := sum.Digest(), MembershipDigest(&buckets); got != want {
			t.Fatalf("after %d members: %s, not %s", i+1, got, want)
		}
	}
}
