package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/pluginhost/plugin"
)

// listedProgram is a program that partitions may have run as a plugin, with exactly
// these arguments, and what it may use for them. A program runs as the server's user,
// and may do whatever that user may: who lists one vouches for it.
type listedProgram struct {
	Run        []string            `yaml:"run"`
	Partitions operator.Partitions `yaml:"partitions"`
	uses       `yaml:",inline"`
}

// uses are what assets may have a plugin use on its machine.
type uses struct {
	Secrets []listedPlace `yaml:"secrets"`
	// Addresses as assets write them.
	Addresses []string `yaml:"addresses"`
}

// listedPlace is where a secret is.
type listedPlace struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

func (p *listedProgram) complete(folder string) error {
	if len(p.Run) == 0 || p.Run[0] == "" {
		return errors.New("it names no program: write run: [lehr-process], with all its arguments")
	}
	if err := p.uses.complete(folder); err != nil {
		return err
	}
	return p.Partitions.Check()
}

func (u *uses) complete(folder string) error {
	for i := range u.Secrets {
		s := &u.Secrets[i]
		if (s.Env == "") == (s.File == "") {
			return fmt.Errorf("secret %d is in one place: env or file", i+1)
		}
		if s.File != "" && !filepath.IsAbs(s.File) {
			s.File = filepath.Join(folder, s.File)
		}
	}
	return nil
}

// may is Denied unless something that an asset has a plugin use is listed.
func (u uses) may(partition intent.PartitionID, used schema.Used) error {
	resource, allowed := "", false
	switch used.Use {
	case intentpb.Use_USE_SECRET_FILE:
		// As it is written: a link or a detour is another name, and not listed.
		resource, allowed = "the secret in the file", slices.Contains(u.Secrets, listedPlace{File: used.Text})
	case intentpb.Use_USE_SECRET_VARIABLE:
		resource, allowed = "the secret in the variable", slices.Contains(u.Secrets, listedPlace{Env: used.Text})
	case intentpb.Use_USE_ADDRESS:
		resource, allowed = "the address", slices.Contains(u.Addresses, used.Text)
	default:
		resource = "what this server does not know:"
	}
	if allowed {
		return nil
	}
	return fault.New(fault.Denied, "%s: assets of partition %s may not have their plugin use %s %.300q: this server's list of plugins does not allow it", used.Field, partition, resource, used.Text).
		WithHint("whoever runs the server adds it to the program or server, in the file of --plugin-servers")
}

// program returns what a partition's plugin may use.
func (l *servers) program(partition intent.PartitionID, run []string) (uses, error) {
	var allowed uses
	listed := false
	for _, p := range l.Programs {
		if slices.Equal(p.Run, run) && p.Partitions.Has(partition) {
			listed = true
			allowed.Secrets, allowed.Addresses = append(allowed.Secrets, p.Secrets...), append(allowed.Addresses, p.Addresses...)
		}
	}
	if listed {
		return allowed, nil
	}
	return uses{}, fault.New(fault.Denied, "partition %s may not have %.300q run: this server's list of plugins does not allow it, and its access policy says that definitions are not the operator's", partition, strings.Join(run, " ")).
		WithHint("whoever runs the server adds the program with its arguments and the partition to programs, in the file of --plugin-servers")
}

// server returns what a partition's plugin server may use.
func (l *servers) server(partition intent.PartitionID, dial string) (uses, error) {
	for _, s := range l.Servers {
		if s.Dial == dial && s.Partitions.Has(partition) {
			return s.uses, nil
		}
	}
	_, err := l.allowed(partition, dial)
	return uses{}, err
}

// listed is a plugin as a partition may use it where an access policy is given. The
// list is asked each time.
type listed struct {
	plugin.Plugin
	pool      *pool
	partition intent.PartitionID
	binding   *intentpb.PluginBinding
}

// listedChild is one that is a program of this machine.
type listedChild struct{ listed }

// Alone is as that of the program. Of one that may not be run it is never known.
func (l listedChild) Alone() <-chan struct{} {
	if _, err := l.uses(); err != nil {
		return nil
	}
	return l.pool.plugin(l.binding.Run).Alone()
}

func (l listed) uses() (uses, error) {
	list := l.pool.listed()
	if l.binding.Dial != "" {
		return list.server(l.partition, l.binding.Dial)
	}
	return list.program(l.partition, l.binding.Run)
}

// Describe implements plugin.Plugin.
func (l listed) Describe() (plugin.Description, error) {
	if _, err := l.uses(); err != nil {
		return plugin.Description{}, err
	}
	return l.started().Describe()
}

// started is the program, which is started at its first use: one that may not be is not.
func (l listed) started() plugin.Plugin {
	if l.Plugin != nil {
		return l.Plugin
	}
	return l.pool.plugin(l.binding.Run)
}

// Diff implements plugin.Plugin. Of an asset that has its plugin use what is not
// listed, nothing is known.
func (l listed) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	incarnation := request.Incarnation
	may, err := l.uses()
	if err != nil {
		return nil, err
	}
	var permitted []intent.AssetID
	var refused []intent.Difference
	for _, asset := range request.Assets {
		effective, err := l.check(ctx, may, incarnation, asset)
		if fault.Is(err, fault.Denied) {
			refused = append(refused, intent.Difference{Asset: asset, Incarnation: incarnation, Effective: effective, Outcome: intent.Unknown, Reason: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		permitted = append(permitted, asset)
	}
	if len(permitted) == 0 {
		return refused, nil
	}
	request.Assets = permitted
	differences, err := l.started().Diff(ctx, request)
	if err != nil {
		return nil, err
	}
	return append(differences, refused...), nil
}

// Push implements plugin.Plugin.
func (l listed) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	may, err := l.uses()
	if err == nil {
		_, err = l.check(ctx, may, push.Incarnation, push.Asset)
	}
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the push was not started: " + err.Error(), Retryable: !fault.Is(err, fault.Denied)}
	}
	return l.started().Push(ctx, push)
}

// WatchHints implements plugin.Hinting. It returns at once while the plugin is not listed.
// What is hinted is looked at by Diff, which asks the list.
func (l listed) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	if _, err := l.uses(); err != nil {
		return
	}
	if hinting, ok := l.started().(plugin.Hinting); ok {
		hinting.WatchHints(ctx, partition, take)
	}
}

// check is Denied when an asset has its plugin use what may not be used. What is gone
// from intent uses nothing.
func (l listed) check(ctx context.Context, may uses, incarnation intent.IncarnationID, asset intent.AssetID) (effective intent.Digest, err error) {
	assets := l.pool.assets
	member, body, err := assets.Content(ctx, incarnation, asset)
	if fault.Is(err, fault.NotFound) {
		return effective, nil
	}
	if err != nil {
		return effective, err
	}
	content, err := schema.Decode(body)
	if err != nil {
		return member.Effective, err
	}
	content.ID = asset
	// What Lehr's own types mark counts as this version marks it.
	schemaSet := schema.Builtin()
	if !schemaSet.Has(content.Payload.Type) {
		published, err := assets.Incarnation(ctx, incarnation)
		if err != nil {
			return member.Effective, err
		}
		if schemaSet, err = l.pool.schemas.Schema(ctx, incarnation.Partition, published.Schema); err != nil {
			return member.Effective, err
		}
	}
	content.Addons = nil
	used, err := schemaSet.Uses(content)
	if err != nil {
		return member.Effective, err
	}
	for _, use := range used {
		if err := may.may(l.partition, use); err != nil {
			return member.Effective, err
		}
	}
	return member.Effective, nil
}
