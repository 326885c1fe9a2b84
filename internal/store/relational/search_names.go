package relational

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	// mostNameBytes of asset ids are kept in memory for searches, over all partitions: a million ids of 64 bytes.
	// Partitions beyond that are searched in the database.
	mostNameBytes = 64 << 20
	// fewPartitions are read one by one. If the ids of more are not in memory, all are read at once.
	fewPartitions = 16
)

const (
	searchedHeads = "SELECT id, head FROM partitions WHERE registered = 1 AND ($1 = '' OR id = $1) ORDER BY id"
	namesOfHead   = "SELECT asset FROM member WHERE partition = $1 AND from_seq <= $2 AND to_seq > $2 ORDER BY asset"
	namesOfHeads  = `SELECT m.partition, m.asset FROM partitions p JOIN member m ON m.partition = p.id AND m.from_seq <= p.head AND m.to_seq > p.head
		WHERE p.registered = 1 ORDER BY m.partition, m.asset`
	namesLike = "SELECT asset FROM member WHERE partition = $1 AND from_seq <= $2 AND to_seq > $2 AND asset LIKE $3 ESCAPE '\\' ORDER BY asset"
	// What came and went since another incarnation, which is still kept, so that no row of it was collected.
	namesGone = "SELECT asset FROM member WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3"
	namesCome = "SELECT asset FROM member WHERE partition = $1 AND from_seq > $2 AND from_seq <= $3 AND to_seq > $3"
	isKept    = "SELECT 1 FROM incarnation WHERE partition = $1 AND seq = $2"
)

// statesOfNames asks for the reports of several assets, each a partition and an id.
var statesOfNames = "SELECT partition, asset, state FROM report WHERE " + severalPlaces()

func severalPlaces() string {
	places := make([]string, several)
	for i := range places {
		places[i] = fmt.Sprintf("(partition = $%d AND asset = $%d)", 2*i+1, 2*i+2)
	}
	return strings.Join(places, " OR ")
}

// assetNames keeps the ids of the assets of heads, so that a search in a million of them does not read as many rows.
// What is kept is of a named head, which never changes; a search compares that with the head of its own view.
type assetNames struct {
	mutex sync.Mutex
	known map[intent.PartitionID]headNames
	bytes int
	most  int // mostNameBytes, and less in tests.
	// large are partitions whose ids found no room. They are not tried again as long as they are registered.
	large map[intent.PartitionID]bool
}

// headNames are the ids of an incarnation, in order: a line feed stands before each, and after the last.
type headNames struct {
	head  intent.Sequence
	names string
}

func (n *assetNames) recall(id intent.PartitionID) (headNames, bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	names, ok := n.known[id]
	return names, ok
}

// room returns how many bytes of a partition's ids may be kept; 0: it is not to be read.
func (n *assetNames) room(id intent.PartitionID) int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.large[id] {
		return 0
	}
	return n.most - n.bytes + len(n.known[id].names)
}

// refuse remembers that there is no room for a partition.
func (n *assetNames) refuse(id intent.PartitionID) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.bytes -= len(n.known[id].names)
	delete(n.known, id)
	if n.large == nil {
		n.large = map[intent.PartitionID]bool{}
	}
	n.large[id] = true
}

