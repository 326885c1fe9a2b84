package prodspec

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/workflow"
	"lehr.dev/internal/prodspec/definition"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
)

// folderSpec says what a folder is made from, in words that are compared only.
func folderSpec(src definition.Source) string {
	text := fmt.Sprintf("%q%q", src.Directory, src.Files)
	if src.Remote != nil {
		// A structure of texts can be encoded.
		remote, _ := json.Marshal(src.Remote)
		text += string(remote)
	}
	return text
}

// openFolder opens a source, wherever it lies.
func (s *sources) openFolder(src definition.Source, at string, allowedFolders []string) (source.Folder, error) {
	limits := s.program.Limits
	switch src.Name {
	case definition.TypeSource:
		limits = typeLimits
	case definition.ProgramSource:
		limits.FileBytes = max(limits.FileBytes, programBytes)
	}
	if _, ok := definition.WorkflowOf(src.Name); ok {
		limits.FileBytes = min(limits.FileBytes, workflow.MaxBytes)
	}
	if src.Remote != nil {
		remote, err := s.resolve(*src.Remote)
		if err != nil {
			return nil, err
		}
		elsewhere := s.program.Elsewhere
		if elsewhere.Partition == "" {
			elsewhere.Partition = s.definition.definition.Partition
		}
		s.moved = true
		return fetch.Open(elsewhere, src.Name, at, remote, src.Files, limits)
	}
	if s.repository == nil {
		place := s.program.place()
		if confined, ok := place.(source.Confined); ok && allowedFolders != nil {
			place = confined.Within(allowedFolders)
		}
		return place.Open(at, src.Files, limits)
	}
	return s.repository.Follow(src.Name, at, src.Files, limits)
}

// resolve makes the paths of a source absolute. A definition that lies on
// another machine names none of this one.
func (s *sources) resolve(remote source.Remote) (source.Remote, error) {
	isLocal := s.repository == nil
	home := s.home
	for _, git := range []**source.Git{&remote.Git, repositoryOf(&remote)} {
		if git == nil || *git == nil {
			continue
		}
		resolved := **git
		resolved.URL = source.GitURL(resolved.URL, home)
		if *git = &resolved; filepath.IsAbs(resolved.URL) && !isLocal && !s.repository.Here() {
			return remote, notHere(resolved.URL)
		}
	}
	if remote.SQL != nil && remote.SQL.SQLite != "" {
		resolved := *remote.SQL
		if !filepath.IsAbs(resolved.SQLite) {
			resolved.SQLite = filepath.Join(home, resolved.SQLite)
		}
		if remote.SQL = &resolved; !isLocal && !s.repository.Here() {
			return remote, notHere(resolved.SQLite)
		}
	}
	return remote, nil
}

// repositoryOf is where a list of versions has its repository, on a copy that may be changed.
func repositoryOf(remote *source.Remote) **source.Git {
	if remote.Versions == nil || remote.Versions.Repository() == nil {
		return nil
	}
	versions := *remote.Versions
	remote.Versions = &versions
	if versions.Commits != nil {
		return &versions.Commits
	}
	return &versions.Tags
}

func notHere(path string) error {
	return fault.New(fault.Denied, "%s is a path of the server's machine, and this definition lies on another", path).WithHint("name it by a URL")
}
