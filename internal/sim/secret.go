package sim

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// In runs that tell, some things have a secret, and in rotating runs they name one. It may show nowhere but in the content
// that plugins are given: in no report, no message, no answer to a person, no line of the
// log, and nothing else that is stored (S13).

// canary is in every secret.
const canary = "canary7q3Zx9Lw"

// loginType is what has a secret.
const loginType = `edition = "2023";
package sim.v1;
message Login {
  string user = 1;
  string password = 2 [debug_redact = true];
  map<string, string> keys = 3 [debug_redact = true];
}
`

// loginMaker makes it, beside the other makers.
const loginMaker = `
def login(t):
    return sim.v1.Login(user = t["name"], password = "` + canary + ` of " + t["text"], keys = {"first": "` + canary + `-" + t["text"]})

makers["login"] = login
`

// logins are the things with secrets of the first intent.
func logins() (list []Thing) {
	for _, n := range []string{"ann", "bob"} {
		list = append(list, Thing{ID: "login/" + n, Kind: "login", Name: n, Text: "v1", Approval: n == "bob"})
	}
	return list
}

// forms in which a secret would be found: as it is, in hexadecimal, and in base64, by
// where it begins in what is encoded; the first and the last letters depend on what is
// beside it.
var forms = func() []string {
	list := []string{canary, hex.EncodeToString([]byte(canary))}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), canary...))
		list = append(list, text[4:len(text)-2])
	}
	return list
}()

// shows asks whether something that is shown has a secret in it.
func (l *Lab) shows(place, text string) {
	for _, form := range forms {
		if at := strings.Index(text, form); at >= 0 {
			l.wrong("S13", "a secret shows in %s: …%.200q", place, text[max(0, at-60):])
			return
		}
	}
}

// showsMessage asks it of an answer of the server.
func (l *Lab) showsMessage(place string, m proto.Message) {
	if l.hasSecrets() {
		l.shows(place, protojson.Format(m))
	}
}

// showsValue asks it of what Lehr stores or sends.
func (l *Lab) showsValue(place string, value any) {
	if !l.hasSecrets() {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		l.wrong("simulator", "reading %s: %v", place, err)
	}
	l.shows(place, string(text))
}

// showsLog asks it of a line of the log.
func (l *Lab) showsLog(record slog.Record) {
	if !l.hasSecrets() {
		return
	}
	text := record.Message
	record.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.shows("the log", text)
}

// keepsContent are the tables that hold what intent says, and what it was made of.
var keepsContent = []string{"body", "blob"}

// storesSecrets asks it of all else that is stored.
func (l *Lab) storesSecrets() {
	if !l.hasSecrets() {
		return
	}
	tables := map[string]bool{}
	rows, err := l.db.Query("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
	if err != nil {
		l.wrong("simulator", "listing tables: %v", err)
		return
	}
	columns := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err == nil {
			columns[table] = append(columns[table], column)
		}
	}
	rows.Close()
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		for _, column := range columns[table] {
			var count int
			text := fmt.Sprintf("SELECT count(*) FROM %q WHERE instr(CAST(%q AS BLOB), CAST(? AS BLOB)) > 0", table, column)
			if err := l.db.QueryRow(text, canary).Scan(&count); err != nil {
				l.wrong("simulator", "reading %s of %s: %v", column, table, err)
			}
			tables[table] = tables[table] || count > 0
			if count > 0 && !slices.Contains(keepsContent, table) {
				l.wrong("S13", "a secret is in %d rows of %s of the table %s", count, column, table)
			}
		}
	}
	if tables[keepsContent[0]] {
		l.mark("secrets: stored as content alone")
	}
}

// lookClosely asks for all that shows contents, of what has secrets.
func (p person) lookClosely(assets *apipb.ListAssetsResponse) error {
	if !p.tells() {
		return nil
	}
	for _, a := range assets.Assets {
		if !strings.HasPrefix(a.Id, "login/") {
			continue
		}
		one, err := p.c.Assets.GetAsset(p.ctx, &apipb.GetAssetRequest{Partition: string(p.partition), Asset: a.Id})
		if err != nil {
			return err
		}
		p.showsMessage("the asset "+a.Id, one)
		p.mark("secrets: looked at")
	}
	return nil
}
