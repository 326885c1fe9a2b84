package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lehr.dev/internal/ground/fault"
)

// source is a page that can be changed, and counts how often it is read.
type source struct {
	mutex   sync.Mutex
	version int
	err     error
	looks   map[string]int
}

func (s *source) load(_ context.Context, at address, _ *reader) (page, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.looks[at.String()]++
	if s.version < 0 {
		panic("as told")
	}
	text := fmt.Sprintf("version %d", s.version)
	return page{Parts: []part{{ID: "text", Version: text}, {ID: "same", Version: "same"}}}, s.err
}

// becomes another, which is seen when it returns.
func (s *source) becomes(version int, err error) {
	s.mutex.Lock()
	s.version, s.err = version, err
	s.mutex.Unlock()
	settle()
}

func newSource() (*source, *live) {
	s := &source{looks: map[string]int{}}
	options := DefaultOptions(nil)
	options.MaxStreams = 3
	return s, newLive(options, s.load)
}

func shop(kind, name string) address { return address{kind: kind, partition: "shop", name: name} }

// settle lets the watch look at least once more.
func settle() {
	time.Sleep(DefaultOptions(nil).Period * 2)
	synctest.Wait()
}

// Who may see other things is looked for apart, on their own behalf.
func TestViewersShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var mutex sync.Mutex
		looked := map[any]int{}
		l := newLive(DefaultOptions(nil), func(ctx context.Context, at address, _ *reader) (page, error) {
			mutex.Lock()
			defer mutex.Unlock()
			looked[ctx.Value(key{})]++
			return page{Parts: []part{{ID: "who", Version: ctx.Value(key{}).(string)}}}, nil
		})
		for _, who := range []string{"ann", "bob", "ann"} {
			// That the first one's request ends, ends no other's looks.
			ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, who))
			v, leave, err := l.join(ctx, who, shop("partition", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer leave()
			cancel()
			settle()
			if shown := l.moment(v).snapshot; shown == nil || shown.parts[0].Version != who {
				t.Errorf("%s sees %+v", who, shown)
			}
		}
		if len(l.watches) != 2 || looked["ann"] == 0 || looked["bob"] == 0 {
			t.Errorf("%d watches, looks: %v", len(l.watches), looked)
		}
	})
}

func TestManyBrowsersShareOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newSource()
		var leaves []func()
		for range 2 {
			_, leave, err := l.join(context.Background(), "", shop("partition", ""))
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		_, leave, err := l.join(context.Background(), "", shop("asset", "a"))
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
		synctest.Wait()
		if len(l.watches) != 1 {
			t.Errorf("%d watches of one partition", len(l.watches))
		}
		time.Sleep(10*DefaultOptions(nil).Period + time.Millisecond)
		synctest.Wait()
		for path, looks := range s.looks {
			if looks < 10 || looks > 13 {
				t.Errorf("%s was read %d times in 10 periods", path, looks)
			}
		}
		if _, _, err := l.join(context.Background(), "", shop("orphans", "")); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a fourth stream: %v", err)
		}
		for _, leave := range leaves {
			leave()
			leave() // Leaving again is nothing.
		}
		synctest.Wait()
		before := s.looks["/partition/shop"]
		time.Sleep(time.Hour)
		if s.looks["/partition/shop"] != before || len(l.watches) != 0 || l.streams != 0 {
			t.Errorf("it goes on when nobody looks: %d looks, %d watches, %d streams", s.looks["/partition/shop"], len(l.watches), l.streams)
		}
	})
}

func TestAMomentLastsUntilSomethingDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newSource()
		v, leave, _ := l.join(context.Background(), "", shop("partition", ""))
		defer leave()
		settle()
		first := l.moment(v)
		settle()
		if l.moment(v) != first {
			t.Error("nothing differs, and there is a new moment")
		}
		s.becomes(1, nil)
		<-first.superseded
		second := l.moment(v)
		if sent := second.snapshot.changesSince(first.snapshot); len(sent) != 1 || sent[0].ID != "text" {
			t.Errorf("sent %v, want what differs alone", sent)
		}
		s.becomes(1, errors.New("no"))
		if broken := l.moment(v); text(broken.problem) != "no" || broken.snapshot != second.snapshot {
			t.Errorf("a look that failed left %+v", broken)
		}
		s.becomes(1, nil)
		if well := l.moment(v); well.problem != nil || well.snapshot != second.snapshot {
			t.Errorf("afterwards it is %+v", well)
		}
		s.becomes(-1, nil)
		if broken := l.moment(v); !fault.Is(broken.problem, fault.Internal) {
			t.Errorf("a page that panics: %v", broken.problem)
		}
	})
}

// Of a list only the rows that differ are sent, and all of it when it has
// other rows.
func TestOnlyRowsThatDifferAreSent(t *testing.T) {
	rows := func(versions ...string) *snapshot {
		var rows []part
		for i, v := range versions {
			rows = append(rows, part{ID: fmt.Sprint("row", i), Version: v})
		}
		return take([]part{{ID: "list", Version: fmt.Sprint(len(rows)), Rows: rows}})
	}
	ids := func(fragments []fragment) (ids []string) {
		for _, f := range fragments {
			ids = append(ids, f.ID)
		}
		return ids
	}
	before := rows("a", "b", "c")
	for name, test := range map[string]struct {
		now  *snapshot
		want string
	}{
		"same":      {rows("a", "b", "c"), "[]"},
		"one":       {rows("a", "x", "c"), "[row1]"},
		"one fewer": {rows("a", "b"), "[list]"},
	} {
		if got := fmt.Sprint(ids(test.now.changesSince(before))); got != test.want {
			t.Errorf("%s: sent %s, want %s", name, got, test.want)
		}
		if (test.now.version == before.version) != (test.want == "[]") {
			t.Errorf("%s: its version is %s", name, test.now.version)
		}
	}
}

// stuck is a browser that takes the first two writes and then nothing.
type stuck struct {
	deadline time.Time
	taken    int
}

func (s *stuck) Header() http.Header                { return http.Header{} }
func (s *stuck) WriteHeader(int)                    {}
func (s *stuck) FlushError() error                  { return nil }
func (s *stuck) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *stuck) Write(b []byte) (int, error) {
	if s.taken++; s.taken <= 2 {
		return len(b), nil
	}
	time.Sleep(time.Until(s.deadline))
	return 0, os.ErrDeadlineExceeded
}

// One that does not read is dropped; what changes meanwhile waits in no queue,
// and the others are told in time.
func TestABrowserThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, l := newSource()
		site := &Site{options: DefaultOptions(nil), live: l}
		dropped := make(chan struct{})
		go func() {
			defer close(dropped)
			site.events(&stuck{}, httptest.NewRequestWithContext(t.Context(), "GET", "/events?of=/partition/shop", nil))
		}()
		v, leave, _ := l.join(context.Background(), "", shop("partition", ""))
		defer leave()
		for version := range 5 {
			source.becomes(version, nil)
			if seen := l.moment(v).snapshot.versions["text"]; seen != fmt.Sprint("version ", version) {
				t.Errorf("another browser sees %s at version %d", seen, version)
			}
		}
		select {
		case <-dropped:
			t.Error("it was dropped before its time")
		default:
		}
		time.Sleep(site.options.Patience)
		<-dropped
		if l.streams != 1 {
			t.Errorf("%d streams remain, want the other one", l.streams)
		}
	})
}
