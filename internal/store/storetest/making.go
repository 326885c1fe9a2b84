package storetest

import (
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Tester is who writes in tests.
var Tester = intent.Actor{Name: "tester", Origin: "test"}

// Register registers the partition "shop" and takes its lease.
func Register(t testing.TB, s store.All) store.Lease {
	t.Helper()
	if err := s.AddPartition(t.Context(), shop, "/srv/lehr.yaml", "a try", Tester); err != nil {
		t.Fatal(err)
	}
	lease, err := s.Acquire(t.Context(), shop, "server")
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// Publish makes the next incarnation of the lease's partition.
func Publish(t testing.TB, s store.All, lease store.Lease, delta []store.Entry) intent.Incarnation {
	t.Helper()
	p, err := s.Partition(t.Context(), lease.Partition)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stage(t.Context(), lease, p.Head, delta); err != nil {
		t.Fatal(err)
	}
	next := intent.Incarnation{ID: p.Head, Parent: p.Head, Author: Tester}
	next.ID.Sequence++
	published, err := s.Publish(t.Context(), lease, next)
	if err != nil {
		t.Fatal(err)
	}
	return published
}

// Text is an asset whose content is a text.
func Text(asset, text string) store.Entry { return entry(asset, text) }

// Admission of a push of an asset of shop.
func Admission(asset string, target intent.IncarnationID, revision uint64) store.Admission {
	return store.Admission{
		Push: intent.PushID("push of " + asset), Asset: intent.AssetID(asset), Target: target,
		Effective: digestOf("x"), Plan: intent.Sum("test.plan", []byte(asset)), Revision: revision, At: noon,
	}
}
