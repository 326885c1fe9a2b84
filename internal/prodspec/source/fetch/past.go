package fetch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/prodspec/source"
)

const (
	// pastCommits are fetched with the first commit, to tell who changed what.
	pastCommits = 50
	// mostChanges are looked through of commits.
	mostChanges = 500
	// mostRevisions of a document are read to find who changed a line.
	mostRevisions = 50
	// historyBytes git may say of changes and lines.
	historyBytes = 8 << 20
	// historyPatience is how long git may take for it.
	historyPatience = 10 * time.Second
)

// historyFetcher is a fetcher that knows who changed what.
type historyFetcher interface {
	changes(ctx context.Context, state *State, since string) (map[string][]source.Change, error)
	lines(ctx context.Context, state *State, file string) ([]source.Change, error)
}

var _ source.Past = (*Folder)(nil)

// Changes implements source.Past; nothing is known of what is not in git and no
// document.
func (f *Folder) Changes(ctx context.Context, base string) (map[string][]source.Change, error) {
	p, ok := f.fetcher.(historyFetcher)
	if !ok || f.state == nil {
		return nil, nil
	}
	limited, cancel := loop.WithTimeout(ctx, f.options.Runtime, historyPatience)
	defer cancel()
	return p.changes(limited, f.state, base)
}

// Lines implements source.Past.
func (f *Folder) Lines(ctx context.Context, file string) ([]source.Change, error) {
	p, ok := f.fetcher.(historyFetcher)
	if !ok || f.state == nil {
		return nil, nil
	}
	limited, cancel := loop.WithTimeout(ctx, f.options.Runtime, historyPatience)
	defer cancel()
	return p.lines(limited, f.state, file)
}

func (t *tree) changes(ctx context.Context, state *State, base string) (map[string][]source.Change, error) {
	m, ok := t.repository.(*mirror)
	if !ok {
		return nil, nil
	}
	arguments := []string{"log", "--no-show-signature", "--encoding=UTF-8", "--format=%x01%H%x00%an <%ae>%x00%ct%x00%s", "--name-only", "--no-renames", "--no-ext-diff",
		fmt.Sprintf("--max-count=%d", mostChanges), state.Revision}
	if base != "" {
		if !m.hasCommit(ctx, base) {
			return nil, nil
		}
		arguments = append(arguments, "^"+base)
	}
	arguments = append(arguments, "--")
	if t.directory != "" && t.directory != "." {
		arguments = append(arguments, ":(top,literal)"+t.directory)
	}
	output, err := m.git(ctx, invocation{arguments: arguments, configuration: []string{"core.quotePath", "false"}, most: historyBytes})
	if err != nil {
		return nil, m.explained(err, nil)
	}
	oldest := m.oldest()
	byFile := map[string][]source.Change{}
	for part := range bytes.SplitSeq(output, []byte{1}) {
		head, files, _ := strings.Cut(string(part), "\n")
		fields := strings.SplitN(head, "\x00", 4)
		if len(fields) != 4 {
			continue
		}
		change := changeOf(fields[0], fields[1], fields[2], fields[3], oldest)
		for file := range strings.Lines(files) {
			file = strings.TrimSuffix(file, "\n")
			if relative, err := filepath.Rel(path.Join("/", t.directory), "/"+file); err == nil && file != "" && !strings.HasPrefix(relative, "..") {
				byFile[filepath.ToSlash(relative)] = append(byFile[filepath.ToSlash(relative)], change)
			}
		}
	}
	return byFile, nil
}

// changeOf says what git says of a commit.
func changeOf(hash, author, seconds, subject string, oldest map[string]bool) source.Change {
	const most = 300
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || at < 0 || at > 253402300799 {
		at = 0
	}
	return source.Change{
		Revision: hash, Earlier: oldest[hash],
		Commit: intent.Commit{Author: brief(strings.TrimSuffix(author, " <>"), most), Subject: brief(subject, most), Time: time.Unix(at, 0).UTC()},
	}
}

// oldest are the commits before which nothing was fetched.
func (m *mirror) oldest() map[string]bool {
	commits := map[string]bool{}
	text, err := os.ReadFile(filepath.Join(m.folder, "shallow"))
	if err != nil {
		return commits // All was.
	}
	for line := range strings.Lines(string(text)) {
		commits[strings.TrimSpace(line)] = true
	}
	return commits
}

