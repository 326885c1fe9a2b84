package intent

// Summing computes a MembershipDigest from members that come one by one, in
// the order of their ids, in memory that does not grow with them. The zero
// value is the empty membership.
type Summing struct{ buckets [Buckets]*Parts }

// Add takes the next member.
func (s *Summing) Add(m MemberDigest) {
	bucket := &s.buckets[BucketOf(m.Asset)]
	if *bucket == nil {
		*bucket = &Parts{}
		(*bucket).Begin(membersDomain)
	}
	(*bucket).AddText(string(m.Asset))
	(*bucket).Add(m.Digest[:])
}

// Digest is that of all that was added so far.
func (s *Summing) Digest() Digest {
	var buckets [Buckets]Digest
	for i, bucket := range s.buckets {
		if bucket != nil {
			buckets[i] = bucket.Sum()
		}
	}
	return MembershipDigest(&buckets)
}
