package web

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"html/template"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/fault"
)

// page is what is shown at an address, in parts that change one by one while
// it is open.
type page struct {
	Title string
	// Partition that it is about, if one.
	Partition string
	// Back leads one step up.
	Back crumb
	// Fixed: it shows what does not change, and need not be followed. Form: it is of an act, and
	// shows what was so when it was asked for.
	Fixed, Form bool
	Parts       []part
}

type crumb struct{ Text, Link string }

// part of a page. Equal versions have equal content.
type part struct {
	ID      string
	Tag     string
	Version string
	HTML    template.HTML
	// Rows are the rows of a list. A list's version covers all but them, and
	// which there are.
	Rows []part
}

//go:embed templates
var files embed.FS

// templates are parsed when the first page is made: most processes make none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(files, "templates/*.html"))
})

// render makes the whole document, for who looks.
func (p page) render(at address, viewer Viewer) ([]byte, error) {
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, "document", struct {
		page
		Base, Self, State, Person string
		Now                       *timestamppb.Timestamp
	}{p, viewer.Base, at.String(), take(p.Parts).version, viewer.Name, timestamppb.Now()})
	return b.Bytes(), err
}

// make executes a template into a part. A template that fails is told of in
// the part's place.
func makePart(id, name string, data any) part {
	inner, err := execute(name, data)
	if err != nil {
		return problem(id, err)
	}
	return wrap(part{ID: id, Tag: "section", Version: version(inner)}, inner)
}

// makeRow is one row of a list, named by what it is about.
func makeRow(subject, name string, data any) part { return makeOf("tr", subject, name, data) }

// makeItem is one item of a tree, named by what it is about.
func makeItem(subject, name string, data any) part { return makeOf("li", subject, name, data) }

func makeOf(tag, subject, name string, data any) part {
	inner, err := execute(name, data)
	if err != nil {
		return problem("row:"+subject, err)
	}
	return wrap(part{ID: "row:" + subject, Tag: tag, Version: version(inner)}, inner)
}

// list is what the template of a list needs.
type list struct {
	Data any
	Rows []template.HTML
}

// makeList executes a template around rows.
func makeList(id, name string, data any, rows []part) part {
	shell, err := execute(name, list{Data: data})
	if err != nil {
		return problem(id, err)
	}
	full := list{Data: data}
	ingredients := []string{shell}
	for _, row := range rows {
		full.Rows = append(full.Rows, row.HTML)
		ingredients = append(ingredients, row.ID)
	}
	inner, err := execute(name, full)
	if err != nil {
		return problem(id, err)
	}
	return wrap(part{ID: id, Tag: "section", Version: version(ingredients...), Rows: rows}, inner)
}

// problem tells, in place of a part, why it cannot be shown; what else is on
// the page is not held up by it.
func problem(id string, err error) part {
	data := struct{ Message, Hint string }{Message: err.Error()}
	if cause, ok := errors.AsType[*fault.Error](err); ok {
		data.Message, data.Hint = cause.Message, cause.Hint
	}
	inner, _ := execute("problem", data)
	return wrap(part{ID: id, Tag: "section", Version: version(inner)}, inner)
}

func wrap(p part, inner string) part {
	p.HTML = template.HTML(inner) // #nosec: the output of html/template.
	text, err := execute("part-"+p.Tag, p)
	if err != nil {
		text = ""
	}
	p.HTML = template.HTML(text)
	return p
}

func execute(name string, data any) (string, error) {
	var b bytes.Buffer
	err := templates().ExecuteTemplate(&b, name, data)
	return b.String(), err
}

// version is a short name of a content.
func version(texts ...string) string {
	h := fnv.New64a()
	for _, text := range texts {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, h.Sum64()))
}
