// Package workfolder lays the files of a root module out in a folder of the plugin's own, one
// for each content, so that Terraform can be run there. Nothing in it is ever Lehr's truth: who
// removes it loses time only, but for a state that an apply could not write (errored.tfstate).
// All of it is readable by the plugin's user alone. Package modules calls it.
package workfolder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	terraformpb "lehr.dev/gen/lehr/terraform/v1"
)

// Asset is the folder of one asset: it has a folder for each content, and the record and the
// lock of its apply.
type Asset struct{ Path string }

// Modules is the folder of all assets below the plugin's folder, each in that of its partition.
func Modules(root string) string { return filepath.Join(root, "modules") }

// Of an asset below the plugin's folder.
func Of(root, partition, asset string) Asset {
	readable := strings.ReplaceAll(asset, "/", "~")
	readable = readable[:min(len(readable), 80)]
	digest := sha256.Sum256([]byte(asset))
	return Asset{Path: filepath.Join(Modules(root), partition, readable+"-"+hex.EncodeToString(digest[:4]))}
}

// Make makes the folder.
func (a Asset) Make() error {
	if err := os.MkdirAll(a.Path, 0o700); err != nil {
		return fmt.Errorf("making a folder for the module: %w", err)
	}
	return nil
}

// LockPath is the lock that the keeper of an apply holds.
func (a Asset) LockPath() string { return filepath.Join(a.Path, "lock") }

// Content is the folder of one content.
type Content struct {
	Path string
	// Root is the folder of the root module, in which Terraform runs.
	Root string
	// HasLockFile: intent has the versions of providers, which are not to be changed.
	HasLockFile bool
}

// Asset is the folder of its asset.
func (c Content) Asset() Asset { return Asset{Path: filepath.Dir(c.Path)} }

// DataDir is where Terraform keeps providers, modules and the backend's configuration.
func (c Content) DataDir() string { return filepath.Join(c.Path, "data") }

// ErroredState is where Terraform leaves a state that it could not write.
func (c Content) ErroredState() string { return filepath.Join(c.Root, "errored.tfstate") }

// Blobs keeps files that are too large for an asset, by their digest.
type Blobs struct{ Path string }

func (b Blobs) path(sum []byte) string { return filepath.Join(b.Path, hex.EncodeToString(sum)) }

// Fetch sees to it that the blobs of a module are there. ask is Lehr, while a question is open.
func (b Blobs) Fetch(ctx context.Context, module *terraformpb.Module, ask func(context.Context, *intentpb.ExternalRef) ([]byte, error)) error {
	for _, file := range module.Files {
		ref := file.GetExternal()
		if ref == nil {
			continue
		}
		// One that a power loss left empty is fetched anew.
		if found, err := os.ReadFile(b.path(file.Sha256)); err == nil && isOf(found, file) {
			continue
		}
		content, err := ask(ctx, ref)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
		if err := os.MkdirAll(b.Path, 0o700); err != nil {
			return err
		}
		if err := writeWhole(b.path(file.Sha256), content); err != nil {
			return fmt.Errorf("%s: %w", file.Path, err)
		}
	}
	return nil
}

// content of a file of a module, verified.
func (b Blobs) content(file *terraformpb.File) (content []byte, err error) {
	switch source := file.Content.(type) {
	case *terraformpb.File_Text:
		content = []byte(source.Text)
	case *terraformpb.File_Inline:
		content = source.Inline
	case *terraformpb.File_External:
		if content, err = os.ReadFile(b.path(file.Sha256)); err != nil {
			return nil, fmt.Errorf("reading what Lehr gave of %s: %w", file.Path, err)
		}
	default:
		return nil, fmt.Errorf("%s has no content", file.Path)
	}
	if !isOf(content, file) {
		return nil, fmt.Errorf("%s has another digest than intent says", file.Path)
	}
	return content, nil
}

