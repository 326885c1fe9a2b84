package relational_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store/sqlite"
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

// TestAWriteIsNotKept: what was written last, as a hundred thousand reports, is not held
// until somebody writes again.
func TestAWriteIsNotKept(t *testing.T) {
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
	var gone atomic.Bool
	func() {
		value := new([1 << 16]byte)
		runtime.AddCleanup(value, func(gone *atomic.Bool) { gone.Store(true) }, &gone)
		if err := s.WriteWith(value); err != nil {
			t.Fatal(err)
		}
	}()
	for range 100 {
		if runtime.GC(); gone.Load() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("it is held still")
}
