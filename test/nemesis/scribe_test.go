package nemesis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// scribe reads the database beside everybody, and notes when what was there,
// and contents that the collector may remove.
type scribe struct {
	w     *world
	ended chan struct{}
	group sync.WaitGroup

	mutex sync.Mutex
	// seen is when a record was in the database, by partition and number.
	seen map[string]map[uint64]time.Duration
	// contents by thing and incarnation, read up to the partitions' heads.
	contents map[string]map[uint64]version
	heads    map[string]uint64
}

const scribePause = 100 * time.Millisecond

func (w *world) newScribe() *scribe {
	s := &scribe{
		w: w, ended: make(chan struct{}), seen: map[string]map[uint64]time.Duration{}, contents: map[string]map[uint64]version{},
		heads: map[string]uint64{},
	}
	s.group.Go(func() {
		for {
			select {
			case <-s.ended:
				return
			case <-time.After(scribePause):
				_ = s.look() // The next one sees more.
			}
		}
	})
	return s
}

func (s *scribe) close() {
	select {
	case <-s.ended:
	default:
		close(s.ended)
	}
	s.group.Wait()
}

// look reads what is new.
func (s *scribe) look() error {
	last := map[string]uint64{}
	err := s.w.database.ask("SELECT partition, last FROM audit_head", func(scan func(...any) error) error {
		var partition string
		var number uint64
		err := scan(&partition, &number)
		last[partition] = number
		return err
	})
	if err != nil {
		return err
	}
	now := s.w.now()
	s.mutex.Lock()
	for partition, number := range last {
		if s.seen[partition] == nil {
			s.seen[partition] = map[uint64]time.Duration{}
		}
		for ; number > 0 && s.seen[partition][number] == 0; number-- {
			s.seen[partition][number] = now
		}
	}
	s.mutex.Unlock()
	if err := s.lookAtBrakes(); err != nil {
		return err
	}
	heads := map[string]uint64{}
	err = s.w.database.ask("SELECT id, head FROM partitions", func(scan func(...any) error) error {
		var partition string
		var head uint64
		err := scan(&partition, &head)
		heads[partition] = head
		return err
	})
	if err != nil {
		return err
	}
	for partition, head := range heads {
		if before := s.heads[partition]; head > before {
			if err := s.lookAtContents(partition, before, head); err != nil {
				return err
			}
			if err := s.lookForMissing(); err != nil {
				return err
			}
			s.heads[partition] = head
		}
	}
	return nil
}

// lookAtBrakes reads pins and holds.
func (s *scribe) lookAtBrakes() error {
	for table, list := range map[string]map[string]bool{"pin": s.w.history.Pins, "hold": s.w.history.Holds} {
		found := map[string]bool{}
		err := s.w.database.ask("SELECT partition, asset FROM "+table, func(scan func(...any) error) error {
			var partition, asset string
			err := scan(&partition, &asset)
			found[partition+"/"+asset] = true
			return err
		})
		if err != nil {
			return err
		}
		s.mutex.Lock()
		clear(list)
		maps.Copy(list, found)
		s.mutex.Unlock()
	}
	return nil
}

// lookForMissing reads what live rows name and the collector took.
func (s *scribe) lookForMissing() error {
	return s.w.database.ask(`
		SELECT 'the enforced record of ' || partition || '/' || asset FROM enforced x WHERE absent = 0 AND NOT EXISTS (SELECT 1 FROM incarnation i WHERE i.partition = x.partition AND i.seq = x.seq)
		UNION ALL SELECT 'the pin of ' || partition || '/' || asset FROM pin x WHERE NOT EXISTS (SELECT 1 FROM incarnation i WHERE i.partition = x.partition AND i.seq = x.seq)
		UNION ALL SELECT 'the open push ' || id FROM push x WHERE open = 1 AND NOT EXISTS (SELECT 1 FROM incarnation i WHERE i.partition = x.partition AND i.seq = x.target)
		UNION ALL SELECT 'the member ' || partition || '/' || asset || ' from ' || from_seq FROM member x WHERE NOT EXISTS (SELECT 1 FROM body b WHERE b.digest = x.digest)
		UNION ALL SELECT 'the head of ' || id FROM partitions x WHERE head > 0 AND NOT EXISTS (SELECT 1 FROM incarnation i WHERE i.partition = x.id AND i.seq = x.head)`,
		func(scan func(...any) error) error {
			var missing string
			err := scan(&missing)
			s.w.history.Missing = append(s.w.history.Missing, missing)
			return err
		})
}

