package modules

import (
	"context"
	"time"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
	"lehr.dev/plugins/terraform/enginelist"
	"lehr.dev/plugins/terraform/tfcommand"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// ReadOutput reads one output of a module that was planned on this machine, sensitive or not,
// out of its state, as it is now. It takes no lock and changes nothing. It is for a command of the
// operator's list of secrets, by which other assets refer to it.
func (m *Modules) ReadOutput(ctx context.Context, partition serve.PartitionID, asset serve.AssetID, name string) ([]byte, error) {
	folder := workfolder.Of(m.Folder, string(partition), string(asset))
	current, err := folder.LoadCurrent()
	if workfolder.IsNothingPlanned(err) {
		return nil, serve.Errorf(serve.NotFound, "%s of partition %s was not planned on this machine", asset, partition).
			WithHint("name the partition, the asset and --folder as the plugin has them, and wait until it was planned")
	}
	if err != nil {
		return nil, err
	}
	run := tfcommand.Run{Content: current.Content, Module: &terraformpb.Module{Root: current.Root, Workspace: current.Workspace}, Limit: time.Minute}
	if run.Engine, err = enginelist.Find(m.Engines, partition, current.Engine, current.Root); err != nil {
		return nil, err
	}
	request := secret.Request{Partition: partition, Asset: asset, Push: secret.NewPush(time.Now())}
	if run.Variables, err = run.Engine.Variables(ctx, m.Secrets, request); err != nil {
		return nil, err
	}
	if err := m.commands.CheckVersion(ctx, run.Engine); err != nil {
		return nil, err
	}
	return m.commands.Output(ctx, run, name)
}
