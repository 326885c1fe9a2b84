package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"lehr.dev/sdk/plugintest/testbed"
)

func TestRunWritesOnlyWhereItMay(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, home)
	}
	c := startCaddyIn(t, "{dir}/new/folder")
	c.byHand(http.MethodPost, "/load", `{"apps":{"http":{"servers":{"a":{"listen":["`+testbed.FreeAddress(t)+`"]}}}}}`)
	waitFor(t, "the admin endpoint to be where it was", func() error {
		if status, body := c.call(http.MethodGet, "/config/apps/http/servers", ""); status != http.StatusOK || !strings.Contains(body, "listen") {
			return fmt.Errorf("%d: %s", status, body)
		}
		return nil
	})
	if entries, err := os.ReadDir(home); err != nil || len(entries) > 0 {
		t.Errorf("it wrote %v into the home (%v)", entries, err)
	}
}

func TestRunInATemporaryFolderLeavesNone(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	c := startCaddyIn(t, "")
	if entries, _ := os.ReadDir(temporary); len(entries) != 1 {
		t.Errorf("it made %v", entries)
	}
	c.terminate()
	if entries, _ := os.ReadDir(temporary); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}

// terminate ends it as a supervisor does, and waits.
func (c *caddy) terminate() {
	c.t.Helper()
	c.Signal(syscall.SIGTERM)
	if state := c.Await(); !state.Success() {
		c.t.Errorf("it ended with %v", state)
	}
}

func TestRunFinishesRequestsUnderWay(t *testing.T) {
	c := startCaddy(t)
	arrived, answer := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-answer
		io.WriteString(w, "late")
	}))
	defer slow.Close()
	b := c.balancer(slow.Listener.Addr().String())
	c.mustPush(b)
	got := make(chan string, 1)
	go func() {
		status, body, err := ask(b.Listen[0])
		got <- fmt.Sprint(status, " ", body, " ", err)
	}()
	<-arrived
	c.Signal(syscall.SIGTERM)
	waitFor(t, "it to stop listening", func() error {
		connection, err := net.Dial("tcp", b.Listen[0])
		if err == nil {
			connection.Close()
			return fmt.Errorf("it listens")
		}
		return nil
	})
	close(answer)
	if text := <-got; text != "200 late <nil>" {
		t.Errorf("the request under way got %s", text)
	}
	if state := c.Await(); !state.Success() {
		t.Errorf("it ended with %v", state)
	}
}

func TestRunRefusesWhatItCannotServe(t *testing.T) {
	c := startCaddy(t)
	for _, one := range []struct {
		arguments []string
		says      string
	}{
		{[]string{"run", "--admin", c.admin}, "address already in use"},
		{[]string{"run"}, "needs --admin"},
		{[]string{"run", "--admin", c.admin, "more"}, "takes no argument"},
		{[]string{"walk"}, "no command"},
		{nil, "lehr-caddy run --admin ADDRESS"},
	} {
		output, err := exec.Command(program, one.arguments...).CombinedOutput()
		if err == nil || !strings.Contains(string(output), one.says) {
			t.Errorf("%v says %q (%v), want %q", one.arguments, output, err, one.says)
		}
	}
}
