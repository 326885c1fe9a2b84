package relational

import (
	"fmt"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// several is how many assets one statement names. It is the same statement for any number up
// to that, so that it is prepared once.
const several = 16

// severalAssets is the list of a statement that names several assets, the first of them as
// the argument of that number.
func severalAssets(first int) string {
	names := make([]string, several)
	for i := range names {
		names[i] = fmt.Sprintf("$%d", i+first)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// eachSeveral asks about any number of assets, several at a time. The query has its
// arguments before the assets, which severalAssets lists.
func eachSeveral(q querier, query string, before []any, assets []intent.AssetID, visit func(row scanner) error) error {
	for some := range slices.Chunk(assets, several) {
		arguments := slices.Clone(before)
		for i := range several { // The last fills up the list.
			arguments = append(arguments, string(some[min(i, len(some)-1)]))
		}
		if err := q.queryEach(query, arguments, visit); err != nil {
			return err
		}
	}
	return nil
}
