package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

const (
	// What a bundle has of each partition at most.
	bundledReports = 500
	bundledPushes  = 200
	bundledHeads   = 20
	// verifyPatience is how long the whole store is read for a bundle.
	verifyPatience = 30 * time.Second
)

// bundled is a file of a bundle.
type bundled struct {
	name, description string
	content           []byte
}

func (s *session) debugCommand() *cobra.Command {
	command := &cobra.Command{Use: "debug", Short: "Gather what a bug report needs"}
	command.AddCommand(s.bundleCommand())
	return command
}

func (s *session) bundleCommand() *cobra.Command {
	var list bool
	var file string
	command := &cobra.Command{
		Use:   "bundle",
		Short: "Write a tar for a bug report: the state of the server and its store",
		Long: `Write one file to attach to a bug report: versions, flags, partitions, heads,
reports of assets that are not in sync, the newest pushes, whether audit and store
are intact, plugins, metrics, goroutines, and the newest lines of the log. It holds
no payload, no value of a field, no secret and no definition. It does hold names of
partitions and assets, and reasons in words. Look before you send it: --list shows
each file, and writes nothing.

With a server, you need the role operator in all partitions. Without one, the
bundle holds what the store knows.`,
		Example: `  lehr debug bundle --list
  lehr debug bundle --file lehr.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if s.json() && !list {
				return fault.New(fault.Invalid, "a bundle is a file, and not JSON").WithHint("add --list to see in JSON what would be in it")
			}
			files, err := s.bundle(command.Context())
			if err != nil {
				return err
			}
			if list {
				return s.listBundle(files)
			}
			if file == "" {
				file = "lehr-debug-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			if err := whole(file, func(w io.Writer) error { return writeBundle(w, files) }); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "%s: %s. It has no payload and no secret; it names partitions and assets. Look before you send it.\n", plain(file), count(len(files), "file"))
			return nil
		},
	}
	command.Flags().BoolVar(&list, "list", false, "show what the bundle would hold, and write nothing")
	command.Flags().StringVar(&file, "file", "", "the file (default: lehr-debug-TIME.tar.gz)")
	return command
}

// bundle gathers as much as there is. What cannot be had is a file that says why.
func (s *session) bundle(ctx context.Context) ([]bundled, error) {
	c, err := s.connectOrOpen(ctx)
	if err != nil {
		return nil, err
	}
	files := []bundled{{"lehr.txt", "the version of the command", []byte(s.local.Version + "\n")}}
	add := func(name, description string, make func() ([]byte, error)) {
		content, err := make()
		if err != nil {
			description, content = "why there is none: "+description, []byte(err.Error()+"\n")
		}
		files = append(files, bundled{name, description, content})
	}
	diagnosis, err := c.Server.GetDiagnosis(ctx, &apipb.GetDiagnosisRequest{})
	for _, file := range diagnosis.GetFiles() {
		files = append(files, bundled{"server/" + file.Name, file.About, file.Content})
	}
	if err == nil && len(diagnosis.GetFiles()) == 0 {
		err = errors.New("no server answered: its log, metrics and goroutines are not here")
	}
	if err != nil {
		add("server/missing.txt", "the server", func() ([]byte, error) { return nil, err })
	}
	listed, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	add("partitions.json", "partitions: head, stop, assets by state, what blocks them", func() ([]byte, error) { return rendered(listed, err) })
	add("audit.txt", "whether the chain of all partitions together is whole", func() ([]byte, error) { return auditText(ctx, c, "") })
	for _, p := range listed.GetPartitions() {
		folder := "partition/" + p.Id + "/"
		add(folder+"incarnations.json", "the newest incarnations", func() ([]byte, error) {
			heads, err := c.Incarnations.ListIncarnations(ctx, &apipb.ListIncarnationsRequest{Partition: p.Id, Limit: bundledHeads})
			return rendered(heads, err)
		})
		for _, state := range []string{"waiting", "pushing"} {
			add(folder+state+".json", "reports of what is "+state+", without values of fields, nor words of plugins", func() ([]byte, error) {
				reports, err := c.Reports.ListReports(ctx, &apipb.ListReportsRequest{Partition: p.Id, State: state, Limit: bundledReports})
				for _, report := range reports.GetReports() {
					withoutWords(report)
				}
				return rendered(reports, err)
			})
		}
		add(folder+"pushes.json", "the newest pushes, and how they ended", func() ([]byte, error) {
			pushes, err := c.Journal.ListPushes(ctx, &apipb.ListPushesRequest{Partition: p.Id, Limit: bundledPushes})
			for _, push := range pushes.GetPushes() {
				pushWithoutWords(push)
			}
			return rendered(pushes, err)
		})
		add(folder+"audit.txt", "whether its audit is whole", func() ([]byte, error) { return auditText(ctx, c, p.Id) })
	}
	if len(s.servers) == 0 {
		add("store.json", "whether all that is stored is as it was written, if that is known within 30 s", func() ([]byte, error) {
			bounded, cancel := context.WithTimeout(ctx, verifyPatience)
			defer cancel()
			verified, err := s.local.Keeping.Verify(bounded, s.storePlace())
			if err != nil {
				return nil, err
			}
			return json.MarshalIndent(verified, "", "  ")
		})
	}
	return files, nil
}

// foreign are kinds of waiting in whose reasons plugins, or others whom checks ask,
// speak, or that name a resource as its plugin does.
var foreign = []string{
	"plugin", "unknown", "backoff", "no-effect", "quarantined", "changed-back", "settling", "check-broken", "check-config", "protection", "metric", "alert", "peak", "claim",
}

const leftOut = "left out"

// withoutWords leaves of a report which fields differ, and what it waits for: not what
// is in fields, nor what plugins say of them, which may hold a secret (S13).
func withoutWords(report *apipb.Report) {
	for _, changes := range [][]*apipb.FieldChange{report.GetPlan().GetChanges(), report.Unmanaged} {
		for _, change := range changes {
			change.Current, change.Target, change.Reason, change.Writer = "", "", "", ""
		}
	}
	report.PushNote, report.ResourceKey = "", ""
	if report.Health != nil {
		report.Health.Reason = ""
	}
	for _, waiting := range report.Waiting {
		if waiting.Quotes || slices.Contains(foreign, waiting.Kind) {
			waiting.Reason = leftOut
		}
	}
}

// pushWithoutWords leaves when it was, and how it ended.
func pushWithoutWords(push *apipb.Push) {
	push.ResourceKey, push.Grounds, push.PlanRecord = "", nil, nil
	push.Budgets, push.Rates = nil, nil
	if push.Reason != "" {
		push.Reason = leftOut
	}
}

func rendered(m proto.Message, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	text, err := messageJSON(m)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(text, "", "  ")
}

func auditText(ctx context.Context, c *client.Client, partition string) ([]byte, error) {
	answer, err := c.Audit.VerifyAudit(ctx, &apipb.VerifyAuditRequest{Partition: partition})
	if err != nil {
		return nil, err
	}
	if !answer.Intact {
		return []byte("broken: " + answer.Problem + "\n"), nil
	}
	return []byte("intact\n"), nil
}

func (s *session) listBundle(files []bundled) error {
	if s.json() {
		list := []map[string]any{}
		for _, file := range files {
			list = append(list, map[string]any{"name": file.name, "bytes": len(file.content), "about": file.description})
		}
		return printJSON(s.Out, list)
	}
	var rows [][]string
	for _, file := range files {
		rows = append(rows, []string{file.name, fmt.Sprint(len(file.content)), file.description})
	}
	table(s.Out, []string{"FILE", "BYTES", "WHAT"}, rows)
	return nil
}

func writeBundle(w io.Writer, files []bundled) (err error) {
	packed := gzip.NewWriter(w)
	archive := tar.NewWriter(packed)
	now := time.Now().UTC().Truncate(time.Second)
	for _, file := range files {
		header := &tar.Header{Name: "lehr-debug/" + file.name, Mode: 0o600, Size: int64(len(file.content)), ModTime: now}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.content); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}
