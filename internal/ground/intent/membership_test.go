package intent

import (
	"fmt"
	"testing"
)

func TestBucketOfSpreadsAssets(t *testing.T) {
	counts := make([]int, Buckets)
	for i := range 100 * Buckets {
		counts[BucketOf(AssetID(fmt.Sprintf("service-%d/job", i)))]++
	}
	for bucket, count := range counts {
		if count < 40 || count > 200 {
			t.Errorf("bucket %d holds %d of %d assets, expected about 100", bucket, count, 100*Buckets)
		}
	}
}

func TestMembershipDigestSeesEveryMember(t *testing.T) {
	member := func(asset AssetID, body string) MemberDigest {
		return MemberDigest{Asset: asset, Digest: BodyDigest([]byte(body))}
	}
	digest := func(members ...MemberDigest) Digest {
		var buckets [Buckets]Digest
		buckets[7] = BucketDigest(members)
		return MembershipDigest(&buckets)
	}
	seen := map[Digest]string{}
	for name, d := range map[string]Digest{
		"none":          digest(),
		"one":           digest(member("a", "x")),
		"other content": digest(member("a", "y")),
		"other id":      digest(member("b", "x")),
		"two":           digest(member("a", "x"), member("b", "x")),
	} {
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same membership digest %s", name, other, d.Short())
		}
		seen[d] = name
	}
	if digest(member("a", "x")) != digest(member("a", "x")) {
		t.Error("the same membership has two digests")
	}
}

func TestMembershipDigestIsFixed(t *testing.T) {
	var buckets [Buckets]Digest
	member := MemberDigest{Asset: "shop/frontend", Digest: BodyDigest([]byte("content"))}
	buckets[BucketOf(member.Asset)] = BucketDigest([]MemberDigest{member})
	const golden = "068248db9691bb92e84a7fdfeb508e566fc2a045f8e38c9503add1aaa501cd6d"
	if got := MembershipDigest(&buckets).String(); got != golden {
		t.Errorf("membership digest is %s, stored ones were %s: changing the definition orphans every store", got, golden)
	}
}
