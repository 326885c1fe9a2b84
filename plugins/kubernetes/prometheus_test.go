package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/test/freeport"
)

// startPrometheus runs a real one that asks a target each second, until the test ends, and returns its URL.
func startPrometheus(t *testing.T, p *plane.Plane, target string) (url string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		const message = "there is no prometheus to judge with (Debian: apt-get install prometheus)"
		if os.Getenv("CI") != "" {
			t.Fatal(message)
		}
		t.Skip("SKIPPED: " + message)
	}
	folder := t.TempDir()
	config := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: gateway, static_configs: [{targets: [%q]}]}]\n", target), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeport.Address(t)
	log := &bytes.Buffer{}
	command := exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address="+address, "--log.level=warn")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("prometheus said\n%s", log)
		}
	})
	p.Wait("Prometheus", func() error {
		response, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", response.Status)
		}
		return nil
	})
	return "http://" + address
}
