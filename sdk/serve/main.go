package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/pluginhost/plugin"
)

// stopWithin is how long a plugin may take to end after SIGTERM.
const stopWithin = time.Second

// Main serves the plugin to the Lehr that started it until that ends, and
// returns the exit code. Run with --listen it serves any Lehr that dials it,
// until it is told to end. Run by hand it says what it is.
func Main(p Plugin) int {
	ctx, cancel := signal.NotifyContext(context.Background(), unix.SIGTERM, os.Interrupt)
	defer cancel()
	hideInLog()
	err := guardStores()
	if err != nil {
		fmt.Fprintln(Stderr(), p.Name+":", err)
		return 1
	}
	if socket := os.Getenv(plugin.SocketVariable); socket != "" {
		err = serveParent(ctx, p, socket)
	} else if listen := p.listen(); listen.Address != "" {
		err = p.ServeDialled(ctx, *listen)
	} else {
		fmt.Fprint(os.Stderr, usage(p))
		return 2
	}
	if err != nil {
		fmt.Fprintln(Stderr(), p.Name+":", err)
		return 1
	}
	return 0
}

func serveParent(ctx context.Context, p Plugin, socket string) error {
	if err := keepLock(); err != nil {
		return err
	}
	go exitWithParent()
	return serveSocket(ctx, p, socket)
}

// guardStores makes the stores of the Lehr that started the plugin nobody's input here,
// too (package files).
func guardStores() error {
	list := os.Getenv(plugin.StoresVariable)
	if list == "" {
		return nil
	}
	var stores []string
	if err := json.Unmarshal([]byte(list), &stores); err != nil {
		return fmt.Errorf("reading %s: %w", plugin.StoresVariable, err)
	}
	files.Guard(stores, nil)
	return os.Unsetenv(plugin.StoresVariable) // The programs that it starts need no such list.
}

// exitWithParent ends the process at once when standard input does: Lehr
// keeps it open as long as it lives. The parent-death signal is the first
// means; this one also works where that is not to be had.
func exitWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// Lock returns the lock by which Lehr knows that the plugin may still be at
// work, for child processes that act for it: Lehr then waits for them as well.
// It is nil when Lehr gave none. Call it before Main.
func Lock() (*os.File, error) {
	descriptor, err := lockDescriptor()
	if descriptor == 0 || err != nil {
		return nil, err
	}
	// A descriptor of its own: closing it leaves the plugin's alone.
	own, err := unix.FcntlInt(uintptr(descriptor), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("taking the lock in %s: %w", plugin.LockVariable, err)
	}
	return os.NewFile(uintptr(own), "lock"), nil
}

// lockDescriptor is 0 without a lock.
func lockDescriptor() (int, error) {
	text := os.Getenv(plugin.LockVariable)
	if text == "" {
		return 0, nil
	}
	descriptor, err := strconv.Atoi(text)
	if err != nil || descriptor < 3 {
		return 0, fmt.Errorf("%s=%q is not a file descriptor", plugin.LockVariable, text)
	}
	return descriptor, nil
}

// keepLock sees to it that programs started by the plugin do not inherit the
// lock that proves whether the plugin still runs.
func keepLock() error {
	descriptor, err := lockDescriptor()
	if descriptor == 0 || err != nil {
		return err
	}
	unix.CloseOnExec(descriptor)
	return errors.Join(os.Unsetenv(plugin.LockVariable), os.Unsetenv(plugin.SocketVariable))
}

func serveSocket(ctx context.Context, p Plugin, path string) error {
	old := unix.Umask(0o177)
	listener, err := net.Listen("unix", path)
	unix.Umask(old)
	if err != nil {
		return fmt.Errorf("listening for Lehr on %s: %w", path, err)
	}
	return p.Serve(ctx, listener)
}

func usage(p Plugin) string {
	text := fmt.Sprintf("%s %s is a Lehr plugin. Lehr starts it, or dials it where it was started with --listen.\n\nIt serves:\n", p.Name, p.Version)
	for _, kind := range p.Resources {
		text += "  " + string(kind.Served().Type) + "\n"
	}
	text += "\nName it in a partition's lehr.yaml, beside lehr, in PATH or by its path:\n  plugins:\n"
	for _, kind := range p.Resources {
		text += fmt.Sprintf("    %s: {run: %s}\n", kind.Served().Type, p.Name)
	}
	return text + "\nHold it to the protocol, with an example of what it looks after:\n" +
		fmt.Sprintf("  lehr plugin test --example example.yaml -- %s\n", p.Name)
}
