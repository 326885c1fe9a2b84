package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lehr.dev/internal/annealing/enforcer"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

const (
	// perTerraformModule resources are in each root module.
	perTerraformModule = 20
	// plannedEvery is the pause between two plans of a module in the measurement; the plugin's
	// own is plannedByDefault.
	plannedEvery, plannedByDefault = 2 * time.Minute, 10 * time.Minute
	// modulesQuiet is how long modules at rest are watched while none is planned, and
	// modulesWatched with plans.
	modulesQuiet, modulesWatched = time.Minute, 2 * plannedEvery
	// moduleChanges are measured, each of another module, by turns with plain Terraform.
	moduleChanges = 5
)

// modulesBed is a running app over root modules, beside the same modules for plain Terraform.
type modulesBed struct {
	*bed
	terraform string
	// looks are counted by the engine, a script that notes each command.
	runs string
}

// measureTerraformModules measures root modules of Terraform under Lehr beside a loop of plain
// Terraform over the same modules: to make all, what rest costs, and one change.
func measureTerraformModules(ctx context.Context, programs string, size int) error {
	program, err := exec.LookPath("terraform")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: there is no terraform on the PATH: its modules are not measured")
		return nil
	}
	if programs, err = filepath.Abs(programs); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	m := &modulesBed{bed: &bed{folder: folder, size: size, most: 30 * time.Minute}, terraform: program, runs: filepath.Join(folder, "runs")}
	defer os.RemoveAll(folder)
	if err := m.lay(ctx, programs); err != nil {
		return err
	}
	return m.all(ctx)
}

// lay writes the modules, twice, and the definition.
func (m *modulesBed) lay(ctx context.Context, programs string) error {
	text, err := exec.CommandContext(ctx, m.terraform, "version", "-json").Output()
	var told struct {
		Version string `json:"terraform_version"`
	}
	if err = errors.Join(err, json.Unmarshal(text, &told)); err != nil {
		return fmt.Errorf("terraform version: %w", err)
	}
	var sources, generators strings.Builder
	for i := range m.size {
		err = errors.Join(err, m.module("infra", i, "v1"), m.module("plain", i, "v1"))
		fmt.Fprintf(&sources, "  files-%s: {dir: infra/%s, files: [\"*.tf\"]}\n", moduleName(i), moduleName(i))
		fmt.Fprintf(&generators, "  %s: {render: terraform, from: files-%s, with: {backend: [path=%s]}}\n", moduleName(i), moduleName(i), m.at("states", moduleName(i)))
	}
	// What counts runs is a shell that becomes Terraform: about 1 ms each.
	counting := fmt.Sprintf("#!/bin/sh\necho \"$1\" >>%s\nexec %s \"$@\"\n", m.runs, m.terraform)
	engines := fmt.Sprintf("terraform-engines: v1\nengines:\n- {name: default, partitions: [%s], binary: %s, version: %s, locked_backends: true}\n", partition, m.at("counting"), told.Version)
	definition := fmt.Sprintf("lehr: v1\npartition: %s\nowner: bench@example.com\nmode: enforce\nsources:\n%sgenerate:\n%splugins:\n  lehr.terraform.v1.Module: {run: [%s, --engines, %s, --folder, %s, --host, bench, --every, %s]}\n",
		partition, &sources, &generators, filepath.Join(programs, "lehr-terraform"), m.at("engines.yaml"), m.at("plugin"), plannedEvery)
	return errors.Join(err, m.write("engines.yaml", engines), m.write("lehr.yaml", definition),
		os.WriteFile(m.at("counting"), []byte(counting), 0o700), os.Mkdir(m.at("store"), 0o755), os.Mkdir(m.at("states"), 0o755))
}

func (m *modulesBed) at(names ...string) string {
	return filepath.Join(append([]string{m.folder}, names...)...)
}

func moduleName(i int) string { return fmt.Sprintf("m%02d", i) }

// module writes the i-th, below infra for Lehr, or below plain.
func (m *modulesBed) module(below string, i int, version string) error {
	text := fmt.Sprintf(`terraform {
  backend "local" {}
}
resource "terraform_data" "job" {
  count = %d
  input = {
    name    = "job-${count.index}", replicas = 3, binary = "/opt/job", version = count.index == 0 ? "%s" : "v1"
    args    = ["--port={port}", "--flag=value", "--cluster=job"]
  }
}
`, perTerraformModule, version)
	at := m.at(below, moduleName(i))
	return errors.Join(os.MkdirAll(at, 0o755), m.write(filepath.Join(below, moduleName(i), "main.tf"), text))
}

