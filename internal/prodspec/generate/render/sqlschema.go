package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/internal/ground/statement/dump"
	"lehr.dev/sdk/generator"
)

// schemaKeys are what with: may say, and lines of a file that begin with
// "-- lehr: ".
var schemaKeys = []string{"database", "password", "schema", "version"}

// saidPrefix begins lines of a file that say what with: would.
const saidPrefix = "-- lehr: "

// sqlSchema renders each .sql file as the schema of a database, or, where with:
// names an id, all of them as one.
func sqlSchema(input *generator.Input, output *generator.Output) error {
	options, err := input.Options(append([]string{"id"}, schemaKeys...)...)
	if err != nil {
		return err
	}
	id, err := options.One("id", "")
	if err != nil {
		return err
	}
	defaults := map[string]string{}
	for _, key := range schemaKeys {
		if defaults[key], err = options.One(key, ""); err != nil {
			return err
		}
	}
	files, err := runFor(input)
	if err != nil {
		return err
	}
	if id != "" && input.File() != "" {
		return fmt.Errorf("with: {id: %s} is one asset of all files, and for_each: file one of each: leave one of them out", id)
	}
	var all *schemaFile
	for _, name := range files {
		text, err := input.Read(name)
		if err != nil {
			return err
		}
		if path.Ext(name) != ".sql" {
			output.At(name, 1).Error("let the source list *.sql files only", "%s is no .sql file", name)
			continue
		}
		s := readSchema(output, name, string(text))
		switch {
		case id == "":
			s.give(output, "schema/"+strings.TrimSuffix(path.Base(name), ".sql"), defaults)
		case all == nil:
			all = s
		default:
			all.join(output, s)
		}
	}
	if all != nil {
		all.give(output, id, defaults)
	}
	return nil
}

// runFor are the files that a run is for.
func runFor(input *generator.Input) ([]string, error) {
	if input.File() != "" {
		return []string{input.File()}, nil
	}
	return input.Files()
}

// schemaFile is a file, or several, with what its lines say.
type schemaFile struct {
	name     string
	text     string
	settings map[string]string
	// line of each.
	line map[string]int
	// failed: something was said.
	failed bool
	// files are those of the text, with the line before their first.
	files []filePart
}

type filePart struct {
	name   string
	before int
}

func readSchema(output *generator.Output, name, text string) *schemaFile {
	s := &schemaFile{name: name, text: text, settings: map[string]string{}, line: map[string]int{}, files: []filePart{{name: name}}}
	if strings.TrimSpace(text) == "" {
		s.fail(output, 1, "restore its content: an empty schema is never taken for intent", "%s is empty", name)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), saidPrefix)
		if !ok {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(words), " ")
		switch value = strings.TrimSpace(value); {
		case !slices.Contains(schemaKeys, key):
			s.fail(output, number, "allowed: "+strings.Join(schemaKeys, ", "), "%q is not known", saidPrefix+key)
		case value == "":
			s.fail(output, number, "write "+saidPrefix+key+" VALUE", "%q has no value", saidPrefix+key)
		case s.settings[key] != "":
			s.fail(output, number, "remove one", "%q is said twice", saidPrefix+key)
		default:
			s.settings[key], s.line[key] = value, number
		}
	}
	return s
}

func (s *schemaFile) fail(output *generator.Output, line int, hint, format string, arguments ...any) {
	s.failed = true
	output.At(s.name, line).Error(hint, format, arguments...)
}

// join appends another file, which may not say otherwise.
func (s *schemaFile) join(output *generator.Output, other *schemaFile) {
	s.failed = s.failed || other.failed
	for _, key := range schemaKeys {
		value := other.settings[key]
		if value != "" && s.settings[key] != "" && value != s.settings[key] {
			s.failed = true
			output.At(other.name, other.line[key]).Error("with an id in with:, all files are one schema: let one of them say it", "%s says that the %s is %q, this file that it is %q", s.name, key, s.settings[key], value)
		}
		if value != "" {
			s.settings[key] = value
		}
	}
	s.text = strings.TrimRight(s.text, "\n") + "\n\n"
	s.files = append(s.files, filePart{other.name, strings.Count(s.text, "\n")})
	s.text += other.text
}

