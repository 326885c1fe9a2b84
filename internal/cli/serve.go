package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func (s *session) serveCommand() *cobra.Command {
	var options ServeOptions
	var definitions, urls []string
	var verbose bool
	command := &cobra.Command{
		Use:   "serve [-p lehr.yaml]",
		Short: "Run the server: generate, compare and enforce",
		Long: `Run the server. It follows the sources of every registered partition, compares
production with intent, and pushes what every check allows. Without a certificate,
an access policy and the URL by which other machines know it, it serves only this
machine and this user. SIGINT or SIGTERM ends it; production stays as it is. To see
what it does, use lehr get partitions, lehr get reports and lehr why.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Store, options.Database, options.Log = s.store, s.database, s.Err
			if verbose && !command.Flags().Changed("log-level") {
				options.LogLevel = "info"
			}
			if err := s.readNetwork(&options, urls); err != nil {
				return err
			}
			if options.CommonPolicy != "" && options.CommonPolicy != "none" {
				place, err := definitionPath(options.CommonPolicy)
				if err != nil {
					return err
				}
				options.CommonPolicy = place
			}
			options.Register = map[intent.PartitionID]string{}
			for _, path := range definitions {
				definition, err := definitionPath(path)
				if err != nil {
					return err
				}
				partition, err := s.partitionOf(command.Context(), definition, options.Sources)
				if err != nil {
					return err
				}
				if registered, duplicate := options.Register[intent.PartitionID(partition)]; duplicate && registered != definition {
					return fault.New(fault.Invalid, "%s and %s both define partition %s", registered, definition, partition).WithHint("rename one of them")
				}
				options.Register[intent.PartitionID(partition)] = definition
			}
			return s.serve(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&definitions, "partition", "p", nil, "register this lehr.yaml first; may be repeated")
	flags.StringVar(&options.Access, "access", os.Getenv("LEHR_ACCESS"), "file that says who may do what (env LEHR_ACCESS; default: only this user may do anything)")
	checksFlag(flags, &options.ExternalChecks)
	flags.StringVar(&options.Notifications, "notifications", os.Getenv("LEHR_NOTIFICATIONS"), "file that lists the receivers to which partitions may send notifications (env LEHR_NOTIFICATIONS; default: none)")
	flags.StringVar(&options.PluginServers, "plugin-servers", os.Getenv("LEHR_PLUGIN_SERVERS"), "file that lists the plugin servers that may be dialled (env LEHR_PLUGIN_SERVERS; default: none)")
	flags.StringVar(&options.CommonPolicy, "common-policy", os.Getenv("LEHR_COMMON_POLICY"), "lehr-policy.yaml with the rules for many partitions, on disk or in a git repository; it is read again when it changes; none ends the common policy (env LEHR_COMMON_POLICY; default: what was read last)")
	sourcesFlag(command, &options.Sources)
	generatorsFlag(command, &options.Generators)
	flags.StringVar(&options.Quotas, "quotas", os.Getenv("LEHR_QUOTAS"), "file with the limits of each caller on kept data, log lines and open streams; it is read again when it changes (env LEHR_QUOTAS; default: the usual limits)")
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:0", "address to listen on, loopback without TLS; port 0 picks a free one")
	flags.StringVar(&options.Metrics, "metrics", os.Getenv("LEHR_METRICS"), "also serve metrics and health on this address, without TLS or login (env LEHR_METRICS; default: only /metrics of the server, with a token)")
	flags.StringVar(&options.Traces, "traces", "", "send traces to the collector at this URL, by OTLP over HTTP, such as http://127.0.0.1:4318 (default: where OTEL_EXPORTER_OTLP_ENDPOINT says; unset: nowhere)")
	flags.StringVar(&options.TLSCert, "tls-cert", "", "certificate with which to serve other machines, a PEM file; it is read again when it changes")
	flags.StringVar(&options.TLSKey, "tls-key", "", "the certificate's key, a PEM file")
	flags.StringSliceVar(&urls, "url", nil, "URL by which other machines know this server, https://lehr.example.com; may be repeated")
	flags.DurationVar(&options.Sweep, "sweep", 30*time.Second, "longest time between two comparisons of an asset that is in sync")
	flags.StringVar(&options.Checkpoints, "audit-checkpoints", "", "add checkpoints of the audit to this file, or post them to this http(s) URL")
	flags.DurationVar(&options.CheckpointPause, "audit-checkpoints-every", time.Minute, "time between two checkpoints; the last is sent when the server ends")
	flags.StringVar(&options.LogFormat, "log-format", "text", "format of the log: text, or json with one line for each record")
	flags.StringVar(&options.LogLevel, "log-level", "warn", "lowest level that is logged: debug, info, warn or error")
	flags.BoolVarP(&verbose, "verbose", "v", false, "the same as --log-level info")
	return command
}

// readNetwork is how other machines reach the server.
func (s *session) readNetwork(options *ServeOptions, urls []string) (err error) {
	for _, text := range urls {
		parsed, err := access.ParseURL(text)
		if err != nil {
			return err
		}
		options.URLs = append(options.URLs, parsed)
	}
	options.Roots, err = s.roots()
	return err
}

func (s *session) serve(ctx context.Context, options ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	introduced := make(chan struct{})
	close(introduced)
	err := s.local.Serve(ctx, options, func(serving Serving) {
		introduced = make(chan struct{})
		go func() {
			defer close(introduced)
			s.introduce(ctx, serving)
		}()
	})
	cancel()
	<-introduced
	if err == nil && !s.json() {
		fmt.Fprintln(s.Out, "Ended. Production stays as it is.")
	}
	return err
}

// What partitions do is asked for often at first, then ever more seldom
// while nothing changes: asking costs the more the more assets there are.
const (
	introduceFirst = 200 * time.Millisecond
	introduceMost  = 3 * time.Second
)

// introduce prints where the server listens, and tells of each partition once
// it is known what it does.
func (s *session) introduce(ctx context.Context, serving Serving) {
	if s.json() {
		_ = printJSON(s.Out, map[string]string{"url": serving.URL, "remote": serving.Remote, "metrics": serving.Metrics, "store": s.store, "page": access.PageLink(serving.URL, serving.Token)})
		return
	}
	served := s.store
	if s.database != "" {
		served = s.local.StoreName(s.database)
	}
	fmt.Fprintf(s.Out, "Lehr serves %s on %s\n", plain(served), serving.URL)
	environment := ""
	if s.store != defaultStore {
		environment = " --store " + plain(s.store)
	}
	fmt.Fprintf(s.Out, "  page:  %s   (lets one browser in; lehr page%s prints another)\n", access.PageLink(serving.URL, serving.Token), environment)
	if serving.Remote != "" {
		fmt.Fprintf(s.Out, "  other machines: https://%s\n", serving.Remote)
	}
	if serving.Metrics != "" {
		fmt.Fprintf(s.Out, "  metrics: http://%s/metrics\n", serving.Metrics)
	}
	fmt.Fprintf(s.Out, "  look:  lehr get reports%s   lehr why ASSET%s\n", environment, environment)
	fmt.Fprintf(s.Out, "  brake: lehr stop --reason WHY%s\n", environment)
	c := client.Dial(serving.URL, serving.Token, s.actor())
	printed, pause := map[string]string{}, introduceFirst
	for ctx.Err() == nil {
		response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
		pause = min(pause*3/2, introduceMost)
		if err == nil && s.tell(response.Partitions, printed) {
			pause = introduceFirst
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// tell prints a line for each partition whose situation changed, and reports
// whether any did.
func (s *session) tell(partitions []*apipb.Partition, printed map[string]string) (changed bool) {
	if len(partitions) == 0 && printed[""] == "" {
		printed[""] = "none"
		fmt.Fprintln(s.Out, "No partition is registered. Register one with: lehr partition add lehr.yaml")
	}
	for _, p := range partitions {
		if p.Head == "" && p.BlockedBy == nil {
			continue // Its first sources are being read.
		}
		line := fmt.Sprintf("Partition %s: %s", p.Id, cmp.Or(p.Head, "nothing served yet"))
		if p.Head != "" {
			line += fmt.Sprintf(", %s, %s", count(int(p.Assets), "asset"), modeText(p.Mode))
		}
		if p.Stop != nil {
			line += "; STOPPED by " + p.Stop.Owner.GetName() + ": " + p.Stop.Reason + "; " + p.Stop.Ending + " ends it"
		}
		if p.BlockedBy != nil {
			line += fmt.Sprintf("; the newest sources are %s", p.BlockedBy.State)
			if len(p.BlockedBy.Findings) > 0 {
				line += ": " + inLine(p.BlockedBy.Findings[0])
			}
		}
		if printed[p.Id] != line {
			printed[p.Id], changed = line, true
			fmt.Fprintln(s.Out, plain(line))
		}
	}
	return changed
}

func modeText(mode string) string {
	switch mode {
	case "enforce":
		return "mode enforce: differences are pushed"
	case "observe":
		return "mode observe: differences are shown, nothing is pushed"
	case "off":
		return "mode off: nothing is looked at"
	default:
		return strings.TrimSpace("mode " + mode)
	}
}