// all measures: the order is that of what each needs.
func (m *modulesBed) all(ctx context.Context) error {
	used, start := computed(), time.Now()
	if err := m.start(ctx); err != nil {
		return err
	}
	defer func() { _ = m.app.Stop(context.Background()) }()
	if err := m.until(ctx, seldom, func() bool { return m.reported(ctx, intent.StateInSync) >= m.size }); err != nil {
		return err
	}
	duration, spent := time.Since(start), computed()-used
	used, start = computed(), time.Now()
	for i := range m.size {
		if err := m.plain(ctx, i, "init"); err != nil {
			return err
		}
		if err := m.applyPlain(ctx, i); err != nil {
			return err
		}
	}
	m.compare("all", duration, spent, time.Since(start), computed()-used)
	if err := m.atRest(ctx); err != nil {
		return err
	}
	if err := m.oneChange(ctx); err != nil {
		return err
	}
	return m.memory()
}

// compare prints what both took, and how often Lehr's is theirs.
func (m *modulesBed) compare(what string, duration, spent, theirs, theirsSpent time.Duration) {
	name := func(whose, figure string) string { return fmt.Sprintf("%s_modules_%s_%s", whose, what, figure) }
	print(name("lehr", "time"), duration.Seconds(), "s")
	print(name("terraform", "time"), theirs.Seconds(), "s")
	print(name("lehr", "core_time"), spent.Seconds(), "s")
	print(name("terraform", "core_time"), theirsSpent.Seconds(), "s")
	print(name("lehr", "time_of_terraform"), duration.Seconds()/theirs.Seconds(), "x")
	print(name("lehr", "core_time_of_terraform"), spent.Seconds()/theirsSpent.Seconds(), "x")
}

func (m *modulesBed) plain(ctx context.Context, i int, arguments ...string) error {
	_, err := terraform{m.terraform, m.at("plain", moduleName(i))}.run(ctx, append([]string{arguments[0], "-input=false"}, arguments[1:]...)...)
	return err
}

// applyPlain is what a pipeline does: a saved plan, and its apply.
func (m *modulesBed) applyPlain(ctx context.Context, i int) error {
	return errors.Join(m.plain(ctx, i, "plan", "-out=saved.tfplan"), m.plain(ctx, i, "apply", "saved.tfplan"))
}

// atRest measures what modules cost that nothing changes. A day of Lehr's is made of the plans
// that it makes in the background, of what it computes for each of them, and of what it computes
// anyway; a day of a loop's, of a plan of each module at each of as many sweeps.
func (m *modulesBed) atRest(ctx context.Context) error {
	quiet, err := m.quiet(ctx)
	if err != nil {
		return err
	}
	plans, used, children := m.countPlans(), computed(), computedByTerraform()
	time.Sleep(modulesWatched)
	plans, used, children = m.countPlans()-plans, computed()-used, computedByTerraform()-children
	if plans == 0 {
		return errors.New("no module was planned at rest")
	}
	if settled := m.reported(ctx, intent.StateInSync); settled < m.size {
		return fmt.Errorf("%d of %d modules are in sync at rest", settled, m.size)
	}
	began := computed()
	for i := range m.size {
		if err := m.plain(ctx, i, "plan", "-detailed-exitcode"); err != nil {
			return err
		}
	}
	const day = 24 * time.Hour
	theirs := (computed() - began).Seconds() / float64(m.size)
	look := children.Seconds() / float64(plans)
	forLook := max(0, (used-children).Seconds()-quiet*modulesWatched.Seconds()) / float64(plans)
	looks := float64(m.size) * float64(day/plannedByDefault)
	sweeps := float64(m.size) * float64(day/enforcer.DefaultLimits().Sweep)
	own := quiet * day.Seconds()
	lehrs := looks*(look+forLook) + own
	print("terraform_modules_noop_core_time", theirs*1000, "ms/module")
	print("lehr_modules_look_core_time", look*1000, "ms/module")
	print("lehr_modules_look_own_core_time", forLook*1000, "ms/module")
	print("lehr_modules_day_sweeps_core_time", own, "s")
	print("lehr_modules_day_core_time", lehrs, "s")
	print("terraform_modules_day_core_time", sweeps*theirs, "s")
	print("terraform_modules_day_of_lehr", sweeps*theirs/lehrs, "x")
	print("terraform_modules_day_of_lehrs_sweeps", sweeps*theirs/own, "x")
	print("terraform_modules_day_same_cadence_of_lehr", looks*theirs/lehrs, "x")
	return nil
}

