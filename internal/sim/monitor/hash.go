package monitor

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"lehr.dev/internal/ground/intent"
)

// sum is the hash of the store's digests: the domain and each part behind its
// length, eight bytes of it, the least first.
func sum(domain string, parts ...[]byte) intent.Digest {
	h := sha256.New()
	var length [8]byte
	for _, part := range append([][]byte{[]byte(domain)}, parts...) {
		binary.LittleEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return intent.Digest(h.Sum(nil))
}

func bodyDigest(body []byte) intent.Digest { return sum("lehr.asset.v1", body) }

// bucketOf is kept: a run asks it of few assets, often.
func (s *saying) bucketOf(asset intent.AssetID) int {
	bucket, ok := s.buckets[asset]
	if !ok {
		hash := sum("lehr.bucket.v1", []byte(asset))
		bucket = (int(hash[0])<<8 | int(hash[1])) >> 6
		s.buckets[asset] = bucket
	}
	return bucket
}

// membership is the digest of all members: each bucket over its members in
// the order of their ids, then all 1024 buckets; an empty one is zeros.
func (s *saying) membership(members map[intent.AssetID]intent.Digest) intent.Digest {
	assets := make([]intent.AssetID, 0, len(members))
	for asset := range members {
		assets = append(assets, asset)
	}
	slices.Sort(assets)
	parts := make(map[int][][]byte, len(assets))
	for _, asset := range assets {
		bucket, digest := s.bucketOf(asset), members[asset]
		parts[bucket] = append(parts[bucket], []byte(asset), digest[:])
	}
	var empty intent.Digest
	all := make([][]byte, 1024)
	for i := range all {
		all[i] = empty[:]
	}
	for bucket, list := range parts {
		digest := sum("lehr.members.v1", list...)
		all[bucket] = digest[:]
	}
	return sum("lehr.membership.v1", all...)
}