// give what the file says, or else with:.
func (s *schemaFile) give(output *generator.Output, id string, defaults map[string]string) {
	value := func(key string) string {
		if own := s.settings[key]; own != "" {
			return own
		}
		return defaults[key]
	}
	database := value("database")
	if database == "" {
		s.fail(output, 1, "write with: {database: …} in lehr.yaml, or a line -- lehr: database sqlite:/path.db", "nothing says of which database %s is the schema", s.name)
	} else if !strings.HasPrefix(database, "sqlite:/") && !strings.HasPrefix(database, "postgres://") {
		s.fail(output, max(s.line["database"], 1), "write sqlite:/absolute/path.db or postgres://user@host/database", "the database %q is of no kind that is known", database)
	} else if _, rest, ok := strings.Cut(database, "://"); ok && strings.Contains(strings.SplitN(rest, "@", 2)[0], ":") && strings.Contains(rest, "@") {
		s.fail(output, max(s.line["database"], 1), "take it out, and say where it is: password env:VARIABLE or password file:/path; then change it, for it was written down", "the database has a password in it")
	}
	schema := &sqlschemapb.Schema{Database: database, Schema: value("schema"), Version: value("version"), Sql: s.text}
	if password := value("password"); password != "" {
		kind, location, _ := strings.Cut(password, ":")
		switch {
		case kind == "env" && location != "":
			schema.Password = &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: location}}
		case kind == "file" && location != "":
			schema.Password = &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: location}}
		default:
			// What was written may be the password.
			s.fail(output, max(s.line["password"], 1), "write password env:VARIABLE or password file:/path, never the password itself", "the password is not said by where it is")
		}
	}
	if s.failed {
		return
	}
	if strings.HasPrefix(database, "postgres://") {
		s.giveSchemas(output, id, schema)
		return
	}
	output.At(s.name, 1).Asset(id, schema)
}

// giveSchemas gives what is managed of SQL for PostgreSQL: an asset for each schema,
// of which the one of names without a schema has the id.
func (s *schemaFile) giveSchemas(output *generator.Output, id string, whole *sqlschemapb.Schema) {
	own := cmp.Or(whole.Schema, "public")
	d, err := dump.Read(s.text, own)
	if misspelt, ok := errors.AsType[*dump.MisspeltError](err); ok {
		name, line := s.find(misspelt.Line)
		output.At(name, line).Error(misspelt.Hint, "%s", misspelt.Message)
		return
	}
	if err != nil {
		// The plugin says the same, and of this asset alone.
		output.At(s.name, 1).Warn("it is served as it is, and the plugin refuses it", "%v", err)
	}
	if err != nil || !d.Changed() {
		output.At(s.name, 1).Asset(id, whole)
		return
	}
	texts := d.Schemas()
	message, line := d.LeftOut(s.place)
	name, line := s.find(max(line, 1))
	if len(texts) == 0 {
		output.At(name, line).Error("declare a table, or take the file from the source", "it declares nothing that is managed: %s", message)
		return
	}
	if message != "" {
		output.At(name, line).Warn("they stay in the database as they are; docs/use/sqlschema.md says what is managed", "%s", message)
	}
	for _, schema := range slices.Sorted(maps.Keys(texts)) {
		one, name := proto.CloneOf(whole), id
		if one.Sql = texts[schema]; schema != own {
			one.Schema, name = schema, id+"/"+dump.Segment(schema)
		}
		output.At(s.name, 1).Asset(name, one)
	}
}

// find returns the file of a line of the text, and the line in it.
func (s *schemaFile) find(line int) (string, int) {
	for _, one := range slices.Backward(s.files) {
		if line > one.before {
			return one.name, line - one.before
		}
	}
	return s.name, line
}

// place writes a line of the text for people.
func (s *schemaFile) place(line int) string {
	name, line := s.find(line)
	if len(s.files) == 1 {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("%s:%d", name, line)
}
