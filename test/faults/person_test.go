package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/cli"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
	"lehr.dev/test/inprocess"
)

// lehr runs the program as a person would, and returns what it printed.
func (w *world) lehr(arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if inprocess.Allows(arguments) {
		getenv := func(name string) string {
			if name == "LEHR_STORE" {
				return w.store
			}
			return os.Getenv(name)
		}
		out, err := inprocess.Run(ctx, cli.Local{}, w.folder, getenv, arguments...)
		w.secrets.Search(w.T, "lehr "+strings.Join(arguments, " "), []byte(out+text(err)))
		return out, err
	}
	command := exec.CommandContext(ctx, filepath.Join(w.programs, "lehr"), arguments...)
	command.Env = append(os.Environ(), "LEHR_STORE="+w.store)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	w.secrets.Search(w.T, "lehr "+strings.Join(arguments, " "), append(out.Bytes(), errs.Bytes()...))
	if err != nil {
		return out.String(), fmt.Errorf("lehr %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// why is what a person is told about an asset.
func (w *world) why(asset string, arguments ...string) string {
	told, err := w.lehr(append([]string{"why", asset}, arguments...)...)
	return told + text(err)
}

// client of the server that runs now.
func (w *world) client() *client.Client {
	w.Helper()
	c, err := client.Discover(w.store, intent.Actor{Name: "test", Origin: "api"})
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// reports of a partition; a server that is down has none.
func (w *world) reports(partition string) []*apipb.Report {
	c, err := client.Discover(w.store, intent.Actor{Name: "test", Origin: "api"})
	if err != nil {
		return nil
	}
	defer c.Close()
	response, err := c.Reports.ListReports(context.Background(), &apipb.ListReportsRequest{Partition: partition, Limit: 1000})
	if err != nil {
		return nil
	}
	return response.Reports
}

// approver is a person who approves what is expected to need it.
type approver struct {
	*world
	expects []string
	// given are the approvals that were answered, by asset.
	given map[string]int
}

// approveAll approves each plan that waits for it, as it was read.
func (a *approver) approveAll() {
	a.Helper()
	for _, report := range a.reports("shakespeare") {
		waits := slices.ContainsFunc(report.Waiting, func(on *apipb.WaitingOn) bool { return on.Kind == "approval" })
		if !waits {
			continue
		}
		if !slices.Contains(a.expects, report.Asset) {
			a.Errorf("nobody meant to destroy anything of %s: %v", report.Asset, report.Plan)
			continue
		}
		if _, err := a.lehr("approve", report.Asset, "--plan", report.PlanDigest, "--reason", "it is meant"); err == nil {
			if a.given == nil {
				a.given = map[string]int{}
			}
			a.given[report.Asset]++
		}
	}
}