// Lay lays out a module's files, unless they are there. Key tells apart what must not share a
// folder beside the files: the engine and the backend's settings.
func (a Asset) Lay(module *terraformpb.Module, blobs Blobs, key string) (Content, error) {
	if err := a.Make(); err != nil {
		return Content{}, err
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %q", key, module.Root)
	content := Content{}
	for _, file := range module.Files {
		if !fs.ValidPath(file.Path) || file.Path == "." {
			return Content{}, fmt.Errorf("%q is no path of a file below the module's folder", file.Path)
		}
		fmt.Fprintf(digest, "%q %x", file.Path, file.Sha256)
		content.HasLockFile = content.HasLockFile || file.Path == path.Join(module.Root, ".terraform.lock.hcl")
	}
	root := path.Clean(module.Root)
	if !fs.ValidPath(root) {
		return Content{}, fmt.Errorf("root is %q, which is no folder among the module's files", module.Root)
	}
	content.Path = filepath.Join(a.Path, hex.EncodeToString(digest.Sum(nil)[:8]))
	content.Root = filepath.Join(content.Path, "files", filepath.FromSlash(root))
	if info, err := os.Stat(content.Root); err == nil && info.IsDir() {
		return content, content.repair(module, blobs)
	}
	fresh, err := os.MkdirTemp(a.Path, "new-")
	if err != nil {
		return Content{}, fmt.Errorf("making a folder for the module: %w", err)
	}
	defer os.RemoveAll(fresh)
	for _, file := range module.Files {
		text, err := blobs.content(file)
		if err != nil {
			return Content{}, err
		}
		at := filepath.Join(fresh, "files", filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return Content{}, fmt.Errorf("laying out %s: %w", file.Path, err)
		}
		if err := os.WriteFile(at, text, 0o600); err != nil {
			return Content{}, fmt.Errorf("laying out %s: %w", file.Path, err)
		}
	}
	if info, err := os.Stat(filepath.Join(fresh, "files", filepath.FromSlash(root))); err != nil || !info.IsDir() {
		return Content{}, fmt.Errorf("root is %q, and none of the module's files is there", module.Root)
	}
	_ = os.RemoveAll(content.Path) // What was cut short.
	if err := os.Rename(fresh, content.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return Content{}, fmt.Errorf("laying out the module: %w", err)
	}
	return content, nil
}

// repair writes the files anew that are not as intent says: after a power loss they may be empty,
// and a plan without them would destroy what they declare.
func (c Content) repair(module *terraformpb.Module, blobs Blobs) error {
	for _, file := range module.Files {
		at := filepath.Join(c.Path, "files", filepath.FromSlash(file.Path))
		if found, err := os.ReadFile(at); err == nil && isOf(found, file) {
			continue
		}
		text, err := blobs.content(file)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(at), 0o700)
		}
		if err == nil {
			err = writeWhole(at, text)
		}
		if err != nil {
			return fmt.Errorf("laying out %s anew: %w", file.Path, err)
		}
	}
	return nil
}

func isOf(content []byte, file *terraformpb.File) bool {
	sum := sha256.Sum256(content)
	return slices.Equal(sum[:], file.Sha256)
}

// mostContents of an asset are kept.
const mostContents = 4

// Collect removes the folders of old contents, but for those that hold a state which could
// not be written. No apply is under way.
func (a Asset) Collect(current Content) {
	entries, err := os.ReadDir(a.Path)
	if err != nil {
		return
	}
	type old struct {
		path string
		age  int64
	}
	var folders []old
	for _, entry := range entries {
		info, err := entry.Info()
		folder := filepath.Join(a.Path, entry.Name())
		if err != nil || !entry.IsDir() || folder == current.Path {
			continue
		}
		folders = append(folders, old{folder, info.ModTime().UnixNano()})
	}
	slices.SortFunc(folders, func(a, b old) int { return int(min(1, max(-1, b.age-a.age))) })
	for _, folder := range folders[min(len(folders), mostContents-1):] {
		if left, _ := a.Errored(); slices.ContainsFunc(left, func(path string) bool { return strings.HasPrefix(path, folder.path+"/") }) {
			continue
		}
		_ = os.RemoveAll(folder.path)
	}
}

// Errored are the states that applies could not write, of all contents.
func (a Asset) Errored() (found []string, err error) {
	err = filepath.WalkDir(a.Path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "data":
			return fs.SkipDir
		case entry.Name() == "errored.tfstate":
			found = append(found, at)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for a state that an apply left: %w", err)
	}
	return found, nil
}

// Room is how many bytes may be written where the asset's folder is.
func (a Asset) Room() (bytes uint64, err error) {
	var found unix.Statfs_t
	if err := unix.Statfs(a.Path, &found); err != nil {
		return 0, fmt.Errorf("asking how much room is left in %s: %w", a.Path, err)
	}
	return found.Bavail * uint64(found.Bsize), nil
}

// Sync has all that was written below the folder of a content, by whomever, be on the disk.
func (c Content) Sync() error {
	folder, err := os.Open(c.Path)
	if err != nil {
		return err
	}
	defer folder.Close()
	return unix.Syncfs(int(folder.Fd()))
}

// writeWhole writes a file whole or not at all, readable by its owner alone.
func writeWhole(at string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(at), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), at)
}
