package fetch

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lehr.dev/test/freeport"
)

// sshServer is a real sshd for this user.
type sshServer struct {
	testing.TB
	port string
	// key is known to the server, otherKey is not; known knows its host, unknown
	// does not.
	key, otherKey, known, unknown string
}

func (s *sshServer) url(path string) string {
	me, err := user.Current()
	if err != nil {
		s.Fatal(err)
	}
	return "ssh://" + me.Username + "@127.0.0.1:" + s.port + path
}

func newSSH(t testing.TB, sshd string) *sshServer {
	t.Helper()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	run := func(program string, arguments ...string) {
		t.Helper()
		if out, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
	}
	write := func(name, content string) string {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	read := func(name string) string {
		t.Helper()
		content, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	for _, key := range []string{"host", "mine", "other"} {
		run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", in(key))
	}
	_, port, _ := net.SplitHostPort(freeport.Address(t))
	s := &sshServer{TB: t, port: port, key: in("mine"), otherKey: in("other")}
	s.known = write("known", "[127.0.0.1]:"+port+" "+read("host.pub"))
	s.unknown = write("unknown", "[127.0.0.1]:"+port+" "+read("other.pub"))
	write("authorized", read("mine.pub"))
	config := write("config", strings.Join([]string{
		"ListenAddress 127.0.0.1:" + port, "HostKey " + in("host"), "AuthorizedKeysFile " + in("authorized"), "PidFile none", "StrictModes no",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no", "PermitRootLogin yes", "",
	}, "\n"))
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755)
	}
	server := exec.Command(sshd, "-D", "-e", "-f", config)
	if err := server.Start(); err != nil {
		t.Fatalf("sshd does not start: %v", err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for deadline := time.Now().Add(10 * time.Second); ; {
		connection, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			connection.Close()
			return s
		}
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("sshd does not listen: %w", err))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