func (t *tree) lines(ctx context.Context, state *State, file string) ([]source.Change, error) {
	m, ok := t.repository.(*mirror)
	if !ok {
		return nil, nil
	}
	arguments := []string{"blame", "--porcelain", "-w", "--root", "--encoding=UTF-8", state.Revision, "--", path.Join(t.directory, file)}
	output, err := m.git(ctx, invocation{arguments: arguments, most: historyBytes})
	if err != nil {
		return nil, m.explained(err, nil)
	}
	return blamed(string(output), m.oldest()), nil
}

// blamed reads what git blame says with --porcelain: before each line its commit,
// and what the commit is where it comes first.
func blamed(output string, oldest map[string]bool) (lines []source.Change) {
	commits := map[string]map[string]string{}
	hash := ""
	for text := range strings.Lines(output) {
		text = strings.TrimSuffix(text, "\n")
		if strings.HasPrefix(text, "\t") {
			c := commits[hash]
			lines = append(lines, changeOf(hash, c["author"]+" "+c["author-mail"], c["committer-time"], c["summary"], oldest))
			hash = ""
			continue
		}
		key, value, _ := strings.Cut(text, " ")
		if hash == "" {
			if hash = key; commits[hash] == nil {
				commits[hash] = map[string]string{}
			}
			continue
		}
		commits[hash][key] = value
	}
	return lines
}

func (s *stored) changes(ctx context.Context, state *State, base string) (map[string][]source.Change, error) {
	last := 0
	if base != "" {
		number, err := strconv.Atoi(base)
		if err != nil {
			return nil, nil
		}
		last = number
	}
	var all []source.Change
	err := s.walkRevisions(ctx, state, func(number int, change source.Change, _ []byte) bool {
		if number <= last {
			return false
		}
		all = append(all, change)
		return true
	})
	return map[string][]source.Change{document.File(s.name): all}, err
}

// walkRevisions calls each for the revisions of the document, from that of a state back,
// until it says that it is enough.
func (s *stored) walkRevisions(ctx context.Context, state *State, visit func(number int, change source.Change, content []byte) bool) error {
	newest, err := strconv.Atoi(state.Revision)
	if err != nil || s.options.DocumentAt == nil {
		return nil
	}
	for number := newest; number > 0 && number > newest-mostRevisions; number-- {
		doc, err := s.options.DocumentAt(ctx, s.options.Partition, s.name, strconv.Itoa(number))
		if fault.Is(err, fault.NotFound) {
			return nil // It was deleted then, or nothing of it is kept.
		}
		if err != nil {
			return err
		}
		value, err := document.Parse(doc.Content)
		if err != nil {
			return err
		}
		r := doc.Revision
		change := source.Change{
			Revision: r.ID, Earlier: number > 1 && number == newest-mostRevisions+1,
			Commit: intent.Commit{Author: r.By.Name, Subject: r.Reason, Time: r.At.UTC().Truncate(time.Second)},
		}
		if !visit(number, change, document.Pretty(value)) {
			return nil
		}
	}
	return nil
}

// lines of a document are from the oldest of the revisions that had them one after
// the other: the same field with the same value.
func (s *stored) lines(ctx context.Context, state *State, _ string) ([]source.Change, error) {
	var lines []source.Change
	var keys []string
	open := 0
	err := s.walkRevisions(ctx, state, func(_ int, change source.Change, content []byte) bool {
		present := map[string]bool{}
		now := fieldsOfLines(content)
		for _, key := range now {
			present[key] = true
		}
		if keys == nil {
			keys, lines, open = now, make([]source.Change, len(now)), len(now)
			for i := range lines {
				lines[i] = change
			}
			return true
		}
		for i, key := range keys {
			switch {
			case key == "":
			case !present[key]:
				keys[i], open = "", open-1
			default:
				lines[i] = change
			}
		}
		return open > 0
	})
	return lines, err
}

// fieldsOfLines are the lines of a document as it is written here, each with the
// names that it lies below.
func fieldsOfLines(content []byte) (fields []string) {
	type name struct {
		indent int
		text   string
	}
	var parents []name
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		for len(parents) > 0 && parents[len(parents)-1].indent >= indent {
			parents = parents[:len(parents)-1]
		}
		key := ""
		for _, n := range parents {
			key += n.text + "\n"
		}
		fields = append(fields, key+strings.TrimSuffix(text, ","))
		if at := strings.LastIndexAny(text, "{["); at >= 0 && at == len(text)-1 {
			parents = append(parents, name{indent, text})
		}
	}
	return fields
}
