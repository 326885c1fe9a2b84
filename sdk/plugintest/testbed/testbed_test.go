package testbed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lehr.dev/sdk/plugintest/testbed"
)

// The test binary is also the component: an HTTP server, with a child that sleeps.
func TestMain(m *testing.M) {
	if address := os.Getenv("TESTBED_SERVE"); address != "" {
		os.Exit(serve(address))
	}
	os.Exit(m.Run())
}

func serve(address string) int {
	child, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("child", child.Pid)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10000")
		io.WriteString(w, strings.Repeat("0123456789", 1000))
	})
	fmt.Println(http.ListenAndServe(address, mux))
	return 1
}

func start(t *testing.T) *testbed.Component {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	return testbed.Start(t, testbed.Options{Argv: []string{os.Args[0]}, Env: []string{"TESTBED_SERVE={address}"}})
}

func get(t *testing.T, address string, within time.Duration) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func mustGet(t *testing.T, address string) {
	t.Helper()
	if body, err := get(t, address, 20*time.Second); err != nil || len(body) != 10_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func TestAComponentIsKilledFrozenAndStartedAgain(t *testing.T) {
	c := start(t)
	mustGet(t, c.Address())
	c.Freeze()
	if _, err := get(t, c.Address(), 100*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("frozen: %v", err)
	}
	c.Thaw()
	mustGet(t, c.Address())
	child, err := strconv.Atoi(strings.Fields(c.Log())[1])
	if err != nil {
		t.Fatal(err)
	}
	c.Freeze()
	c.Kill()
	if _, err := get(t, c.Address(), 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("killed: %v", err)
	}
	for alive(child) {
		if t.Context().Err() != nil {
			t.Fatal("its child is left")
		}
		time.Sleep(time.Millisecond)
	}
	c.Restart()
	mustGet(t, c.Address())
	c.Signal(syscall.SIGTERM)
	<-c.Ended()
	if _, err := get(t, c.Address(), 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("ended: %v", err)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestWhatAProxyDoes(t *testing.T) {
	c := start(t)
	p := testbed.NewProxy(t, c.Address())
	for name, one := range map[string]struct {
		trouble testbed.Trouble
		within  time.Duration
		judge   func(body string, err error, took time.Duration) bool
	}{
		"nothing": {testbed.Trouble{}, 20 * time.Second, func(body string, err error, _ time.Duration) bool { return err == nil && len(body) == 10_000 }},
		"refuse": {testbed.Trouble{Refuse: true}, 20 * time.Second, func(_ string, err error, _ time.Duration) bool {
			return errors.Is(err, syscall.ECONNREFUSED)
		}},
		"hang": {testbed.Trouble{Hang: true}, 100 * time.Millisecond, func(_ string, err error, _ time.Duration) bool {
			return errors.Is(err, context.DeadlineExceeded)
		}},
		"cut at once": {testbed.Trouble{Cut: true}, 20 * time.Second, func(_ string, err error, _ time.Duration) bool {
			return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
		}},
		"cut in the middle": {testbed.Trouble{Cut: true, After: 5000}, 20 * time.Second, func(body string, err error, _ time.Duration) bool {
			return err != nil && len(body) < 5000
		}},
		"garble": {testbed.Trouble{Garble: true, After: 2000}, 20 * time.Second, func(body string, err error, _ time.Duration) bool {
			return err == nil && len(body) == 10_000 && strings.HasPrefix(body, "0123") && strings.Contains(body, string([]byte{^byte('0'), ^byte('1')}))
		}},
		"delay": {testbed.Trouble{Delay: 50 * time.Millisecond}, 20 * time.Second, func(body string, err error, took time.Duration) bool {
			return err == nil && took >= 50*time.Millisecond
		}},
		"throttle": {testbed.Trouble{BytesPerSecond: 50_000}, 20 * time.Second, func(body string, err error, took time.Duration) bool {
			return err == nil && len(body) == 10_000 && took >= 200*time.Millisecond
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p.Hurt(one.trouble)
			began := time.Now()
			body, err := get(t, p.Address(), one.within)
			if took := time.Since(began); !one.judge(body, err, took) {
				t.Errorf("%v gives %d bytes, %v, in %v", one.trouble, len(body), err, took)
			}
			p.Heal()
			mustGet(t, p.Address())
		})
	}
	if p.Connections() < 8 {
		t.Errorf("it took %d connections", p.Connections())
	}
}

// TestTroubleCountsForOpenConnections: one that hangs goes on when it is healed, and one
// that is refused is reset.
func TestTroubleCountsForOpenConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				io.Copy(connection, connection)
			}()
		}
	}()
	p := testbed.NewProxy(t, path)
	client, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	say := func() { fmt.Fprint(client, "hello") }
	hear := func(within time.Duration) error {
		client.SetReadDeadline(time.Now().Add(within))
		_, err := io.ReadFull(client, make([]byte, 5))
		return err
	}
	say()
	if err := hear(20 * time.Second); err != nil {
		t.Fatal(err)
	}
	p.Hurt(testbed.Trouble{Hang: true})
	say()
	if err := hear(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("hung: %v", err)
	}
	p.Heal()
	if err := hear(20 * time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
	p.Hurt(testbed.Trouble{Refuse: true})
	if err := hear(20 * time.Second); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Errorf("refused: %v", err)
	}
}
