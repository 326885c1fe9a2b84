package render

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sqlschemapb "lehr.dev/gen/lehr/sqlschema/v1"
	"lehr.dev/generator"
)

// schemaKeys are what with: may say, and lines of a file that begin with
// "-- lehr: ".
var schemaKeys = []string{"database", "password", "schema", "version"}

// saidPrefix begins lines of a file that say what with: would.
const saidPrefix = "-- lehr: "

// sqlSchema renders each .sql file as the schema of a database, or, where with:
// names an id, all of them as one.
func sqlSchema(in *generator.Input, out *generator.Output) error {
	options, err := in.Options(append([]string{"id"}, schemaKeys...)...)
	if err != nil {
		return err
	}
	id, err := options.One("id", "")
	if err != nil {
		return err
	}
	with := map[string]string{}
	for _, key := range schemaKeys {
		if with[key], err = options.One(key, ""); err != nil {
			return err
		}
	}
	files, err := runFor(in)
	if err != nil {
		return err
	}
	if id != "" && in.File() != "" {
		return fmt.Errorf("with: {id: %s} is one asset of all files, and for_each: file one of each: leave one of them out", id)
	}
	var all *schemaFile
	for _, name := range files {
		text, err := in.Read(name)
		if err != nil {
			return err
		}
		if path.Ext(name) != ".sql" {
			out.At(name, 1).Error("let the source list *.sql files only", "%s is no .sql file", name)
			continue
		}
		s := readSchema(out, name, string(text))
		switch {
		case id == "":
			s.give(out, "schema/"+strings.TrimSuffix(path.Base(name), ".sql"), with)
		case all == nil:
			all = s
		default:
			all.join(out, s)
		}
	}
	if all != nil {
		all.give(out, id, with)
	}
	return nil
}

// runFor are the files that a run is for.
func runFor(in *generator.Input) ([]string, error) {
	if in.File() != "" {
		return []string{in.File()}, nil
	}
	return in.Files()
}

// schemaFile is a file, or several, with what its lines say.
type schemaFile struct {
	name string
	text string
	said map[string]string
	// line of each.
	line map[string]int
	// failed: something was said.
	failed bool
}

func readSchema(out *generator.Output, name, text string) *schemaFile {
	s := &schemaFile{name: name, text: text, said: map[string]string{}, line: map[string]int{}}
	if strings.TrimSpace(text) == "" {
		s.fail(out, 1, "restore its content: an empty schema is never taken for intent", "%s is empty", name)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words, is := strings.CutPrefix(strings.TrimRight(line, "\r\n"), saidPrefix)
		if !is {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(words), " ")
		switch value = strings.TrimSpace(value); {
		case !slices.Contains(schemaKeys, key):
			s.fail(out, number, "allowed: "+strings.Join(schemaKeys, ", "), "%q is not known", saidPrefix+key)
		case value == "":
			s.fail(out, number, "write "+saidPrefix+key+" VALUE", "%q has no value", saidPrefix+key)
		case s.said[key] != "":
			s.fail(out, number, "remove one", "%q is said twice", saidPrefix+key)
		default:
			s.said[key], s.line[key] = value, number
		}
	}
	return s
}

func (s *schemaFile) fail(out *generator.Output, line int, hint, format string, arguments ...any) {
	s.failed = true
	out.At(s.name, line).Error(hint, format, arguments...)
}

// join appends another file, which may not say otherwise.
func (s *schemaFile) join(out *generator.Output, other *schemaFile) {
	s.failed = s.failed || other.failed
	for _, key := range schemaKeys {
		value := other.said[key]
		if value != "" && s.said[key] != "" && value != s.said[key] {
			s.failed = true
			out.At(other.name, other.line[key]).Error("with an id in with:, all files are one schema: let one of them say it", "%s says that the %s is %q, this file that it is %q", s.name, key, s.said[key], value)
		}
		if value != "" {
			s.said[key] = value
		}
	}
	s.text = strings.TrimRight(s.text, "\n") + "\n\n" + other.text
}

// give what the file says, or else with:.
func (s *schemaFile) give(out *generator.Output, id string, with map[string]string) {
	value := func(key string) string {
		if said := s.said[key]; said != "" {
			return said
		}
		return with[key]
	}
	database := value("database")
	if database == "" {
		s.fail(out, 1, "write with: {database: …} in lehr.yaml, or a line -- lehr: database sqlite:/path.db", "nothing says of which database %s is the schema", s.name)
	} else if !strings.HasPrefix(database, "sqlite:/") && !strings.HasPrefix(database, "postgres://") {
		s.fail(out, max(s.line["database"], 1), "write sqlite:/absolute/path.db or postgres://user@host/database", "the database %q is of no kind that is known", database)
	} else if _, rest, is := strings.Cut(database, "://"); is && strings.Contains(strings.SplitN(rest, "@", 2)[0], ":") && strings.Contains(rest, "@") {
		s.fail(out, max(s.line["database"], 1), "take it out, and say where it is: password env:VARIABLE or password file:/path; then change it, for it was written down", "the database has a password in it")
	}
	schema := &sqlschemapb.Schema{Database: database, Schema: value("schema"), Version: value("version"), Sql: s.text}
	if password := value("password"); password != "" {
		kind, where, _ := strings.Cut(password, ":")
		switch {
		case kind == "env" && where != "":
			schema.Password = &sqlschemapb.Secret{Source: &sqlschemapb.Secret_Env{Env: where}}
		case kind == "file" && where != "":
			schema.Password = &sqlschemapb.Secret{Source: &sqlschemapb.Secret_File{File: where}}
		default:
			// What was written may be the password.
			s.fail(out, max(s.line["password"], 1), "write password env:VARIABLE or password file:/path, never the password itself", "the password is not said by where it is")
		}
	}
	if !s.failed {
		out.At(s.name, 1).Asset(id, schema)
	}
}
