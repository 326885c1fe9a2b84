package relational

import (
	"cmp"
	"context"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// What is asked of all registered partitions at once begins at these, so that it is found by
// the indexes that begin with a partition.
const (
	surveyCounts  = "SELECT p.id, c.state, c.reports FROM partitions p JOIN report_count c ON c.partition = p.id WHERE p.registered = 1 AND c.reports > 0"
	surveyHeads   = "SELECT p.id, i.record FROM partitions p JOIN incarnation i ON i.partition = p.id AND i.seq = p.head WHERE p.registered = 1"
	surveyOrphans = `SELECT p.id, count(*) FROM partitions p JOIN enforced e ON e.partition = p.id AND e.adrift = 1 AND e.absent = 0
		WHERE p.registered = 1 AND NOT EXISTS (
			SELECT 1 FROM member m WHERE m.partition = e.partition AND m.asset = e.asset AND m.from_seq <= p.head AND m.to_seq > p.head)
		GROUP BY p.id`
	surveyBlocked = `SELECT c.record, c.state, c.digest, c.partition FROM partitions p JOIN candidate c ON c.partition = p.id AND c.state IN ('held', 'rejected')
		WHERE p.registered = 1 AND c.number = (SELECT max(n.number) FROM candidate n WHERE n.partition = p.id AND n.state <> 'saving')`
	surveyContents = `SELECT p.id, p.head, m.digest, b.bytes FROM partitions p
		JOIN member m ON m.partition = p.id AND m.asset = $1 AND m.from_seq <= p.head AND m.to_seq > p.head
		JOIN body b ON b.digest = m.digest WHERE p.registered = 1`

	surveyAsking   = "SELECT p.id, r.record FROM partitions p JOIN report r ON r.partition = p.id AND r.asks = 1 WHERE p.registered = 1 AND ($1 = '' OR r.service = $1) ORDER BY p.id, r.asset"
	surveyRollouts = "SELECT p.id, r.record FROM partitions p JOIN rollout r ON r.partition = p.id AND r.open = 1 WHERE p.registered = 1 ORDER BY p.id, r.name, r.run DESC"
	surveyRuns     = `SELECT p.id, r.record FROM partitions p JOIN workflow_run r ON r.partition = p.id
		AND r.number IN (SELECT n.number FROM workflow_run n WHERE n.partition = p.id AND n.open = 1 ORDER BY n.number DESC LIMIT $1 + 0)
		WHERE p.registered = 1 ORDER BY p.id, r.number DESC`
	endBetween         = " WHERE ends > 0 AND ends > $1 AND ends < $2 AND partition IN (SELECT id FROM partitions WHERE registered = 1) "
	surveyPins         = "SELECT " + pinColumns + ", partition FROM pin" + endBetween + "AND pin_rank = $4 AND ($3 = '' OR EXISTS (SELECT 1 FROM report g WHERE g.partition = pin.partition AND g.asset = pin.asset AND g.service = $3)) ORDER BY partition, asset"
	surveyHolds        = "SELECT " + holdColumns + ", partition FROM hold" + endBetween + "AND ($3 = '' OR EXISTS (SELECT 1 FROM report g WHERE g.partition = hold.partition AND g.asset = hold.asset AND g.service = $3)) ORDER BY partition, asset"
	surveyOverrides    = "SELECT " + overrideColumns + ", partition FROM override" + endBetween + "AND ($3 = '' OR EXISTS (SELECT 1 FROM report g WHERE g.partition = override.partition AND g.asset = override.asset AND g.service = $3)) ORDER BY partition, asset, kind"
	surveyIncarnations = `SELECT p.id, i.record FROM partitions p JOIN incarnation i ON i.partition = p.id
		AND i.seq IN (SELECT n.seq FROM incarnation n WHERE n.partition = p.id ORDER BY n.seq DESC LIMIT $2 + 0)
		WHERE p.registered = 1 AND i.created >= $1 ORDER BY p.id, i.seq DESC`
	surveyPushes = "SELECT " + openColumns + `, partition FROM push WHERE ended >= $1 AND number IN (
		SELECT x.number FROM partitions p JOIN push x ON x.partition = p.id
			AND x.number IN (SELECT n.number FROM push n WHERE n.partition = p.id AND n.open = 0 ORDER BY n.number DESC LIMIT $2 + 0)
		WHERE p.registered = 1) ORDER BY number DESC`
	surveyServicePushes = "SELECT " + openColumns + `, partition FROM push WHERE ended >= $1 AND number IN (
		SELECT x.number FROM partitions p JOIN push x ON x.partition = p.id
			AND x.number IN (SELECT n.number FROM push n WHERE n.partition = p.id AND n.open = 0 ORDER BY n.number DESC LIMIT $3 + 0)
		WHERE p.registered = 1 AND EXISTS (SELECT 1 FROM report s WHERE s.partition = p.id AND s.service <> '' AND s.service = $2)
			AND EXISTS (SELECT 1 FROM report g WHERE g.partition = x.partition AND g.asset = x.asset AND g.service = $2)) ORDER BY number DESC`
	// By partition first: SQLite would go through the whole index, for it knows nothing of how many services there are.
	surveyService = `SELECT p.id, r.state, count(*) FROM partitions p CROSS JOIN report r
		WHERE p.registered = 1 AND r.partition = p.id AND r.service <> '' AND r.service = $1 GROUP BY p.id, r.state`
)

// SurveyStandings implements store.Surveys, in one view.
func (s *Store) SurveyStandings(ctx context.Context) (standings []store.Standing, err error) {
	err = s.read(ctx, "reading how the partitions are", func(q querier) error {
		standings = nil
		places := map[intent.PartitionID]int{}
		err := q.queryEach(s.selectPartition()+" ORDER BY p.id", nil, func(row scanner) error {
			p, err := scanPartition(row)
			places[p.ID] = len(standings)
			standings = append(standings, store.Standing{Partition: p, Reports: map[intent.State]int{}})
			return err
		})
		if err != nil {
			return err
		}
		suspicion, err := s.suspicion(q)
		if err != nil {
			return err
		}
		for i := range standings {
			standings[i].Stop = cmp.Or(suspicion, standings[i].Stop)
		}
		return fillStandings(q, func(id intent.PartitionID) *store.Standing { return &standings[places[id]] })
	})
	return standings, err
}

// fillStandings reads the details of partitions, which lookUp finds.
func fillStandings(q querier, lookUp func(intent.PartitionID) *store.Standing) error {
	err := q.queryEach(surveyCounts, nil, func(row scanner) error {
		var id intent.PartitionID
		var state intent.State
		var count int
		err := row.Scan(&id, &state, &count)
		if err == nil {
			lookUp(id).Reports[state] = count
		}
		return err
	})
	if err != nil {
		return err
	}
	err = surveyRecords(q, surveyHeads, nil, "incarnation", func(id intent.PartitionID, incarnation intent.Incarnation, damage error) error {
		lookUp(id).Count = incarnation.Count
		return damage
	})
	if err != nil {
		return err
	}
	err = q.queryEach(surveyOrphans, nil, func(row scanner) error {
		var id intent.PartitionID
		var count int
		err := row.Scan(&id, &count)
		if err == nil {
			lookUp(id).Orphans = count
		}
		return err
	})
	if err != nil {
		return err
	}
	return q.queryEach(surveyBlocked, nil, func(row scanner) error {
		var id intent.PartitionID
		candidate, err := scanCandidate(behind{row, &id}, "")
		if err == nil {
			candidate.ID.Partition = id
			lookUp(id).Blocked = &candidate
		}
		return err
	})
}

// behind is a row with one column before those that its reader scans.
type behind struct {
	scanner
	last any
}

func (b behind) Scan(targets ...any) error { return b.scanner.Scan(append(targets, b.last)...) }

// surveyRecords reads rows of a partition and a record. visit gets the damage of a damaged one.
func surveyRecords[Record any](q querier, text string, arguments []any, subject string, visit func(intent.PartitionID, Record, error) error) error {
	return q.queryEach(text, arguments, func(row scanner) error {
		var id intent.PartitionID
		var stored string
		if err := row.Scan(&id, &stored); err != nil {
			return err
		}
		var record Record
		err := decode(subject+" of partition "+string(id), stored, &record)
		return visit(id, record, err)
	})
}

// HeadContents implements store.Surveys.
func (s *Store) HeadContents(ctx context.Context, asset intent.AssetID) (map[intent.PartitionID]store.HeadContent, error) {
	contents := map[intent.PartitionID]store.HeadContent{}
	err := s.read(ctx, "reading "+string(asset)+" in the heads of all partitions", func(q querier) error {
		return q.queryEach(surveyContents, []any{string(asset)}, func(row scanner) error {
			var content store.HeadContent
			var digest intent.Digest
			err := row.Scan(&content.Head.Partition, &content.Head.Sequence, digestColumn{&digest}, &content.Body)
			if err == nil && digest == intent.BodyDigest(content.Body) {
				contents[content.Head.Partition] = content
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return contents, nil
}

// SurveyMatters implements store.Surveys, in one view.
func (s *Store) SurveyMatters(ctx context.Context, filter store.MattersFilter) (map[intent.PartitionID]*store.Matters, error) {
	survey := mattersSurvey{filter: filter}
	err := s.read(ctx, "reading what matters in the partitions", func(q querier) error {
		survey.querier, survey.found = q, map[intent.PartitionID]*store.Matters{}
		for _, read := range []func() error{survey.service, survey.asking, survey.rollouts, survey.runs, survey.pins, survey.holds, survey.overrides, survey.incarnations, survey.pushes} {
			if err := read(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return survey.found, nil
}

type mattersSurvey struct {
	querier
	filter store.MattersFilter
	found  map[intent.PartitionID]*store.Matters
}

func (m *mattersSurvey) matters(id intent.PartitionID) *store.Matters {
	if m.found[id] == nil {
		m.found[id] = &store.Matters{}
	}
	return m.found[id]
}

// appendWithin adds to a list of a partition up to the limit, or says what is damaged.
func appendWithin[Item any](m *mattersSurvey, id intent.PartitionID, list func(*store.Matters) *[]Item, item Item, damage error) error {
	if id == "" {
		return damage // The row itself cannot be read.
	}
	matters := m.matters(id)
	items := list(matters)
	switch {
	case damage != nil:
		matters.Problem = cmp.Or(matters.Problem, damage)
	case len(*items) >= pageSize(m.filter.Limit):
		matters.More = true
	default:
		*items = append(*items, item)
	}
	return nil
}

// between returns the bounds of the ends of brakes, and the service.
func (m *mattersSurvey) between() []any {
	return []any{stamp(m.filter.EndsAfter), stamp(m.filter.EndsBefore), m.filter.Service}
}

// service counts the assets of the service by partition and state.
func (m *mattersSurvey) service() error {
	if m.filter.Service == "" {
		return nil
	}
	return m.queryEach(surveyService, []any{m.filter.Service}, func(row scanner) error {
		var id intent.PartitionID
		var state intent.State
		var count int
		if err := row.Scan(&id, &state, &count); err != nil {
			return err
		}
		matters := m.matters(id)
		if matters.States == nil {
			matters.States = map[intent.State]int{}
		}
		matters.States[state] += count
		return nil
	})
}

func (m *mattersSurvey) asking() error {
	return surveyRecords(m, surveyAsking, []any{m.filter.Service}, "report", func(id intent.PartitionID, report intent.Report, damage error) error {
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Report { return &x.Asking }, report, damage)
	})
}

func (m *mattersSurvey) rollouts() error {
	return surveyRecords(m, surveyRollouts, nil, "run of a rollout", func(id intent.PartitionID, run intent.Rollout, damage error) error {
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Rollout { return &x.Rollouts }, run, damage)
	})
}

// runs reads one more of each partition than fits, which tells that there are more.
func (m *mattersSurvey) runs() error {
	return surveyRecords(m, surveyRuns, []any{pageSize(m.filter.Limit) + 1}, "run of a workflow", func(id intent.PartitionID, run intent.WorkflowRun, damage error) error {
		return appendWithin(m, id, func(x *store.Matters) *[]intent.WorkflowRun { return &x.Runs }, run, damage)
	})
}

func (m *mattersSurvey) pins() error {
	return m.queryEach(surveyPins, append(m.between(), int64(intent.RankPerson)), func(row scanner) error {
		var id intent.PartitionID
		pin, err := scanPin(behind{row, &id}, "")
		pin.Incarnation.Partition = id
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Pin { return &x.Pins }, pin, err)
	})
}

func (m *mattersSurvey) holds() error {
	return m.queryEach(surveyHolds, m.between(), func(row scanner) error {
		var id intent.PartitionID
		hold, err := scanHold(behind{row, &id})
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Hold { return &x.Holds }, hold, err)
	})
}

func (m *mattersSurvey) overrides() error {
	return m.queryEach(surveyOverrides, m.between(), func(row scanner) error {
		var id intent.PartitionID
		override, err := scanOverride(behind{row, &id}, "")
		override.Partition = id
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Override { return &x.Overrides }, override, err)
	})
}

func (m *mattersSurvey) incarnations() error {
	if m.filter.Events <= 0 {
		return nil
	}
	return surveyRecords(m, surveyIncarnations, m.events(), "incarnation", func(id intent.PartitionID, incarnation intent.Incarnation, damage error) error {
		return appendWithin(m, id, func(x *store.Matters) *[]intent.Incarnation { return &x.Incarnations }, incarnation, damage)
	})
}

func (m *mattersSurvey) pushes() error {
	if m.filter.Events <= 0 {
		return nil
	}
	text, arguments, counts := surveyPushes, m.events(), map[intent.PartitionID]int{}
	if m.filter.Service != "" {
		text, arguments = surveyServicePushes, []any{stamp(m.filter.Since), m.filter.Service, store.MostServicePushes}
	}
	return m.queryEach(text, arguments, func(row scanner) error {
		var id intent.PartitionID
		push, err := scanPush(behind{row, &id}, "")
		push.Target.Partition = id
		if counts[id]++; counts[id] > m.filter.Events {
			return err
		}
		return appendWithin(m, id, func(x *store.Matters) *[]store.PushRecord { return &x.Pushes }, push, err)
	})
}

// events returns the bounds of events.
func (m *mattersSurvey) events() []any {
	return []any{stamp(m.filter.Since), min(m.filter.Events, pageSize(m.filter.Limit))}
}
