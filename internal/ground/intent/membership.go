package intent

import "encoding/binary"

// Buckets is the number of hashed buckets that a membership is cut into, so
// that its digest costs one bucket, not the whole, when one member changes.
const Buckets = 1024

const membersDomain = "lehr.members.v1"

// MemberDigest is a member as the membership digest sees it.
type MemberDigest struct {
	Asset  AssetID
	Digest Digest
}

// BucketOf returns the bucket of an asset: the first ten bits of the hash
// of its id.
func BucketOf(asset AssetID) int {
	hash := Sum("lehr.bucket.v1", []byte(asset))
	return int(binary.BigEndian.Uint16(hash[:])) >> 6
}

// BucketDigest covers the members of one bucket, which are given in the order
// of their ids. An empty bucket has the zero digest.
func BucketDigest(members []MemberDigest) Digest {
	if len(members) == 0 {
		return Digest{}
	}
	parts := make([][]byte, 0, 2*len(members))
	for i := range members {
		parts = append(parts, []byte(members[i].Asset), members[i].Digest[:])
	}
	return Sum(membersDomain, parts...)
}

// MembershipDigest covers a whole membership by the digests of its buckets.
func MembershipDigest(buckets *[Buckets]Digest) Digest {
	parts := make([][]byte, Buckets)
	for i := range buckets {
		parts[i] = buckets[i][:]
	}
	return Sum("lehr.membership.v1", parts...)
}
