package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/operator"
)

// ListedCommand is a program of the server's machine that lists versions for some partitions. A
// definition names it and nothing else, so what runs is the operator's to say.
type ListedCommand struct {
	Name string `yaml:"name"`
	// Run is the program, by an absolute path or one relative to the policy, and its arguments.
	Run []string `yaml:"run"`
	// Env are the variables of the server that it is given; no others but PATH.
	Env        []string            `yaml:"env"`
	Partitions operator.Partitions `yaml:"partitions"`
}

func (c *ListedCommand) complete(folder string) error {
	if c.Name == "" || len(c.Run) == 0 || c.Run[0] == "" {
		return errors.New("it has no name, or does not say what to run: write {name: builds, run: [./list-builds], partitions: [shop]}")
	}
	if !filepath.IsAbs(c.Run[0]) {
		c.Run[0] = filepath.Join(folder, c.Run[0])
	}
	return c.Partitions.Check()
}

// commandPatience is how long a command may run.
const commandPatience = 50 * time.Second

func (l *look) listByCommand(ctx context.Context) error {
	command, err := l.guard.command(l.remote.Command)
	if err != nil {
		return err
	}
	output, err := command.run(ctx, l.guard, l.limits.FileBytes)
	if err != nil {
		return err
	}
	items, err := itemsOf(output, l.remote.Items)
	if err != nil {
		return fault.New(fault.Unavailable, "the command %s printed no list of versions: %w", command.Name, err).
			WithHint(`print JSON: {"versions": [{"version": "1.2.3", "digest": "sha256:…"}]}; what was read last stays in use`)
	}
	for _, item := range items {
		l.addItem(item)
	}
	return nil
}

// command is one that the operator lists for the partition.
func (g guard) command(name string) (ListedCommand, error) {
	for _, c := range g.policy().Commands {
		if c.Name == name && c.Partitions.Has(g.partition) {
			return c, nil
		}
	}
	return ListedCommand{}, fault.New(fault.Denied, "the sources of partition %s have no command %s: this server's policy of sources lists none of that name for it", g.partition, name).
		WithHint("whoever runs the server adds it to commands in the file of --sources")
}

// run runs it to its end, with a bounded output, and ends it and its children with the context.
func (c ListedCommand) run(ctx context.Context, g guard, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	command := exec.CommandContext(ctx, c.Run[0], c.Run[1:]...)
	command.Dir = "/"
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LEHR_PARTITION=" + string(g.partition)}
	var secrets []string
	for _, name := range c.Env {
		command.Env = append(command.Env, name+"="+os.Getenv(name))
		secrets = append(secrets, os.Getenv(name))
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	exceeded := false
	stdout := &bounded{most: most, onExceeded: func() { exceeded = true; cancel() }}
	stderr := &bounded{most: 8 << 10}
	command.Stdout, command.Stderr = stdout, stderr
	err := command.Run()
	switch {
	case exceeded:
		return nil, tooLarge("what the command "+c.Name+" prints", most)
	case ctx.Err() != nil:
		return nil, fault.New(fault.Unavailable, "the command %s did not end within %s", c.Name, commandPatience).WithHint("it is tried again; what was read last stays in use")
	case err != nil:
		firstLine, _, _ := bytes.Cut(bytes.TrimSpace(stderr.Bytes()), []byte("\n"))
		return nil, unreadable("the list of the command "+c.Name, fmt.Errorf("it failed (%w): %s", reason(err), brief(scrub(string(firstLine), secrets...), 300)))
	}
	return stdout.Bytes(), nil
}
