package workfolder

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// providersName is the folder of providers in the data folder. Terraform never writes into the
// files there: it removes a provider, and puts another in its place.
const providersName = "providers"

// lockFileName is where Terraform keeps which providers it chose, beside the root module.
const lockFileName = ".terraform.lock.hcl"

// CopyInit takes over what init made of another content of the same asset: providers as links, all
// else as copies, and the lock file where intent has none. isCopied is false where both differ in
// what must not be taken over: the root module's folder, or whether intent has a lock file.
func (c Content) CopyInit(from Content) (isCopied bool, err error) {
	root, err := filepath.Rel(c.Path, c.Root)
	if err != nil {
		return false, err
	}
	if other, err := filepath.Rel(from.Path, from.Root); err != nil || other != root || from.HasLockFile != c.HasLockFile {
		return false, err
	}
	fresh := c.DataDir() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return false, fmt.Errorf("preparing the module: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := copyTree(from.DataDir(), fresh); err != nil {
		return false, fmt.Errorf("preparing the module: %w", err)
	}
	if !c.HasLockFile {
		lock, err := os.ReadFile(filepath.Join(from.Root, lockFileName))
		if err == nil {
			err = os.WriteFile(filepath.Join(c.Root, lockFileName), lock, 0o600)
		}
		if err != nil && !os.IsNotExist(err) {
			return false, fmt.Errorf("preparing the module: %w", err)
		}
	}
	if err := os.RemoveAll(c.DataDir()); err != nil {
		return false, fmt.Errorf("preparing the module: %w", err)
	}
	return true, os.Rename(fresh, c.DataDir())
}

// copyTree copies folders, files and links; of files below the providers it makes links.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(from, at)
		if err != nil {
			return err
		}
		target := filepath.Join(to, inside)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(at)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case isBelow(inside, providersName):
			return os.Link(at, target)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, info.Mode().Perm())
	})
}

func isBelow(path, folder string) bool {
	inside, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(inside)
}
