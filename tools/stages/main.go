// Command stages runs the stages of the test command and says what each cost.
//
// Two stages that compute run at a time; stages that mostly wait (for leases,
// soaks, browsers) run beside them, and campaigns in virtual time take what is
// left of the cores. It never decides what is tested: the table in
// table.go does. "make test" runs it, "make test-cost" shows what
// the last run cost.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// What a run leaves below the folder of built programs: a log for each stage,
// and the costs.
const (
	logs      = "bin/stages"
	costsFile = "bin/stages/cost.tsv"
	docsFile  = "docs/design/test-cost.md"
)

func main() {
	show := flag.Bool("show", false, "show what the last run cost, and run nothing")
	write := flag.Bool("write", false, "write what the last run cost into "+docsFile+", and run nothing")
	only := flag.String("only", "", "run only these stages, such as unit,demo, and what they need")
	flag.Parse()
	if err := run(*show, *write, *only); err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

func run(show, write bool, only string) error {
	known, err := readDocs(docsFile)
	if err != nil {
		return err
	}
	if show || write {
		costs, err := readCosts(costsFile)
		if err != nil {
			return fmt.Errorf("there is no cost of a last run: %w (make test leaves it)", err)
		}
		if write {
			return writeDocs(docsFile, costs)
		}
		fmt.Print(render(costs, known))
		return nil
	}

	stages := table
	if only != "" {
		if stages, err = choose(table, strings.Split(only, ",")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	for _, path := range hugePagesFiles {
		restore, changed := useHugePages(path)
		defer restore()
		if changed {
			fmt.Println("Programs may use huge pages until the run ends (" + path + ").")
		}
	}
	files, remove := useMemory(ctx)
	defer remove()
	if files.folder != "" {
		fmt.Println("Temporary files of most stages lie in memory.")
	}
	start := time.Now()
	costs, failed := runAll(ctx, stages, runShell(logs, files))
	total := cost{Stage: totalStage, Clock: time.Since(start)}
	for _, c := range costs {
		total.Computing += c.Computing
	}
	costs = append(costs, total)
	fmt.Print("\n", render(costs, known))
	if only == "" {
		if err := writeCosts(costsFile, costs); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		printDigests(failed)
		return fmt.Errorf("%s failed; each log is in %s", strings.Join(failed, ", "), filepath.Join(logs, "STAGE.log"))
	}
	return nil
}