// keep remembers the ids of a head if there is room.
func (n *assetNames) keep(id intent.PartitionID, names headNames) {
	if n.room(id) < len(names.names) {
		n.refuse(id)
		return
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.bytes -= len(n.known[id].names)
	if n.known == nil {
		n.known = map[intent.PartitionID]headNames{}
	}
	n.known[id] = names
	n.bytes += len(names.names)
}

// retain forgets partitions that are not among the ids.
func (n *assetNames) retain(ids map[intent.PartitionID]bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for id, names := range n.known {
		if !ids[id] {
			n.bytes -= len(names.names)
			delete(n.known, id)
		}
	}
	maps.DeleteFunc(n.large, func(id intent.PartitionID, _ bool) bool { return !ids[id] })
}

// each calls visit for the ids that have the fragment, in order, until it returns false.
func (h headNames) each(fragment string, visit func(intent.AssetID) bool) bool {
	if strings.Contains(fragment, "\n") {
		return true
	}
	for rest := h.names; ; {
		at := strings.Index(rest, fragment)
		if at < 0 || len(rest) <= 1 {
			return true
		}
		start := strings.LastIndexByte(rest[:at+1], '\n') + 1
		end := start + strings.IndexByte(rest[start:], '\n')
		if end > start && !visit(intent.AssetID(rest[start:end])) {
			return false
		}
		rest = rest[end:]
	}
}

// join returns ids in order as headNames has them.
func join(head intent.Sequence, ids []string) headNames {
	if len(ids) == 0 {
		return headNames{head: head}
	}
	return headNames{head, "\n" + strings.Join(ids, "\n") + "\n"}
}

// moved returns the names of a later head: without what went, and with what came.
func (h headNames) moved(head intent.Sequence, gone, come []string) headNames {
	isGone := make(map[string]bool, len(gone))
	for _, id := range gone {
		isGone[id] = true
	}
	slices.Sort(come)
	come = slices.Compact(come)
	var next strings.Builder
	next.Grow(len(h.names) + len(come)*64)
	add := func(id string) {
		next.WriteByte('\n')
		next.WriteString(id)
	}
	for id := range strings.SplitSeq(strings.Trim(h.names, "\n"), "\n") {
		for len(come) > 0 && come[0] < id {
			add(come[0])
			come = come[1:]
		}
		if id != "" && !isGone[id] && (len(come) == 0 || come[0] != id) {
			add(id)
		}
	}
	for _, id := range come {
		add(id)
	}
	if next.Len() > 0 {
		next.WriteByte('\n')
	}
	return headNames{head, next.String()}
}

// listNames returns the ids that a query finds.
func listNames(q querier, text string, arguments ...any) (ids []string, err error) {
	err = q.queryEach(text, arguments, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// catchUp returns the names of a head: as they are known, moved on from an earlier head, or read; ok is false if they were
// not known and reading is left to the caller.
func (s *Store) catchUp(q querier, id intent.PartitionID, head intent.Sequence) (names headNames, ok bool, err error) {
	known, ok := s.names.recall(id)
	if !ok || known.head > head {
		return headNames{}, false, nil
	}
	if known.head == head {
		return known, true, nil
	}
	var kept int64
	if ok, err = q.one(isKept, []any{string(id), int64(known.head)}, &kept); err != nil || !ok {
		return headNames{}, false, err
	}
	gone, err := listNames(q, namesGone, string(id), int64(known.head), int64(head))
	if err != nil {
		return headNames{}, false, err
	}
	come, err := listNames(q, namesCome, string(id), int64(known.head), int64(head))
	if err != nil {
		return headNames{}, false, err
	}
	names = known.moved(head, gone, come)
	s.names.keep(id, names)
	return names, true, nil
}

// searchedHead is a partition that is searched.
type searchedHead struct {
	id   intent.PartitionID
	head intent.Sequence
}

// SearchAssets implements store.Surveys.
func (s *Store) SearchAssets(ctx context.Context, filter store.SearchFilter, take func(intent.PartitionID, intent.AssetID) (taken, more bool)) (found []store.FoundAsset, err error) {
	err = s.read(ctx, "searching assets", func(q querier) error {
		found = nil
		heads, err := listSearchedHeads(q, filter.Partition)
		if err != nil {
			return err
		}
		known, err := s.readNames(q, heads, filter.Partition == "")
		if err != nil {
			return err
		}
		for _, h := range heads {
			visit := func(asset intent.AssetID) bool {
				taken, more := take(h.id, asset)
				if taken {
					found = append(found, store.FoundAsset{Partition: h.id, Asset: asset})
				}
				return more
			}
			more, err := s.searchHead(q, h, known, filter.Fragment, visit)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		return fillStates(q, found)
	})
	return found, err
}

// fillStates reads the states of what was found.
func fillStates(q querier, found []store.FoundAsset) error {
	for some := range slices.Chunk(found, several) {
		arguments := make([]any, 0, 2*several)
		for i := range several { // The last fills up the list.
			place := some[min(i, len(some)-1)]
			arguments = append(arguments, string(place.Partition), string(place.Asset))
		}
		err := q.queryEach(statesOfNames, arguments, func(row scanner) error {
			var read store.FoundAsset
			err := row.Scan(&read.Partition, &read.Asset, &read.State)
			for i := range some {
				if some[i].Partition == read.Partition && some[i].Asset == read.Asset {
					some[i].State = read.State
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// searchHead visits the ids of one head that have the fragment, and reports whether more are wanted.
func (s *Store) searchHead(q querier, h searchedHead, known map[intent.PartitionID]headNames, fragment string, visit func(intent.AssetID) bool) (more bool, err error) {
	if names, ok := known[h.id]; ok {
		return names.each(fragment, visit), nil
	}
	ids, err := listNames(q, namesLike, string(h.id), int64(h.head), patternOf(fragment))
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if !visit(intent.AssetID(id)) {
			return false, nil
		}
	}
	return true, nil
}

func listSearchedHeads(q querier, partition intent.PartitionID) (heads []searchedHead, err error) {
	err = q.queryEach(searchedHeads, []any{string(partition)}, func(row scanner) error {
		var h searchedHead
		err := row.Scan(&h.id, &h.head)
		heads = append(heads, h)
		return err
	})
	return heads, err
}

// readNames returns the names of heads, as far as they are kept in memory; all: the heads are those of all partitions.
func (s *Store) readNames(q querier, heads []searchedHead, all bool) (map[intent.PartitionID]headNames, error) {
	known := map[intent.PartitionID]headNames{}
	ids := map[intent.PartitionID]bool{}
	var unread []searchedHead
	for _, h := range heads {
		ids[h.id] = true
		names, ok, err := s.catchUp(q, h.id, h.head)
		if err != nil {
			return nil, err
		}
		if ok {
			known[h.id] = names
		} else if s.names.room(h.id) > 0 {
			unread = append(unread, h)
		}
	}
	if all {
		s.names.retain(ids)
	}
	if !all || len(unread) <= fewPartitions {
		for _, h := range unread {
			if err := s.readHeadNames(q, h, known); err != nil {
				return nil, err
			}
		}
		return known, nil
	}
	return known, s.readAllNames(q, unread, known)
}

// readHeadNames reads the names of one head, unless there is no room for them.
func (s *Store) readHeadNames(q querier, h searchedHead, known map[intent.PartitionID]headNames) error {
	room := s.names.room(h.id)
	var ids []string
	err := q.queryEach(namesOfHead, []any{string(h.id), int64(h.head)}, func(row scanner) error {
		var id string
		err := row.Scan(&id)
		ids = append(ids, id)
		if room -= len(id) + 1; room < 0 && err == nil {
			return errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		s.names.refuse(h.id)
		return nil
	}
	if err == nil {
		known[h.id] = join(h.head, ids)
		s.names.keep(h.id, known[h.id])
	}
	return err
}

// readAllNames reads the names of all heads by one statement, and keeps those that are not known while there is room.
func (s *Store) readAllNames(q querier, unread []searchedHead, known map[intent.PartitionID]headNames) error {
	lists, bytes := map[intent.PartitionID][]string{}, 0
	err := q.queryEach(namesOfHeads, nil, func(row scanner) error {
		var id intent.PartitionID
		var asset string
		if err := row.Scan(&id, &asset); err != nil {
			return err
		}
		if _, ok := known[id]; ok {
			return nil
		}
		if bytes += len(asset) + 1; bytes > s.names.most {
			delete(lists, id) // It is not whole.
			return errEnough
		}
		lists[id] = append(lists[id], asset)
		return nil
	})
	cut := errors.Is(err, errEnough)
	if err != nil && !cut {
		return err
	}
	for _, h := range unread {
		list, ok := lists[h.id]
		if !ok && cut {
			s.names.refuse(h.id)
			continue
		}
		known[h.id] = join(h.head, list)
		s.names.keep(h.id, known[h.id])
	}
	return nil
}