// quiet is what Lehr computes, in seconds a second, while no module is planned: its sweeps, and
// its looks at sources.
func (m *modulesBed) quiet(ctx context.Context) (share float64, err error) {
	const attempts = 10
	for range attempts {
		plans := -1
		if err := m.until(ctx, 10*time.Second, func() bool {
			before := plans
			plans = m.countPlans()
			return plans == before
		}); err != nil {
			return 0, err
		}
		used := computed()
		time.Sleep(modulesQuiet)
		if used = computed() - used; m.countPlans() == plans {
			return used.Seconds() / modulesQuiet.Seconds(), nil
		}
	}
	return 0, fmt.Errorf("modules were planned in each of %d minutes", attempts)
}

// countPlans is how many plans Lehr has made so far.
func (m *modulesBed) countPlans() (n int) {
	text, _ := os.ReadFile(m.runs)
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "plan" {
			n++
		}
	}
	return n
}

// oneChange measures changes of one resource of one module, by turns with plain Terraform: until
// it is applied, and until Lehr has looked at it again.
func (m *modulesBed) oneChange(ctx context.Context) error {
	var applied, known, spent, theirs, theirsSpent []float64
	for i := range moduleChanges {
		version := "c" + strconv.Itoa(i)
		asset, previous := intent.AssetID("terraform/"+moduleName(i)), m.head(ctx)
		used, start := computed(), time.Now()
		if err := m.module("infra", i, version); err != nil {
			return err
		}
		var pushes []store.PushRecord
		err := m.until(ctx, often, func() (isOver bool) {
			head := m.head(ctx)
			found, err := m.app.Store().Pushes(ctx, partition, asset, 1)
			pushes = found
			return err == nil && head != previous && len(found) == 1 && found[0].Target == head && found[0].Ending != ""
		})
		if err != nil {
			return err
		}
		applied = append(applied, time.Since(start).Seconds())
		if err := m.until(ctx, often, func() bool {
			report, err := m.app.Store().Report(ctx, partition, asset)
			return err == nil && report.State == intent.StateInSync && report.Target == m.head(ctx)
		}); err != nil {
			return fmt.Errorf("after push %+v: %w", pushes[0], err)
		}
		known, spent = append(known, time.Since(start).Seconds()), append(spent, (computed()-used).Seconds())
		if err := m.module("plain", i, version); err != nil {
			return err
		}
		used, start = computed(), time.Now()
		if err := m.applyPlain(ctx, i); err != nil {
			return err
		}
		theirs, theirsSpent = append(theirs, time.Since(start).Seconds()), append(theirsSpent, (computed()-used).Seconds())
	}
	seconds := func(all []float64) time.Duration { return time.Duration(median(all) * float64(time.Second)) }
	m.compare("change", seconds(applied), seconds(spent), seconds(theirs), seconds(theirsSpent))
	print("lehr_modules_change_known", median(known), "s")
	return nil
}

// memory prints what the plugin holds at rest, in memory and on the disk.
func (m *modulesBed) memory() error {
	for _, pid := range childrenNamed("lehr-terraform") {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(status)) {
			var kilobytes float64
			if _, err := fmt.Sscanf(line, "RssAnon: %f kB", &kilobytes); err == nil {
				print("lehr_modules_rest_memory", kilobytes/1024, "MiB")
				print("lehr_modules_rest_memory_of_each", kilobytes/float64(m.size), "KiB")
			}
		}
	}
	var size int64
	err := filepath.WalkDir(m.at("plugin"), func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				size += info.Size()
			}
		}
		return err
	})
	print("lehr_modules_rest_disk_of_each", float64(size)/1024/float64(m.size), "KiB")
	return err
}

// childrenNamed are the processes of a program that this one started.
func childrenNamed(name string) (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range all {
		pid := filepath.Base(filepath.Dir(stat))
		number, _ := strconv.Atoi(pid)
		comm, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if matches := statOf(number); len(matches) > 1 && matches[1] == strconv.Itoa(os.Getpid()) && strings.TrimSpace(string(comm)) == name {
			pids = append(pids, pid)
		}
	}
	return pids
}

// computedByTerraform is what the plugin's own children computed that have ended.
func computedByTerraform() (total time.Duration) {
	for _, pid := range childrenNamed("lehr-terraform") {
		number, _ := strconv.Atoi(pid)
		total += ticks(statOf(number), 13, 15)
	}
	return total
}
