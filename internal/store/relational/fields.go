package relational

import (
	"fmt"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const fieldsOfAsset = "SELECT path, value, from_seq, to_seq FROM field WHERE partition = $1 AND asset = $2 AND to_seq >= $3"

// fields makes the asset's indexed fields as of next what they should be. Only
// rows of fields that changed are written.
func (s staging) fields(asset intent.AssetID, want []intent.Field) error {
	missing := make(map[intent.Field]bool, len(want))
	for _, field := range want {
		missing[field] = true
	}
	type storedField struct {
		intent.Field
		from, to int64
	}
	var rows []storedField
	err := s.queryEach(fieldsOfAsset, []any{string(s.partition), string(asset), s.next}, func(row scanner) error {
		var h storedField
		err := row.Scan(&h.Path, &h.Value, &h.from, &h.to)
		rows = append(rows, h)
		return err
	})
	if err != nil {
		return err
	}
	for _, h := range rows {
		wanted := missing[h.Field]
		delete(missing, h.Field)
		key := []any{string(s.partition), h.Path, string(asset), h.from}
		switch {
		case wanted && h.to != open:
			_, err = s.exec(endField, append(key, open)...)
		case !wanted && h.from == s.next:
			_, err = s.exec("DELETE FROM field WHERE partition = $1 AND path = $2 AND asset = $3 AND from_seq = $4", key...)
		case !wanted && h.to == open:
			_, err = s.exec(endField, append(key, s.next)...)
		}
		if err != nil {
			return err
		}
	}
	for field := range missing {
		_, err := s.exec(`INSERT INTO field (partition, path, asset, value, from_seq, to_seq) VALUES ($1, $2, $3, $4, $5, 9223372036854775807)
			ON CONFLICT (partition, path, asset, from_seq) DO UPDATE SET value = excluded.value, to_seq = excluded.to_seq`,
			string(s.partition), field.Path, string(asset), field.Value, s.next)
		if err != nil {
			return err
		}
	}
	return nil
}

const endField = "UPDATE field SET to_seq = $5 WHERE partition = $1 AND path = $2 AND asset = $3 AND from_seq = $4"

// The signs keep the planner from searching by the bound again, once for each
// row found by it.
const (
	discardFields = `DELETE FROM field WHERE partition = $1 AND +from_seq = $2 AND (asset, path) IN (
		SELECT asset, path FROM field WHERE partition = $1 AND from_seq = $2 LIMIT $3 + 0)`
	reopenFields = `UPDATE field SET to_seq = 9223372036854775807 WHERE partition = $1 AND +to_seq = $2 AND (asset, path) IN (
		SELECT asset, path FROM field WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807 LIMIT $3 + 0)`
	collectFields = `DELETE FROM field WHERE partition = $1 AND +to_seq > $2 AND +to_seq <= $3 AND +from_seq > $2 AND (asset, path) IN (
		SELECT asset, path FROM field WHERE partition = $1 AND to_seq > $2 AND to_seq <= $3
		AND to_seq < 9223372036854775807 AND from_seq > $2 LIMIT $4 + 0)`
)

func unstageFields(t *transaction, partition intent.PartitionID, next intent.Sequence) (int64, error) {
	removed, err := t.exec(discardFields, string(partition), int64(next), chunk)
	if err != nil {
		return 0, err
	}
	reopened, err := t.exec(reopenFields, string(partition), int64(next), chunk)
	return removed + reopened, err
}

// membersBy is the statement that lists what the filter selects, and its
// arguments. It begins at the rows that are likely fewest: those of edges to
// an asset, then those of a field, then all members; each lies in the order
// of the assets, so that a page costs its size. CROSS JOIN keeps that order.
func membersBy(id intent.IncarnationID, filter store.AssetFilter) (text string, arguments []any) {
	arguments = []any{string(id.Partition), int64(id.Sequence), string(filter.After), pageSize(filter.Limit)}
	argument := func(value any) string {
		arguments = append(arguments, value)
		return fmt.Sprintf("$%d", len(arguments))
	}
	at := func(table string) string {
		return fmt.Sprintf("%[1]s.partition = $1 AND %[1]s.from_seq <= $2 AND %[1]s.to_seq > $2", table)
	}
	hasField := func() string {
		condition := at("f") + " AND f.path = " + argument(filter.Field)
		if filter.Value != "" {
			condition += " AND f.value = " + argument(filter.Value)
		}
		return condition
	}
	first, tables, asset := "", "member m WHERE ", "m.asset"
	switch {
	case filter.RefersTo != "":
		// Several fields of an asset may refer to the same one.
		first, asset = "DISTINCT ", "e.from_asset"
		tables = "edge e CROSS JOIN member m WHERE m.asset = e.from_asset AND " + at("e") + " AND e.to_asset = " + argument(string(filter.RefersTo)) + " AND "
		if filter.Field != "" {
			tables += "EXISTS (SELECT 1 FROM field f WHERE f.asset = e.from_asset AND " + hasField() + ") AND "
		}
	case filter.Field != "":
		tables, asset = "field f CROSS JOIN member m WHERE m.asset = f.asset AND "+hasField()+" AND ", "f.asset"
	}
	text = "SELECT " + first + asset + ", m.type, m.digest, m.effective, m.from_seq FROM " + tables + at("m") + " AND " + asset + " > $3"
	if filter.Prefix != "" {
		text += " AND " + asset + " >= " + argument(filter.Prefix) + " AND " + asset + " < " + argument(prefixEnd(filter.Prefix))
	}
	if filter.Type != "" {
		text += " AND m.type = " + argument(string(filter.Type))
	}
	return text + " ORDER BY " + asset + " LIMIT $4 + 0", arguments
}
