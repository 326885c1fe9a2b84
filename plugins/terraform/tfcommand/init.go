package tfcommand

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/keeper"
	"lehr.dev/sdk/serve"
	"lehr.dev/sdk/subprocess"
)

// initMutex is held while a folder is initialised.
func (c *Commands) initMutex(path string) *sync.Mutex {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.inits[path] == nil {
		c.inits[path] = &sync.Mutex{}
	}
	return c.inits[path]
}

// Init fetches providers and modules and connects the backend, unless that was done with the
// same settings, for these files or, as it seems, for those before them (ForgetCopiedInit). At
// most one runs at a time for each plugin cache, which is not made for more.
func (c *Commands) Init(ctx context.Context, r Run) error {
	mutex := c.initMutex(r.Content.Path)
	mutex.Lock()
	defer mutex.Unlock()
	marker, stamp := markerOf(r.Content), r.stamp()
	if done, err := os.ReadFile(marker); err == nil && string(done) == stamp {
		return nil
	} else if err != nil {
		r.forgetInit()
	}
	if isCopied, err := r.copyInit(stamp); err != nil || isCopied {
		return err
	}
	// What is half done is no longer taken for done, also after a power loss.
	if err := os.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("preparing the module: %w", err)
	}
	if err := r.writeConfig(); err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	settings, err := r.Content.WriteSettings(r.Backend)
	if err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	if r.Engine.PluginCache != "" {
		if err := os.MkdirAll(r.Engine.PluginCache, 0o700); err != nil {
			return fmt.Errorf("preparing the plugin cache: %w", err)
		}
		lock, err := keeper.Lock(ctx, filepath.Join(r.Engine.PluginCache, ".lehr-lock"))
		if err != nil {
			return fmt.Errorf("waiting for the plugin cache: %w", err)
		}
		defer lock.Close()
	}
	arguments := []string{"init", "-no-color", "-input=false", "-reconfigure", "-backend-config=" + settings}
	if r.Content.HasLockFile {
		arguments = append(arguments, "-lockfile=readonly")
	}
	result, err := c.run(ctx, r.inDefaultWorkspace(), subprocess.Kept{}, arguments...)
	if err != nil {
		return err
	}
	if result.Exit != 0 {
		return serve.Errorf(serve.Unavailable, "%s init failed: %s", filepath.Base(r.Engine.Binary), plain(result.Stderr.Text()))
	}
	if err := r.Content.Sync(); err != nil {
		return fmt.Errorf("preparing the module: %w", err)
	}
	return os.WriteFile(marker, []byte(stamp), 0o600)
}

// copyInit takes over what the init of the asset's last content made with the same settings, so
// that files which leave providers, modules and backend alone need none. Terraform holds it to
// the new files itself, by the hash of the backend's block, the lock file's checksums and the list of
// modules, and plans nothing where they differ: then ForgetCopiedInit has a whole init made.
func (r Run) copyInit(stamp string) (isCopied bool, err error) {
	if _, err := os.Stat(filepath.Join(r.Content.Path, wholeInitName)); err == nil {
		return false, nil
	}
	last, err := r.Content.Asset().LoadCurrent()
	if err != nil || last.Content.Path == r.Content.Path {
		return false, nil // There is none, or none that can be read.
	}
	if done, err := os.ReadFile(markerOf(last.Content)); err != nil || string(done) != stamp {
		return false, nil
	}
	if err := os.Remove(markerOf(r.Content)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("preparing the module: %w", err)
	}
	if isCopied, err = r.Content.CopyInit(last.Content); err != nil || !isCopied {
		r.forgetInit()
		return false, nil // A whole one does without, and says what is wrong.
	}
	err = r.writeConfig()
	if err == nil {
		err = os.WriteFile(filepath.Join(r.Content.Path, copiedInitName), nil, 0o600)
	}
	if err == nil {
		err = r.Content.Sync()
	}
	if err == nil {
		err = os.WriteFile(markerOf(r.Content), []byte(stamp), 0o600)
	}
	if err != nil {
		return false, fmt.Errorf("preparing the module: %w", err)
	}
	return true, nil
}

// ForgetCopiedInit removes an init that was taken over from other files, after which the next one
// is whole: it reports whether there was such a one. Its caller saw something fail that may be
// due to it.
func (c *Commands) ForgetCopiedInit(r Run) (wasCopied bool) {
	mutex := c.initMutex(r.Content.Path)
	mutex.Lock()
	defer mutex.Unlock()
	if _, err := os.Stat(filepath.Join(r.Content.Path, copiedInitName)); err != nil {
		return false
	}
	err := os.WriteFile(filepath.Join(r.Content.Path, wholeInitName), nil, 0o600)
	if err := errors.Join(err, os.Remove(markerOf(r.Content)), os.Remove(filepath.Join(r.Content.Path, copiedInitName))); err != nil {
		return false
	}
	r.forgetInit()
	return true
}

// The files that note what was made of a content: the marker, by what settings it was initialised;
// the others, that this was taken over, and that it is not to be.
const (
	copiedInitName = "init-copied"
	wholeInitName  = "init-whole"
)

func markerOf(content workfolder.Content) string { return filepath.Join(content.Path, "initialised") }

// forgetInit removes what an init that was cut short left: parts of it Terraform could not read.
func (r Run) forgetInit() {
	_ = os.RemoveAll(r.Content.DataDir())
	if !r.Content.HasLockFile {
		_ = os.Remove(filepath.Join(r.Content.Root, ".terraform.lock.hcl"))
	}
}

// stamp tells settings apart with which a folder was initialised.
func (r Run) stamp() string {
	text := r.Engine.Binary + " " + r.Engine.Version + " " + r.Engine.Mirror + " " + r.Engine.CLIConfig
	for _, name := range slices.Sorted(maps.Keys(r.Backend)) {
		text += fmt.Sprintf(" %s=%x", name, digestOf(r.Backend[name]))
	}
	return text
}
