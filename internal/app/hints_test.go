package app

import (
	"context"
	"io"
	"log/slog"
	"testing"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/test/certificates"
)

// noContents has none.
type noContents struct{ plugin.Contents }

// A partition takes hints of a plugin as long as it may use it: of one that is not listed
// none are asked for, and nothing is started.
func TestHintsOfListedPlugins(t *testing.T) {
	p, err := newPool("", noContents{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	p.strict = true
	run := &intentpb.PluginBinding{Run: []string{"/nonexistent/plugin"}}
	dial := &intentpb.PluginBinding{Dial: "127.0.0.1:1"}
	watch := func(ctx context.Context, binding *intentpb.PluginBinding) (first chan plugin.Hints, ended chan struct{}) {
		t.Helper()
		source, ok := p.bound("shop", binding).(plugin.Hinting)
		if !ok {
			t.Fatalf("%v gives no hints", binding)
		}
		first, ended = make(chan plugin.Hints, 10), make(chan struct{})
		go func() {
			defer close(ended)
			source.WatchHints(ctx, "shop", func(hints plugin.Hints) { first <- hints })
		}()
		return first, ended
	}
	for _, binding := range []*intentpb.PluginBinding{run, dial} {
		first, ended := watch(t.Context(), binding)
		<-ended
		if len(first) > 0 || len(p.children)+len(p.servers) > 0 {
			t.Errorf("%v is not listed, and is used", binding)
		}
	}

	authority := certificates.NewAuthority(t, "servers")
	listedServers := &servers{
		Servers:  []listedServer{{Dial: dial.Dial, CA: authority.File, Partitions: operator.Partitions{"shop"}}},
		Programs: []listedProgram{{Run: run.Run, Partitions: operator.Partitions{"shop"}}},
	}
	p.useServers(listedServers)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ofProgram, programEnded := watch(ctx, run)
	ofServer, serverEnded := watch(ctx, dial)
	for _, first := range []chan plugin.Hints{ofProgram, ofServer} {
		if hints := <-first; hints.Reliable || len(hints.Assets) > 0 {
			t.Errorf("a plugin that is not there hints %+v", hints)
		}
	}
	var names []string
	for _, hints := range p.hints() {
		names = append(names, hints.plugin)
	}
	if len(names) != 2 || names[0] != "plugin" || names[1] != dial.Dial {
		t.Errorf("metrics name %q", names)
	}
	p.useServers(&servers{Programs: listedServers.Programs})
	<-serverEnded // It is left, as it is not listed any more.
	cancel()
	<-programEnded
	if source := p.bound("yard", run).(plugin.Hinting); source != nil {
		source.WatchHints(t.Context(), intent.PartitionID("yard"), func(plugin.Hints) { t.Error("yard is told of hints, and may not use the plugin") })
	}
}
