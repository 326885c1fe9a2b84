package relational_test

import (
	"runtime"
	"sync"
	"testing"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/store/sqlite"
)

// TestARefusalIsNobodyElsesAnswer: where the connection is lost while one caller
// is refused, those in the same commit are not told that caller's refusal, which
// would say of theirs what is not so.
func TestARefusalIsNobodyElsesAnswer(t *testing.T) {
	memory, err := sqlite.Memory()
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	s, err := sqlite.Open(t.Context(), sqlite.Options{DB: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	by := intent.Actor{Name: "tester"}
	if err := s.AddPartition(t.Context(), "shop", "/shop/lehr.yaml", "", by); err != nil {
		t.Fatal(err)
	}
	goOn := s.Halt()
	var told error
	var writes sync.WaitGroup
	writes.Go(func() { told = s.SetStop(t.Context(), intent.Stop{Partition: "shop", Owner: by}) })
	writes.Go(func() { _ = s.RefuseCutOff(fault.New(fault.NotFound, "there is nothing")) })
	for s.Queued() < 2 {
		runtime.Gosched()
	}
	goOn()
	writes.Wait()
	if told == nil || fault.Is(told, fault.NotFound) {
		t.Errorf("a write that was not carried out was answered by %v", told)
	}
}
