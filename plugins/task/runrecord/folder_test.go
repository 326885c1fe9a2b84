package runrecord

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/sdk/serve"
)

func reserve(t *testing.T, f Folder, number uint64) {
	t.Helper()
	if err := f.Reserve(&Run{Number: number, ID: fmt.Sprint("push-", number), Host: "here"}); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, f Folder) Found {
	t.Helper()
	found, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A run is reserved while the keeper of the one before, whose end is noted, is about to end; and not
// while that is under way.
func TestKeeperThatIsAboutToEnd(t *testing.T) {
	f := FolderOf(t.TempDir(), "shop", "a")
	reserve(t, f, 1)
	lock, err := f.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Start(1); err != nil {
		t.Fatal(err)
	}
	if err := f.Reserve(&Run{Number: 2}); !errors.Is(err, ErrTaken) {
		t.Errorf("while run 1 is under way: %v", err)
	}
	if err := f.Finish(1, &End{Ending: Well, Ended: time.Now()}); err != nil {
		t.Fatal(err)
	}
	reserved := make(chan error)
	go func() { reserved <- f.Reserve(&Run{Number: 3}) }()
	select {
	case err := <-reserved:
		t.Fatalf("its keeper is there still: %v", err)
	case <-time.After(5 * lockPause):
	}
	lock.Close()
	if err := <-reserved; err != nil {
		t.Errorf("its keeper has ended: %v", err)
	}
}

// What was reserved and never began hides no run that did, however often it happens, and old
// records go.
func TestReservedRunsHideNothing(t *testing.T) {
	f := FolderOf(t.TempDir(), "shop", "a")
	if found := load(t, f); found.Run != nil || found.Newest != 0 {
		t.Errorf("at first: %+v", found)
	}
	reserve(t, f, 1)
	if found := load(t, f); found.Run.Number != 1 || found.IsStarted {
		t.Errorf("reserved: %+v", found)
	}
	if err := f.Reserve(&Run{Number: 1}); !errors.Is(err, ErrTaken) {
		t.Errorf("a number is taken twice: %v", err)
	}
	if err := f.Start(1); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(1); err == nil {
		t.Error("a run starts twice")
	}
	if err := f.Finish(1, &End{Ending: Failed, Code: 3, Ended: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for number := range uint64(3 * mostRuns) {
		reserve(t, f, number+2)
	}
	found := load(t, f)
	if found.Run.Number != 1 || found.Run.End.Code != 3 || found.Newest != 3*mostRuns+1 {
		t.Errorf("after many that never began: %+v", found)
	}
	if numbers, err := f.numbers(); err != nil || len(numbers) > mostRuns+1 {
		t.Errorf("%d records are kept, %v", len(numbers), err)
	}
}

// Names of tasks are no paths: none leads elsewhere, and no two share a folder.
func TestFoldersOfNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"a", "a/b", "a~b", "a-b", strings.Repeat("a", 200), strings.Repeat("a", 199) + "b", "..", "../a"} {
		f := FolderOf("/records", "shop", name)
		if filepath.Dir(f.Path) != "/records/shop" || len(filepath.Base(f.Path)) > 200 || seen[f.Path] != "" {
			t.Errorf("the records of %q are in %s, as those of %q", name, f.Path, seen[f.Path])
		}
		seen[f.Path] = name
	}
}

func TestDamagedRecords(t *testing.T) {
	f := FolderOf(t.TempDir(), "shop", "a")
	reserve(t, f, 1)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(f.Path, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("00000001.ended.json", `{"ending":`)
	if _, err := f.Load(); err == nil || !strings.Contains(err.Error(), "00000001.ended.json") {
		t.Errorf("half an end: %v", err)
	}
	write("00000001.ended.json", `{"ending":"well"}`)
	write("00000002.began.json", `{"number":7}`)
	if _, err := f.Load(); err == nil || !strings.Contains(err.Error(), "is of run 7") {
		t.Errorf("another's record: %v", err)
	}
}

func TestItemsAsTheyWereNoted(t *testing.T) {
	f := FolderOf(t.TempDir(), "shop", "a")
	reserve(t, f, 1)
	if items, err := f.LoadItems("b"); items != nil || err != nil {
		t.Errorf("without a log: %v, %v", items, err)
	}
	note := func(items ...Item) {
		t.Helper()
		log, err := f.OpenItems("b")
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if err := log.Note(item); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	note(Item{Item: "a\nb", Run: 1}, Item{Item: "a\nb", Run: 1, Ending: Well}, Item{Item: "c", Run: 1})
	path := f.itemsPath("b")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A last line of which any part was written does not count, and is no part of the next.
	line := `{"item":"d","run":1,"ending":"well"}`
	for cut := range len(line) + 1 {
		if err := os.WriteFile(path, append(append([]byte{}, text...), line[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		items, err := f.LoadItems("b")
		if err != nil || len(items) != 2 || items["a\nb"].Ending != Well || items["c"].Ending != "" {
			t.Fatalf("with %q: %v, %v", line[:cut], items, err)
		}
		note(Item{Item: "e", Run: 2})
		if items, err = f.LoadItems("b"); err != nil || len(items) != 3 {
			t.Fatalf("after %q: %v, %v", line[:cut], items, err)
		}
	}
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.LoadItems("b"); err == nil || !strings.Contains(err.Error(), path+":1") {
		t.Errorf("nonsense: %v", err)
	}
	for i := range 2 * mostLogs {
		log, err := f.OpenItems(fmt.Sprintf("%016x", i))
		if err != nil {
			t.Fatal(err)
		}
		_ = log.Close()
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(f.itemsPath(fmt.Sprintf("%016x", 2*mostLogs-1)), old, old); err != nil {
		t.Fatal(err)
	}
	oldest := Item{Item: "a", Run: 1, Ending: Well}
	for range 2 {
		log, err := f.OpenItems(fmt.Sprintf("%016x", 2*mostLogs-1))
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Note(oldest); err != nil {
			t.Fatal(err)
		}
		_ = log.Close()
		if err := os.Chtimes(f.itemsPath(fmt.Sprintf("%016x", 2*mostLogs-1)), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if items, err := f.LoadItems(fmt.Sprintf("%016x", 2*mostLogs-1)); err != nil || len(items) != 1 {
		t.Errorf("the oldest log, which is used: %v, %v", items, err)
	}
	if logs, err := filepath.Glob(f.itemsPath("*")); err != nil || len(logs) > mostLogs+1 {
		t.Errorf("%d logs are kept, %v", len(logs), err)
	}
}

// A memo has room for any run.
func TestMemosAreBounded(t *testing.T) {
	run := &Run{Number: 1, ID: "push", Host: strings.Repeat("h", 100), Command: strings.Repeat("\x00", 1000), Grant: strings.Repeat("é", 100)}
	for i := range 2 * mostDone {
		run.Purpose, run.Plain, run.Batch = fmt.Sprintf("%016x", i), fmt.Sprintf("%016x", i+1000), fmt.Sprintf("%016x", i+2000)
		run.End = &End{Ending: Well, Stdout: strings.Repeat("\x00", 100000), Stderr: strings.Repeat("\x01", 100000), Reason: strings.Repeat("\x02", 1000)}
		run.Done, run.Good = run.AllDone(), run.EndedWell()
	}
	bytes, err := run.Memo()
	if err != nil || len(bytes) > mostMemo {
		t.Fatalf("%d bytes, %v", len(bytes), err)
	}
	read, err := FromMemos([]serve.Memo{{Key: "task:a", Bytes: bytes}})
	if err != nil || len(read.Done) != mostDone || read.Good.Purpose != run.Purpose {
		t.Errorf("read again: %d, %+v, %v", len(read.Done), read.Good, err)
	}
}