// lookAtContents reads what incarnations after one, up to another, changed.
func (s *scribe) lookAtContents(partition string, after, upTo uint64) error {
	return s.w.database.ask(fmt.Sprintf(`SELECT m.asset, m.from_seq, m.to_seq, b.bytes FROM member m JOIN body b ON b.digest = m.digest
		WHERE m.partition = '%s' AND m.from_seq <= %d AND (m.from_seq > %d OR m.to_seq > %d AND m.to_seq <= %d)`, partition, upTo, after, after, upTo),
		func(scan func(...any) error) error {
			var asset string
			var from, to uint64
			var body []byte
			if err := scan(&asset, &from, &to, &body); err != nil {
				return err
			}
			read, err := readContent(body)
			if err != nil || read == nil {
				return err
			}
			name := partition + "/" + asset
			if s.contents[name] == nil {
				s.contents[name] = map[uint64]version{}
			}
			s.contents[name][from] = version{From: from, Content: *read}
			if _, followed := s.contents[name][to]; to <= upTo && !followed {
				s.contents[name][to] = version{From: to, Absent: true}
			}
			return nil
		})
}

// readContent is nil for what is no thing of production.
func readContent(body []byte) (*content, error) {
	var asset intentpb.Asset
	if err := proto.Unmarshal(body, &asset); err != nil {
		return nil, err
	}
	payload := &structpb.Struct{}
	if !asset.Payload.MessageIs(payload) {
		return nil, nil
	}
	if err := asset.Payload.UnmarshalTo(payload); err != nil {
		return nil, err
	}
	c := &content{Value: textOf(payload, "value"), Disk: textOf(payload, "disk"), Site: textOf(payload, "site")}
	for _, addon := range asset.Addons {
		c.Turndown = c.Turndown || addon.MessageIs(&intentpb.Turndown{})
	}
	return c, nil
}

// finish completes the history from what the database has in the end. Nothing
// happens any more.
func (s *scribe) finish() error {
	s.close()
	h := s.w.history
	if err := s.look(); err != nil {
		return err
	}
	for name, versions := range s.contents {
		h.Contents[name] = slices.SortedFunc(maps.Values(versions), func(a, b version) int { return cmp.Compare(a.From, b.From) })
	}
	err := s.w.database.ask("SELECT id, epoch, head FROM partitions", func(scan func(...any) error) error {
		var partition string
		var epoch, head uint64
		err := scan(&partition, &epoch, &head)
		h.Epochs[partition], h.Heads[partition] = epoch, head
		return err
	})
	if err != nil {
		return err
	}
	for _, partition := range append(slices.Collect(maps.Keys(h.Epochs)), "") {
		if err := s.readAudit(partition); err != nil {
			return err
		}
	}
	return s.readJournal()
}

// readAudit reads and verifies a chain through a replica.
func (s *scribe) readAudit(partition string) error {
	lehr, err := s.w.replicas[0].person("the judge")
	if err != nil {
		return err
	}
	defer lehr.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	verified, err := lehr.Audit.VerifyAudit(ctx, &apipb.VerifyAuditRequest{Partition: partition})
	if err != nil {
		return err
	}
	if !verified.Intact {
		return fmt.Errorf("the audit of %q: %s", partition, verified.Problem)
	}
	for after := uint64(0); ; {
		response, err := lehr.Audit.ListAudit(ctx, &apipb.ListAuditRequest{Partition: partition, After: after, Limit: 1000})
		if err != nil {
			return err
		}
		for _, r := range response.Records {
			s.w.history.Audit[partition] = append(s.w.history.Audit[partition], record{
				Number: r.Number, Seen: s.seen[partition][r.Number], By: r.By.GetName(), Verb: r.Verb, Subject: r.Subject, Argument: r.Detail,
			})
		}
		if after = response.Next; after == 0 {
			return nil
		}
	}
}

// readJournal reads all pushes, each by its holder's clock.
func (s *scribe) readJournal() error {
	holders := map[string]*life{}
	for partition, records := range s.w.history.Audit {
		for _, r := range records {
			if r.Verb == "acquire" {
				holders[partition+" "+r.Argument] = s.w.lifeOf(r.By)
			}
		}
	}
	for i, stop := range s.w.history.Stops {
		if stop.server != 0 {
			s.w.history.Stops[i].Life = s.w.lived[stop.server].name
		}
	}
	real := time.Duration(time.Now().UnixNano()) - s.w.now()
	return s.w.database.ask("SELECT id, partition, asset, target, encode(plan, 'hex'), epoch, admitted, open FROM push ORDER BY number", func(scan func(...any) error) error {
		var a admission
		var at, open int64
		if err := scan(&a.Push, &a.Partition, &a.Asset, &a.Target, &a.Plan, &a.Epoch, &at, &open); err != nil {
			return err
		}
		holder := holders[fmt.Sprintf("%s epoch %d", a.Partition, a.Epoch)]
		if holder == nil {
			return fmt.Errorf("nobody knows who had epoch %d of %s", a.Epoch, a.Partition)
		}
		a.Life, a.At, a.Open = holder.name, time.Duration(at)-real-holder.wall, open == 1
		s.w.history.Journal = append(s.w.history.Journal, a)
		return nil
	})
}

// splitHolder takes "host:pid:random" apart; the host's name may hold colons.
func splitHolder(holder string) []string {
	parts := strings.Split(holder, ":")
	if n := len(parts); n > 3 {
		parts = append([]string{strings.Join(parts[:n-2], ":")}, parts[n-2:]...)
	}
	return parts
}
